//! Measured curves and rates of a machine, beyond the numbers that the solver uses.
//!
//! They are kept for reports and for calibration; no result of the model depends on them.

use serde::{Deserialize, Serialize};

use super::Value;

/// Measurements of a machine, kept with its profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Node whose CPUs the tiers of the profile are seen from.
    pub initiator_node: u32,
    /// Every measured pair of a node with CPUs and a node with memory.
    pub paths: Vec<PathMeasurement>,
    /// Idle latency by footprint from the initiator to its local memory: shows caches and address
    /// translation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<FootprintLatency>,
}

impl Measurements {
    /// All measured numbers, in the order of the profile.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        let paths = self.paths.iter().flat_map(|path| {
            [&path.idle_latency_ns, &path.idle_latency_in_pages_ns]
                .into_iter()
                .chain(path.rates.iter().map(|rate| &rate.gbps))
                .chain(path.loaded.iter().flat_map(|p| [&p.gbps, &p.latency_ns]))
                .chain(path.pages.iter().map(|rate| &rate.gbps))
        });
        let footprints = self
            .footprints
            .iter()
            .flat_map(|f| [&f.random_ns, &f.in_pages_ns]);
        paths.chain(footprints)
    }
}

/// Measurements of one path from CPUs to memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathMeasurement {
    /// Initiator: node whose CPUs access the memory.
    pub initiator_node: u32,
    /// Target: node whose memory is accessed.
    pub target_node: u32,
    /// Tier of the target as seen from the initiator ("dram", "cxl", "remote", "hbm").
    pub tier: String,
    /// Dependent loads at random addresses in a large region, ns per load: with page walks.
    pub idle_latency_ns: Value,
    /// Dependent loads that stay within a group of pages for a while, ns per load: almost without
    /// page walks.
    pub idle_latency_in_pages_ns: Value,
    /// Bandwidths by operation and number of threads.
    pub rates: Vec<MeasuredRate>,
    /// Loaded latency, in the order of rising load; empty if not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<LoadedPoint>,
    /// Rates of first touches and page migrations; empty if not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<TouchRate>,
}

/// Bandwidth of one operation with one number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRate {
    /// Operation ("read", "stream-write", "mix 67:33", "stream-copy", "random read",
    /// "fetch-and-add", ...).
    pub operation: String,
    /// Number of threads that run the operation.
    pub threads: u32,
    /// Bytes accessed by the program, GB/s.
    pub gbps: Value,
}

/// Loaded latency at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedPoint {
    /// Bandwidth of the load that ran beside the dependent loads, GB/s.
    pub gbps: Value,
    /// Time of a dependent load, ns.
    pub latency_ns: Value,
}

/// Rate at which pages are first touched or migrated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TouchRate {
    /// "touch" (first touch of fresh pages), or "migrate from node N".
    pub what: String,
    /// Page size as text: "4k", "thp", ...
    pub page_size: String,
    /// Bytes of pages per second, GB/s.
    pub gbps: Value,
}

/// Idle latency in one footprint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FootprintLatency {
    /// Size of the region that the loads cover, bytes.
    pub footprint_bytes: u64,
    /// Dependent loads at random addresses, ns per load.
    pub random_ns: Value,
    /// Dependent loads that stay within a group of pages, ns per load.
    pub in_pages_ns: Value,
}
