//! Temporary files for benchmarks to map.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::MemoryError;
use crate::sys::files;

/// A file of zeroes with all its blocks allocated, deleted on drop.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
}

impl ScratchFile {
    /// Creates a file of `size_bytes` in `directory`.
    ///
    /// # Errors
    /// [`MemoryError::File`] if it cannot be created or there is no space; nothing is left behind.
    pub fn in_directory(directory: &Path, size_bytes: usize) -> Result<Self, MemoryError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tierloom-map-{}-{number}", std::process::id());
        let path = directory.join(name);
        let fail = |action, source| MemoryError::File {
            action,
            path: path.clone(),
            source,
            next_step: "choose a directory that exists, has room and may be written".to_owned(),
        };
        let file = File::create_new(&path).map_err(|source| fail("create", source))?;
        let scratch = Self { path: path.clone() };
        file.set_len(size_bytes as u64)
            .map_err(|source| fail("set the length of", source))?;
        match files::allocate_blocks(&file, 0, size_bytes) {
            // Not all file systems preallocate (hugetlbfs before its blocks are touched, some
            // network ones): the file then has holes.
            Ok(()) | Err(libc::EOPNOTSUPP | libc::EINVAL) => Ok(scratch),
            Err(errno) => Err(fail(
                "allocate blocks of",
                io::Error::from_raw_os_error(errno),
            )),
        }
    }

    /// Path of the file, inside the directory that it was created in.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // The file may be gone already; other errors cannot be reported from a drop.
        let _ = std::fs::remove_file(&self.path);
    }
}
