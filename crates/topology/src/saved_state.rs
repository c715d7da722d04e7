//! Files with the state of the machine as it was before it was changed.

use crate::SystemFiles;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tierloom_text::WholeFile;

/// Random id that the kernel generates at each boot.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Why a saved state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SavedStateError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed operation, such as "open the lock".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file cannot be used as saved state.
    #[error("{} is no saved state: {problem}", path.display())]
    Bad {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it: a parser message or another schema.
        problem: String,
    },
    /// Another process holds the lock.
    #[error("another process holds {}", path.display())]
    Busy {
        /// Path of the lock file.
        path: PathBuf,
    },
}

/// A state that can be saved.
pub trait SavedState: Serialize + DeserializeOwned {
    /// The only supported version of the file.
    const SCHEMA: &str;

    /// The version of the file that this was read from.
    fn schema(&self) -> &str;

    /// Id of the boot that it belongs to; `None` if the kernel does not report one.
    fn boot_id(&self) -> Option<&str>;

    /// Whether the machine was rebooted since, which undoes changes in the kernel.
    ///
    /// `false` if either boot id is unknown.
    fn is_of_another_boot(&self, files: &dyn SystemFiles) -> bool {
        matches!((self.boot_id(), boot_id(files)), (Some(then), Some(now)) if then != now)
    }
}

/// Id of the current boot; `None` if the kernel does not report one.
pub fn boot_id(files: &dyn SystemFiles) -> Option<String> {
    files.read(BOOT_ID).ok().filter(|id| !id.is_empty())
}

/// Location of a saved state; the file itself may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// A state file at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        StateFile(path.into())
    }

    /// A state file with this name in the same directory.
    pub fn beside(&self, name: &str) -> Self {
        StateFile(self.folder().join(name))
    }

    /// Path of the state file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The saved state; `None` if the file does not exist.
    ///
    /// # Errors
    /// [`SavedStateError::Bad`] for a file that is not a saved state of this type and version,
    /// [`SavedStateError::Io`] for one that cannot be read.
    pub fn read<T: SavedState>(&self) -> Result<Option<T>, SavedStateError> {
        let text = match std::fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read the saved state in", error)),
        };
        let bad = |problem: String| SavedStateError::Bad {
            path: self.0.clone(),
            problem,
        };
        let saved: T = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let found = saved.schema();
        if found != T::SCHEMA {
            let expected = T::SCHEMA;
            return Err(bad(format!(
                "its schema is {found:?}, expected {expected:?}"
            )));
        }
        Ok(Some(saved))
    }

    /// Writes the state and returns once the file and its name are on disk.
    ///
    /// # Errors
    /// [`SavedStateError::Io`]; the old file, if any, is then unchanged.
    pub fn save(&self, saved: &impl SavedState) -> Result<(), SavedStateError> {
        let failed = |error| self.failed("save the old state to", error);
        let json = serde_json::to_vec_pretty(saved).map_err(|error| failed(error.into()))?;
        WholeFile::write(&self.0, &json).map_err(failed)?;
        // A new directory entry is durable only after an fsync of the directory.
        let folder = File::open(self.folder()).and_then(|folder| folder.sync_all());
        folder.map_err(failed)
    }

    /// Deletes the file, if there is one.
    ///
    /// # Errors
    /// [`SavedStateError::Io`].
    pub fn forget(&self) -> Result<(), SavedStateError> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("delete the saved state in", error))
            }
            _ => Ok(()),
        }
    }

    /// Creates the directory and takes the lock, which is held until the returned value is dropped.
    ///
    /// # Errors
    /// [`SavedStateError::Busy`] if another process holds it, otherwise [`SavedStateError::Io`].
    pub fn lock(&self) -> Result<StateLock, SavedStateError> {
        let lock = StateFile(self.0.with_extension("lock"));
        let failed = |error| lock.failed("open the lock", error);
        std::fs::create_dir_all(self.folder()).map_err(failed)?;
        // The lock file is never deleted: otherwise two processes could lock different files of the
        // same name.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock.0)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(StateLock(file)),
            Err(TryLockError::WouldBlock) => Err(SavedStateError::Busy { path: lock.0 }),
            // A file system without locks: the user has to avoid concurrent changes there.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(StateLock(file))
            }
            Err(TryLockError::Error(error)) => Err(lock.failed("take the lock", error)),
        }
    }

    fn folder(&self) -> &Path {
        let parent = self.0.parent().filter(|p| !p.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> SavedStateError {
        SavedStateError::Io {
            action,
            path: self.0.clone(),
            source,
        }
    }
}

/// The lock of a [`StateFile`], held until this value is dropped.
#[derive(Debug)]
pub struct StateLock(File);

impl Drop for StateLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread has just forked has a copy of the
        // descriptor until it runs its program, and the lock stays as long as one copy does.
        // Nothing was locked where the file system has no locks.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_value_although_a_forked_child_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFile(folder.path().join("state"));
        let lock = state.lock().unwrap();
        let _copy_of_a_child = lock.0.try_clone().unwrap();
        let busy = state.lock().unwrap_err();
        assert!(matches!(busy, SavedStateError::Busy { .. }), "{busy}");
        drop(lock);
        state.lock().unwrap();
    }
}
