//! Scripted counters of threads, for tests on machines without hardware counters.

use std::io;
use std::time::Instant;

use super::{EventGroup, GroupReader, MeterOpener, Snapshot};

/// Opens counters that grow by fixed rates of the time, or refuses to.
#[derive(Debug, Clone, Default)]
pub struct FakeMeters {
    rates: Vec<(&'static str, f64)>,
    refused: Option<i32>,
}

impl FakeMeters {
    /// Counters of these names grow by so much per ns; others stay at 0.
    #[must_use]
    pub fn growing(rates: &[(&'static str, f64)]) -> Self {
        FakeMeters {
            rates: rates.to_vec(),
            refused: None,
        }
    }

    /// Opening fails with this errno.
    #[must_use]
    pub fn refusing(errno: i32) -> Self {
        FakeMeters {
            rates: Vec::new(),
            refused: Some(errno),
        }
    }
}

impl MeterOpener for FakeMeters {
    fn open(&self, groups: &[EventGroup]) -> io::Result<Box<dyn GroupReader>> {
        if let Some(errno) = self.refused {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let rate = |name: &str| {
            let known = self.rates.iter().find(|(known, _)| *known == name);
            known.map_or(0.0, |(_, rate)| *rate)
        };
        let events = groups.iter().flat_map(|group| &group.events);
        Ok(Box::new(Growing {
            rates: events.map(|event| rate(event.name)).collect(),
            start: Instant::now(),
        }))
    }
}

struct Growing {
    rates: Vec<f64>,
    start: Instant,
}

impl GroupReader for Growing {
    fn read(&mut self) -> io::Result<Snapshot> {
        // At least a nanosecond, so that the counters do not seem to stand still.
        let ns = self.start.elapsed().as_nanos().max(1) as f64;
        let mut snapshot = Snapshot::default();
        for (event, rate) in snapshot.events.iter_mut().zip(&self.rates) {
            *event = (ns * rate).ceil() as u64;
        }
        snapshot.times_ns.fill((ns as u64, ns as u64));
        Ok(snapshot)
    }
}
