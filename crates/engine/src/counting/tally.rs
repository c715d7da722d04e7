//! The sums of an operator, to which its threads add.

use super::Counting;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tierloom_counters::stalls::{EventGroup, MAX_EVENTS, MAX_GROUPS, Slice, StallCounts};

/// The part of a join's work: other operators have only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedStep {
    /// Until the probe side has returned rows.
    First,
    /// From then on.
    Probe,
}

/// What an operator has done in both steps.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    first: Tally,
    probe: Tally,
    probes: AtomicBool,
    counting: OnceLock<Arc<Counting>>,
}

impl Tallies {
    /// What the operator is counted with; `None` if it is not.
    pub(crate) fn counting(&self) -> Option<&Arc<Counting>> {
        self.counting.get()
    }

    /// From now on the operator is counted with `counting`.
    pub(crate) fn counted_with(&self, counting: &Arc<Counting>) {
        self.counting.get_or_init(|| Arc::clone(counting));
    }

    /// From now on the operator probes.
    pub(crate) fn probes(&self) {
        if !self.probes.load(Ordering::Relaxed) {
            self.probes.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn step(&self) -> CountedStep {
        match self.probes.load(Ordering::Relaxed) {
            true => CountedStep::Probe,
            false => CountedStep::First,
        }
    }

    pub(super) fn of(&self, step: CountedStep) -> &Tally {
        match step {
            CountedStep::First => &self.first,
            CountedStep::Probe => &self.probe,
        }
    }

    /// What was counted of these steps so far; nothing if the operator is not counted.
    pub(crate) fn counts(&self, steps: &[CountedStep]) -> StallCounts {
        let mut sum = StallCounts::default();
        if let Some(counting) = self.counting() {
            for step in steps {
                sum.add(&self.of(*step).counts(&counting.plan().groups));
            }
        }
        sum
    }
}

/// Sums over all threads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    busy_ns: AtomicU64,
    counted_ns: [AtomicU64; MAX_GROUPS],
    events: [AtomicU64; MAX_EVENTS],
}

impl Tally {
    /// Adds a stretch of a thread's time, and its counts if they were read at both ends.
    pub(super) fn add(&self, ns: u64, slice: Option<&Slice>) {
        // Relaxed: sums are read after the tasks that add to them have ended.
        self.busy_ns.fetch_add(ns, Ordering::Relaxed);
        let Some(slice) = slice else { return };
        for (sum, counted) in self.counted_ns.iter().zip(slice.counted) {
            if counted {
                sum.fetch_add(ns, Ordering::Relaxed);
            }
        }
        for (sum, count) in self.events.iter().zip(slice.events) {
            if count > 0.0 {
                sum.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn is_uncounted(&self) -> bool {
        self.counted_ns[0].load(Ordering::Relaxed) == 0
    }

    fn counts(&self, groups: &[EventGroup]) -> StallCounts {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64;
        let counted_ns = std::array::from_fn(|at| load(&self.counted_ns[at]));
        let events = std::array::from_fn(|at| load(&self.events[at]));
        StallCounts::of_operator(load(&self.busy_ns), counted_ns, events, groups)
    }
}
