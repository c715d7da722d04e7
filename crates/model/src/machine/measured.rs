//! What was measured of a machine, beyond the numbers that the solver uses.

use serde::{Deserialize, Serialize};

use super::Value;

/// Measured curves and rates of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// The node whose cores the tiers of the profile are seen from.
    pub initiator_node: u32,
    /// Every pair of a node with cores and a node with memory that was measured.
    pub paths: Vec<PathMeasurement>,
    /// Latency by footprint from the initiator to its own memory: caches and address translation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<FootprintLatency>,
}

impl Measurements {
    /// Every number, in the order of the profile.
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

/// One path from cores to memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathMeasurement {
    /// Node whose cores access.
    pub initiator_node: u32,
    /// Node that is accessed.
    pub target_node: u32,
    /// Tier of the target as seen from the initiator ("dram", "cxl", "remote", "hbm").
    pub tier: String,
    /// Dependent loads anywhere in a large region, ns each: with address translation.
    pub idle_latency_ns: Value,
    /// Dependent loads that stay in a group of pages for a while, ns each: nearly without address translation.
    pub idle_latency_in_pages_ns: Value,
    /// Bandwidths by operation and threads.
    pub rates: Vec<MeasuredRate>,
    /// Latency under load, by rising load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<LoadedPoint>,
    /// Rates at which pages come and move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<TouchRate>,
}

/// A bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRate {
    /// What was done ("read", "stream-write", "mix 67:33", "stream-copy", "random read", "fetch-and-add", ...).
    pub operation: String,
    /// Threads.
    pub threads: u32,
    /// Bytes accessed, GB/s.
    pub gbps: Value,
}

/// Latency at a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedPoint {
    /// Bandwidth of everything together that ran beside the dependent loads, GB/s.
    pub gbps: Value,
    /// Dependent load, ns.
    pub latency_ns: Value,
}

/// How fast pages come to be there or move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TouchRate {
    /// "touch" (first touch of fresh pages), or "migrate from node N".
    pub what: String,
    /// "4k", "thp", ...
    pub page_size: String,
    /// GB/s.
    pub gbps: Value,
}

/// Latency in a footprint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FootprintLatency {
    /// Bytes that the loads go through.
    pub footprint_bytes: u64,
    /// Dependent loads anywhere, ns each.
    pub random_ns: Value,
    /// Dependent loads that stay in a group of pages, ns each.
    pub in_pages_ns: Value,
}
