//! Hash joins and group-bys whose tables are larger than the cache.
//!
//! ```text
//!   HashJoinExec ──BigJoinRule──► BigJoinExec   same schema, partitions, order, NULLs, metrics
//!     build: all batches -> one batch, keys as 64-bit integers
//!            -> dense array or hash table (kernels::hash), several threads
//!     probe: a batch of keys at a time, many cache lines in flight, late materialisation
//! ```
//! [`BigJoinExec`] wraps the `HashJoinExec` that it replaces and answers planning questions from
//! it. Mark and null-aware joins, keys that are not integer-like and joins that feed dynamic
//! filters stay with DataFusion; [`BigJoinRule`] says why.

mod aggregate;
mod build;
mod exec;
mod integers;
mod keys;
mod rule;
mod storage;
mod stream;

pub use aggregate::{BigAggregateExec, BigAggregateOptions, BigAggregateRule};
pub(crate) use aggregate::{Groups, TextNumbers, can_group};
pub use exec::BigJoinExec;
pub(crate) use integers::{MAX_DIGITS, integers, is_key_type, of_strings};
pub use rule::{BigJoinOptions, BigJoinRule};

/// Name of the operator in plans and errors.
const NAME: &str = "BigJoinExec";
