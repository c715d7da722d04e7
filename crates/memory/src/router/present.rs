//! Populates (pre-faults) the pages of fresh blocks.

use super::kernel::{Kernel, Nodes};

/// Populates a fresh block.
///
/// A kernel that refuses the pages does so now, while the router can still try another place, and
/// the accounts match what is resident. Where the kernel chooses the node, pages are left to first
/// touch.
pub(super) fn make_present(
    kernel: &Kernel,
    nodes: &Nodes,
    (address, len): (usize, usize),
    granule: usize,
    phase: u64,
) -> Result<(), i32> {
    if nodes.parts().is_empty() {
        return Ok(());
    }
    // The slot's `mbind` policy places the pages: one populate call, no change of the thread's
    // policy.
    if nodes.by_policy() {
        return (kernel.touch)(address, len);
    }
    spread(kernel, nodes, (address, len), granule, phase)
}

/// Populates a block by weight, granule by granule, starting at `phase` in the round of weights.
fn spread(
    kernel: &Kernel,
    nodes: &Nodes,
    (address, len): (usize, usize),
    granule: usize,
    phase: u64,
) -> Result<(), i32> {
    let round: u64 = nodes.parts().iter().map(|(_, w)| u64::from(*w)).sum();
    let end = address + len;
    let mut address = address;
    let mut within = phase % round.max(1);
    while address < end {
        let mut first = 0;
        let found = nodes.parts().iter().find(|(_, weight)| {
            first += u64::from(*weight);
            within < first
        });
        let (node, _) = found.ok_or(libc::EINVAL)?;
        // Consecutive granules on one node are populated in one call; each call switches the
        // thread's memory policy and back.
        let run = usize::try_from(first - within).unwrap_or(usize::MAX);
        let len = run.saturating_mul(granule).min(end - address);
        (kernel.populate)(address, len, *node)?;
        address += len;
        within = first % round;
    }
    Ok(())
}
