//! Rows that cannot be among the first of their window are dropped before they are sorted.
//!
//! ```text
//!   rank() OVER (PARTITION BY a ORDER BY b) <= 3
//!     FilterExec          rank <= 3
//!       RunningWindowExec
//!         SortExec        a, b
//!           RepartitionExec
//!             WindowTopExec   keeps 3 per a, and rows that tie with the third
//! ```
//! What is dropped is worse than as many rows of its window as the filter lets through. Everything
//! above stays as it is, so an answer does not depend on what is dropped.

mod best;
mod exec;
mod rule;

pub(crate) use exec::WindowTopExec;
pub(crate) use rule::WindowTops;
