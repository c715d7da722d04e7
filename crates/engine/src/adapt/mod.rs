//! Placement that adapts, in the engine: what a statement's operators want, and columns that move while queries run.
//!
//! ```text
//!   physical plan ── describe ──> phases, structures ── explain_placement ──> wanted and actual placement, expected time, why
//!   physical plan ── Driver ──> controller's decisions ──> pages of columns and trials; times of the run ──> controller
//!   column reads of executions ── ColumnMover ──> heat ── moves ──> Region::migrate, page by page, at a bounded rate
//! ```
//! Decisions come from [`tierloom_placement`]; here they meet plans, tables and regions.

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

use tierloom_placement::Policy;

/// The session's own settings: an extension of DataFusion's session configuration.
///
/// `SET tierloom.placement = 'adaptive'` sets [`Settings::placement`].
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where columns go.
    pub placement: Policy,
    /// Machine profile that wanted placements are priced on; without one nothing is modelled.
    pub machine: Option<String>,
}

impl Default for Settings {
    /// Everything in DRAM, nothing modelled.
    fn default() -> Self {
        let dram = tierloom_memory::PlacementSpec::Bind(tierloom_memory::Target::Tier(
            tierloom_topology::TierKind::Dram,
        ));
        Settings {
            placement: Policy::Uniform(dram),
            machine: None,
        }
    }
}
