//! Measured search: access kernels run on memory with one set of weights after another.
//!
//! ```text
//!   topology ── Setup: tiers, CPUs, region ──> HostTiers ─┐ per weights: place, audit, run, audit
//!   profile (or rough_machine) ── search::measured ───────┘
//!                                        └──> best measured point, TuneRecord,
//!                                             one BenchRecord per run
//! ```
//!
//! A kernel performs the memory accesses of a phase without its computation: random reads for a
//! probe, sequential ones for a scan. Phases without a kernel are not measured, and [`kernel_of`]
//! says so. The model proposes weights, but every reported rate was measured, including those of
//! the first tier alone and of the weights that the kernel currently uses.

mod error;
mod kernels;
mod rough;
mod search;
mod setup;
mod tiers;

pub use error::MeasureError;
pub use kernels::{KernelPhase, USUAL, kernel_of};
pub use rough::rough_machine;
pub use search::{Found, Memo, Request, kernel_now, search_phase};
pub use setup::{MeasureOptions, Setup};
pub use tiers::{HostTiers, RateSource, Reading};

/// Phases with an access kernel.
pub const MEASURABLE: [&str; 10] = [
    "scan",
    "read",
    "write",
    "nt-write",
    "copy",
    "filter",
    "build",
    "probe",
    "aggregate",
    "random",
];
