//! Clocks of hosts: how far an agent's is from ours, and waiting for an agreed moment.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Stop;

/// Before this much is left a waiter sleeps; then it watches the clock.
const WATCH: Duration = Duration::from_millis(2);
/// Longest sleep, so that a clock that is set while we sleep is noticed.
const NAP: Duration = Duration::from_millis(100);

/// A host's wall clock. Start times are agreed on in it.
pub trait Clock: Send + Sync + 'static {
    /// Time of day.
    fn now(&self) -> SystemTime;

    /// Waits for `moment`: asleep until 2 ms before, then watching the clock, so that the start is late by a clock reading and not by a
    /// scheduling delay. Gives how late it was, `None` if `stop` came first.
    fn wait_until(&self, moment: SystemTime, stop: &Stop) -> Option<Duration> {
        loop {
            if stop.requested() {
                return None;
            }
            match moment.duration_since(self.now()) {
                Err(past) => return Some(past.duration()),
                Ok(left) if left.is_zero() => return Some(left),
                Ok(left) if left > WATCH => {
                    stop.wait_timeout((left - WATCH).min(NAP));
                }
                Ok(_) => std::hint::spin_loop(),
            }
        }
    }
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The clock of this machine, ahead by a fixed time: for tests of hosts whose clocks differ.
#[derive(Debug, Clone, Copy)]
pub struct SkewedClock {
    /// How far ahead.
    pub ahead: Duration,
}

impl Clock for SkewedClock {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.ahead
    }
}

/// An agent's clock against the coordinator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockRecord {
    /// The host.
    pub host: String,
    /// Agent minus coordinator, ns: positive if the agent's clock is ahead.
    pub offset_ns: i64,
    /// The true offset is at most this far from `offset_ns`, ns, however unequal the two ways were: half of the shortest round trip, less
    /// what the agent spent on the reply. Holds as long as neither clock is set in between.
    pub uncertainty_ns: u64,
    /// Round trips; the shortest of them counts.
    pub round_trips: u32,
}

/// One question for the time. All in ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundTrip {
    /// Our clock at the question.
    pub sent_ns: i64,
    /// The agent's clock when it came.
    pub received_ns: i64,
    /// The agent's clock when it answered.
    pub replied_ns: i64,
    /// Our clock at the answer, by the monotonic clock since `sent_ns`.
    pub returned_ns: i64,
}

impl RoundTrip {
    /// Offset and uncertainty (D. L. Mills, "Internet Time Synchronization: The Network Time Protocol", 1991); `None` if the agent says
    /// that it took longer than the whole trip, which means that a clock was set meanwhile.
    fn estimate(self) -> Option<(i64, u64)> {
        let way = i128::from(self.returned_ns)
            - i128::from(self.sent_ns)
            - (i128::from(self.replied_ns) - i128::from(self.received_ns));
        let twice = (i128::from(self.received_ns) - i128::from(self.sent_ns))
            + (i128::from(self.replied_ns) - i128::from(self.returned_ns));
        // Halves are rounded up in the uncertainty, so that it covers the rounding of the offset too.
        let uncertainty = u64::try_from(way).ok()?.div_ceil(2);
        Some((
            i64::try_from(twice.div_euclid(2)).ok()?,
            uncertainty + u64::from(twice % 2 != 0),
        ))
    }
}

/// The best of several trips: the shortest.
pub(crate) fn best_of(host: &str, trips: &[RoundTrip]) -> Option<ClockRecord> {
    let (offset_ns, uncertainty_ns) = trips
        .iter()
        .filter_map(|trip| trip.estimate())
        .min_by_key(|(_, uncertainty)| *uncertainty)?;
    Some(ClockRecord {
        host: host.to_owned(),
        offset_ns,
        uncertainty_ns,
        round_trips: u32::try_from(trips.len()).unwrap_or(u32::MAX),
    })
}

/// ns since 1970, negative before. Times beyond the years 1677 to 2262 become the nearest end.
pub(crate) fn to_unix_ns(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

/// The moment of [`to_unix_ns`].
pub(crate) fn from_unix_ns(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    if ns >= 0 {
        UNIX_EPOCH + distance
    } else {
        UNIX_EPOCH - distance
    }
}

/// A wall clock reading that monotonic time is added to, so that setting the clock during a round trip does not lengthen or shorten it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    wall_ns: i64,
    at: Instant,
}

impl Anchor {
    /// Now.
    pub fn new(clock: &dyn Clock) -> Self {
        Self {
            wall_ns: to_unix_ns(clock.now()),
            at: Instant::now(),
        }
    }

    /// The wall clock then.
    pub fn start_ns(self) -> i64 {
        self.wall_ns
    }

    /// The wall clock then, plus what passed since.
    pub fn now_ns(self) -> i64 {
        let passed = i64::try_from(self.at.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.wall_ns.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_uncertainty_however_unequal_the_ways(
            offset in -10_000_000_000_i64..10_000_000_000,
            ways in prop::collection::vec((0_i64..1_000_000_000, 0_i64..1_000_000_000, 0_i64..1_000_000), 1..20),
        ) {
            let mut now = 1_800_000_000_000_000_000_i64;
            let trips: Vec<RoundTrip> = ways.iter().map(|(there, back, held)| {
                let sent_ns = now;
                let received_ns = sent_ns + there + offset;
                let replied_ns = received_ns + held;
                now = replied_ns - offset + back;
                RoundTrip { sent_ns, received_ns, replied_ns, returned_ns: now }
            }).collect();
            let record = best_of("a", &trips).unwrap();
            prop_assert!(record.offset_ns.abs_diff(offset) <= record.uncertainty_ns);
            let shortest = ways.iter().map(|(there, back, _)| there + back).min().unwrap();
            prop_assert!(record.uncertainty_ns <= shortest.unsigned_abs() / 2 + 2);
        }

        #[test]
        fn moments_survive_the_wire(ns in any::<i64>()) {
            prop_assert_eq!(to_unix_ns(from_unix_ns(ns)), ns);
        }
    }

    #[test]
    fn a_trip_during_which_a_clock_was_set_does_not_count() {
        let trip = RoundTrip {
            sent_ns: 0,
            received_ns: 5,
            replied_ns: 5_000,
            returned_ns: 10,
        };
        assert_eq!(best_of("a", &[trip]), None);
        let honest = RoundTrip {
            sent_ns: 0,
            received_ns: 105,
            replied_ns: 106,
            returned_ns: 11,
        };
        assert_eq!(best_of("a", &[trip, honest]).unwrap().offset_ns, 100);
    }

    #[test]
    fn a_waiter_is_not_early_and_a_stop_wakes_it() {
        let stop = Stop::new();
        let moment = SystemClock.now() + Duration::from_millis(5);
        assert!(SystemClock.wait_until(moment, &stop).is_some());
        assert!(SystemClock.now() >= moment);
        stop.request();
        let far = SystemClock.now() + Duration::from_secs(600);
        assert_eq!(SystemClock.wait_until(far, &stop), None);
    }
}
