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
}
