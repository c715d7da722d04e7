//! Access to kernel files, also for writing, as a trait so that tests can substitute it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::SysRoot;

/// Files below a system root.
///
/// Implemented by the running system and recorded trees ([`SysRoot`]), and by tests that inject
/// failures.
pub trait SystemFiles {
    /// Names of the entries in a directory, in any order.
    ///
    /// # Errors
    /// The error of the operating system.
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Contents of a file, trimmed.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Checks that this process may write an existing file, without writing.
    ///
    /// # Errors
    /// The error of the operating system.
    fn may_write(&self, path: &str) -> io::Result<()>;

    /// Writes an existing file.
    ///
    /// # Errors
    /// The error of the operating system; also if the file does not exist.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Full path, for messages.
    fn full(&self, path: &str) -> PathBuf;
}

impl SystemFiles for SysRoot {
    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.join(folder))?;
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn read(&self, path: &str) -> io::Result<String> {
        Ok(std::fs::read_to_string(self.join(path))?.trim().to_owned())
    }

    fn may_write(&self, path: &str) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .open(self.join(path))
            .map(drop)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // Never created: a missing file means that the kernel lacks the setting. Truncated only for
        // the sake of recorded trees, which consist of ordinary files.
        let mut file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.join(path))?;
        // A single write: the kernel parses each write as a complete value.
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn full(&self, path: &str) -> PathBuf {
        self.join(path)
    }
}
