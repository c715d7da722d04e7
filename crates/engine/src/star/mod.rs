//! Star joins as one fused pipeline over column codes.
//!
//! ```text
//!   AggregateExec (final)
//!     RepartitionExec                        StarExec ── plan of each dimension, run first
//!       AggregateExec (partial)       ──►      │   filters and lookups on codes, group ordinals,
//!         joins, filters, projections          │   accumulators: crate star
//!           PlacedScanExec (fact)              └── fact columns: codes in their regions
//! ```
//! [`StarJoinRule`] replaces the aggregation and everything below it, down to the scan of the fact
//! table, by a [`StarExec`]. The operator computes the partial states that DataFusion's operator
//! would, and DataFusion's own accumulators turn them into values (`finish`), so averages, types
//! and names are DataFusion's. An aggregation without group columns keeps its final step.
//!
//! `lower` rewrites every expression over one list of columns; `compile` turns them into tests,
//! lookups and integer arithmetic on codes. A plan that does not fit keeps DataFusion's operators,
//! and [`notes`] says why. What only shows at run time (a duplicate dimension key, accumulators
//! beyond the memory limit) falls back to DataFusion's operators then. A panic becomes an error of
//! the statement.

mod arithmetic;
mod compile;
mod conditions;
mod dimension;
mod distinct;
mod exec;
mod filters;
mod finish;
mod flags;
mod floats;
mod integers;
mod key_parts;
mod later;
mod listing;
mod lower;
mod measures;
mod moments;
mod morsels;
mod output;
mod rule;
mod run;
mod typed;
mod universe;
mod whole_floats;
mod word_key;
mod work;
mod zones;

pub use exec::StarExec;
pub(crate) use later::LaterRules;
pub use morsels::{MorselTimes, PassOptions};
pub(crate) use rule::EarlyStarJoins;
pub use rule::{StarJoinRule, notes};
pub use run::StarObserved;

/// Why a plan is not fused, as text that completes "not fused: ".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFused(pub String);

impl NotFused {
    fn because<T>(reason: impl Into<String>) -> Result<T, NotFused> {
        Err(NotFused(reason.into()))
    }

    /// The reason after a panic in our code; `said` is the panic's message.
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
