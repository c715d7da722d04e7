//! Sorts by keys that are packed into integers.
//!
//! [`BigSortExec`] replaces a `SortExec` without a limit. It collects its input, packs the sort
//! columns of each row into one integer as far as they fit ([`keys`]), sorts these with the numbers
//! of their rows (`kernels::sort`), and gathers the other columns batch by batch. DataFusion's
//! operator sorts every batch by itself and merges them. It can spill and runs where memory is
//! limited.

mod exec;
mod keys;
mod rule;

pub(crate) use exec::BigSortExec;
pub(crate) use rule::BigSorts;
