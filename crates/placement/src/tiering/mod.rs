//! Published tiering policies beside the controller, on simulated machines.
//!
//! Everything here is modelled: machines are drawn around a profile ([`TrueMachine`]), workloads
//! are the model's reference works, and the policies are written after their publications, with
//! the simplifications that their modules state.
//!
//! ```text
//!   profile ── draw ──> TrueMachine ──┬── policies: counters with errors ─> migrations ──┐
//!   reference work ── TieringWork ────┼── controller: times with errors ─> layouts ──────┼─> times
//!                                     └── grid: the best static placement per phase ─────┘
//! ```

mod activity;
mod best;
mod comparison;
mod contest;
mod controlled;
mod counters;
mod machines;
mod memory;
mod policies;
mod shaped;
mod tenant;
mod traffic;
mod transparent;
mod works;

pub use comparison::{PolicySummary, WorkSummary, compare};
pub use contest::{POLICIES, PolicyTime, compete};
pub use machines::{KINDS, MachineKind, TrueMachine};
pub use shaped::ShapedMachine;
pub use works::{TieringWork, WORKS};
