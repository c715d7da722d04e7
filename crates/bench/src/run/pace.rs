//! Holding a worker back to a rate.

use std::time::{Duration, Instant};

/// A stretch of a paced worker is worth a sleep from this length on; shorter ones are spun away, since a sleep lasts 50 us and more.
const SLEEP_FROM: Duration = Duration::from_millis(2);
/// A worker that has fallen behind by more than this (a descheduled thread) forgets the debt instead of bursting.
const LONGEST_DEBT: Duration = Duration::from_millis(1);

/// Says when the next batch may begin so that a worker keeps to its bytes per second.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: f64,
    due: Option<Instant>,
}

impl Pace {
    /// `gbps` is this worker's own share, GB/s.
    pub(super) fn new(gbps: f64) -> Self {
        Self {
            bytes_per_second: gbps * 1e9,
            due: None,
        }
    }

    /// Books `bytes` that were just accessed at `now`; answers when the next batch may begin.
    fn book(&mut self, bytes: u64, now: Instant) -> Instant {
        let cost = Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_second)
            .unwrap_or(Duration::from_secs(3600));
        let from = match self.due {
            Some(due) if due + LONGEST_DEBT >= now => due,
            Some(_) => now - LONGEST_DEBT.min(cost),
            // The first batch took no time that was waited for: count from its end less its cost.
            None => now.checked_sub(cost).unwrap_or(now),
        };
        let due = from + cost;
        self.due = Some(due);
        due
    }

    /// Books `bytes` and waits until the next batch may begin or `over` says so.
    pub(super) fn wait(&mut self, bytes: u64, over: impl Fn() -> bool) {
        let due = self.book(bytes, Instant::now());
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || over() {
                return;
            }
            if left > SLEEP_FROM {
                std::thread::sleep((left - SLEEP_FROM / 2).min(Duration::from_millis(50)));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_due_one_cost_apart_and_debts_are_forgotten() {
        let mut pace = Pace::new(1.0);
        let start = Instant::now() + Duration::from_secs(10);
        // 1 MB at 1 GB/s is one millisecond.
        let first = pace.book(1_000_000, start);
        assert_eq!(first, start);
        let second = pace.book(1_000_000, start);
        assert_eq!(second, start + Duration::from_millis(1));
        let late = start + Duration::from_secs(5);
        let third = pace.book(1_000_000, late);
        assert!(
            third <= late && third + LONGEST_DEBT >= late,
            "a debt of seconds would let the worker burst"
        );
    }

    #[test]
    fn a_tiny_rate_neither_overflows_nor_ends_early() {
        let mut pace = Pace::new(1e-300);
        let now = Instant::now();
        pace.book(u64::MAX, now);
        assert!(pace.book(u64::MAX, now) > now + Duration::from_secs(3000));
    }
}
