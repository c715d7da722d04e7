//! Fused star joins: filters, dimension lookups and groups over narrow codes, in one pass.
//!
//! A star query reads every row of a large table once. What its dimensions say about a row follows
//! from the row's keys, so joins become tests and lookups on codes, and nothing is materialised but
//! a selection vector:
//!
//! ```text
//!   codes of the fact columns          per worker and vector of 4,096 rows
//!   ───────────────► filters ──► positions ──► group ordinals ──► slots ──► accumulators
//!                    ranges: SIMD masks        tables by code      dense: mixed radix of ordinals
//!                    sets: bit tables          (late: only rows    hashed: product too large
//!                    order: measured shares    that are left)
//! ```
//! A [`StarPlan`] describes the query, a [`Worker`] runs it on one thread, and [`Groups::merge`]
//! combines the workers' results. The crate knows neither SQL nor Arrow: the caller translates
//! predicates into tests on codes, and proves with value ranges that the arithmetic cannot
//! overflow.

mod accumulate;
mod cost;
mod expr;
mod finished;
mod floats;
mod groups;
mod inputs;
mod layout;
mod many_groups;
mod one_group;
mod plan;
mod runs;
mod spans;
mod staged;
mod table;
mod values;
mod worker;

pub use cost::{best_order, pipeline_cost};
pub use expr::{Expr, Interval};
pub use finished::{FinishedGroups, MeasureValues};
pub use floats::FloatSum;
pub use groups::{DENSE_COMBINATIONS, Groups};
pub use inputs::{WordColumn, WordValues};
pub use plan::{
    ColumnFilter, GroupMap, GroupPart, Measure, MeasureKind, PlanError, StarPlan, Test, WordKey,
};
pub use spans::{SpanParts, Spans};
pub use tierloom_kernels::words::{Bits, FloatFunction, FloatOp, MOST_WHOLE};
pub use values::CodeValues;
pub use worker::{Columns, FilterStats, MORSEL_ROWS, Worker};
