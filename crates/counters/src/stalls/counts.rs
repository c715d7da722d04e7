//! Counts of one thread at a moment, between two moments, and over many of such stretches.

use super::{EventGroup, MAX_EVENTS, MAX_GROUPS};
use std::ops::Range;

/// What the counters of a thread showed at one moment, since they were opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of occurrences of each event, in the order of the plan.
    pub events: [u64; MAX_EVENTS],
    /// Time that each group was switched on, and the part of it on the hardware, ns.
    pub times_ns: [(u64, u64); MAX_GROUPS],
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot {
            events: [0; MAX_EVENTS],
            times_ns: [(0, 0); MAX_GROUPS],
        }
    }
}

impl Snapshot {
    /// Time that the thread was on a processor since the counters were opened, ns.
    #[must_use]
    pub fn on_processor_ns(&self) -> u64 {
        self.times_ns[0].0
    }

    /// What was counted from `earlier` to this moment.
    ///
    /// Groups take turns on the hardware if they are too many for it: their counts are
    /// extrapolated to the whole time. A group that never had its turn was not counted.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot, groups: &[EventGroup]) -> Slice {
        let mut slice = Slice::default();
        for (at, range) in ranges(groups) {
            let (enabled, running) = self.times_ns[at];
            let (enabled_before, running_before) = earlier.times_ns[at];
            let enabled = enabled.saturating_sub(enabled_before);
            let running = running.saturating_sub(running_before);
            if running > 0 {
                slice.counted[at] = true;
                let scale = (enabled as f64 / running as f64).max(1.0);
                for event in range {
                    let count = self.events[event].saturating_sub(earlier.events[event]);
                    slice.events[event] = count as f64 * scale;
                }
            }
        }
        slice
    }
}

/// Each group with the numbers of its events in the plan.
fn ranges(groups: &[EventGroup]) -> impl Iterator<Item = (usize, Range<usize>)> {
    let ends = groups.iter().scan(0, |first, group| {
        let start = *first;
        *first = (start + group.events.len()).min(MAX_EVENTS);
        Some(start..*first)
    });
    ends.enumerate().take(MAX_GROUPS)
}

/// What a thread counted between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slice {
    /// Number of occurrences of each event.
    pub events: [f64; MAX_EVENTS],
    /// Which groups were on the hardware.
    pub counted: [bool; MAX_GROUPS],
}

impl Slice {
    /// The smaller count of each event.
    #[must_use]
    pub fn least(&self, other: &Slice) -> Slice {
        Slice {
            events: std::array::from_fn(|at| self.events[at].min(other.events[at])),
            counted: self.counted,
        }
    }

    /// What is left without `part`.
    #[must_use]
    pub fn without(&self, part: &Slice) -> Slice {
        Slice {
            events: std::array::from_fn(|at| (self.events[at] - part.events[at]).max(0.0)),
            counted: self.counted,
        }
    }

    /// A share of all counts.
    #[must_use]
    pub fn times(&self, share: f64) -> Slice {
        Slice {
            events: self.events.map(|count| count * share),
            counted: self.counted,
        }
    }
}

/// Sums over the slices of one operator, phase or query.
///
/// Not every slice is counted: reading the counters at each change of operators would take more
/// time than some operators do. The time of all is known, and counts are extrapolated to it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StallCounts {
    /// Time of all slices, over all threads, ns.
    pub busy_ns: f64,
    /// Time of the slices in which each group was counted, ns.
    counted_ns: [f64; MAX_GROUPS],
    /// Time of the operators of which each group was counted at all, ns.
    known_ns: [f64; MAX_GROUPS],
    /// Occurrences of each event in that time.
    events: [f64; MAX_EVENTS],
}

impl StallCounts {
    /// The counts of one operator: of its `busy_ns`, `counted_ns` were counted of each group, with
    /// `events` in them.
    #[must_use]
    pub fn of_operator(
        busy_ns: f64,
        counted_ns: [f64; MAX_GROUPS],
        mut events: [f64; MAX_EVENTS],
        groups: &[EventGroup],
    ) -> Self {
        let mut known_ns = [0.0; MAX_GROUPS];
        for (at, range) in ranges(groups) {
            if counted_ns[at] > 0.0 {
                known_ns[at] = busy_ns;
                let scale = busy_ns / counted_ns[at];
                events[range].iter_mut().for_each(|count| *count *= scale);
            }
        }
        StallCounts {
            busy_ns,
            counted_ns,
            known_ns,
            events,
        }
    }

    /// Adds the counts of another operator or thread.
    ///
    /// Each was extrapolated by itself, so that the sum is not that of the parts which happen to
    /// have been counted most; of parts that were never counted, the others speak.
    pub fn add(&mut self, other: &StallCounts) {
        fn sum<const N: usize>(a: [f64; N], b: [f64; N]) -> [f64; N] {
            std::array::from_fn(|at| a[at] + b[at])
        }
        *self = StallCounts {
            busy_ns: self.busy_ns + other.busy_ns,
            counted_ns: sum(self.counted_ns, other.counted_ns),
            known_ns: sum(self.known_ns, other.known_ns),
            events: sum(self.events, other.events),
        };
    }

    /// Occurrences of event `event` of group `group` in the whole time; `None` if never counted.
    #[must_use]
    pub fn total(&self, group: usize, event: usize) -> Option<f64> {
        let known = *self.known_ns.get(group)?;
        let events = *self.events.get(event)?;
        (known > 0.0).then(|| events * self.busy_ns / known)
    }

    /// Share of the time in which the least counted group was counted, from 0 to 1.
    #[must_use]
    pub fn counted_share(&self, groups: usize) -> f64 {
        let counted = self.counted_ns.iter().take(groups);
        let least = counted.fold(f64::INFINITY, |least, ns| least.min(*ns));
        match self.busy_ns > 0.0 && least.is_finite() {
            true => (least / self.busy_ns).min(1.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::StallEvent;

    fn groups() -> Vec<EventGroup> {
        let event = |name| StallEvent {
            name,
            pmu_type: 4,
            config: 0,
        };
        vec![
            EventGroup {
                events: vec![event("a"), event("b")],
            },
            EventGroup {
                events: vec![event("c")],
            },
        ]
    }

    fn at(events: [u64; 3], times_ns: [(u64, u64); MAX_GROUPS]) -> Snapshot {
        let mut snapshot = Snapshot {
            times_ns,
            ..Snapshot::default()
        };
        snapshot.events[..3].copy_from_slice(&events);
        snapshot
    }

    #[test]
    fn groups_that_took_turns_are_extrapolated_and_those_without_a_turn_are_unknown() {
        let before = at([100, 200, 5], [(1000, 500), (1000, 500)]);
        let after = at([110, 240, 5], [(1200, 550), (1200, 500)]);
        let slice = after.since(&before, &groups());
        assert_eq!(slice.events[..3], [40.0, 160.0, 0.0]);
        assert_eq!(slice.counted, [true, false]);
    }

    #[test]
    fn operators_weigh_by_their_time_and_not_by_how_much_of_it_was_counted() {
        let counts = |busy_ns: f64, counted_ns: f64, per_ns: f64| {
            let mut events = [0.0; MAX_EVENTS];
            events[0] = counted_ns * per_ns;
            StallCounts::of_operator(busy_ns, [counted_ns, 0.0], events, &groups())
        };
        // A long operator that was hardly counted, and a short one that was counted whole.
        let mut sum = counts(900.0, 9.0, 2.0);
        sum.add(&counts(100.0, 100.0, 12.0));
        assert_eq!(sum.busy_ns, 1000.0);
        let total = sum.total(0, 0).unwrap();
        assert!(
            (total - (900.0 * 2.0 + 100.0 * 12.0)).abs() < 1e-6,
            "{total}"
        );
        assert_eq!(sum.total(1, 2), None, "the second group never had its turn");
        assert!((sum.counted_share(1) - 0.109).abs() < 1e-9);
        assert_eq!(sum.counted_share(2), 0.0);
    }

    #[test]
    fn time_in_which_nothing_was_counted_behaves_like_the_rest() {
        let uncounted = [0.0; MAX_EVENTS];
        let mut counts = StallCounts::of_operator(50.0, [0.0; 2], uncounted, &groups());
        assert_eq!(counts.total(0, 0), None);
        let mut events = [0.0; MAX_EVENTS];
        events[0] = 10.0;
        counts.add(&StallCounts::of_operator(
            50.0,
            [25.0, 0.0],
            events,
            &groups(),
        ));
        assert_eq!(counts.total(0, 0), Some(40.0));
    }
}
