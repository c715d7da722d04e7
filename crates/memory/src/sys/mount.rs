//! Mounting memory as a folder, seen by this process alone.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::last_errno;

/// Gives the calling thread, and those that it starts from now on, mounts of their own: what they
/// mount is not seen elsewhere and ends with them, and what is mounted elsewhere is seen by them.
///
/// # Errors
/// The errno; `EPERM` without `CAP_SYS_ADMIN`.
pub(crate) fn own_mounts() -> Result<(), i32> {
    // SAFETY: takes no pointers. It changes what paths mean to this thread, and no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(last_errno());
    }
    mount(Path::new("/"), None, libc::MS_REC | libc::MS_SLAVE, "")
}

/// Mounts a tmpfs with these options at `folder`.
///
/// # Errors
/// The errno; `EINVAL` for options that the kernel does not take.
pub(crate) fn tmpfs(folder: &Path, options: &str) -> Result<(), i32> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(folder, Some(c"tmpfs"), flags, options)
}

/// Takes away what was mounted last at `folder`.
///
/// # Errors
/// The errno; `EINVAL` if nothing is mounted there.
pub(crate) fn unmount(folder: &Path) -> Result<(), i32> {
    let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    // SAFETY: the path ends with a zero and lives until the call returns. Mapped files stay mapped.
    let answer = unsafe { libc::umount2(folder.as_ptr(), libc::MNT_DETACH) };
    if answer == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

fn mount(
    at: &Path,
    kind: Option<&std::ffi::CStr>,
    flags: libc::c_ulong,
    options: &str,
) -> Result<(), i32> {
    let at = CString::new(at.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    let options = CString::new(options).map_err(|_| libc::EINVAL)?;
    let source = kind.unwrap_or(c"none");
    let kind = kind.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: all texts end with a zero and live until the call returns; a type may be null where
    // only the propagation of mounts is changed.
    let answer = unsafe {
        libc::mount(
            source.as_ptr(),
            at.as_ptr(),
            kind,
            flags,
            options.as_ptr().cast(),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}
