//! Streams of queries beside other work: what they are and did, as plain data.

use tierloom_model::{Phase, Placement};

/// What streams did in some time.
#[derive(Debug, Clone, Copy)]
pub struct StreamsRan {
    /// Queries that ended.
    pub queries: u64,
    /// Sum of the streams' rates.
    pub queries_per_hour: f64,
}

/// The work of all queries of streams, for the model.
#[derive(Debug, Clone)]
pub struct StreamsWork {
    /// Number of queries.
    pub queries: u64,
    /// Phases of one execution of each, one after the other.
    pub phases: Vec<Phase>,
    /// Where their data is.
    pub placement: Placement,
}
