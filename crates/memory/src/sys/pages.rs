//! Queries the nodes of pages and moves pages, with `move_pages(2)`.

use super::{Mapping, last_errno};

/// Only move pages that no other process maps (`linux/mempolicy.h`; not in libc).
const MPOL_MF_MOVE: libc::c_long = 1 << 1;
/// Pages per call. Bounds the arrays, and the time for which the call makes page faults of other
/// threads wait.
const BATCH_PAGES: usize = 8192;

/// Node number or negative errno of the page at each byte offset.
///
/// # Errors
/// The errno, if the call as a whole fails.
pub(crate) fn query(mapping: &Mapping, offsets: &[usize]) -> Result<Vec<i32>, i32> {
    let mut all = Vec::with_capacity(offsets.len());
    for batch in offsets.chunks(BATCH_PAGES) {
        let addresses = addresses(mapping, batch)?;
        let mut status = vec![-libc::ENOENT; batch.len()];
        // SAFETY: both arrays have `batch.len()` elements. Without target nodes nothing is moved.
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

/// Same as [`query`] for page addresses, into the caller's array; allocates nothing.
///
/// # Errors
/// The errno, if the call as a whole fails; `EINVAL` if `status` is shorter than `addresses`.
pub(crate) fn query_addresses(addresses: &[usize], status: &mut [i32]) -> Result<(), i32> {
    if status.len() < addresses.len() {
        return Err(libc::EINVAL);
    }
    // SAFETY: both arrays have at least `addresses.len()` elements. Without target nodes nothing is
    // moved, and an address without a mapping only gets an errno as its status.
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

/// Moves the page at each byte offset to the node paired with it. Returns, per page, its node after
/// the call or a negative errno.
///
/// # Errors
/// The errno, if the call as a whole fails: `EPERM`, `ENOSYS`, `ENODEV` for an offline node,
/// `EACCES` for one outside the cpuset.
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
        // The kernel does not write the status of pages that it gave up on.
        let mut status = vec![-libc::EAGAIN; batch.len()];
        // SAFETY: all three arrays have `batch.len()` elements. The kernel keeps the contents of
        // pages that it moves, so readers of the mapping see no change.
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
        // A positive result is the number of pages not moved; their status says why.
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
