//! Bytes of a file or device that several processes, or several hosts, map at the same time.
//!
//! [`SharedWords`] reads and writes 8 bytes at a time and has the cache instructions that hosts
//! without a common coherent cache need. [`SharedRange`] is one range of addresses over pieces of
//! files, for bytes that have one owner or that nobody changes. [`lock`] excludes other processes.
//!
//! ```
//! use tierloom_memory::shared::{Access, SharedWords};
//!
//! let file = tempfile::tempfile()?;
//! file.set_len(4096)?;
//! let (one, other) = (
//!     SharedWords::map(&file, 0, 4096, Access::Write)?,
//!     SharedWords::map(&file, 0, 4096, Access::Read)?,
//! );
//! one.store(64, 7);
//! one.write_back(64);
//! one.fence();
//! other.invalidate(64);
//! assert_eq!(other.load(64), 7);
//! # Ok::<(), std::io::Error>(())
//! ```

mod lines;
mod range;
mod words;

use std::fs::File;
use std::io;

pub use lines::LINE_BYTES;
pub use range::SharedRange;
pub use words::SharedWords;

use crate::sys::files;

/// What a mapping may do with its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read them; a store is a fault of the processor (`PROT_READ`).
    Read,
    /// Read and write them.
    Write,
}

/// Locks bytes of a file or DAX device for this opening of it, until it is closed.
///
/// The lock excludes every other opening on this host, those of this process included, and is free
/// when the process is dead. It means nothing to other hosts.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if another opening has some of the bytes; otherwise what the
/// system says, for instance about a file system without such locks.
pub fn lock(file: &File, offset_bytes: u64, size_bytes: usize) -> io::Result<()> {
    files::lock_range(file, offset_bytes, size_bytes).map_err(|errno| match errno {
        // POSIX allows both for a lock that another has.
        libc::EACCES | libc::EAGAIN => io::ErrorKind::WouldBlock.into(),
        errno => io::Error::from_raw_os_error(errno),
    })
}

/// Whether another opening of a file or DAX device, on this host, has a lock in these bytes. They
/// need not exist: locks are of numbers.
///
/// # Errors
/// What the system says, for instance about a file system without such locks.
pub fn is_locked(file: &File, offset_bytes: u64, size_bytes: usize) -> io::Result<bool> {
    files::is_range_locked(file, offset_bytes, size_bytes).map_err(io::Error::from_raw_os_error)
}

/// How often pages of mapped files were found to be gone in this process: a file was made shorter,
/// or memory failed. What is read there is zeroes, so nothing that was computed meanwhile from a
/// [`SharedRange`] may be believed.
pub fn lost_pages() -> u64 {
    crate::sys::lost::lost()
}

/// Whether the pages of a file are device memory that is mapped directly (fsdax).
pub fn is_on_dax(file: &File) -> bool {
    files::is_on_dax(file)
}
