//! Asking the kernel where pages are, and moving them (`move_pages(2)`).

use super::{Mapping, last_errno};

/// Move pages that only this process maps (`linux/mempolicy.h`; not in libc).
const MPOL_MF_MOVE: libc::c_long = 1 << 1;
/// Largest number of pages in one call: keeps the arrays small and other threads' page faults
/// waiting shortly.
const BATCH_PAGES: usize = 8192;

/// Node number (0 and up) or negative errno of the page at each byte offset.
///
/// # Errors
/// The errno of the call as a whole.
pub(crate) fn query(mapping: &Mapping, offsets: &[usize]) -> Result<Vec<i32>, i32> {
    let mut all = Vec::with_capacity(offsets.len());
    for batch in offsets.chunks(BATCH_PAGES) {
        let addresses = addresses(mapping, batch)?;
        let mut status = vec![-libc::ENOENT; batch.len()];
        // SAFETY: both arrays have `batch.len()` elements; without target nodes nothing is moved.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0_i64,
                batch.len(),
                addresses.as_ptr(),
                std::ptr::null::<i32>(),
                status.as_mut_ptr(),
                0_i64,
            )
        };
        if answer != 0 {
            return Err(last_errno());
        }
        all.append(&mut status);
    }
    Ok(all)
}

/// As [`query`], for addresses of pages, into an array of the caller's: nothing is allocated.
///
/// # Errors
/// The errno of the call as a whole; `EINVAL` if there is less room than addresses.
pub(crate) fn query_addresses(addresses: &[usize], status: &mut [i32]) -> Result<(), i32> {
    if status.len() < addresses.len() {
        return Err(libc::EINVAL);
    }
    // SAFETY: both arrays have room for as many pages; without target nodes nothing is moved.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0_i64,
            addresses.len(),
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0_i64,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Moves the page at each byte offset to the node beside it. Answers, per page, the node where it
/// is now or a negative errno.
///
/// # Errors
/// The errno of the call as a whole (`EPERM`, `ENOSYS`, `ENODEV` for an offline node, `EACCES` for
/// one outside the cpuset).
pub(crate) fn relocate(
    mapping: &Mapping,
    offsets: &[usize],
    nodes: &[i32],
) -> Result<Vec<i32>, i32> {
    let mut all = Vec::with_capacity(offsets.len());
    for (batch, targets) in offsets.chunks(BATCH_PAGES).zip(nodes.chunks(BATCH_PAGES)) {
        if batch.len() != targets.len() {
            return Err(libc::EINVAL);
        }
        let addresses = addresses(mapping, batch)?;
        // The kernel leaves the status of pages it gave up on untouched.
        let mut status = vec![-libc::EAGAIN; batch.len()];
        // SAFETY: all three arrays have `batch.len()` elements. The kernel keeps the contents of
        // pages it moves, so no byte of the mapping changes for any reader.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0_i64,
                batch.len(),
                addresses.as_ptr(),
                targets.as_ptr(),
                status.as_mut_ptr(),
                MPOL_MF_MOVE,
            )
        };
        // A positive answer counts pages that could not be moved: their status says so.
        if answer < 0 {
            return Err(last_errno());
        }
        all.append(&mut status);
    }
    Ok(all)
}

fn addresses(mapping: &Mapping, offsets: &[usize]) -> Result<Vec<usize>, i32> {
    let address = |offset: &usize| {
        if *offset < mapping.size_bytes() {
            Ok(mapping.address() + offset)
        } else {
            Err(libc::EINVAL)
        }
    };
    offsets.iter().map(address).collect()
}
