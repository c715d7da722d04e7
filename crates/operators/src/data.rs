//! Input data: every tuple is a function of the seed and its position, so that any number of
//! threads writes the same data, and what it must give is known while it is written.

use std::ops::Range;

use tierloom_kernels::access::{Access, Distribution, Operation, Order, Places};

/// Tuples that are generated at a time; skewed keys have a random stream for each block.
const BLOCK: usize = 1 << 16;
/// Bytes of a place of [`Places`], from which skewed positions are drawn.
const PLACE_BYTES: usize = 64;

/// A function in which every bit of the argument affects every bit of the result, one to one: the
/// finaliser of SplitMix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The random number at position `at` of the stream `seed`.
pub(crate) fn random(seed: u64, at: usize) -> u64 {
    mix(seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// A random permutation of 0 to count-1 that takes no memory.
///
/// It permutes the next power of two and repeats until the result is in range (cycle walking; J.
/// Black and P. Rogaway, "Ciphers with arbitrary finite domains", 2002).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = count.next_power_of_two().trailing_zeros().max(1);
        Self {
            count,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            keys: [1, 2, 3].map(|round| random(seed, round)),
        }
    }

    /// The number at position `at`, which has to be below the count.
    pub(crate) fn at(&self, at: u64) -> u64 {
        let mut place = at;
        loop {
            for key in self.keys {
                // Each step can be undone within the mask: XOR with a constant, multiplication by
                // an odd number, XOR with the upper half.
                place = (place ^ key).wrapping_mul(key | 1) & self.mask;
                place ^= place >> self.shift;
            }
            if place < self.count {
                return place;
            }
        }
    }
}

/// How positions in 0 to count-1 are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KeyDraw {
    pub(crate) count: u64,
    /// Skew of a Zipf distribution; `None` for a uniform one.
    pub(crate) zipf_alpha: Option<f64>,
    pub(crate) seed: u64,
}

impl KeyDraw {
    /// The positions drawn for the tuples of `block`, which is one block of [`each`].
    pub(crate) fn block(&self, block: &Range<usize>) -> Vec<u64> {
        let Some(alpha) = self.zipf_alpha else {
            let scaled = |at| (u128::from(random(self.seed, at)) * u128::from(self.count)) >> 64;
            return block.clone().map(|at| scaled(at) as u64).collect();
        };
        let access = Access {
            order: Order::Random(Distribution::Zipf { alpha }),
            access_bytes: PLACE_BYTES,
            stride_bytes: PLACE_BYTES,
            ..Access::sequential(Operation::Read)
        };
        let bytes = self.count as usize * PLACE_BYTES;
        let mut places = Places::new(&access, bytes, self.seed, (block.start / BLOCK) as u64);
        let position = |_| (places.next_offset() / PLACE_BYTES) as u64;
        block.clone().map(position).collect()
    }
}

/// Calls `write` for all blocks of tuples of `N` bytes, on all CPUs, with the positions of the
/// block, and adds up what it returns.
pub(crate) fn each<const N: usize>(
    tuples: &mut [u8],
    write: impl Fn(Range<usize>, &mut [[u8; N]]) -> Sums + Sync,
) -> Sums {
    let words = tuples.as_chunks_mut::<N>().0;
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(words.len().div_ceil(BLOCK))
        .max(1);
    let share = words.len().div_ceil(threads).next_multiple_of(BLOCK);
    std::thread::scope(|scope| {
        let parts: Vec<_> = words
            .chunks_mut(share)
            .enumerate()
            .map(|(index, part)| {
                let write = &write;
                scope.spawn(move || {
                    let mut sums = Sums::default();
                    for (block, words) in part.chunks_mut(BLOCK).enumerate() {
                        let start = index * share + block * BLOCK;
                        sums += write(start..start + words.len(), words);
                    }
                    sums
                })
            })
            .collect();
        parts.into_iter().fold(Sums::default(), |mut all, part| {
            // Writing does not panic; if it did, the sums would not fit the data.
            all += part.join().unwrap_or_default();
            all
        })
    })
}

/// A count and two sums that do not depend on the order of what is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
    }
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once_at_any_count() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        for count in [1, 2, 3, 64, 1000, 4097] {
            let permutation = Permutation::new(count, seed);
            let mut all: Vec<u64> = (0..count).map(|at| permutation.at(at)).collect();
            let moved = all.iter().zip(0..).filter(|(to, at)| **to != *at).count();
            assert!(
                count < 1000 || moved as u64 > count * 9 / 10,
                "{count} {moved}"
            );
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{count}");
        }
    }

    /// A random permutation leaves one number at its place on average, whatever the count; a
    /// single one may leave many where there are only a few bits.
    #[test]
    fn permutations_leave_one_number_at_its_place_on_average() {
        const SEEDS: u64 = 400;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        for count in [64, 1000, 4097] {
            let unmoved: usize = (0..SEEDS)
                .map(|draw| Permutation::new(count, mix(seed ^ draw)))
                .map(|permutation| (0..count).filter(|at| permutation.at(*at) == *at).count())
                .sum();
            let mean = unmoved as f64 / SEEDS as f64;
            assert!((0.5..2.0).contains(&mean), "{mean} of {count}");
        }
    }

    #[test]
    fn data_does_not_depend_on_the_number_of_threads_and_sums_are_those_of_the_words() {
        let mut bytes = vec![0; (3 * BLOCK + 17) * 8];
        let sums = each::<8>(&mut bytes, |at, words| {
            let mut sums = Sums::default();
            for (at, word) in at.zip(words) {
                *word = random(9, at).to_le_bytes();
                sums.add(u64::from_le_bytes(*word));
            }
            sums
        });
        let mut expected = Sums::default();
        (0..3 * BLOCK + 17).for_each(|at| expected.add(random(9, at)));
        assert_eq!(sums, expected);
        assert_eq!(&bytes[800..808], random(9, 100).to_le_bytes());
    }

    #[test]
    fn draws_are_in_range_and_skewed_ones_have_a_favourite() {
        for zipf_alpha in [None, Some(1.2)] {
            let draw = KeyDraw {
                count: 1000,
                zipf_alpha,
                seed: fastrand::u64(..),
            };
            let drawn = draw.block(&(0..BLOCK));
            let mut counts = vec![0; 1000];
            drawn
                .iter()
                .for_each(|position| counts[*position as usize] += 1);
            let most = counts.into_iter().max().unwrap_or(0);
            // 66 are expected of each place in a uniform draw, about 12,000 of the first of a
            // skewed one.
            assert_eq!(most > 5000, zipf_alpha.is_some(), "{most} {draw:?}");
        }
    }
}
