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

use tierloom_placement::Policy;

/// Tierloom's extension of DataFusion's session configuration.
///
/// `SET tierloom.placement = 'adaptive'` sets [`PlacementSettings::placement`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementSettings {
    /// Placement policy of columns.
    pub placement: Policy,
    /// Machine profile that placements are priced on; `None` disables modelling.
    pub machine: Option<String>,
}

impl Default for PlacementSettings {
    /// Everything in DRAM, nothing modelled.
    fn default() -> Self {
        let dram = tierloom_memory::PlacementSpec::Bind(tierloom_memory::Target::Tier(
            tierloom_topology::TierKind::Dram,
        ));
        PlacementSettings {
            placement: Policy::Uniform(dram),
            machine: None,
        }
    }
}
