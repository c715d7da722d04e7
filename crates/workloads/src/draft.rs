//! Files that appear under their name only when they are complete.

use crate::WorkloadError;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file under a temporary name beside its final one.
///
/// It is removed when dropped, unless [`Draft::publish`] was called.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    target: PathBuf,
    file: File,
    published: bool,
}

impl Draft {
    /// Creates the temporary file for `target`.
    ///
    /// # Errors
    /// [`WorkloadError::Io`] if the file cannot be created.
    pub fn create(target: &Path) -> Result<Self, WorkloadError> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let path = target.with_file_name(name);
        let file = File::create(&path).map_err(io_error("create", &path))?;
        Ok(Self {
            path,
            target: target.to_owned(),
            file,
            published: false,
        })
    }

    /// Path of the temporary file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes the file to disk and renames it to its final name; returns its size in bytes.
    ///
    /// An existing file of that name is replaced.
    ///
    /// # Errors
    /// [`WorkloadError::Io`]; the temporary file is then removed.
    pub fn publish(mut self) -> Result<u64, WorkloadError> {
        self.file
            .sync_all()
            .map_err(io_error("flush", &self.path))?;
        let size_bytes = self
            .file
            .metadata()
            .map_err(io_error("read the size of", &self.path))?
            .len();
        fs::rename(&self.path, &self.target)
            .map_err(io_error("rename a finished file to", &self.target))?;
        self.published = true;
        Ok(size_bytes)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            // Nothing more can be done about a temporary file that cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Wraps an error of the operating system with the attempted action and the path.
pub fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkloadError {
    let path = path.to_owned();
    move |cause| WorkloadError::Io {
        action,
        path,
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_is_dropped_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("lineorder.arrow");
        fs::write(&target, b"old").expect("written");
        let mut draft = Draft::create(&target).expect("created");
        draft.write_all(b"half").expect("written");
        drop(draft);
        assert_eq!(fs::read(&target).expect("readable"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_published_draft_replaces_the_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("part.arrow");
        fs::write(&target, b"old").expect("written");
        let mut draft = Draft::create(&target).expect("created");
        draft.write_all(b"whole").expect("written");
        assert_eq!(draft.publish().expect("published"), 5);
        assert_eq!(fs::read(&target).expect("readable"), b"whole");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }
}
