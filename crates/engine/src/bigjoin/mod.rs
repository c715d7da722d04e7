//! Hash joins whose build side leaves the cache.
//!
//! ```text
//!   HashJoinExec ──BigJoinRule──► BigJoinExec   same schema, partitions, order, NULL rules and metrics
//!        build: all batches -> one batch, keys as 64-bit integers -> dense array or hash table (kernels::hash), several threads
//!        probe: a batch of keys at a time, many cache lines in flight, rows put together at the end
//! ```
//! [`BigJoinExec`] keeps the `HashJoinExec` that it replaces and answers from it what a plan asks of a node. What it does not do (outer, mark and
//! null-aware joins, keys that are not integer-like, filters pushed down at run time) stays with DataFusion; [`BigJoinRule`] says why.

mod aggregate;
mod build;
mod exec;
mod keys;
mod rule;
mod storage;
mod stream;

pub use aggregate::{BigAggregateExec, BigAggregateOptions, BigAggregateRule};
pub use exec::BigJoinExec;
pub use rule::{BigJoinOptions, BigJoinRule};

/// What plans and errors call the operator.
const NAME: &str = "BigJoinExec";
