//! Group-by for group tables larger than the cache.
//!
//! [`BigAggregateExec`] replaces an `AggregateExec` whose group keys are integers, strings, dates
//! and the like. The accumulators are DataFusion's own, so sums, averages, decimals and overflow
//! behave identically. Only the lookup of group numbers differs: key columns become codes that are
//! packed into 64 bits, and `kernels::hash::GroupTable` looks up whole batches, with many cache
//! lines in flight. It cannot spill.

mod codes;
mod exec;
mod groups;
mod kept_views;
mod layout;
mod numbers;
#[cfg(test)]
mod one_hash;
mod rows;
mod rule;
mod stream;

pub(crate) use codes::is_supported as can_group;
pub use exec::BigAggregateExec;
pub(crate) use groups::Groups;
pub(crate) use numbers::{IS_HASH, TextNumbers, text_code};
pub use rule::{BigAggregateOptions, BigAggregateRule};

/// Name of the operator in plans and errors.
const NAME: &str = "BigAggregateExec";
