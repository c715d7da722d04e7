//! Saves the content of a CXL device's file before the first boot and restores it before each
//! further one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::LabError;

const BLOCK_BYTES: usize = 1 << 20;

/// The file's state before the first boot.
enum SavedContent {
    /// There was no file.
    Absent,
    /// The file's content in an unnamed file; holes stay holes.
    Copy(File),
    /// Guests of another process use the file, so it must not be overwritten.
    InUse,
}

/// The file of a CXL device and its saved state.
pub(super) struct SavedFile {
    path: PathBuf,
    state: SavedContent,
}

impl SavedFile {
    /// Saves the content of the file at `path` in an unnamed file in the same folder.
    pub(super) fn of(path: &Path) -> Result<SavedFile, LabError> {
        let state = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => SavedContent::Absent,
            Err(error) => return Err(LabError::io("open the CXL device's file", path)(error)),
            // Anything but a regular file is refused later, when the device is set up.
            Ok(file) if !file.metadata().is_ok_and(|found| found.is_file()) => SavedContent::InUse,
            Ok(file) if file.try_lock().is_err() => SavedContent::InUse,
            Ok(file) => {
                let copied = copy(&file, path).map_err(LabError::io("keep a copy of", path))?;
                SavedContent::Copy(copied)
            }
        };
        Ok(SavedFile {
            path: path.to_owned(),
            state,
        })
    }

    /// Restores the file's content. Returns false if other guests use the file.
    pub(super) fn put_back(&self) -> Result<bool, LabError> {
        let failed = || LabError::io("put back", &self.path);
        match &self.state {
            SavedContent::InUse => Ok(false),
            SavedContent::Absent => match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed()(error)),
                _ => Ok(true),
            },
            SavedContent::Copy(kept) => {
                let file = OpenOptions::new().read(true).write(true).open(&self.path);
                let file = file.map_err(failed())?;
                if file.try_lock().is_err() {
                    return Ok(false);
                }
                // Without its old blocks, the file has holes where the copy has zeros.
                file.set_len(0).map_err(failed())?;
                copy_into(kept, &file).map_err(failed())?;
                Ok(true)
            }
        }
    }
}

fn copy(file: &File, path: &Path) -> io::Result<File> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let kept = tempfile::tempfile_in(dir)?;
    copy_into(file, &kept)?;
    Ok(kept)
}

/// Skips blocks of zeros, which leaves holes in `to`. The caller must have emptied it.
fn copy_into(from: &File, to: &File) -> io::Result<()> {
    let len = from.metadata()?.len();
    to.set_len(len)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while at < len {
        let count = usize::try_from(len - at).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES));
        from.read_exact_at(&mut block[..count], at)?;
        if block[..count].iter().any(|byte| *byte != 0) {
            to.write_all_at(&block[..count], at)?;
        }
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_device_is_put_back_to_the_byte_and_stays_sparse() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let file = File::create(&path).unwrap();
        file.set_len((8 << 20) + 5).unwrap();
        file.write_all_at(b"before", 5 << 20).unwrap();
        file.write_all_at(b"end", (8 << 20) + 2).unwrap();
        let before = fs::read(&path).unwrap();
        let kept = SavedFile::of(&path).unwrap();
        file.write_all_at(&vec![7; 8 << 20], 0).unwrap();
        assert!(kept.put_back().unwrap());
        assert!(fs::read(&path).unwrap() == before);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 < 4 << 20);
    }

    #[test]
    fn a_device_that_was_not_there_is_gone_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let kept = SavedFile::of(&path).unwrap();
        assert!(kept.put_back().unwrap());
        fs::write(&path, "x").unwrap();
        assert!(kept.put_back().unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_device_that_others_use_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        fs::write(&path, "theirs").unwrap();
        let kept = SavedFile::of(&path).unwrap();
        let used = File::open(&path).unwrap();
        used.lock_shared().unwrap();
        fs::write(&path, "theirs now").unwrap();
        assert!(!kept.put_back().unwrap());
        assert!(!SavedFile::of(&path).unwrap().put_back().unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"theirs now");
    }
}
