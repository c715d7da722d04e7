//! Measured search: access loops and operators run on memory with one set of weights after
//! another.
//!
//! ```text
//!   topology ── Setup: tiers, CPUs, region ──> HostTiers ─┐ per weights: place, audit, run, audit
//!   profile (or rough_machine) ── search::measured ───────┘
//!                                        └──> best measured point, TuneRecord,
//!                                             one BenchRecord per run
//! ```
//!
//! Phases of queries are represented by the operators of `tierloom-operators`, of which one phase
//! is timed; plain accesses by the loops of `tierloom-kernels`; benchmarks of queries by an engine
//! that the caller brings ([`QueryRuns`], [`measured_as`]). The model
//! proposes weights, but every reported rate was measured, including those of the first tier alone
//! and of the weights that the kernel currently uses.

mod error;
mod kernels;
mod operators;
mod phase;
mod queries;
mod rough;
mod search;
mod setup;
mod tiers;

pub use error::MeasureError;
pub use kernels::measured_as;
pub use phase::{KernelPhase, Runs};
pub use queries::{Benchmark, QueryRuns};
pub use rough::rough_machine;
pub use search::{Found, Memo, Request, kernel_now, search_phase};
pub use setup::{MeasureOptions, Setup};
pub use tiers::{HostTiers, RateSource, Reading};
