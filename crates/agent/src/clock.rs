//! Wall clocks of hosts: measuring the offset of an agent's clock, and waiting for an agreed start
//! time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Stop;

/// A waiter sleeps until this much time is left, then spins on the clock.
const WATCH: Duration = Duration::from_millis(2);
/// Longest sleep, so that a change of the wall clock during it is noticed.
const NAP: Duration = Duration::from_millis(100);

/// A host's wall clock, in which start times are agreed on. Tests replace it.
pub trait WallClock: Send + Sync + 'static {
    /// The current time of day.
    fn now(&self) -> SystemTime;

    /// Waits for `moment`, and returns how late it returned, or `None` if `stop` was requested
    /// first.
    ///
    /// It sleeps until 2 ms before `moment` and then spins, so that the delay is that of a clock
    /// reading and not that of the scheduler.
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

/// The wall clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// This machine's clock, ahead by a fixed time: for tests with hosts whose clocks differ.
#[derive(Debug, Clone, Copy)]
pub struct SkewedClock {
    /// How far it is ahead of the machine's clock.
    pub ahead: Duration,
}

impl WallClock for SkewedClock {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.ahead
    }
}

/// The measured offset of an agent's clock from the coordinator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockRecord {
    /// Name of the host, as the coordinator was given it.
    pub host: String,
    /// Agent minus coordinator, ns: positive if the agent's clock is ahead.
    pub offset_ns: i64,
    /// Bound on the error of `offset_ns`, ns, whatever the asymmetry of the two directions.
    ///
    /// It is half of the shortest round trip, after subtracting the time that the agent spent on
    /// its reply, and holds if neither clock is set in between.
    pub uncertainty_ns: u64,
    /// Number of round trips made; the one with the smallest bound gives the values.
    pub round_trips: u32,
}

/// The four timestamps of one clock query, in ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundTrip {
    /// The coordinator's clock when it sent the query.
    pub sent_ns: i64,
    /// The agent's clock when the query arrived.
    pub received_ns: i64,
    /// The agent's clock when it sent the reply.
    pub replied_ns: i64,
    /// The coordinator's clock when the reply arrived: `sent_ns` plus monotonic time.
    pub returned_ns: i64,
}

impl RoundTrip {
    /// Offset and uncertainty (D. L. Mills, "Internet Time Synchronization: The Network Time
    /// Protocol", 1991).
    ///
    /// `None` if the agent reports more time between arrival and reply than the whole round trip
    /// took, which means that a clock was set meanwhile.
    fn estimate(self) -> Option<(i64, u64)> {
        let way = i128::from(self.returned_ns)
            - i128::from(self.sent_ns)
            - (i128::from(self.replied_ns) - i128::from(self.received_ns));
        let twice = (i128::from(self.received_ns) - i128::from(self.sent_ns))
            + (i128::from(self.replied_ns) - i128::from(self.returned_ns));
        // Halves are rounded up here, so that the uncertainty also covers the rounding of the
        // offset.
        let uncertainty = u64::try_from(way).ok()?.div_ceil(2);
        Some((
            i64::try_from(twice.div_euclid(2)).ok()?,
            uncertainty + u64::from(twice % 2 != 0),
        ))
    }
}

/// The estimate with the smallest uncertainty, which is the one of the shortest round trip.
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

/// Nanoseconds since 1970, negative before. Times outside the years 1677 to 2262 are clamped.
pub(crate) fn to_unix_ns(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

/// The inverse of [`to_unix_ns`].
pub(crate) fn from_unix_ns(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    if ns >= 0 {
        UNIX_EPOCH + distance
    } else {
        UNIX_EPOCH - distance
    }
}

/// A reading of the wall clock, to which monotonic time is added, so that setting the clock during
/// a round trip changes neither its length nor its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    wall_ns: i64,
    at: Instant,
}

impl Anchor {
    /// Reads both clocks.
    pub fn new(clock: &dyn WallClock) -> Self {
        Self {
            wall_ns: to_unix_ns(clock.now()),
            at: Instant::now(),
        }
    }

    /// The wall clock at the time of [`Anchor::new`].
    pub fn start_ns(self) -> i64 {
        self.wall_ns
    }

    /// That reading plus the monotonic time since.
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
