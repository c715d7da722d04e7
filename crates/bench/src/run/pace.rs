//! Limits a thread to a rate.
//!
//! Loaded-latency curves need a load that is even over short times, so the limiter works on small
//! batches and spins instead of sleeping for short waits.

use std::time::{Duration, Instant};

/// Shortest wait that is slept; a sleep takes 50 us and more, so shorter waits spin.
const SLEEP_FROM: Duration = Duration::from_millis(2);
/// Largest delay that a thread may make up for.
///
/// A thread that was descheduled for longer would otherwise run at full speed to catch up.
const LONGEST_DEBT: Duration = Duration::from_millis(1);

/// Computes when the next batch may start, so that a thread keeps to its rate.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: f64,
    due: Option<Instant>,
}

impl Pace {
    /// A limiter for one thread; `gbps` is its share of the rate of the task, GB/s.
    pub(super) fn new(gbps: f64) -> Self {
        Self {
            bytes_per_second: gbps * 1e9,
            due: None,
        }
    }

    /// Accounts for `bytes` accessed until `now`; returns when the next batch may start.
    fn book(&mut self, bytes: u64, now: Instant) -> Instant {
        let cost = Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_second)
            .unwrap_or(Duration::from_secs(3600));
        let from = match self.due {
            Some(due) if due + LONGEST_DEBT >= now => due,
            Some(_) => now - LONGEST_DEBT.min(cost),
            // There was no wait before the first batch: treat it as started one cost earlier.
            None => now.checked_sub(cost).unwrap_or(now),
        };
        let due = from + cost;
        self.due = Some(due);
        due
    }

    /// Accounts for `bytes`, and waits until the next batch may start or `over` returns true.
    pub(super) fn wait(&mut self, bytes: u64, over: impl Fn() -> bool) {
        let due = self.book(bytes, Instant::now());
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || over() {
                return;
            }
            if left > SLEEP_FROM {
                // Wake up early and spin for the rest: a sleep ends late.
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
        // 1 MB at 1 GB/s takes one millisecond.
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
