//! Time as far as a process could notice anything in it, by which it judges the silence of others.
//!
//! A host that is overloaded, a virtual machine that is moved and a worker that computes for
//! seconds have this in common: when the process goes on, all reports of the nodes seem to be late,
//! though they wait in its own sockets.

use std::time::{Duration, Instant};

/// Time between two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// What a tick counts at most. Some time over [`TICK`] is common on a busy host.
const LONGEST_TICK: Duration = Duration::from_millis(300);

/// The time of all ticks, of which none counts for more than 300 ms.
#[derive(Debug)]
pub(crate) struct AwakeTime {
    sum: Duration,
    last: Instant,
}

impl Default for AwakeTime {
    /// None yet; it begins now.
    fn default() -> Self {
        AwakeTime {
            sum: Duration::ZERO,
            last: Instant::now(),
        }
    }
}

impl AwakeTime {
    /// Adds the time since the last tick. To be called every [`TICK`] by the threads that also
    /// learn of what others do.
    pub fn tick(&mut self) {
        let now = Instant::now();
        self.add(now - self.last);
        self.last = now;
    }

    /// Adds what a tick counts that comes so long after the last one.
    pub fn add(&mut self, time: Duration) {
        self.sum += time.min(LONGEST_TICK);
    }

    /// From the start to the last tick.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}
