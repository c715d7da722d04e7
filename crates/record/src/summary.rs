//! What closes a run.

use crate::{EngineKind, PlacementCard, Provenance};
use serde::{Deserialize, Serialize};

/// Geometric mean over the run's queries for one placement on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeanRecord {
    /// The placement as typed.
    pub placement: String,
    /// [`crate::HERE`] or a profile's name.
    pub machine: String,
    /// Measured or modelled.
    pub provenance: Provenance,
    /// Engine.
    pub engine: EngineKind,
    /// Queries in the mean.
    pub queries: u32,
    /// Geometric mean of the median times, ms.
    pub geomean_ms: f64,
    /// Geometric mean of the speed-ups over DRAM only on the same machine; above 1 is faster.
    pub speedup_over_dram: Option<f64>,
    /// Queries that got at least 1% slower than with DRAM only.
    pub slower: u32,
    /// Queries that got at least 1% faster than with DRAM only.
    pub faster: u32,
}

/// How a placement's verdict moves with the engine's intensity: the same work priced with another CPU time per fact tuple.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntensityRow {
    /// Profile name.
    pub machine: String,
    /// The placement as typed.
    pub placement: String,
    /// CPU time per fact tuple and worker in ns; `None` is what was measured here.
    pub time_per_tuple_ns: Option<f64>,
    /// In rows of what was measured here: that time, the geometric mean over the queries, in ns; marks the place on an axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_time_per_tuple_ns: Option<f64>,
    /// Geometric mean of the speed-ups over DRAM only.
    pub speedup_over_dram: f64,
    /// The same for the queries of the first group (q1.x), the scan-bound ones.
    pub first_group_speedup: Option<f64>,
    /// Queries at least 1% slower than with DRAM only.
    pub slower: u32,
    /// Queries at least 1% faster.
    pub faster: u32,
    /// Largest utilisation of DRAM over the queries when everything lies in DRAM, 0 to 1.
    pub dram_utilisation: f64,
    /// Queries that fill DRAM to at least 95% when everything lies there.
    #[serde(default)]
    pub saturated: u32,
}

/// Where the wall time of the command went, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeBreakdown {
    /// Making the data.
    pub generate_s: f64,
    /// Reserving and prefaulting memory, moving data between placements.
    pub place_s: f64,
    /// Planning queries.
    pub plan_s: f64,
    /// Executing queries, warm-up included.
    pub execute_s: f64,
    /// Page audits.
    pub audit_s: f64,
    /// Measuring the host quickly.
    pub probe_s: f64,
    /// Pricing on machine profiles.
    pub model_s: f64,
    /// Making and writing records and reports.
    pub record_s: f64,
    /// The whole command.
    pub total_s: f64,
}

impl TimeBreakdown {
    /// Planning, recording and modelling (the quick measurement included) as a share of the whole command.
    pub fn overhead_share(&self) -> f64 {
        (self.plan_s + self.record_s + self.model_s + self.probe_s) / self.total_s
    }
}

/// Memory of the process that ran, as the kernel counts it; `None` where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Anonymous and shared memory once the data was loaded, bytes; the program's own file is not in it.
    pub loaded_bytes: Option<u64>,
    /// Highest resident memory while the data was made and loaded, bytes.
    pub loading_peak_bytes: Option<u64>,
    /// Highest resident memory of the whole run, bytes.
    pub peak_resident_bytes: Option<u64>,
}

/// Closes a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    /// The run.
    pub run_id: String,
    /// True if the run was stopped before its end; the records before are whole.
    pub interrupted: bool,
    /// Queries and placements finished, and planned.
    pub finished: u32,
    /// Figures that were planned.
    pub planned: u32,
    /// Geometric means.
    pub means: Vec<MeanRecord>,
    /// The placements, with their page audits.
    pub placements: Vec<PlacementCard>,
    /// How verdicts move with the engine's intensity.
    pub intensity: Vec<IntensityRow>,
    /// Findings in words.
    pub findings: Vec<String>,
    /// Where the time went.
    pub times: TimeBreakdown,
    /// Memory of the process.
    pub memory: MemoryUse,
}
