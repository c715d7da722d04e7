//! Sets the kernel's weights for weighted interleaving, and restores the old ones.
//!
//! ```text
//!   weights per tier ── node_weights ──> weight per node ── plan (reads only) ──> list of writes
//!
//!   apply:    lock ─ read ─ save old state, fsync ─ write ─ read back
//!   restore:  read saved state ─ write ─ read back ─ delete saved state
//! ```
//!
//! The old state is on disk before the first write, so [`restore`] works after a failure at any
//! point. A second [`apply`] keeps the state that the first one saved. The kernel loses its weights
//! at a reboot, which also makes a saved state obsolete; it therefore includes the id of its boot.
//!
//! # The switch `auto`
//!
//! Kernels from 6.16 on have a file `auto` next to the weights. While it is on, the kernel derives
//! the weights from the bandwidths that firmware reports, and writing any weight switches it off
//! for all nodes. A kernel without reported bandwidths shows it as on too, but then it cannot be
//! switched on again (`ENODEV`) until the next boot. It is therefore never switched off unless the
//! user asks for it.

mod error;
mod files;
mod kernel;
mod nodes;
mod restore;
mod settings;
mod state;

pub use error::ApplyError;
pub use files::{FOLDER, SystemFiles};
pub use kernel::{Applied, AutoPolicy, NodeChange, WeightsChange, apply, plan};
pub use nodes::{KERNEL_WEIGHTS, NodeWeights, TierNodes, node_weights};
pub use restore::{RestoredWeights, restore};
pub use settings::{InterleaveSettings, Switch};
pub use state::{Saved, usual_state_file};
pub use tierloom_topology::saved_state::{SavedState, StateFile};
