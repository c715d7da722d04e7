//! Switches hardware prefetchers off and on per CPU, and restores them.
//!
//! ```text
//!   control (cpuinfo) ── register and bits of this processor
//!   switch:   lock ─ read all CPUs ─ save, fsync ─ write CPU by CPU ─ read back
//!   restore:  read saved values ─ write ─ read back ─ delete them
//!             └── PrefetchGuard: off and on per phase, restored when dropped
//! ```
//!
//! The original values are on disk before the first write, so that [`restore`] works after a crash.
//! Other bits of a register never change. A second switch keeps the values that the first one
//! saved. Firmware sets the registers at each boot, so a saved state is valid for one boot only.

mod control;
mod error;
mod guard;
mod registers;
mod switch;

pub use control::{Control, control};
pub use error::PrefetchError;
pub use guard::{PrefetchGuard, Prefetchers};
pub use registers::Registers;
pub use switch::{
    CpuState, RestoredRegisters, SavedRegisters, Switched, peek, restore, saved, show, state_file,
    switch,
};
