//! Pages of fresh blocks.

use super::kernel::{Kernel, Nodes};

/// Makes the pages of a fresh block present, so that a kernel that refuses them does so while there
/// is another place to go to, and what is counted is what is resident. The kernel's own choice is
/// left to the first touch.
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
    if nodes.by_policy() {
        return (kernel.touch)(address, len);
    }
    spread(kernel, nodes, (address, len), granule, phase)
}

/// Makes the pages of a block present by weight, granule by granule, beginning at `phase` in the
/// round.
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
        let run = usize::try_from(first - within).unwrap_or(usize::MAX);
        let len = run.saturating_mul(granule).min(end - address);
        (kernel.populate)(address, len, *node)?;
        address += len;
        within = first % round;
    }
    Ok(())
}
