//! The record format: typed, versioned results of commands, one JSON object per line.
//!
//! A run of queries writes a *run* record (settings, machine, data), then one *query* record per
//! query, placement and machine, then a *summary*. An interrupted run has a summary too, with
//! `interrupted` set; a killed one has none. A run of concurrent sessions has *throughput* records
//! instead, one per placement and engine. All other records are independent of each
//! other: a *bench* record is one run of a memory benchmark, a *validation* record one comparison
//! of the model with publications, a *tune* record the weights of one phase, a *cost* record one
//! comparison of prices, a *restart* record the starts of a process with its tables from one place.
//! A *transactions* record has one placement of a store that transactions run on.
//! An *interference* record has queries on several hosts, each alone and all at once.
//! A *publication* record has published figures and the ids of the bench records that repeat them.
//! Every figure says whether it was [measured or modelled](Provenance), and repeated measurements
//! are kept as a [`Spread`]. `docs/records.md` describes all fields for other readers.
//!
//! ```text
//! {"type":"run",        "schema":"tierloom-record/1", "run_id":..., "settings":{...}, ...}
//! {"type":"query",      "run_id":..., "provenance":"measured", "time_ms":{...}, ...}
//! {"type":"summary",    "run_id":..., "means":[...], "times":{...}, ...}
//! {"type":"throughput", "run_id":..., "queries_per_hour":..., "streams":[...], ...}
//! {"type":"bench",      "schema":"tierloom-record/1", "plan":{...}, "tasks":[...], ...}
//! {"type":"validation", "schema":"tierloom-record/1", "figures":[...], ...}
//! {"type":"tune",       "schema":"tierloom-record/1", "points":[...], "best":[...], ...}
//! {"type":"restart",    "schema":"tierloom-record/1", "way":..., "first_answer_ms":..., ...}
//! {"type":"transactions","schema":"tierloom-record/1", "placement":..., "kinds":[...], ...}
//! {"type":"interference","schema":"tierloom-record/1", "hosts":[...], "cases":[...], ...}
//! {"type":"publication","schema":"tierloom-record/1", "paper":..., "series":[...], ...}
//! {"type":"cost",       "schema":"tierloom-record/1", "prices":..., "points":[...], ...}
//! ```

mod audit;
mod bench;
mod cost;
mod csv;
mod file;
pub mod findings;
mod interference;
mod means;
mod pool_cost;
mod publication;
mod query;
mod rank;
mod restart;
mod run;
mod set;
mod spread;
mod summary;
mod temp_tables;
mod throughput;
mod transactions;
mod tune;
mod validation;
mod write;

pub use audit::{AuditRecord, NodeShare};
pub use bench::{
    BenchHost, BenchRecord, Bucket, CounterRecord, FITS_CACHES, LatencyRecord, OperatorCount,
    OperatorPhase, OperatorTaskRecord, Percentile, RegionRecord, Remark, RepetitionSamples,
    Setting, StabilityRecord, StructureTraffic, TaskRecord, ThreadSamples,
};
pub use cost::{CostConfig, CostPoint, CostRecord, CostSensitivity};
pub use csv::bench_csv;
pub use file::RecordFile;
pub use interference::{
    HostBeside, HostInCase, HostRun, Interference, InterferenceCase, InterferenceHost,
    InterferenceRecord, QueryOnHost, TimeRatio,
};
pub use means::{REFERENCE, SAME_WITHIN, means, speedup_over_dram};
pub use pool_cost::{PoolCostOffer, PoolCostRecord, PoolCostSensitivity};
pub use publication::{PublicationRecord, PublishedPoint, PublishedRun, PublishedSeries};
pub use query::{
    Answer, CountedRecord, EngineKind, OperatorRecord, QueryRecord, TierUse, TimeShares,
};
pub use rank::{rank_test, smallest_p};
pub use restart::RestartRecord;
pub use run::{
    CacheCard, ColumnCard, DataCard, Figure, HostCard, HostTier, MachineCard, PlacementCard,
    ProbeCard, RunRecord, Settings, TableCard,
};
pub use set::{CutTail, RecordSet, RunSet};
pub use spread::{Spread, geometric_mean};
pub use summary::{IntensityRow, MeanRecord, MemoryUse, SummaryRecord, TimeBreakdown};
pub use temp_tables::{NodeBytes, PlaceBytes, TempTable, TempTablesRecord};
pub use throughput::{CapacityChange, RateWindow, StreamRecord, ThroughputRecord};
pub use transactions::{
    BesideRecord, CheckpointsRecord, MergingRecord, RedoLogRecord, StorePartRecord, TierTraffic,
    TransactionKind, TransactionsRecord,
};
pub use tune::{TierWeight, TunePoint, TuneRecord};
pub use validation::{FigureRecord, FigureSummary, NearestFigure, ValidationRecord};
pub use write::{RecordWriter, atomic_write};

use serde::{Deserialize, Serialize};

/// Name and version of the record schema; readers refuse any other.
pub const SCHEMA: &str = "tierloom-record/1";

/// The value of `machine` and of host names for the machine that ran the command.
///
/// Modelled figures have the name of a machine profile there.
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
    /// Settings, machine and data of a run of queries; comes before its other records.
    Run(Box<RunRecord>),
    /// One query under one placement on one machine.
    Query(Box<QueryRecord>),
    /// Several concurrent sessions under one placement.
    Throughput(Box<ThroughputRecord>),
    /// Means, placements and times of a run of queries; the last record of the run.
    Summary(Box<SummaryRecord>),
    /// One run of a memory benchmark; independent of other records.
    Bench(Box<BenchRecord>),
    /// Published figures and modelled ones; independent of other records.
    Validation(Box<ValidationRecord>),
    /// The best weights of one phase; independent of other records.
    Tune(Box<TuneRecord>),
    /// Prices of memory over the demand for it; independent of other records.
    Cost(Box<CostRecord>),
    /// Prices of a pool and of memory for each host's own peak; independent of other records.
    PoolCost(Box<PoolCostRecord>),
    /// Starts of a process in one way; independent of other records.
    Restart(Box<RestartRecord>),
    /// A query with temporary tables at one place; independent of other records.
    TempTables(Box<TempTablesRecord>),
    /// Transactions under one placement; independent of other records.
    Transactions(Box<TransactionsRecord>),
    /// Queries on several hosts, alone and at once; independent of other records.
    Interference(Box<InterferenceRecord>),
    /// Published figures and the benchmark runs that repeat them; refers to bench records.
    Publication(Box<PublicationRecord>),
}

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The attempted action, after "cannot" ("read", "write", ...).
        action: &'static str,
        /// The file, as given.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A line is not a record of this schema.
    #[error("{file}:{line}: {problem}; expected {expected}")]
    Malformed {
        /// The file, as given.
        file: String,
        /// Line number, from 1; 0 if the records do not come from a file.
        line: usize,
        /// What is wrong with the line.
        problem: String,
        /// What was expected instead.
        expected: String,
    },
    /// A file has no record at all.
    #[error(
        "{file}: no records in it; expected JSON lines as `tierloom run --jsonl`, `tierloom bench` and other commands with `--records` write them"
    )]
    Empty {
        /// The file, as given.
        file: String,
    },
}

impl RecordError {
    /// Whether the input is wrong (exit code 2) and not the machine (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            RecordError::Malformed { .. } | RecordError::Empty { .. } => true,
            RecordError::Io { action, source, .. } => {
                // A missing file is the user's input; a full disk or a lack of permission is not.
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
