//! What a run leaves behind: typed, versioned records, one JSON object per line.
//!
//! A file of records is a *run* record (settings, machine, data), then one *query* record per query, placement and
//! machine, then a *summary*. An interrupted run has a summary too, with `interrupted` set; a killed one has none. A run of
//! concurrent sessions has *throughput* records instead, one per placement and engine, and no summary.
//! The other records stand alone, open nothing and need nothing before them: a *bench* record is one run of a memory
//! benchmark, a *validation* record one comparison of the model with publications, a *tune* record the weights of one phase,
//! a *cost* record one comparison of prices.
//! Every figure says whether it was [measured or modelled](Provenance) and carries its [`Spread`].
//!
//! ```text
//!   {"type":"run",     "schema":"tierloom-record/1", "run_id":..., "settings":{...}, "host":{...}, ...}
//!   {"type":"query",   "run_id":..., "query":"q1.1", "placement":"dram", "provenance":"measured", "time_ms":{...}, ...}
//!   {"type":"summary", "run_id":..., "means":[...], "times":{...}}
//!   {"type":"throughput", "run_id":..., "placement":"dram", "queries_per_hour":..., "streams":[...], ...}
//!   {"type":"bench",   "schema":"tierloom-record/1", "run_id":..., "plan":{...}, "hosts":[...], "tasks":[...], ...}
//!   {"type":"validation", "schema":"tierloom-record/1", "provenance":"modelled", "figures":[{"published":..., "modelled":...}, ...], ...}
//!   {"type":"tune",       "schema":"tierloom-record/1", "machine":..., "phase":..., "points":[...], "best":[...], ...}
//!   {"type":"cost",       "schema":"tierloom-record/1", "prices":..., "points":[...], "findings":[...], ...}
//! ```

mod audit;
mod bench;
mod cost;
mod csv;
mod file;
mod flat;
mod query;
mod run;
mod set;
mod spread;
mod summary;
mod throughput;
mod tune;
mod validation;
mod write;

pub use audit::{AuditRecord, NodeShare};
pub use bench::{
    BenchHost, BenchRecord, Bucket, CounterRecord, LatencyRecord, Percentile, RegionRecord, Remark,
    Setting, StabilityRecord, TaskRecord,
};
pub use cost::{CostConfig, CostPoint, CostRecord, CostSensitivity};
pub use csv::bench_csv;
pub use file::RecordFile;
pub use flat::{tune_csv, validation_csv};
pub use query::{Answer, EngineKind, OperatorRecord, QueryRecord, TierUse, TimeShares};
pub use run::{
    CacheCard, ColumnCard, DataCard, Figure, HostCard, HostTier, MachineCard, PlacementCard,
    ProbeCard, RunRecord, Settings, TableCard,
};
pub use set::{CutTail, RecordSet, RunSet};
pub use spread::{Spread, geometric_mean};
pub use summary::{IntensityRow, MeanRecord, MemoryUse, SummaryRecord, TimeBreakdown};
pub use throughput::{StreamRecord, ThroughputRecord};
pub use tune::{TierWeight, TunePoint, TuneRecord};
pub use validation::{FigureRecord, FigureSummary, ValidationRecord};
pub use write::{RecordWriter, atomic_write};

use serde::{Deserialize, Serialize};

/// Name and version of the record schema; a reader refuses any other.
pub const SCHEMA: &str = "tierloom-record/1";

/// The name of the machine a run was measured on, where a profile's name would stand for a modelled figure.
pub const HERE: &str = "here";

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Timed on the machine that ran the command.
    Measured,
    /// Computed by the tier model from measured work and a machine profile.
    Modelled,
}

impl std::fmt::Display for Provenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Provenance::Measured => "measured",
            Provenance::Modelled => "modelled",
        })
    }
}

/// One line of a records file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// Opens a run: what was asked for and where.
    Run(Box<RunRecord>),
    /// One query under one placement on one machine.
    Query(Box<QueryRecord>),
    /// Several concurrent sessions under one placement.
    Throughput(Box<ThroughputRecord>),
    /// Closes a run.
    Summary(Box<SummaryRecord>),
    /// One run of a memory benchmark; belongs to no other record.
    Bench(Box<BenchRecord>),
    /// Published figures against modelled ones; belongs to no other record.
    Validation(Box<ValidationRecord>),
    /// The best weights of one phase; belongs to no other record.
    Tune(Box<TuneRecord>),
    /// Prices of memory over the demand for it; belongs to no other record.
    Cost(Box<CostRecord>),
}

/// What can go wrong with records.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted ("read", "write", ...).
        action: &'static str,
        /// On which file.
        path: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A line is not a record.
    #[error("{file}:{line}: {problem}; expected {expected}")]
    Malformed {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
        /// What should have stood there.
        expected: String,
    },
    /// A file holds no record at all.
    #[error(
        "{file}: no records in it; expected JSON lines as `tierloom run --jsonl`, `tierloom bench` and other commands with `--records` write them"
    )]
    Empty {
        /// The file.
        file: String,
    },
}

impl RecordError {
    /// Whether the input is at fault (exit code 2) rather than the machine (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            RecordError::Malformed { .. } | RecordError::Empty { .. } => true,
            RecordError::Io { action, source, .. } => {
                matches!(*action, "read" | file::OPENING)
                    && matches!(
                        source.kind(),
                        std::io::ErrorKind::NotFound
                            | std::io::ErrorKind::IsADirectory
                            | std::io::ErrorKind::InvalidData
                            | std::io::ErrorKind::InvalidInput
                    )
            }
        }
    }
}
