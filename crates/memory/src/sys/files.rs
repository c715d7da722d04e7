//! What a file system is, how much room it has, and blocks for a file.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::last_errno;

/// File system numbers of `linux/magic.h`.
const TMPFS_MAGIC: i128 = 0x0102_1994;
const RAMFS_MAGIC: i128 = 0x8584_58f6;
const HUGETLBFS_MAGIC: i128 = 0x9584_58f6;

/// The kinds of file system that behave differently here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSystemKind {
    /// tmpfs or ramfs: pages come from nodes and follow the thread's policy.
    Memory,
    /// hugetlbfs with pages of this size.
    Hugetlb { page_bytes: u64 },
    /// Anything on a device; fsdax included.
    Device,
}

/// A file system's kind and free bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSystem {
    pub(crate) kind: FileSystemKind,
    /// `None` where it sets no limit of its own (ramfs, unlimited tmpfs, unlimited hugetlbfs).
    pub(crate) free_bytes: Option<u64>,
}

/// Describes the file system that `path` (which must exist) is on, or answers the errno.
pub(crate) fn examine(path: &Path) -> Result<FileSystem, i32> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    let mut stat = std::mem::MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: the path is NUL-terminated and `stat` is valid for writes.
    if unsafe { libc::statfs64(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: zeroed is a valid value of this plain struct, and the kernel filled it.
    let stat = unsafe { stat.assume_init() };
    let block_bytes = u64::try_from(stat.f_bsize).unwrap_or(4096);
    let kind = match i128::from(stat.f_type) {
        TMPFS_MAGIC | RAMFS_MAGIC => FileSystemKind::Memory,
        HUGETLBFS_MAGIC => FileSystemKind::Hugetlb {
            page_bytes: block_bytes,
        },
        _ => FileSystemKind::Device,
    };
    let limited = kind == FileSystemKind::Device || stat.f_blocks > 0;
    Ok(FileSystem {
        kind,
        free_bytes: limited.then(|| stat.f_bavail.saturating_mul(block_bytes)),
    })
}

/// Gives the file its blocks now, so that writing through a mapping cannot run out of space later.
pub(crate) fn allocate_blocks(file: &File, size_bytes: usize) -> Result<(), i32> {
    let size = libc::off_t::try_from(size_bytes).map_err(|_| libc::EFBIG)?;
    // SAFETY: plain call on an open file; it answers the errno instead of setting it.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
        0 => Ok(()),
        errno => Err(errno),
    }
}
