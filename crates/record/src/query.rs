//! The result of one query under one placement on one machine.

use crate::{Provenance, Spread};
use serde::{Deserialize, Serialize};
use tierloom_model::Phase;

/// The engine that ran a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Tierloom's tables and planner rules on DataFusion.
    Tierloom,
    /// Plain DataFusion with default settings on a `MemTable` of the same data: the baseline.
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

/// The answer of a query and how it was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Number of rows of the answer, without a header.
    pub rows: u64,
    /// Digest of the answer as text: column names, then rows in order.
    pub digest: String,
    /// True if it equals the stored answer of an independent engine.
    pub checked: bool,
    /// What it was compared with, or why it was not compared.
    pub check: String,
}

/// Load on one tier while a query ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierUse {
    /// Name of the tier ("dram", "cxl").
    pub tier: String,
    /// Traffic averaged over the query, GB/s (decimal).
    pub bandwidth_gbps: f64,
    /// Traffic divided by the tier's peak bandwidth, 0 to 1, averaged over the query.
    pub utilisation: f64,
    /// Bytes read from and written to the tier.
    pub bytes: f64,
}

/// How a query's modelled time is distributed over causes; the four shares sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Processor work, without waiting for caches or memory.
    pub compute: f64,
    /// Hits in the last-level cache.
    pub cache: f64,
    /// Waiting for memory at its idle latency.
    pub latency: f64,
    /// Waiting beyond that, because a tier is loaded or its bandwidth is exhausted.
    pub bandwidth: f64,
}

/// One operator of the executed plan with its measured work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorRecord {
    /// What it does ("filter lineorder", "probe part", "aggregate").
    pub operator: String,
    /// Name of the phase that it belongs to: one pipeline of the plan.
    pub phase: String,
    /// Number of input rows.
    pub input_rows: u64,
    /// Number of output rows.
    pub output_rows: u64,
    /// Output rows divided by input rows; `None` for operators without input.
    pub selectivity: Option<f64>,
    /// CPU time of all threads together, ms.
    pub cpu_ms: f64,
}

/// A value that was counted in an execution besides the timed ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedRecord {
    /// "query", "phase" or "operator".
    pub level: String,
    /// Name of the phase, for phases and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Name of the operator, for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// What the value is ("busy_ns", "memory_bound").
    pub quantity: String,
    /// The value; `None` if it is not available.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: String,
    /// "counted" by hardware, "timed" by a clock, or "computed" from the plan and its rows.
    pub source: String,
    /// Why there is no value, or what is to be known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One query under one placement on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// Name of the query ("q1.1").
    pub query: String,
    /// Placement as given on the command line ("dram", "3:2", "columns:8").
    pub placement: String,
    /// [`crate::HERE`], or the name of a machine profile.
    pub machine: String,
    /// Whether the times were measured or modelled.
    pub provenance: Provenance,
    /// The engine that ran it; a modelled figure prices the work that this engine did.
    pub engine: EngineKind,
    /// Execution time without planning, ms.
    pub time_ms: Spread,
    /// Median time with everything in DRAM divided by this median; above 1 is faster.
    ///
    /// It compares the same machine and engine; `None` if placement `dram` was not run before.
    pub speedup_over_dram: Option<f64>,
    /// Planning time, ms; measured records only, the plan is made once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_ms: Option<f64>,
    /// Time from the statement's text to its complete answer, planning included each time, ms.
    ///
    /// Only measured records of the placement that the data was loaded under have it. A session
    /// that keeps plans may reuse an earlier plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_ms: Option<Spread>,
    /// The answer; measured records only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// How the time is distributed; modelled records only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<TimeShares>,
    /// What limits it, as text ("bandwidth of dram", "latency", "compute"); modelled records only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<String>,
    /// Load of each tier; modelled records only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierUse>,
    /// The work captured from the execution, in the terms of the model.
    ///
    /// Only measured records of the placement that the data was loaded under have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// The operators behind the phases; measured records only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorRecord>,
    /// What was counted in an untimed execution under the placement; measured records only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CountedRecord>,
}
