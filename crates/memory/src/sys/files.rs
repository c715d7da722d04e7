//! File systems and files: type, free space, block allocation, locks.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::last_errno;

/// File system types, from `linux/magic.h`.
const TMPFS_MAGIC: i128 = 0x0102_1994;
const RAMFS_MAGIC: i128 = 0x8584_58f6;
const HUGETLBFS_MAGIC: i128 = 0x9584_58f6;

/// File systems by how they allocate pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSystemKind {
    /// tmpfs or ramfs: pages come from nodes, under the thread's policy.
    Memory,
    /// hugetlbfs with pages of this size.
    Hugetlb { page_bytes: u64 },
    /// All others, which are on a device; fsdax is among them.
    Device,
}

/// Kind and free bytes of a file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSystem {
    pub(crate) kind: FileSystemKind,
    /// `None` where the file system has no limit (ramfs, tmpfs or hugetlbfs without one).
    pub(crate) free_bytes: Option<u64>,
}

/// Kind and free space of the file system of `path`, which must exist; or the errno.
pub(crate) fn examine(path: &Path) -> Result<FileSystem, i32> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    let mut stat = std::mem::MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: the path is NUL-terminated and `stat` is valid for writes.
    if unsafe { libc::statfs64(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: all zeroes is a valid value of this plain struct, and the kernel has filled it.
    let stat = unsafe { stat.assume_init() };
    let block_bytes = u64::try_from(stat.f_bsize).unwrap_or(4096);
    let kind = match i128::from(stat.f_type) {
        TMPFS_MAGIC | RAMFS_MAGIC => FileSystemKind::Memory,
        HUGETLBFS_MAGIC => FileSystemKind::Hugetlb {
            page_bytes: block_bytes,
        },
        _ => FileSystemKind::Device,
    };
    // tmpfs and hugetlbfs without a limit report 0 blocks.
    let limited = kind == FileSystemKind::Device || stat.f_blocks > 0;
    Ok(FileSystem {
        kind,
        free_bytes: limited.then(|| stat.f_bavail.saturating_mul(block_bytes)),
    })
}

/// Whether the file's pages are device memory (fsdax). Before Linux 5.8 the kernel does not report
/// it.
pub(crate) fn is_on_dax(file: &File) -> bool {
    let mut answer = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is open, the path is empty and NUL-terminated, and `answer` is valid
    // for writes.
    let outcome = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            0,
            answer.as_mut_ptr(),
        )
    };
    // SAFETY: all zeroes is a valid value of this plain struct, whether or not the kernel filled
    // it.
    let attributes = unsafe { answer.assume_init() }.stx_attributes;
    outcome == 0 && attributes & libc::STATX_ATTR_DAX as u64 != 0
}

/// Allocates the blocks of a range now, so that a write through a mapping cannot run out of space
/// later, which would be a SIGBUS.
pub(crate) fn allocate_blocks(
    file: &File,
    offset_bytes: u64,
    size_bytes: usize,
) -> Result<(), i32> {
    let offset = libc::off_t::try_from(offset_bytes).map_err(|_| libc::EFBIG)?;
    let size = libc::off_t::try_from(size_bytes).map_err(|_| libc::EFBIG)?;
    // SAFETY: no pointers are passed and the descriptor is open. It returns the errno instead of
    // setting it.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, size) } {
        0 => Ok(()),
        errno => Err(errno),
    }
}

/// Locks a byte range for this open file description, until it is closed. Other descriptions, those
/// of this process included, are refused (`EAGAIN` or `EACCES`).
pub(crate) fn lock_range(file: &File, offset_bytes: u64, size_bytes: usize) -> Result<(), i32> {
    set_lock(file, range(libc::F_WRLCK, offset_bytes, size_bytes)?)
}

/// Takes all locks off this open file description.
///
/// Closing the descriptor is not enough: a child that another thread has just forked has a copy of
/// it until it runs its program, and would keep the locks as long.
pub(crate) fn unlock(file: &File) {
    // A size of 0 is up to the end. An error says that there is nothing to unlock: the file system
    // has no locks.
    let _ = range(libc::F_UNLCK, 0, 0).and_then(|all| set_lock(file, all));
}

fn set_lock(file: &File, lock: libc::flock64) -> Result<(), i32> {
    // SAFETY: the descriptor is open and `lock` is valid for reads.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Whether another open file description has a lock in a byte range.
pub(crate) fn is_range_locked(
    file: &File,
    offset_bytes: u64,
    size_bytes: usize,
) -> Result<bool, i32> {
    let mut lock = range(libc::F_WRLCK, offset_bytes, size_bytes)?;
    // SAFETY: the descriptor is open and `lock` is valid for reads and writes.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } == 0 {
        Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
    } else {
        Err(last_errno())
    }
}

/// A lock of this kind on a byte range, as `fcntl` takes it.
fn range(kind: libc::c_int, offset_bytes: u64, size_bytes: usize) -> Result<libc::flock64, i32> {
    // SAFETY: all zeroes is a valid value of this plain struct. `l_pid` must be 0 for such locks.
    let mut lock: libc::flock64 = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = libc::off64_t::try_from(offset_bytes).map_err(|_| libc::EOVERFLOW)?;
    lock.l_len = libc::off64_t::try_from(size_bytes).map_err(|_| libc::EOVERFLOW)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new description of the file at `path`.
    fn opened(path: &std::path::Path) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options.open(path).unwrap()
    }

    #[test]
    fn a_dropped_mapping_is_not_locked_by_a_copy_of_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let open = || opened(&path);
        let file = open();
        file.set_len(4096).unwrap();
        lock_range(&file, 0, 4096).unwrap();
        // What a child has between `fork` and `exec`.
        let copy = file.try_clone().unwrap();
        let mapping = crate::Mapping::shared_file_at(file, 0, 4096, crate::PageSize::Base).unwrap();
        let other = open();
        assert!(lock_range(&other, 0, 4096).is_err());
        drop(mapping);
        lock_range(&other, 0, 4096).unwrap();
        drop(copy);
    }

    #[test]
    fn ranges_of_one_file_are_locked_apart_but_never_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let open = || opened(&path);
        let (first, second) = (open(), open());
        assert!(!is_on_dax(&first), "no temporary directory is on fsdax");
        assert_eq!(lock_range(&first, 0, 4096), Ok(()));
        assert_eq!(lock_range(&second, 4096, 4096), Ok(()));
        assert!(lock_range(&second, 0, 8192).is_err());
        assert_eq!(is_range_locked(&second, 0, 1), Ok(true));
        assert_eq!(is_range_locked(&second, 4096, 1), Ok(false), "its own");
        assert_eq!(is_range_locked(&first, 1 << 62, 1), Ok(false), "nobody's");
        drop(first);
        assert_eq!(lock_range(&second, 0, 8192), Ok(()));
    }
}
