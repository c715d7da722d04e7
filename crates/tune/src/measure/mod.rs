//! The best weights of real tiers, by running access kernels on memory placed with one set of weights after another.
//!
//! ```text
//!   topology ── Setup: tiers, CPUs, region ──> HostTiers ─┐ one benchmark run per weights: place, audit, run, audit
//!   profile (or a rough guess) ── search::measured ──> asks ┘──> best of the measured points, TuneRecord, one BenchRecord per run
//! ```
//!
//! A kernel is the memory side of a phase without its processor time: random reads for a probe, sequential ones for a scan. What has no
//! kernel is not measured, and [`kernel_of`] says so. The model proposes weights, but every rate that is told was measured, also those of
//! the first tier alone and of the kernel's own weights.

mod error;
mod kernels;
mod rough;
mod search;
mod setup;
mod tiers;

pub use error::MeasureError;
pub use kernels::{KernelPhase, MEASURABLE, USUAL, kernel_of};
pub use rough::rough_machine;
pub use search::{Found, Memo, Request, kernel_now, search_phase};
pub use setup::{MeasureOptions, Setup};
pub use tiers::{HostTiers, Reading, Tiers};
