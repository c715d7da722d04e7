//! Queries of several concurrent sessions.

use crate::{EngineKind, Provenance, Spread};
use serde::{Deserialize, Serialize};

/// One session of a throughput run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Its number, from 0; the order of its queries follows from it.
    pub stream: u32,
    /// Queries it finished.
    pub queries: u64,
    /// From the common start to the end of its last query, seconds.
    pub elapsed_s: f64,
    /// The one over the other.
    pub queries_per_hour: f64,
    /// Times of its queries in milliseconds; `None` if it finished none.
    pub time_ms: Option<Spread>,
}

/// Several sessions at once under one placement by one engine; belongs to the run that its `run_id` names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// The placement as asked for ("dram", "3:2").
    pub placement: String,
    /// [`crate::HERE`] or the name of a machine profile.
    pub machine: String,
    /// Measured or modelled.
    pub provenance: Provenance,
    /// The engine that ran the queries.
    pub engine: EngineKind,
    /// How long streams started queries, seconds.
    pub duration_s: f64,
    /// Queries that all streams finished.
    pub queries: u64,
    /// The sum of the streams' rates.
    pub queries_per_hour: f64,
    /// The streams' rates.
    pub per_stream_queries_per_hour: Spread,
    /// Stream by stream.
    pub streams: Vec<StreamRecord>,
}
