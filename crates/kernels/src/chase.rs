//! Pointer chases: every load's address comes from the load before, so their time is the memory's latency.

use crate::rng::SplitMix64;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// A random cycle through all whole cache lines of a buffer: each line holds the number of the next.
#[derive(Debug)]
pub struct ChaseRing<'a> {
    lines: &'a [[u8; LINE_BYTES]],
}

impl<'a> ChaseRing<'a> {
    /// Writes a cycle of all lines into `buffer` (what was there is lost), determined by `seed`. Uses 4 bytes of memory per line
    /// meanwhile. Bytes before the first and after the last whole, aligned line are left alone.
    ///
    /// The cycle comes from the algorithm of Sattolo ("An algorithm to generate a random cyclic permutation", 1986). Lines past
    /// the first 2^32 (256 GiB) are not used.
    pub fn build(buffer: &'a mut [u8], seed: u64) -> Self {
        let skip_bytes = buffer.as_ptr().align_offset(LINE_BYTES).min(buffer.len());
        let (lines, _) = buffer[skip_bytes..].as_chunks_mut::<LINE_BYTES>();
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let lines = &mut lines[..count as usize];
        let mut next: Vec<u32> = (0..count).collect();
        let mut rng = SplitMix64::new(seed);
        for last in (1..next.len()).rev() {
            let other = rng.below(last as u64) as usize;
            next.swap(last, other);
        }
        for (line, next) in lines.iter_mut().zip(next) {
            line[..4].copy_from_slice(&next.to_le_bytes());
        }
        Self { lines }
    }

    /// Number of lines in the cycle.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Bytes the cycle goes through.
    pub fn footprint_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Follows the cycle for `steps` dependent loads from line `start` (taken modulo the number of lines) and answers the line it
    /// ends on; 0 if there are no lines.
    pub fn follow(&self, start: usize, steps: u64) -> usize {
        let mut at = start.checked_rem(self.lines.len()).unwrap_or(0);
        for _ in 0..steps {
            // The bounds check is two instructions beside a load of many nanoseconds.
            let Some([a, b, c, d, ..]) = self.lines.get(at) else {
                return 0;
            };
            at = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn one_round_visits_each_line_once_and_comes_back(size in 0_usize..20_000, skip in 0_usize..64, seed in any::<u64>()) {
            let mut buffer = vec![0xff_u8; size + skip];
            let ring = ChaseRing::build(&mut buffer[skip..], seed);
            let mut seen = vec![false; ring.lines()];
            let mut at = 0;
            for _ in 0..ring.lines() {
                prop_assert!(!std::mem::replace(&mut seen[at], true));
                at = ring.follow(at, 1);
            }
            prop_assert_eq!(at, 0);
            prop_assert_eq!(ring.follow(7, ring.lines() as u64), 7_usize.checked_rem(ring.lines()).unwrap_or(0));
        }
    }

    #[test]
    fn seeds_give_different_cycles() {
        let order = |seed| {
            let mut buffer = vec![0; 6400];
            let ring = ChaseRing::build(&mut buffer, seed);
            (0..50)
                .map(|steps| ring.follow(0, steps))
                .collect::<Vec<_>>()
        };
        assert_ne!(order(1), order(2));
        assert_eq!(order(1), order(1));
    }
}
