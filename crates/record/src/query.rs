//! One query's result.

use crate::{Provenance, Spread};
use serde::{Deserialize, Serialize};
use tierloom_model::Phase;

/// Which engine ran a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Tierloom's tables and planner rules on DataFusion.
    Tierloom,
    /// Plain DataFusion with default settings on a `MemTable` of the same data: the yardstick.
    Datafusion,
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            EngineKind::Tierloom => "tierloom",
            EngineKind::Datafusion => "datafusion",
        })
    }
}

/// What a query answered and how that was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Rows of the answer.
    pub rows: u64,
    /// Digest of the answer's text form (column names and rows in order).
    pub digest: String,
    /// True if it was compared with a stored answer of an independent engine and equals it.
    pub checked: bool,
    /// What it was compared with, or why not.
    pub check: String,
}

/// Load on one tier while a query ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierUse {
    /// The tier's name ("dram", "cxl").
    pub tier: String,
    /// Traffic in GB/s (decimal), averaged over the query.
    pub bandwidth_gbps: f64,
    /// Traffic over the tier's peak, 0 to 1, averaged over the query.
    pub utilisation: f64,
    /// Bytes moved to and from the tier.
    pub bytes: f64,
}

/// Where a query's time goes; the four sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Processor work.
    pub compute: f64,
    /// Hits in the last-level cache.
    pub cache: f64,
    /// Waiting for memory at its idle latency.
    pub latency: f64,
    /// Waiting because a tier is loaded or full.
    pub bandwidth: f64,
}

/// One operator of the executed plan, as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorRecord {
    /// What it does ("filter lineorder", "probe part", "aggregate").
    pub operator: String,
    /// The pipeline (and so the phase) it runs in.
    pub phase: String,
    /// Rows that went in.
    pub input_rows: u64,
    /// Rows that came out.
    pub output_rows: u64,
    /// Rows out over rows in; `None` for operators without input.
    pub selectivity: Option<f64>,
    /// CPU time over all threads, ms.
    pub cpu_ms: f64,
}

/// One query under one placement on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// The query's name ("q1.1").
    pub query: String,
    /// The placement as asked for ("dram", "3:2", "columns:8").
    pub placement: String,
    /// [`crate::HERE`] or the name of a machine profile.
    pub machine: String,
    /// Measured or modelled.
    pub provenance: Provenance,
    /// The engine that ran it; a modelled figure prices the work of this engine.
    pub engine: EngineKind,
    /// Execution time in milliseconds; planning is not in it.
    pub time_ms: Spread,
    /// Median time of placement `dram` on the same machine and engine over this median; above 1 is faster than DRAM only.
    pub speedup_over_dram: Option<f64>,
    /// Planning time in milliseconds (measured records only; the plan is made once).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_ms: Option<f64>,
    /// From a statement's text to its complete answer in milliseconds, planning included each time (measured records of the placement
    /// that the data was loaded under only). A session that keeps plans may find this one among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_ms: Option<Spread>,
    /// The answer (measured records only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Where the time goes (modelled records only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<TimeShares>,
    /// What limits it, in words ("bandwidth of dram", "latency", "compute").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<String>,
    /// Load per tier (modelled records only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierUse>,
    /// The work captured from the execution, as the model prices it (measured records of placement `dram` only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// The operators behind the phases (measured records only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorRecord>,
}
