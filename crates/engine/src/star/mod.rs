//! Star joins as one fused pipeline over codes.
//!
//! ```text
//!   AggregateExec (final)
//!     RepartitionExec                           StarExec ── plan of each dimension, run first
//!       AggregateExec (partial)        ──►        │   filters and lookups on codes, group ordinals, accumulators: crate star
//!         joins, filters, projections             └── fact columns: codes in their regions
//!           PlacedScanExec (fact)
//! ```
//! [`StarJoinRule`] replaces the aggregation and all below it down to the fact table by a [`StarExec`]. It makes the partial states that DataFusion's
//! operator would, and DataFusion's accumulators make values of them (`finish`), so that averages, types and names stay DataFusion's; an aggregation
//! without groups keeps its final step. `lower` writes every expression over one list of columns,
//! `compile` turns them into tests, lookups and integer arithmetic on codes. What does not fit keeps DataFusion's
//! operators; [`notes`] says why. What shows only while running (a key that is there twice,
//! accumulators that the memory limit
//! has no room for) falls back then; a panic is one error of the statement.

mod compile;
mod dimension;
mod distinct;
mod exec;
mod filters;
mod finish;
mod lower;
mod measures;
mod morsels;
mod output;
mod rule;
mod run;
mod work;

pub use exec::StarExec;
pub use morsels::{MorselTimes, PassOptions};
pub use rule::{StarJoinRule, notes};
pub use run::StarObserved;

/// Why a plan is not fused, in words that finish "not fused: ".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFused(pub String);

impl NotFused {
    fn because<T>(reason: impl Into<String>) -> Result<T, NotFused> {
        Err(NotFused(reason.into()))
    }

    /// A mistake of ours: what the panic said.
    fn broke_down(said: &str) -> NotFused {
        NotFused(format!(
            "the star join broke down ({said}), please report this"
        ))
    }
}

impl std::fmt::Display for NotFused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<datafusion::error::DataFusionError> for NotFused {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        NotFused(error.strip_backtrace())
    }
}

impl From<arrow::error::ArrowError> for NotFused {
    fn from(error: arrow::error::ArrowError) -> Self {
        NotFused(error.to_string())
    }
}

impl From<crate::EngineError> for NotFused {
    fn from(error: crate::EngineError) -> Self {
        NotFused(error.to_string())
    }
}
