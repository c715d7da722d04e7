//! Whether hardware counters can be opened, and the effective user.

use std::os::fd::{FromRawFd, OwnedFd};

use super::last_errno;

/// Opens and closes a counter of this thread's user-space CPU cycles; the errno says why it failed.
pub(crate) fn open_and_close_cycles() -> Result<(), i32> {
    /// `PERF_ATTR_SIZE_VER0`: only the first 64 bytes of `struct perf_event_attr` are used.
    const ATTR_BYTES: u64 = 64;
    const DISABLED: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    /// From `linux/perf_event.h`; not in libc.
    const PERF_FLAG_FD_CLOEXEC: libc::c_long = 1 << 3;
    // `type` (PERF_TYPE_HARDWARE = 0) and `size` share the first word, `config` (CPU cycles = 0) is
    // the second, the flags are the sixth.
    let mut attributes = [0_u64; 8];
    attributes[0] = ATTR_BYTES << 32;
    attributes[5] = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    let (this_process, any_cpu, no_group) = (0_i32, -1_i32, -1_i32);
    // SAFETY: the attribute block is readable for the 64 bytes that its size field states, and the
    // call writes nothing.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            this_process,
            any_cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let descriptor = i32::try_from(answer).unwrap_or(-1);
    if descriptor < 0 {
        return Err(last_errno());
    }
    // SAFETY: the descriptor is new, so nobody else owns it; dropping it closes it.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok(())
}

/// Effective user id of this process.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: takes no pointers, always succeeds and changes nothing.
    unsafe { libc::geteuid() }
}
