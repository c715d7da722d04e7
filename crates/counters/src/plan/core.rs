//! Core events, in the generalised numbering of the kernel (`perf_event_open(2)`).

use tierloom_topology::SysRoot;

use super::{Plan, PlannedEvent, PlannedReading, Scope, Unit};
use crate::files;

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_HW_CACHE: u32 = 3;

/// The data TLB (3), operation read (0) and result miss (1), as `PERF_TYPE_HW_CACHE` encodes them.
const DTLB_READ_MISS: u64 = 3 | 1 << 16;

/// Events: name, type, configuration (`PERF_COUNT_HW_*` or a cache event).
const EVENTS: [(&str, u32, u64); 6] = [
    ("instructions", PERF_TYPE_HARDWARE, 1),
    ("cycles", PERF_TYPE_HARDWARE, 0),
    ("cache_references", PERF_TYPE_HARDWARE, 2),
    ("cache_misses", PERF_TYPE_HARDWARE, 3),
    ("stalled_cycles_backend", PERF_TYPE_HARDWARE, 8),
    ("dtlb_load_misses", PERF_TYPE_HW_CACHE, DTLB_READ_MISS),
];

/// Plans the core events; only opening them shows whether the processor has them.
pub fn plan(root: &SysRoot) -> Plan {
    let cpuinfo = files::read(root, "proc/cpuinfo").unwrap_or_default();
    let cache = cache_meaning(&cpuinfo);
    let reading = |(name, pmu_type, config): (&str, u32, u64)| PlannedReading {
        name: name.to_owned(),
        unit: Unit::Events,
        per_count: 1.0,
        events: vec![PlannedEvent {
            label: name.to_owned(),
            pmu_type,
            config: [config, 0, 0],
            scope: Scope::Threads,
        }],
        note: Some(match name {
            "cache_references" | "cache_misses" => format!("user mode; {cache}"),
            _ => "user mode".to_owned(),
        }),
    };
    Plan {
        readings: EVENTS.into_iter().map(reading).collect(),
        missing: Vec::new(),
    }
}

/// The cache that the kernel's events "cache references" and "cache misses" refer to.
///
/// It differs between vendors, so the names of the readings must not say LLC.
fn cache_meaning(cpuinfo: &str) -> &'static str {
    match files::cpuinfo_field(cpuinfo, "vendor_id") {
        Some("GenuineIntel") => "of the last-level cache",
        Some("AuthenticAMD") => "of the L2 cache on AMD, not of the L3",
        _ => "of the cache that the kernel chose for this processor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_events_say_which_cache_they_are_of() {
        assert!(cache_meaning("vendor_id\t: AuthenticAMD\n").contains("L2"));
        assert!(cache_meaning("vendor_id\t: GenuineIntel\n").contains("last-level"));
        assert!(cache_meaning("").contains("kernel chose"));
    }
}
