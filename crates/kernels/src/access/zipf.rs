//! Zipf-distributed ranks for the cost of a few loads from a table that fits the L1 cache.

use crate::rng::{SplitMix64, mix, scale};

/// Segments of the table, a power of two; two tables of 16 KiB.
const SEGMENTS: usize = 2048;
/// Ranks with their own segment, if there are more ranks than segments.
const HEAD: usize = SEGMENTS / 2;
/// Random bits that choose a column.
const SEGMENT_BITS: u32 = SEGMENTS.trailing_zeros();

/// Draws places 0 to n-1; the place of rank k (1 to n) has a probability proportional to 1 /
/// k^alpha.
///
/// Ranks are divided into 2048 segments: the first 1024 have one rank each, the others grow
/// geometrically. A segment is drawn by the alias method (M. D. Vose, "A linear algorithm for
/// generating random numbers with a given distribution", 1991) with its exact probability, and a
/// rank within it uniformly. Up to 2^40 places, the probability within a segment differs from that
/// of its middle by less than alpha percent. The only branch that depends on the draw is the cycle
/// walk of [`Shuffle`], if n is not a power of two.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    /// Columns of the alias method: the share that stays in 48 bits, the alias segment in 16 bits.
    columns: [u64; SEGMENTS],
    /// First rank (from 0) of each segment, and the end of the last one.
    starts: [u64; SEGMENTS + 1],
    shuffle: Shuffle,
}

impl Zipf {
    /// A table for `count` places (at least 1).
    pub(crate) fn new(count: u64, alpha: f64) -> Self {
        let starts = segment_starts(count.max(1));
        let weights: Vec<f64> = starts
            .windows(2)
            .map(|ends| weight(ends[0], ends[1], alpha))
            .collect();
        Self {
            columns: alias_columns(&weights),
            starts,
            shuffle: Shuffle::new(count.max(1)),
        }
    }

    /// The next rank, from 0.
    #[inline(always)]
    pub(crate) fn rank(&self, random: &mut SplitMix64) -> u64 {
        let bits = random.next();
        let column = (bits >> (64 - SEGMENT_BITS)) as usize;
        let entry = self.columns[column];
        let share = (bits << SEGMENT_BITS) >> 16;
        // Not a branch: it would often be mispredicted.
        let stays = share < entry >> 16;
        let drawn = std::hint::select_unpredictable(stays, column, entry as usize);
        // The modulo removes the share from the entry, and the bounds check.
        let segment = drawn % SEGMENTS;
        let (start, end) = (self.starts[segment], self.starts[segment + 1]);
        start.wrapping_add(scale(random.next(), end.wrapping_sub(start)))
    }

    /// The place of a drawn rank.
    #[inline(always)]
    pub(crate) fn next(&self, random: &mut SplitMix64) -> u64 {
        self.shuffle.place(self.rank(random))
    }
}

/// First ranks of the segments, and the number of ranks.
fn segment_starts(count: u64) -> [u64; SEGMENTS + 1] {
    let all_alone = count <= SEGMENTS as u64;
    let growth = count as f64 / HEAD as f64;
    let mut starts = [0; SEGMENTS + 1];
    for segment in 1..SEGMENTS {
        starts[segment] = if all_alone || segment <= HEAD {
            count.min(segment as u64)
        } else {
            let share = (segment - HEAD) as f64 / (SEGMENTS - HEAD) as f64;
            let wanted = (HEAD as f64 * growth.powf(share)) as u64;
            // At least one rank per segment, even where the growth rounds down to none.
            wanted.max(starts[segment - 1] + 1)
        };
    }
    starts[SEGMENTS] = count;
    starts
}

/// Sum of 1 / k^alpha over the ranks `start + 1` to `end`.
fn weight(start: u64, end: u64, alpha: f64) -> f64 {
    if end <= start + 1 {
        return (start..end)
            .map(|rank| ((rank + 1) as f64).powf(-alpha))
            .sum();
    }
    // Midpoint rule in reverse: the sum is about the integral from half a rank before the first to
    // half a rank after the last. Beyond rank 1024 the relative error is below alpha^2 / 10^7.
    let (from, to) = (start as f64 + 0.5, end as f64 + 0.5);
    let (power, log) = (1.0 - alpha, (to / from).ln());
    let scaled = power * log;
    let integral = if scaled.abs() < 1e-12 {
        log
    } else {
        scaled.exp_m1() / power
    };
    from.powf(power) * integral
}

/// Builds the columns of the alias method for segments of these weights.
fn alias_columns(weights: &[f64]) -> [u64; SEGMENTS] {
    let total: f64 = weights.iter().sum();
    let mut share: Vec<f64> = weights
        .iter()
        .map(|weight| weight * SEGMENTS as f64 / total)
        .collect();
    let mut alias: Vec<u64> = (0..SEGMENTS as u64).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..SEGMENTS).partition(|segment| share[*segment] < 1.0);
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        alias[poor] = rich as u64;
        // The poor column is filled up to 1 with a part of the rich segment.
        share[rich] -= 1.0 - share[poor];
        if share[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    // The remaining segments have a share of 1 but for rounding, and themselves as alias. A segment
    // without ranks, which must never be drawn, has been given another alias.
    let mut columns = [0; SEGMENTS];
    for (column, (share, alias)) in columns.iter_mut().zip(share.iter().zip(alias)) {
        // A share of 1 has to fit into 48 bits as well.
        let kept = (share * (1_u64 << 48) as f64) as u64;
        *column = kept.min((1 << 48) - 1) << 16 | alias;
    }
    columns
}

/// A fixed bijection of 0..count that moves neighbours far apart.
///
/// It permutes the next power of two, and repeats until the result is below `count` (cycle walking;
/// J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", 2002): less than twice on
/// average, and exactly once for powers of two.
#[derive(Debug, Clone, Copy)]
struct Shuffle {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Shuffle {
    fn new(count: u64) -> Self {
        let bits = count.next_power_of_two().trailing_zeros();
        Self {
            count,
            mask: (1_u64 << bits) - 1,
            shift: (bits / 2).max(1),
        }
    }

    #[inline(always)]
    fn place(self, rank: u64) -> u64 {
        let mut place = rank;
        loop {
            // Each step can be inverted within the mask: XOR with higher bits, multiplication by an
            // odd number, addition.
            place = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            place ^= place.wrapping_shr(self.shift);
            place = place
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                .wrapping_add(OFFSET)
                & self.mask;
            place ^= place.wrapping_shr(self.shift);
            if place < self.count {
                return place;
            }
        }
    }
}

/// Moves rank 1 away from the start of the memory, where other data may be hot as well.
const OFFSET: u64 = 0x94d0_49bb_1331_11eb;

/// Seed of a worker's random stream; workers with the same seed draw different numbers.
pub(crate) fn stream_seed(seed: u64, worker: u64) -> u64 {
    mix(seed ^ mix(worker.wrapping_add(0x7469_6572)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Draws with exponent `drawn` and compares with 1 / k^alpha: the largest difference in
    /// standard deviations, over ranges of ranks that grow by half.
    fn worst_deviation(count: u64, drawn: f64, alpha: f64, draws: u32) -> f64 {
        let zipf = Zipf::new(count, drawn);
        let mut random = SplitMix64::new(7);
        let mut bounds = vec![0_u64];
        while bounds[bounds.len() - 1] < count {
            let last = bounds[bounds.len() - 1];
            bounds.push((last + 1 + last / 2).min(count));
        }
        let mut drawn = vec![0_u32; bounds.len() - 1];
        for _ in 0..draws {
            let rank = zipf.rank(&mut random);
            assert!(rank < count);
            drawn[bounds.partition_point(|bound| *bound <= rank) - 1] += 1;
        }
        let weights: Vec<f64> = bounds
            .windows(2)
            .map(|range| {
                (range[0]..range[1])
                    .map(|rank| ((rank + 1) as f64).powf(-alpha))
                    .sum()
            })
            .collect();
        let total: f64 = weights.iter().sum();
        weights
            .iter()
            .zip(drawn)
            .map(|(weight, drawn)| {
                let expected = weight / total * f64::from(draws);
                (f64::from(drawn) - expected).abs() / expected.max(1.0).sqrt()
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn shares_are_those_of_the_formula() {
        for (count, alpha) in [
            (1, 0.9),
            (2, 0.5),
            (100, 0.99),
            (2048, 1.0),
            (2049, 1.0),
            (5000, 0.1),
            (1 << 20, 0.9),
            (1_000_003, 0.99),
            (3_000_000, 1.0),
            (1 << 22, 2.5),
        ] {
            let worst = worst_deviation(count, alpha, alpha, 2_000_000);
            assert!(worst < 5.0, "{count} {alpha}: {worst} standard deviations");
        }
    }

    #[test]
    fn a_wrong_exponent_would_be_noticed() {
        let worst = worst_deviation(1 << 20, 0.92, 0.90, 2_000_000);
        assert!(worst > 20.0, "{worst} standard deviations");
    }

    #[test]
    fn segment_weights_add_up_to_the_harmonic_number() {
        for alpha in [0.3, 0.9, 1.0, 1.0 + 1e-13, 3.0] {
            let count = 1_000_000;
            let starts = segment_starts(count);
            assert_eq!(starts.len(), SEGMENTS + 1);
            let summed: f64 = starts
                .windows(2)
                .map(|ends| weight(ends[0], ends[1], alpha))
                .sum();
            let exact: f64 = (1..=count).map(|rank| (rank as f64).powf(-alpha)).sum();
            assert!(
                (summed / exact - 1.0).abs() < 1e-7,
                "{alpha}: {summed} {exact}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn shuffling_loses_and_doubles_no_place(count in 1_u64..20_000) {
            let shuffle = Shuffle::new(count);
            let mut seen = vec![false; count as usize];
            for rank in 0..count {
                prop_assert!(!std::mem::replace(&mut seen[shuffle.place(rank) as usize], true));
            }
        }

        #[test]
        fn segments_cover_all_ranks_in_order(count in 1_u64..1 << 40) {
            let starts = segment_starts(count);
            prop_assert_eq!(starts.len(), SEGMENTS + 1);
            prop_assert_eq!((starts[0], starts[SEGMENTS]), (0, count));
            prop_assert!(starts.windows(2).all(|ends| ends[0] < ends[1] || ends[0] == count));
        }
    }

    #[test]
    fn hot_places_do_not_share_pages() {
        let shuffle = Shuffle::new(1 << 20);
        // 64-byte places, 64 per page.
        let mut pages: Vec<u64> = (0..100).map(|rank| shuffle.place(rank) / 64).collect();
        pages.sort_unstable();
        pages.dedup();
        assert!(pages.len() > 95, "{}", pages.len());
    }
}
