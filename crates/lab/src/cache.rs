//! The folder for downloaded packages and unpacked kits, outside any repository.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::LabError;

/// The folder that holds the lab's kits.
///
/// Several processes may share it: preparing a kit takes a file lock, using a finished kit does
/// not.
#[derive(Debug, Clone)]
pub struct LabCache {
    dir: PathBuf,
}

impl LabCache {
    /// Opens the cache in `dir` and creates the folder if needed.
    ///
    /// Without `dir` it uses `$TIERLOOM_LAB_CACHE`, `$XDG_CACHE_HOME/tierloom/lab` or
    /// `~/.cache/tierloom/lab`, whichever variable is set first.
    ///
    /// # Errors
    /// [`LabError::NoCacheFolder`] if none of these variables is set, [`LabError::Io`] if the
    /// folder cannot be created.
    pub fn open(dir: Option<PathBuf>) -> Result<LabCache, LabError> {
        let dir = match dir {
            Some(dir) => dir,
            None => default_dir(&|name| {
                env::var_os(name)
                    .filter(|value| !value.is_empty())
                    .map(PathBuf::from)
            })
            .ok_or(LabError::NoCacheFolder)?,
        };
        fs::create_dir_all(&dir).map_err(LabError::io("create the lab's cache folder", &dir))?;
        let dir = dir
            .canonicalize()
            .map_err(LabError::io("resolve the lab's cache folder", &dir))?;
        Ok(LabCache { dir })
    }

    /// The cache's folder as an absolute path without symbolic links.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the exclusive lock on the cache, waiting if necessary.
    ///
    /// The lock is released when the returned file is dropped, or when the process dies.
    pub(crate) fn lock(&self, progress: &mut dyn FnMut(&str)) -> Result<File, LabError> {
        let path = self.dir.join("lock");
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(LabError::io("open the lock", &path))?;
        // Tried first only to tell the user why it takes long.
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                progress("another process is preparing the lab; waiting for it")
            }
            Err(TryLockError::Error(source)) => return Err(LabError::io("lock", path)(source)),
        }
        file.lock().map_err(LabError::io("lock", &path))?;
        Ok(file)
    }
}

fn default_dir(var: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    var("TIERLOOM_LAB_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("tierloom/lab")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/tierloom/lab")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_with(set: &[(&str, &str)]) -> Option<PathBuf> {
        default_dir(&|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn own_variable_wins_over_xdg_and_home() {
        let all = [
            ("TIERLOOM_LAB_CACHE", "/a"),
            ("XDG_CACHE_HOME", "/b"),
            ("HOME", "/c"),
        ];
        assert_eq!(dir_with(&all), Some("/a".into()));
        assert_eq!(dir_with(&all[1..]), Some("/b/tierloom/lab".into()));
        assert_eq!(dir_with(&all[2..]), Some("/c/.cache/tierloom/lab".into()));
        assert_eq!(dir_with(&[]), None);
    }

    #[test]
    fn a_file_in_the_way_of_the_cache_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = LabCache::open(Some(file.join("cache")))
            .unwrap_err()
            .to_string();
        assert!(error.contains("file/cache"), "{error}");
    }

    #[test]
    fn two_preparations_at_once_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LabCache::open(Some(dir.path().into())).unwrap();
        let held = cache.lock(&mut |_| ()).unwrap();
        let other = cache.clone();
        let (send, lines) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            other
                .lock(&mut |line| send.send(line.to_owned()).unwrap())
                .map(|_| ())
        });
        assert!(lines.recv().unwrap().contains("waiting"));
        drop(held);
        waiter.join().unwrap().unwrap();
    }
}
