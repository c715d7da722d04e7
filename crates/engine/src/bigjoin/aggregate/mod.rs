//! Group-by with states that leave the cache.
//!
//! [`BigAggregateExec`] stands for an `AggregateExec` with one or two integer-like group keys: DataFusion's own accumulators (so sums, averages,
//! decimals and overflow are exactly theirs), with groups found in batches by `kernels::hash::GroupTable`, many lines in flight.

mod exec;
mod groups;
mod rule;
mod stream;

pub use exec::BigAggregateExec;
pub use rule::{BigAggregateOptions, BigAggregateRule};

/// What plans and errors call the operator.
const NAME: &str = "BigAggregateExec";
