//! Hardware prefetchers, switched off and on per CPU, with a way back.
//!
//! ```text
//!   control (cpuinfo) ── register and bits of this processor
//!   switch: lock ─ read all CPUs ─ save, fsync ─ write CPU by CPU ─ read back      restore: read saved ─ write ─ read back ─ forget it
//!             └── PrefetchGuard: switched off and on per phase, back when it goes
//! ```
//!
//! What the registers held is on the disk before the first write, so that [`restore`] finds it after a crash; other bits of a register are
//! never changed. A second switch keeps what the first one saved. Registers are as firmware sets them after a reboot, so a saved state belongs to one boot.

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
    CpuState, Restored, SavedRegisters, Switched, peek, restore, saved, show, state_file, switch,
};
