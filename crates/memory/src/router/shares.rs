//! How the bytes of a block divide among the nodes of its place.

use super::kernel::{MAX_PARTS, Nodes};

/// Unit in which the kernel's interleave policy gives base pages to nodes.
const PAGE_BYTES: u64 = 4096;
/// Granules of this size or more are huge pages: the policy interleaves them whole.
const HUGE_BYTES: u64 = 2 << 20;

/// Bytes of one block on each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    parts: [(u8, u64); MAX_PARTS],
    count: u8,
    total: u64,
}

impl Shares {
    /// Shares of a block of `len` granules, the first of which is number `phase` in the round of
    /// weights.
    ///
    /// Where the kernel interleaves, the router does not know with which node it starts: any node
    /// may get one page more than an even share, so the extra page is counted for each of them.
    pub(super) fn of(nodes: &Nodes, granule: usize, phase: u64, len: u32) -> Shares {
        let (granule, len) = (granule as u64, u64::from(len));
        let mut shares = Shares {
            parts: [(0, 0); MAX_PARTS],
            count: nodes.count,
            total: granule * len,
        };
        let count = nodes.parts().len() as u64;
        let round: u64 = nodes.parts().iter().map(|(_, w)| u64::from(*w)).sum();
        let page = if granule >= HUGE_BYTES {
            granule
        } else {
            PAGE_BYTES
        };
        let mut first = 0;
        for (share, (node, weight)) in shares.parts.iter_mut().zip(nodes.parts()) {
            let weight = u64::from(*weight);
            let bytes = if nodes.by_policy() {
                (granule * len / page).div_ceil(count) * page
            } else {
                // Granules of this node among the first `end` granules: whole rounds, then its part
                // of the last round. The difference of two prefixes gives the block's share.
                let before = |end: u64| {
                    end / round * weight + (end % round).saturating_sub(first).min(weight)
                };
                (before(phase % round + len) - before(phase % round)) * granule
            };
            *share = (*node, bytes);
            first += weight;
        }
        shares
    }

    /// Nodes and their bytes; empty where the kernel chooses the node.
    pub(super) fn parts(&self) -> &[(u8, u64)] {
        &self.parts[..self.count as usize]
    }

    /// Bytes of the block; less than the sum of the parts where the kernel interleaves.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GRANULE: usize = 64 << 10;

    fn nodes(weights: &[u32]) -> Nodes {
        let mut nodes = Nodes::ANY;
        for (index, weight) in weights.iter().enumerate() {
            nodes.parts[index] = (index as u8, *weight);
        }
        nodes.count = weights.len() as u8;
        nodes
    }

    proptest! {
        #[test]
        fn weights_give_each_granule_to_the_node_whose_turn_it_is(
            weights in prop::collection::vec(1_u32..6, 2..5), phase in 0_u64..50, len in 1_u32..60,
        ) {
            let nodes = nodes(&weights);
            prop_assume!(!nodes.by_policy());
            let turns: Vec<u8> = weights.iter().enumerate()
                .flat_map(|(node, weight)| vec![node as u8; *weight as usize]).collect();
            let mut expected = vec![0; weights.len()];
            for granule in phase..phase + u64::from(len) {
                expected[usize::from(turns[granule as usize % turns.len()])] += GRANULE as u64;
            }
            let shares = Shares::of(&nodes, GRANULE, phase, len);
            let found: Vec<u64> = shares.parts().iter().map(|(_, bytes)| *bytes).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(found.iter().sum::<u64>(), shares.total());
        }
    }

    #[test]
    fn where_the_kernel_takes_turns_no_node_is_asked_for_more_than_its_account_says() {
        let shares = Shares::of(&nodes(&[1, 1, 1]), GRANULE, 0, 1);
        // 16 pages: 6, 5 and 5, whichever node begins.
        assert!(shares.parts().iter().all(|(_, bytes)| *bytes == 6 * 4096));
        assert_eq!(shares.total(), GRANULE as u64);
        let large = Shares::of(&nodes(&[1, 1, 1]), 2 << 20, 0, 4);
        assert!(large.parts().iter().all(|(_, bytes)| *bytes == 4 << 20));
        let one = Shares::of(&nodes(&[5]), GRANULE, 7, 3);
        assert_eq!(one.parts(), [(0, 3 * GRANULE as u64)]);
        assert_eq!(Shares::of(&Nodes::ANY, GRANULE, 0, 3).parts(), []);
    }
}
