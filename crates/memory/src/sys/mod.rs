//! All system calls of this crate but the router's: mappings, thread policies, page queries and
//! moves.
//!
//! Everything exported from here is safe to call.

pub(crate) mod counters;
pub(crate) mod files;
pub(crate) mod huge;
pub(crate) mod lost;
pub(crate) mod mapping;
pub(crate) mod mount;
pub(crate) mod pages;
pub(crate) mod policy;
mod populate;

use std::sync::OnceLock;

pub use mapping::Mapping;

/// The errno of the last failed call on this thread.
pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Bytes of the processor's base page; 4096 if the system reports nonsense.
pub(crate) fn base_page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: takes no pointers and only reads a constant.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes)
            .ok()
            .filter(|bytes| bytes.is_power_of_two())
            .unwrap_or(4096)
    })
}
