//! Group-by for group tables larger than the cache.
//!
//! [`BigAggregateExec`] replaces an `AggregateExec` with one or two integer-like group keys. The
//! accumulators are DataFusion's own, so sums, averages, decimals and overflow behave identically.
//! Only the lookup of group numbers differs: `kernels::hash::GroupTable` looks up whole batches,
//! with many cache lines in flight. It cannot spill.

mod exec;
mod groups;
mod rule;
mod stream;

pub use exec::BigAggregateExec;
pub use rule::{BigAggregateOptions, BigAggregateRule};

/// Name of the operator in plans and errors.
const NAME: &str = "BigAggregateExec";
