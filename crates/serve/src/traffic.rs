//! Traffic of memory while the server runs, as the hardware counts it.

use super::clients::lock;
use std::sync::Mutex;
use tierloom_counters::{ActiveCounters, Counters, Selection};
use tierloom_metrics::TrafficUse;

/// Counters of memory controllers and CXL devices, which count from when it was made.
pub(crate) struct Traffic(Mutex<ActiveCounters>);

/// The unit of readings that are traffic.
const BYTES: &str = "bytes";

/// Kinds of memory that are counted, as the names of readings begin.
const KINDS: [&str; 2] = ["dram", "cxl"];

/// How the kernel's names of the counters of CXL devices begin.
const DEVICES: &str = "cxl_pmu_";

const DIRECTIONS: [&str; 2] = ["read", "write"];

impl Traffic {
    /// Begins to count.
    pub fn count(counters: &Counters) -> Self {
        let mut active = counters.open(Selection::MACHINE);
        active.resume();
        Traffic(Mutex::new(active))
    }

    /// Bytes until now, or why they are not known.
    pub fn now(&self) -> Vec<TrafficUse> {
        let readings = lock(&self.0).readings().into_iter();
        let traffic = readings.filter_map(|reading| {
            let (place, direction) = reading.name.rsplit_once('/')?;
            let place = match place.strip_prefix(DEVICES) {
                Some(device) => format!("cxl/{device}"),
                None => place.to_owned(),
            };
            let kind = place.split('/').next().unwrap_or_default();
            let is_traffic =
                reading.unit == BYTES && KINDS.contains(&kind) && DIRECTIONS.contains(&direction);
            let direction = direction.to_owned();
            is_traffic.then(|| TrafficUse {
                place,
                direction,
                bytes: reading.value,
                missing: reading.note.clone().filter(|_| reading.value.is_none()),
            })
        });
        traffic.collect()
    }
}
