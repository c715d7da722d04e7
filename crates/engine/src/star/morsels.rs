//! Morsels of one pass over the fact table: an atomic cursor and optional times per morsel.
//!
//! Handing out morsels in row order lets the adaptive driver place the first rows of the table
//! differently and time them separately.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tierloom_star::MORSEL_ROWS;

/// Options of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassOptions {
    /// Upper limit of the workers; `None` for the session's number of threads.
    pub workers: Option<usize>,
    /// Whether each morsel is timed, which costs one clock reading per morsel.
    pub timed: bool,
}

/// Time of every morsel of a pass.
///
/// Each morsel is timed by the worker that runs it. Parts of the table can therefore be separated
/// although workers overlap at their boundary. The time of a part is the sum over its morsels, as
/// if all workers had processed it from its first morsel to its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MorselTimes {
    /// Rows of the fact table.
    pub rows: usize,
    /// Time of each morsel in row order, ns.
    pub morsels_ns: Vec<u64>,
    /// Workers that shared the morsels.
    pub workers: usize,
}

impl MorselTimes {
    /// Rows per morsel; the last one of a table may have fewer.
    pub const ROWS: usize = MORSEL_ROWS;

    /// Time of the morsels that begin in `rows`, summed over the workers.
    pub fn of(&self, rows: &Range<usize>) -> Duration {
        let first = rows.start.div_ceil(MORSEL_ROWS);
        let end = rows.end.div_ceil(MORSEL_ROWS).min(self.morsels_ns.len());
        let part = self.morsels_ns.get(first..end).unwrap_or_default();
        Duration::from_nanos(part.iter().sum())
    }
}

/// Hands out morsels in row order, so that a part at the start of the table is processed first.
#[derive(Debug)]
pub(super) struct MorselQueue {
    next: AtomicUsize,
    rows: usize,
    /// Time of each morsel, ns; empty if morsels are not timed.
    times: Vec<AtomicU64>,
}

impl MorselQueue {
    pub fn new(rows: usize, timed: bool) -> Arc<Self> {
        let morsels = if timed { rows.div_ceil(MORSEL_ROWS) } else { 0 };
        Arc::new(MorselQueue {
            next: AtomicUsize::new(0),
            rows,
            times: (0..morsels).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// The rows of the next morsel; `None` at the end of the table.
    pub fn next(&self) -> Option<Range<usize>> {
        // Relaxed is enough: the counter only has to be atomic, and it publishes no other data.
        let start = self.next.fetch_add(MORSEL_ROWS, Ordering::Relaxed);
        (start < self.rows).then(|| start..self.rows.min(start + MORSEL_ROWS))
    }

    pub fn is_timed(&self) -> bool {
        !self.times.is_empty()
    }

    /// Records the time of the morsel that starts at row `start`.
    pub fn note(&self, start: usize, time: Duration) {
        if let Some(slot) = self.times.get(start / MORSEL_ROWS) {
            slot.store(time.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// The recorded times; `None` if the pass is not timed.
    pub fn times(&self, workers: usize) -> Option<MorselTimes> {
        let noted = self.times.iter().map(|t| t.load(Ordering::Relaxed));
        self.is_timed().then(|| MorselTimes {
            rows: self.rows,
            morsels_ns: noted.collect(),
            workers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole_and_no_morsel_counts_twice() {
        let rows = 5 * MORSEL_ROWS + 7;
        let cursor = MorselQueue::new(rows, true);
        let mut seen = 0;
        while let Some(morsel) = cursor.next() {
            assert_eq!(morsel.start, seen);
            cursor.note(morsel.start, Duration::from_nanos(10));
            seen = morsel.end;
        }
        assert_eq!(seen, rows);
        let times = cursor.times(2).unwrap();
        let cut = 2 * MORSEL_ROWS;
        assert_eq!(times.of(&(0..cut)), Duration::from_nanos(20));
        assert_eq!(times.of(&(cut..rows)), Duration::from_nanos(40));
        assert_eq!(times.of(&(rows..rows + 9)), Duration::ZERO);
    }

    #[test]
    fn an_untimed_pass_keeps_no_times() {
        let cursor = MorselQueue::new(3 * MORSEL_ROWS, false);
        cursor.note(0, Duration::from_nanos(10));
        assert_eq!((cursor.is_timed(), cursor.times(1)), (false, None));
    }
}
