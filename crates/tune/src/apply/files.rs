//! The seam to the kernel's files.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use tierloom_topology::SysRoot;

/// Where the kernel keeps its weights, below the root.
pub const FOLDER: &str = "sys/kernel/mm/mempolicy/weighted_interleave";

/// Files below a system root: those of the running machine, of a recorded tree, or a test's own that fail when told to.
pub trait SystemFiles {
    /// Names in a folder, in any order.
    ///
    /// # Errors
    /// The system's answer.
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;

    /// The text of a file, trimmed.
    ///
    /// # Errors
    /// The system's answer.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Whether this process may write a file that exists; writes nothing.
    ///
    /// # Errors
    /// The system's answer.
    fn may_write(&self, path: &str) -> io::Result<()>;

    /// Writes a file that exists.
    ///
    /// # Errors
    /// The system's answer.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// The full path, for people.
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
        // Never created: a name that the kernel does not offer is an error. Truncated for recorded trees, whose files are ordinary ones.
        let mut file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.join(path))?;
        // One write: the kernel takes each write as a whole value.
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn full(&self, path: &str) -> PathBuf {
        self.join(path)
    }
}
