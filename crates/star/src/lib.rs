//! Fused star joins: filters, dimension lookups and groups over narrow codes, in one pass.
//!
//! A star query looks at every row of a large table once. What its dimensions say about a row follows from the row's keys, so
//! joins become tests and lookups on codes, and nothing is materialised but a vector of positions:
//!
//! ```text
//!   codes of the fact columns          per worker and vector of 4,096 rows
//!   ───────────────► filters ──► positions ──► group ordinals ──► slots ──► accumulators
//!                    ranges: SIMD masks        tables by code      dense: mixed radix of the ordinals
//!                    sets: bit tables          (late: only rows    hashed: where the product is too large
//!                    order: measured shares    that are left)
//! ```
//! A [`StarPlan`] says what to do, a [`Worker`] does it for one thread, [`Groups::merge`] joins the workers' results. The crate knows neither
//! SQL nor Arrow: whoever makes a plan has translated predicates into codes, and proves with value ranges that the arithmetic cannot overflow.

mod cost;
mod expr;
mod groups;
mod plan;
mod worker;

pub use cost::{best_order, pipeline_cost};
pub use expr::{Expr, Interval};
pub use groups::{FinishedGroups, Groups};
pub use plan::{Filter, GroupMap, GroupPart, Measure, MeasureKind, PlanError, StarPlan, Test};
pub use worker::{FilterStats, MORSEL_ROWS, Worker};
