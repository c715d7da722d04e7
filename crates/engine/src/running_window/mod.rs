//! Window functions over sorted rows from the first row of a partition to the current one.
//!
//! Running totals, numbers and ranks of rows need no more than one value per partition.
//! DataFusion's operator evaluates every row by itself, with a frame and an accumulator; here a
//! batch is one loop per function ([`function`]), in the types of its columns.
//!
//! The rows of the last peers of a batch are kept back where a value is that of the last of its
//! peers, as with the default frame of an aggregate with `ORDER BY`.

mod exec;
mod function;
mod rule;
mod top;

pub(crate) use exec::RunningWindowExec;
pub(crate) use rule::RunningWindows;
pub(crate) use top::{WindowTopExec, WindowTops};
