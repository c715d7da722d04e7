//! How work is shared: equal contiguous parts for the workers, taken in chunks; and what they find.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use tierloom_kernels::access::SharedBytes;

use crate::data::Sums;

/// Tuples between two questions whether to stop; small enough for an answer within microseconds.
const CHUNK: usize = 1 << 14;
/// Parts begin at multiples of this, so that two workers never write to one line of 8-byte tuples.
const LINE_TUPLES: usize = 8;

/// The part of `worker` of `count` tuples: equal parts, as in the publications.
pub(crate) fn part(count: usize, workers: usize, worker: usize) -> Range<usize> {
    let each = count.div_ceil(workers.max(1)).next_multiple_of(LINE_TUPLES);
    let start = (worker * each).min(count);
    start..(start + each).min(count)
}

/// The chunks of `range`, until `stop` says true.
pub(crate) fn chunks<'s>(
    range: Range<usize>,
    stop: &'s dyn Fn() -> bool,
) -> impl Iterator<Item = Range<usize>> + 's {
    let end = range.end;
    range
        .step_by(CHUNK)
        .map(move |start| start..(start + CHUNK).min(end))
        .take_while(move |_| !stop())
}

/// The words of structures, for workers that share them.
pub(crate) fn words_of(structures: Vec<&mut [u8]>) -> Vec<&[AtomicU64]> {
    let words = |bytes| SharedBytes::new(bytes).words();
    structures.into_iter().map(words).collect()
}

/// What workers found in a pass, one place for each.
#[derive(Debug)]
pub(crate) struct Found(Vec<(AtomicU64, AtomicU64)>);

impl Found {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Default::default()).collect())
    }

    /// Takes what `worker` found in this pass instead of what it found before.
    pub(crate) fn set(&self, worker: usize, sums: Sums) {
        let (count, sum) = &self.0[worker];
        count.store(sums.count, Ordering::Relaxed);
        sum.store(sums.sum, Ordering::Relaxed);
    }

    /// Compares what all workers found with what `what` must be.
    pub(crate) fn compare(&self, expected: Sums, what: &str) -> Result<(), String> {
        let mut found = Sums::default();
        for (count, sum) in &self.0 {
            found += Sums {
                count: count.load(Ordering::Relaxed),
                sum: sum.load(Ordering::Relaxed),
            };
        }
        if found.count != expected.count {
            return Err(format!(
                "{} {what}, expected {}",
                found.count, expected.count
            ));
        }
        if found.sum != expected.sum {
            return Err(format!(
                "the checksum of the {what} is {:016x}, expected {:016x}",
                found.sum, expected.sum
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_tuple_once_and_begin_at_lines() {
        for (count, workers) in [(0, 3), (1, 1), (7, 3), (1000, 7), (64, 64), (100_003, 2)] {
            let parts: Vec<_> = (0..workers).map(|w| part(count, workers, w)).collect();
            let all: Vec<usize> = parts.iter().cloned().flatten().collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{count} for {workers}");
            assert!(parts.iter().all(|p| p.start % 8 == 0 || p.is_empty()));
        }
    }

    #[test]
    fn chunks_end_where_they_are_told_to() {
        let all: Vec<usize> = chunks(5..50_000, &|| false).flatten().collect();
        assert_eq!(all, (5..50_000).collect::<Vec<_>>());
        let left = std::cell::Cell::new(2);
        let stop = || left.replace(left.get() - 1) == 0;
        assert_eq!(chunks(0..100_000, &stop).count(), 2);
    }
}
