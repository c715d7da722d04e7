//! Radix partitioning: distributes (key, row) pairs to partitions by the high bits of the key's
//! hash.
//!
//! ```text
//!   histogram -> prefix sum: start of each partition -> scatter through a buffer of one cache line
//!                                                       per partition
//! ```
//! Software write combining, after Balkesen, Teubner, Alonso and Özsu, "Main-memory hash joins on
//! multi-core CPUs: tuning to the underlying hardware" (2013): each partition collects a cache line
//! of pairs in a small buffer, and full lines are written with non-temporal stores. The target's
//! lines are not read first, and its pages compete for the TLB once per line and not once per pair.
//!
//! The partition of a pair is monotone in its bucket ([`crate::hash::Layout`] with seed 0), as both
//! come from the high bits of the same hash. A table filled partition by partition is filled in
//! cache.

use std::ops::Range;

/// Smallest number of partitions.
pub const MIN_FANOUT: usize = 64;
/// Largest number of partitions: their buffers take 1 MiB, the size of an L2 cache.
pub const MAX_FANOUT: usize = 16384;
/// Pairs per cache line.
const LINE_PAIRS: usize = 4;

/// A key and the number of its row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pair {
    /// Join or group-by key, already reduced to 64 bits.
    pub key: u64,
    /// Number of the row in the input.
    pub row: u64,
}

/// A cache line of pairs, the unit of stores to the target.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default)]
pub struct PairLine(pub [Pair; LINE_PAIRS]);

impl PairLine {
    /// The whole, aligned cache lines of `memory`; any contents are valid pairs.
    pub fn slice_mut(memory: &mut [u8]) -> &mut [PairLine] {
        // SAFETY: a line is plain integers without padding, so any bytes are a valid line and any
        // line is valid bytes.
        unsafe { memory.align_to_mut::<PairLine>() }.1
    }

    /// The pairs of `lines`, in order.
    pub fn pairs(lines: &[PairLine]) -> impl Iterator<Item = Pair> {
        lines.iter().flat_map(|line| line.0)
    }
}

/// The number of partitions is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FanoutError {
    /// Number of partitions requested.
    pub fanout: usize,
}

impl std::fmt::Display for FanoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot partition to {} parts: take a power of two from {MIN_FANOUT} to {MAX_FANOUT}",
            self.fanout
        )
    }
}

impl std::error::Error for FanoutError {}

/// A partitioning with a fixed number of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Radix {
    fanout: usize,
    shift: u32,
}

/// Positions of the partitions of one input in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// First line of each partition, and the end of the last.
    starts: Vec<usize>,
    /// Pairs of each partition.
    counts: Vec<usize>,
}

impl Parts {
    /// Number of partitions, the empty ones included.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are no partitions; never the case.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Lines that the target needs, given that each partition starts on a new line.
    pub fn lines(&self) -> usize {
        self.starts[self.counts.len()]
    }

    /// The lines of a partition.
    ///
    /// The last one may end with pairs that are padding: see [`Parts::count`].
    pub fn lines_of(&self, part: usize) -> Range<usize> {
        self.starts[part]..self.starts[part + 1]
    }

    /// Number of pairs in a partition; they are the first ones of its lines.
    pub fn count(&self, part: usize) -> usize {
        self.counts[part]
    }
}

impl Radix {
    /// A partitioning to `fanout` partitions.
    ///
    /// # Errors
    /// [`FanoutError`] unless `fanout` is a power of two from [`MIN_FANOUT`] to [`MAX_FANOUT`].
    pub fn new(fanout: usize) -> Result<Self, FanoutError> {
        if !fanout.is_power_of_two() || !(MIN_FANOUT..=MAX_FANOUT).contains(&fanout) {
            return Err(FanoutError { fanout });
        }
        Ok(Self {
            fanout,
            // At most 58, since there are at least 64 partitions: the shift does not overflow.
            shift: 64 - fanout.trailing_zeros(),
        })
    }

    /// Number of partitions; a power of two.
    pub fn fanout(&self) -> usize {
        self.fanout
    }

    /// Partition of a key: the high bits of its hash.
    #[inline(always)]
    pub fn part_of(&self, key: u64) -> usize {
        (crate::hash::hash(key, 0) >> self.shift) as usize
    }

    /// Builds the histogram of `keys` and from it the position of each partition.
    pub fn parts(&self, keys: &[u64]) -> Parts {
        let mut counts = vec![0; self.fanout];
        for key in keys {
            counts[self.part_of(*key)] += 1;
        }
        let mut starts = Vec::with_capacity(self.fanout + 1);
        let mut line = 0;
        for count in &counts {
            starts.push(line);
            line += usize::div_ceil(*count, LINE_PAIRS);
        }
        starts.push(line);
        Parts { starts, counts }
    }

    /// Writes `keys`, whose rows are `first_row` and the following, to their partitions in
    /// `target`.
    ///
    /// Pairs of a partition keep their order. On return, other threads can read the target as after
    /// any other write.
    ///
    /// # Panics
    /// If `parts` was not made from `keys`, or `target` does not have its number of lines.
    pub fn scatter(&self, keys: &[u64], first_row: u64, parts: &Parts, target: &mut [PairLine]) {
        assert_eq!(target.len(), parts.lines(), "lines of the target");
        assert_eq!(parts.len(), self.fanout, "partitions");
        let mut buffers = vec![PairLine::default(); self.fanout];
        let mut done = vec![0_usize; self.fanout];
        let store = Store::detect();
        for (row, key) in (first_row..).zip(keys) {
            let part = self.part_of(*key);
            let at = done[part];
            buffers[part].0[at % LINE_PAIRS] = Pair { key: *key, row };
            done[part] = at + 1;
            if at % LINE_PAIRS == LINE_PAIRS - 1 {
                store.line(
                    &buffers[part],
                    &mut target[parts.starts[part] + at / LINE_PAIRS],
                );
            }
        }
        for (part, buffer) in buffers.iter().enumerate() {
            assert_eq!(done[part], parts.counts[part], "keys of partition {part}");
            if !done[part].is_multiple_of(LINE_PAIRS) {
                // The rest of a partition is less than a line: an ordinary store, since NT stores
                // pay off for whole lines only.
                target[parts.starts[part] + done[part] / LINE_PAIRS] = *buffer;
            }
        }
        store.finish();
    }
}

/// Kind of the stores of full lines.
#[derive(Clone, Copy)]
enum Store {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Stream,
}

impl Store {
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::Simd::Avx512.available() {
            return Store::Stream;
        }

        Store::Plain
    }

    #[inline(always)]
    fn line(self, from: &PairLine, to: &mut PairLine) {
        match self {
            Store::Plain => *to = *from,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` found AVX-512F.
            Store::Stream => unsafe { stream_line(from, to) },
        }
    }

    /// Orders NT stores before all later stores, so that other threads see complete partitions.
    fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        if matches!(self, Store::Stream) {
            // SAFETY: `sfence` is part of SSE, which every x86-64 processor has.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

/// # Safety
/// The processor must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream_line(from: &PairLine, to: &mut PairLine) {
    use std::arch::x86_64::{__m512i, _mm512_load_si512, _mm512_stream_si512};
    // SAFETY: a line is 64 bytes and aligned to 64, as the type demands.
    unsafe {
        let line = _mm512_load_si512(std::ptr::from_ref(from).cast::<__m512i>());
        _mm512_stream_si512(std::ptr::from_mut(to).cast::<__m512i>(), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn partitioned(radix: Radix, keys: &[u64]) -> Vec<Vec<Pair>> {
        let parts = radix.parts(keys);
        let mut target = vec![PairLine::default(); parts.lines()];
        radix.scatter(keys, 100, &parts, &mut target);
        (0..radix.fanout())
            .map(|part| {
                let lines = &target[parts.lines_of(part)];
                PairLine::pairs(lines).take(parts.count(part)).collect()
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_pair_is_once_in_its_partition_and_in_order(keys in prop::collection::vec(0_u64..5000, 0..3000), bits in 6_u32..11) {
            let radix = Radix::new(1 << bits).unwrap();
            let parts = partitioned(radix, &keys);
            let mut expected = vec![Vec::new(); radix.fanout()];
            for (row, key) in (100..).zip(&keys) {
                expected[radix.part_of(*key)].push(Pair { key: *key, row });
            }
            prop_assert_eq!(parts, expected);
        }
    }

    #[test]
    fn fanouts_that_no_cache_has_buffers_for_are_refused() {
        for fanout in [0, 32, 100, 32768] {
            let error = Radix::new(fanout).unwrap_err().to_string();
            assert!(error.contains("power of two"), "{error}");
        }
        assert!(Radix::new(MAX_FANOUT).is_ok());
    }

    #[test]
    fn keys_of_one_partition_only_fill_it_and_leave_the_others_empty() {
        let radix = Radix::new(64).unwrap();
        let keys: Vec<u64> = (0..)
            .filter(|k| radix.part_of(*k) == 63)
            .take(1001)
            .collect();
        let parts = partitioned(radix, &keys);
        assert_eq!(parts[63].len(), 1001);
        assert!(parts[..63].iter().all(Vec::is_empty));
    }
}
