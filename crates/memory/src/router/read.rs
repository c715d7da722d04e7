//! Reads files inside the global allocator, without allocating.

use std::ffi::CStr;

use crate::sys::last_errno;

/// Reads the start of a file whose path ends with a zero byte; returns the number of bytes.
pub(super) fn read_start(path: &[u8], into: &mut [u8]) -> Result<usize, i32> {
    let path = CStr::from_bytes_until_nul(path).map_err(|_| libc::EINVAL)?;
    // SAFETY: a `CStr` ends with a zero byte.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(last_errno());
    }
    // SAFETY: `into` is exclusively borrowed and writable for its length.
    let read = unsafe { libc::read(file, into.as_mut_ptr().cast(), into.len()) };
    // `close` may change errno, so it is read first.
    let errno = last_errno();
    // SAFETY: the descriptor was opened above, and nothing uses it after this.
    unsafe { libc::close(file) };
    usize::try_from(read).map_err(|_| errno)
}
