//! Setting the kernel's weights for weighted interleaving, and putting the old ones back.
//!
//! ```text
//!   weights per tier ── node_weights ──> weight per node ── plan (reads only) ──> what would be written
//!                                                              │
//!   apply: lock ─ read ─ save old state, fsync ─ write ─ read back          restore: read saved ─ write ─ read back ─ forget it
//! ```
//!
//! The old state is on the disk before the first write, so whatever happens in between, [`restore`] finds it. A second [`apply`] keeps
//! the state that the first one saved. Weights are the kernel's own memory and are gone after a reboot; so is the meaning of a saved
//! state, which carries the id of the boot it belongs to.
//!
//! # The switch `auto`
//!
//! Kernels from 6.16 on have a file `auto` beside the weights. While it is on, the kernel derives the weights from the bandwidths that
//! firmware reports, and a write of any weight turns it off for all nodes. A kernel that was told no bandwidths shows it as on too, but
//! cannot be switched back on (`ENODEV`) before it is booted again. So it is never switched off unless that was asked for.

mod error;
mod files;
mod kernel;
mod nodes;
mod restore;
mod settings;
mod state;

pub use error::ApplyError;
pub use files::{FOLDER, SystemFiles};
pub use kernel::{Applied, AutoPolicy, NodeChange, Plan, apply, plan};
pub use nodes::{KERNEL_WEIGHTS, NodeWeights, TierNodes, node_weights};
pub use restore::{Restored, restore};
pub use settings::{Settings, Switch};
pub(crate) use state::boot_id;
pub use state::{Saved, StateFile};
