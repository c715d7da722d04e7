//! Counter-based random numbers: a value is a pure function of (seed, table, column, row).
//!
//! No state is carried from row to row, so any thread can generate any row, and the data does not
//! depend on how the work is divided. The mixing function is the finaliser of SplitMix64 (G.
//! Steele, D. Lea and C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) with
//! the constants of D. Stafford's variant 13.

/// The odd step between consecutive counters: 2^64 divided by the golden ratio, as in SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads every input bit over all 64 output bits; a bijection.
#[inline(always)]
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// An infinite sequence of random values with random access; one for each random column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomSequence {
    key: u64,
}

impl RandomSequence {
    /// The stream of one column.
    ///
    /// `table` and `column` are numbers that must never change, because the data depends on them.
    pub(crate) const fn new(seed: u64, table: u32, column: u32) -> Self {
        let place = ((table as u64) << 32) | column as u64;
        Self {
            key: mix(mix(seed.wrapping_add(STEP)) ^ mix(place.wrapping_add(1).wrapping_mul(STEP))),
        }
    }

    /// 64 random bits at `index`.
    #[inline(always)]
    pub(crate) const fn bits(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_mul(STEP)))
    }

    /// A number from 0 to `bound - 1` at `index`.
    ///
    /// It is computed by multiply-shift instead of a division; the bias is below `bound / 2^32`.
    #[inline(always)]
    pub(crate) const fn below(self, index: u64, bound: u32) -> u32 {
        (((self.bits(index) >> 32) * bound as u64) >> 32) as u32
    }

    /// The position of `position` (below `n`) in the `block`-th random permutation of 0..`n`.
    ///
    /// The permutation is an affine map modulo `n`; its step is one of `steps`, which are all
    /// coprime to `n`.
    #[inline]
    const fn reordered(self, block: u64, position: u64, n: u32, steps: &[u32]) -> u32 {
        let bits = self.bits(block);
        let step = steps[(((bits >> 32) * steps.len() as u64) >> 32) as usize] as u64;
        let start = ((bits & 0xffff_ffff) * n as u64) >> 32;
        ((start + step * position) % n as u64) as u32
    }
}

/// Numbers below 5, 10 and 40 that are coprime to them.
const STEPS_5: &[u32] = &[1, 2, 3, 4];
const STEPS_10: &[u32] = &[1, 3, 7, 9];
const STEPS_40: &[u32] = &[1, 3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31, 33, 37, 39];

/// Distributes rows evenly over a hierarchy of 5 x 5 x `leaves` values, in random order.
///
/// Every 5 consecutive rows (from row 0) contain each top value once, every 25 each middle value
/// once, and every 25 x `leaves` each leaf once. So a region, nation, city or brand has the share
/// that SSB's filter factors assume at any scale factor; with independent draws, the shares in
/// tables of a few thousand rows would be wrong by several per cent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hierarchy {
    top: RandomSequence,
    middle: RandomSequence,
    leaf: RandomSequence,
    leaves: u32,
    leaf_steps: &'static [u32],
}

impl Hierarchy {
    /// Region, nation, city: 5 x 5 x 10.
    pub(crate) const fn places(seed: u64, table: u32, column: u32) -> Self {
        Self::new(seed, table, column, 10, STEPS_10)
    }

    /// Manufacturer, category, brand: 5 x 5 x 40.
    pub(crate) const fn brands(seed: u64, table: u32, column: u32) -> Self {
        Self::new(seed, table, column, 40, STEPS_40)
    }

    const fn new(
        seed: u64,
        table: u32,
        column: u32,
        leaves: u32,
        leaf_steps: &'static [u32],
    ) -> Self {
        Self {
            top: RandomSequence::new(seed, table, column),
            middle: RandomSequence::new(seed, table, column + 1),
            leaf: RandomSequence::new(seed, table, column + 2),
            leaves,
            leaf_steps,
        }
    }

    /// (top, middle within top, leaf within middle) of `row`.
    pub(crate) const fn at(self, row: u64) -> (u32, u32, u32) {
        // Each level has a new permutation for every block of its size, so that the order is not
        // periodic.
        let top = self.top.reordered(row / 5, row % 5, 5, STEPS_5);
        let middle = self
            .middle
            .reordered((row / 25) * 5 + top as u64, (row / 5) % 5, 5, STEPS_5);
        let branch = (top * 5 + middle) as u64;
        let round = row / 25;
        let leaves = self.leaves as u64;
        let leaf = self.leaf.reordered(
            (round / leaves) * 25 + branch,
            round % leaves,
            self.leaves,
            self.leaf_steps,
        );
        (top, middle, leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn below_covers_its_range_evenly() {
        let stream = RandomSequence::new(7, 1, 2);
        let mut counts = [0u32; 11];
        for index in 0..110_000 {
            counts[stream.below(index, 11) as usize] += 1;
        }
        // Each count has mean 10,000 and standard deviation 95.
        assert!(
            counts.iter().all(|&count| (9_500..10_500).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn streams_of_other_seeds_tables_and_columns_differ() {
        let keys: HashSet<u64> = (0..20)
            .flat_map(|seed| {
                (0..5).flat_map(move |table| {
                    (0..20).map(move |column| RandomSequence::new(seed, table, column).bits(0))
                })
            })
            .collect();
        assert_eq!(keys.len(), 20 * 5 * 20);
    }

    #[test]
    fn hierarchy_is_balanced_in_every_block() {
        for (hierarchy, leaves) in [
            (Hierarchy::places(3, 1, 0), 10u64),
            (Hierarchy::brands(3, 2, 0), 40),
        ] {
            let size = 25 * leaves;
            for block in 0..4u64 {
                let all: HashSet<_> = (block * size..(block + 1) * size)
                    .map(|row| hierarchy.at(row))
                    .collect();
                assert_eq!(all.len() as u64, size);
            }
            for block in 0..40u64 {
                let tops: HashSet<_> = (block * 5..block * 5 + 5)
                    .map(|row| hierarchy.at(row).0)
                    .collect();
                let middles: HashSet<_> = (block * 25..block * 25 + 25)
                    .map(|row| (hierarchy.at(row).0, hierarchy.at(row).1))
                    .collect();
                assert_eq!((tops.len(), middles.len()), (5, 25));
            }
        }
    }
}
