//! Throughput of several concurrent sessions.

use crate::{EngineKind, Provenance, Spread};
use serde::{Deserialize, Serialize};

/// One session of a throughput run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Number of the session, from 0; it determines the order of its queries.
    pub stream: u32,
    /// Number of queries that it finished.
    pub queries: u64,
    /// Time from the common start to the end of its last query, s.
    pub elapsed_s: f64,
    /// Queries divided by that time, per hour.
    pub queries_per_hour: f64,
    /// Times of its queries, ms; `None` if it finished none.
    pub time_ms: Option<Spread>,
}

/// Several concurrent sessions under one placement by one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// Placement as given on the command line ("dram", "3:2").
    pub placement: String,
    /// [`crate::HERE`], or the name of a machine profile.
    pub machine: String,
    /// Whether the times were measured or modelled.
    pub provenance: Provenance,
    /// The engine that ran the queries.
    pub engine: EngineKind,
    /// Time during which sessions started new queries, s.
    pub duration_s: f64,
    /// Number of queries that all sessions together finished.
    pub queries: u64,
    /// Sum of the rates of all sessions.
    pub queries_per_hour: f64,
    /// Rates of the sessions.
    pub per_stream_queries_per_hour: Spread,
    /// The sessions, in the order of their numbers.
    pub streams: Vec<StreamRecord>,
    /// Changes of the pool's capacity meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity: Vec<CapacityChange>,
    /// The rates before, during and after these changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateWindow>,
}

/// A change of the size of a pool's first member while sessions ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityChange {
    /// When it began, after the common start, s.
    pub start_s: f64,
    /// When it was done or refused, s.
    pub end_s: f64,
    /// Bytes of the member before.
    pub from_bytes: u64,
    /// Bytes that were requested.
    pub wanted_bytes: u64,
    /// Bytes of the member afterwards.
    pub to_bytes: u64,
    /// Bytes of tables that were copied to other memory of the pool first.
    pub moved_bytes: u64,
    /// Why nothing was changed; `None` if it was.
    pub refused: Option<String>,
}

/// Queries that all sessions together finished in a part of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateWindow {
    /// Start, after the common start, s.
    pub from_s: f64,
    /// End, s.
    pub to_s: f64,
    /// Number of the change that falls into it, from 0; at least a second is counted for each.
    pub change: Option<u32>,
    /// Queries that ended in it.
    pub queries: u64,
    /// Queries divided by its length, per hour.
    pub queries_per_hour: f64,
}
