//! The folder for results of an executor that was given none.
//!
//! It is removed when its executor ends, and by the next one on the machine if that was killed: a
//! lock, which ends with the process that holds it, tells the two apart.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "tierloom-executor-";

/// Name of the file that is locked while its folder is used.
const LOCK: &str = "lock";

/// A folder of a running executor.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    folder: TempDir,
    _lock: File,
}

impl WorkFolder {
    /// A new folder in `place`; those that killed executors have left there are removed.
    pub fn new(place: &Path) -> io::Result<Self> {
        remove_left(place)?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // It gets its name when it is locked: nobody finds it unlocked before.
        let unnamed = folder.path().join("new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        std::fs::rename(unnamed, folder.path().join(LOCK))?;
        Ok(WorkFolder {
            folder,
            _lock: lock,
        })
    }

    /// Where results go.
    pub fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }
}

fn remove_left(place: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else {
            // One that is being made, or somebody else's.
            continue;
        };
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            continue;
        }
        // What cannot be removed is no reason not to start.
        let _ = std::fs::remove_dir_all(entry.path());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_executors_are_removed_and_those_in_use_are_not() {
        let place = tempfile::tempdir().unwrap();
        let folders = || std::fs::read_dir(place.path()).unwrap().count();
        let used = WorkFolder::new(place.path()).unwrap();
        std::fs::create_dir_all(used.results().join("job")).unwrap();
        // As after a kill: nobody holds the lock, and the folder is there.
        let killed = WorkFolder::new(place.path()).unwrap();
        std::fs::create_dir_all(killed.results().join("job")).unwrap();
        let WorkFolder {
            folder,
            _lock: lock,
        } = killed;
        let left = folder.keep();
        drop(lock);
        std::fs::create_dir(place.path().join("of-others")).unwrap();
        assert_eq!(folders(), 3);
        let next = WorkFolder::new(place.path()).unwrap();
        assert!(!left.exists());
        assert!(used.results().join("job").exists());
        assert_eq!(folders(), 3);
        drop((used, next));
        assert_eq!(folders(), 1);
    }
}
