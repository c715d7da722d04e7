//! Adaptive placement in the engine.
//!
//! ```text
//!   physical plan ── describe ──> phases, structures ── explain_placement ──> wanted, actual, cost
//!   physical plan ── Driver ──> decisions ──> pages of columns, trials; times ──> controller
//!   column reads ── ColumnMover ──> heat ── moves ──> Region::migrate, page by page, rate-limited
//! ```
//! Decisions are made in [`tierloom_placement`]; this module applies them to plans, tables and
//! regions.

mod describe;
mod driver;
mod explain;
mod gate;
mod mover;

pub use describe::{Described, describe};
pub use driver::{
    AsMeasured, Decided, Driver, DriverOptions, MIN_TRIAL_NS, PrefetchSwitch, Prepared, Timing,
    decisions_batch, decisions_schema,
};
pub use explain::explain_placement;
pub use gate::Gate;
pub use mover::{ColumnMover, Moved, MoverOptions};
