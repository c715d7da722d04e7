//! Morsels of one pass over the fact table: who gets which, and how long each took.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tierloom_star::MORSEL_ROWS;

/// What a pass is asked for beside its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassOptions {
    /// Most workers; those of the session if not given.
    pub workers: Option<usize>,
    /// Whether each morsel is timed: one reading of the clock per morsel.
    pub timed: bool,
}

/// Time of every morsel of a pass.
///
/// Each is timed by the worker that runs it, so that parts of the table are told apart although workers overlap where one part ends and the next begins: the
/// time of a part is the sum of its morsels' over the workers, as if all of them had worked on it from its first morsel to its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MorselTimes {
    /// Rows of the table.
    pub rows: usize,
    /// Time of each morsel in the order of the rows.
    pub morsels_ns: Vec<u64>,
    /// Workers that shared them.
    pub workers: usize,
}

impl MorselTimes {
    /// Rows of a morsel; the last of a table may have fewer.
    pub const ROWS: usize = MORSEL_ROWS;

    /// Time of the morsels that begin in `rows`, summed over the workers.
    pub fn of(&self, rows: &Range<usize>) -> Duration {
        let first = rows.start.div_ceil(MORSEL_ROWS);
        let end = rows.end.div_ceil(MORSEL_ROWS).min(self.morsels_ns.len());
        let part = self.morsels_ns.get(first..end).unwrap_or_default();
        Duration::from_nanos(part.iter().sum())
    }
}

/// Hands out morsels in the order of the rows: a part at the start of the table is handed out first, and no morsel belongs to two parts.
#[derive(Debug)]
pub(super) struct Cursor {
    next: AtomicUsize,
    rows: usize,
    /// Time of each morsel, ns; empty if they are not timed.
    times: Vec<AtomicU64>,
}

impl Cursor {
    pub fn new(rows: usize, timed: bool) -> Arc<Self> {
        let morsels = if timed { rows.div_ceil(MORSEL_ROWS) } else { 0 };
        Arc::new(Cursor {
            next: AtomicUsize::new(0),
            rows,
            times: (0..morsels).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// The next morsel's rows.
    pub fn next(&self) -> Option<Range<usize>> {
        let start = self.next.fetch_add(MORSEL_ROWS, Ordering::Relaxed);
        (start < self.rows).then(|| start..self.rows.min(start + MORSEL_ROWS))
    }

    pub fn is_timed(&self) -> bool {
        !self.times.is_empty()
    }

    /// The morsel that starts at row `start` took so long.
    pub fn note(&self, start: usize, time: Duration) {
        if let Some(slot) = self.times.get(start / MORSEL_ROWS) {
            slot.store(time.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// What was noted; `None` if nothing was asked for.
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
        let cursor = Cursor::new(rows, true);
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
        let cursor = Cursor::new(3 * MORSEL_ROWS, false);
        cursor.note(0, Duration::from_nanos(10));
        assert_eq!((cursor.is_timed(), cursor.times(1)), (false, None));
    }
}
