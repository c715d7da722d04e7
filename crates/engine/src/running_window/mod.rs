//! Window functions over sorted rows, from the first row of a partition or from so many rows before
//! the current one.
//!
//! Running totals, numbers and ranks of rows need no more than one value per partition, and totals
//! of frames ([`sliding`]) those of the rows around.
//! DataFusion's operator evaluates every row by itself, with a frame and an accumulator; here a
//! batch is one loop per function ([`function`]), in the types of its columns.
//!
//! The rows of the last peers of a batch are kept back where a value is that of the last of its
//! peers, as with the default frame of an aggregate with `ORDER BY`, and so are as many rows as a
//! frame or `lead` looks ahead. Aggregates over whole partitions ([`whole`]) keep the batches of
//! one.

mod by_value;
mod exec;
mod function;
mod kinds;
mod rule;
mod sliding;
mod top;
mod totals;
mod whole;

pub(crate) use exec::RunningWindowExec;
pub(crate) use rule::RunningWindows;
pub(crate) use top::{WindowTopExec, WindowTops};
pub(crate) use whole::WholeWindowExec;
