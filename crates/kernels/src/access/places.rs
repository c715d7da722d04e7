//! Places of a worker's accesses: sequences, random streams, and the reads of a mix.

use super::spec::{Access, Distribution, Operation, Order};
use super::zipf::{Zipf, stream_seed};
use crate::rng::{SplitMix64, scale};

/// Multiplier of the linear congruential generator for uniform accesses: "Computationally easy,
/// spectrally good multipliers for congruential pseudorandom number generators" (G. L. Steele and
/// S. Vigna, 2022).
///
/// Only its high bits are used, which are good. One multiplication and one addition leave the
/// processor's out-of-order window to the loads.
const LCG_MULTIPLIER: u64 = 0xd134_2543_de82_ef95;

/// Number of accesses of `access_bytes`, `stride_bytes` apart, that fit into `len` bytes.
pub(crate) fn places_in(access: &Access, len: usize) -> u64 {
    match len.checked_sub(access.access_bytes) {
        Some(room) => (room / access.stride_bytes) as u64 + 1,
        None => 0,
    }
}

/// Bytes that places of `access` may be in: for copies the first half, since the second has the
/// images.
pub(crate) fn span_bytes(access: &Access, memory_len: usize) -> usize {
    match access.operation {
        // Whole lines, so that images are aligned like their places.
        Operation::Copy | Operation::StreamCopy => memory_len / 2 / 64 * 64,
        _ => memory_len,
    }
}

/// State of one worker: its random stream, its position in a sequence, and the next access of a
/// mix.
#[derive(Debug, Clone)]
pub struct Places {
    pub(crate) access: Access,
    pub(crate) memory_len: usize,
    seed: u64,
    worker: u64,
    count: u64,
    /// Number of the next place of a sequence.
    next: u64,
    pub(crate) draw: Draw,
    /// Hundredths of a read that are due, carried over so that the ratio of a mix is exact over all
    /// batches of a worker.
    pub(crate) reads_due: u32,
}

/// A random stream of places.
#[derive(Debug, Clone)]
pub(crate) enum Draw {
    /// All places are equally likely.
    Uniform(Uniform),
    /// Hot and cold places.
    Zipf {
        table: Box<Zipf>,
        random: SplitMix64,
    },
}

/// A random stream of uniformly distributed places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uniform {
    pub(crate) state: u64,
    /// Number of places.
    pub(crate) count: u64,
}

/// Places that [`Uniform::next_block`] draws at a time.
pub(crate) const BLOCK_PLACES: usize = 8;

/// Multiplier and increment that lead from a state of the generator to each of the next ones.
const STEPS: [(u64, u64); BLOCK_PLACES] = {
    let mut steps = [(1_u64, 0_u64); BLOCK_PLACES];
    let (mut multiplier, mut increment) = (1_u64, 0_u64);
    let mut step = 0;
    while step < BLOCK_PLACES {
        multiplier = multiplier.wrapping_mul(LCG_MULTIPLIER);
        increment = increment.wrapping_mul(LCG_MULTIPLIER).wrapping_add(1);
        steps[step] = (multiplier, increment);
        step += 1;
    }
    steps
};

impl Uniform {
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(LCG_MULTIPLIER).wrapping_add(1);
        scale(self.state, self.count)
    }

    /// The same as [`BLOCK_PLACES`] calls of [`Self::next`], each from the state before the block.
    ///
    /// So no draw waits for the one before it, and the loads of a block are issued together: on a
    /// Zen 3 core, loops of random reads had 1.4 times the rate.
    #[inline(always)]
    pub(crate) fn next_block(&mut self) -> [u64; BLOCK_PLACES] {
        let states = self.next_states();
        self.state = states[BLOCK_PLACES - 1];
        states.map(|state| scale(state, self.count))
    }

    /// What vector instructions need to draw whole blocks; `None` for 2^32 places or more, whose
    /// arithmetic these do not have.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> Option<BlockDraws> {
        let (multiplier, increment) = STEPS[BLOCK_PLACES - 1];
        Some(BlockDraws {
            states: self.next_states(),
            multiplier,
            increment,
            count: u32::try_from(self.count).ok()?,
        })
    }

    /// Goes on as if `draws` places had been drawn.
    ///
    /// With the binary digits of `draws`, as in "Random Number Generation with Arbitrary Strides"
    /// (F. B. Brown, 1994).
    #[inline(always)]
    pub(crate) fn skip(&mut self, draws: u64) {
        let (mut multiplier, mut increment) = (LCG_MULTIPLIER, 1_u64);
        let mut left = draws;
        while left > 0 {
            if left % 2 == 1 {
                self.state = self.state.wrapping_mul(multiplier).wrapping_add(increment);
            }
            increment = increment.wrapping_mul(multiplier).wrapping_add(increment);
            multiplier = multiplier.wrapping_mul(multiplier);
            left /= 2;
        }
    }

    /// The next states of the generator.
    #[inline(always)]
    fn next_states(&self) -> [u64; BLOCK_PLACES] {
        STEPS.map(|(multiplier, increment)| {
            let state = self.state.wrapping_mul(multiplier);
            state.wrapping_add(increment)
        })
    }
}

/// Draws of a [`Uniform`], a block at a time.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "the vectors that draw are those of x86-64")
)]
pub(crate) struct BlockDraws {
    /// The states of the next block.
    pub(crate) states: [u64; BLOCK_PLACES],
    /// Leads, with the increment, from each state to the one a block later.
    pub(crate) multiplier: u64,
    pub(crate) increment: u64,
    /// A place is the high half of the product of a state and this number of places.
    pub(crate) count: u32,
}

impl Draw {
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Self::Uniform(uniform) => uniform.next(),
            Self::Zipf { table, random } => table.next(random),
        }
    }
}

impl Places {
    /// The places of `access` in memory of `memory_len` bytes.
    ///
    /// Workers of one run have the same `seed` and different numbers; their random streams differ
    /// and are reproducible. A Zipf table takes 32 KiB, and some thousand calls of `powf` to build.
    pub fn new(access: &Access, memory_len: usize, seed: u64, worker: u64) -> Self {
        let count = places_in(access, span_bytes(access, memory_len));
        let start = stream_seed(seed, worker);
        let draw = match access.order {
            Order::Random(Distribution::Zipf { alpha }) => Draw::Zipf {
                table: Box::new(Zipf::new(count, alpha)),
                random: SplitMix64::new(start),
            },
            _ => Draw::Uniform(Uniform {
                state: start,
                count: count.max(1),
            }),
        };
        Self {
            access: *access,
            memory_len,
            seed,
            worker,
            count,
            next: 0,
            draw,
            reads_due: 0,
        }
    }

    /// Offset of the next place in bytes: the next neighbour (wrapping around) in ascending and
    /// descending orders, otherwise a random place.
    ///
    /// 0 if the memory is too small for one access ([`Self::place_count`] is 0).
    pub fn next_offset(&mut self) -> usize {
        if self.count == 0 {
            return 0;
        }
        let place = match self.access.order {
            Order::Ascending => self.turn(),
            Order::Descending => self.count - 1 - self.turn(),
            Order::Random(_) => self.draw.next(),
        };
        place as usize * self.access.stride_bytes
    }

    /// Number of places; 0 if the memory is too small for one access.
    pub fn place_count(&self) -> u64 {
        self.count
    }

    /// Resets the state if it is for another access or memory length: offsets for another memory
    /// could be out of bounds.
    pub(crate) fn fit(&mut self, access: &Access, memory_len: usize) {
        if self.access != *access || self.memory_len != memory_len {
            *self = Self::new(access, memory_len, self.seed, self.worker);
        }
    }

    /// Number of the next place of a sequence.
    fn turn(&mut self) -> u64 {
        let now = self.next;
        // A comparison is cheaper than a modulo by a variable.
        self.next = if now + 1 == self.count { 0 } else { now + 1 };
        now
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn access(order: Order, access_bytes: usize, stride_bytes: usize) -> Access {
        Access {
            order,
            access_bytes,
            stride_bytes,
            ..Access::sequential(Operation::Read)
        }
    }

    const UNIFORM: Order = Order::Random(Distribution::Uniform);
    const ZIPF: Order = Order::Random(Distribution::Zipf { alpha: 0.9 });

    #[test]
    fn sequences_wrap_round_in_their_direction() {
        let offsets = |order| {
            let mut places = Places::new(&access(order, 64, 100), 300, 0, 0);
            assert_eq!(places.place_count(), 3);
            [(); 5].map(|()| places.next_offset())
        };
        assert_eq!(offsets(Order::Ascending), [0, 100, 200, 0, 100]);
        assert_eq!(offsets(Order::Descending), [200, 100, 0, 200, 100]);
    }

    #[test]
    fn a_uniform_stream_reaches_every_place_about_as_often() {
        let mut places = Places::new(&access(UNIFORM, 8, 24), 24 * 500 - 16, 3, 1);
        assert_eq!(places.place_count(), 500);
        let mut seen = [0_u32; 500];
        for _ in 0..500_000 {
            seen[places.next_offset() / 24] += 1;
        }
        // 1000 expected, with a standard deviation of 32.
        assert!(
            seen.iter().all(|count| (820..1180).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_block_is_the_same_as_single_draws() {
        let largest = u64::from(u32::MAX);
        for count in [1, 1_000_003, largest, largest + 1, 1 << 45] {
            let mut single = Uniform {
                state: stream_seed(7, count),
                count,
            };
            let mut block = single;
            for _ in 0..100 {
                let drawn = block.next_block();
                assert_eq!(drawn, [(); BLOCK_PLACES].map(|()| single.next()));
                // Batches end anywhere in a block.
                assert_eq!(block.next(), single.next());
            }
        }
    }

    proptest! {
        #[test]
        fn skipped_draws_are_the_same_as_drawn_ones(seed: u64, draws in 0_u64..5_000) {
            let mut drawn = Uniform { state: seed, count: 1 << 40 };
            let mut skipped = drawn;
            for _ in 0..draws {
                drawn.next();
            }
            skipped.skip(draws);
            prop_assert_eq!(drawn.next(), skipped.next());
        }
    }

    #[test]
    fn neighbouring_draws_are_independent() {
        let mut places = Places::new(&access(UNIFORM, 64, 64), 64 * 16, 3, 1);
        let mut pairs = [0_u32; 256];
        let mut last = places.next_offset() / 64;
        for _ in 0..256_000 {
            let next = places.next_offset() / 64;
            pairs[last * 16 + next] += 1;
            last = next;
        }
        assert!(pairs.iter().all(|count| (820..1180).contains(count)));
    }

    #[test]
    fn workers_draw_differently_and_repeatably() {
        for order in [UNIFORM, ZIPF] {
            let offsets = |seed, worker| {
                let mut places = Places::new(&access(order, 64, 64), 64 << 20, seed, worker);
                [(); 32].map(|()| places.next_offset())
            };
            assert_eq!(offsets(1, 2), offsets(1, 2));
            assert_ne!(offsets(1, 2), offsets(1, 3));
            assert_ne!(offsets(1, 2), offsets(2, 2));
        }
    }

    #[test]
    fn memory_too_small_for_one_access_has_no_place() {
        for order in [Order::Ascending, Order::Descending, UNIFORM, ZIPF] {
            let mut places = Places::new(&access(order, 64, 64), 63, 0, 0);
            assert_eq!((places.place_count(), places.next_offset()), (0, 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn every_access_stays_inside(len in 0_usize..100_000, size in 2_u32..12, gap in 0_usize..500, which in 0..4, copy in any::<bool>()) {
            let order = [Order::Ascending, Order::Descending, UNIFORM, ZIPF][which as usize];
            let access_bytes = 1_usize << size;
            let mut access = access(order, access_bytes, access_bytes + gap * 4);
            if copy {
                access.operation = Operation::Copy;
            }
            let mut places = Places::new(&access, len, 5, 0);
            prop_assume!(places.place_count() > 0);
            let span = span_bytes(&access, len);
            let expected_at_most = if copy { len / 2 } else { len };
            prop_assert!(span <= expected_at_most && span + 64 > expected_at_most);
            for _ in 0..200 {
                prop_assert!(places.next_offset() + access_bytes <= span);
            }
        }
    }
}
