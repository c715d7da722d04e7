//! The last record of a run of queries: means, placements, findings, times.

use crate::{EngineKind, PlacementCard, Provenance};
use serde::{Deserialize, Serialize};

/// Geometric mean over the run's queries for one placement on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeanRecord {
    /// Placement as given on the command line.
    pub placement: String,
    /// [`crate::HERE`], or the name of a machine profile.
    pub machine: String,
    /// Whether the times were measured or modelled.
    pub provenance: Provenance,
    /// The engine that ran the queries.
    pub engine: EngineKind,
    /// Number of queries in the mean.
    pub queries: u32,
    /// Geometric mean of the median times, ms.
    pub geomean_ms: f64,
    /// Geometric mean of the speed-ups over DRAM only on the same machine; above 1 is faster.
    pub speedup_over_dram: Option<f64>,
    /// Number of queries at least 1% slower than with DRAM only.
    pub slower: u32,
    /// Number of queries at least 1% faster than with DRAM only.
    pub faster: u32,
}

/// The gain of one placement if the same work took another CPU time per fact tuple.
///
/// A series of such rows shows how the gain depends on the intensity of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntensityRow {
    /// Name of the machine profile.
    pub machine: String,
    /// Placement as given on the command line.
    pub placement: String,
    /// CPU time per fact tuple and worker, ns; `None` for the time measured in this run.
    pub time_per_tuple_ns: Option<f64>,
    /// The measured time itself, ns: the geometric mean over the queries.
    ///
    /// Only rows with `time_per_tuple_ns` of `None` have it; it is their position on the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_time_per_tuple_ns: Option<f64>,
    /// Geometric mean of the speed-ups over DRAM only.
    pub speedup_over_dram: f64,
    /// The same over the first group of queries (q1.x), which are limited by scans.
    pub first_group_speedup: Option<f64>,
    /// Number of queries at least 1% slower than with DRAM only.
    pub slower: u32,
    /// Number of queries at least 1% faster than with DRAM only.
    pub faster: u32,
    /// Highest utilisation of DRAM in any query with everything in DRAM, 0 to 1.
    pub dram_utilisation: f64,
    /// Number of queries that load DRAM to at least 95% with everything in DRAM.
    #[serde(default)]
    pub saturated: u32,
}

/// Wall time of the command by activity, s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeBreakdown {
    /// Generating the tables.
    pub generate_s: f64,
    /// Reserving and prefaulting memory, and moving data between placements.
    pub place_s: f64,
    /// Planning all queries.
    pub plan_s: f64,
    /// Executing queries, including warm-up.
    pub execute_s: f64,
    /// Asking the kernel where pages are.
    pub audit_s: f64,
    /// Measuring the read bandwidth of this machine.
    pub probe_s: f64,
    /// Computing times for machine profiles.
    pub model_s: f64,
    /// Building and writing records and reports.
    pub record_s: f64,
    /// The whole command, including what no other field counts.
    pub total_s: f64,
}

impl TimeBreakdown {
    /// Share of planning, recording, modelling and the bandwidth probe in the whole command.
    pub fn overhead_share(&self) -> f64 {
        (self.plan_s + self.record_s + self.model_s + self.probe_s) / self.total_s
    }
}

/// Memory of the process, as the kernel reports it; `None` where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Anonymous and shared memory once the data was loaded, bytes; without the program's own file.
    pub loaded_bytes: Option<u64>,
    /// Highest resident memory while the data was generated and loaded, bytes.
    pub loading_peak_bytes: Option<u64>,
    /// Highest resident memory of the whole run, bytes.
    pub peak_resident_bytes: Option<u64>,
}

/// The last record of a run of queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// True if the run was stopped early; the records before are complete.
    pub interrupted: bool,
    /// Number of query or throughput records of the run.
    pub finished: u32,
    /// Number of query or throughput records that were planned.
    pub planned: u32,
    /// Geometric means by placement, machine and engine.
    pub means: Vec<MeanRecord>,
    /// The placements, with their page audits.
    pub placements: Vec<PlacementCard>,
    /// Gains over the intensity of the engine, from the model.
    pub intensity: Vec<IntensityRow>,
    /// What only the run itself knows, as sentences; conclusions quote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// All that [`crate::findings::conclude`] concluded from the run's records, the answer first.
    pub findings: Vec<String>,
    /// Where the wall time went.
    pub times: TimeBreakdown,
    /// Memory use of the process.
    pub memory: MemoryUse,
}
