//! Memory benchmarks: bandwidth and latency of every path from processors to memory.
//!
//! ```text
//!   workload file (YAML) ── file: parse, expand ──> plan: resolved runs ── run: execute ──> record
//!                                                     │                       │
//!   characterize: builds its own plans ───────────────┘                       └──> machine profile
//! ```
//!
//! Each run becomes one record with its resolved plan, the placement the kernel reports, and all
//! repetitions, so that a figure can be checked and repeated. The access loops themselves are in
//! `tierloom-kernels`; this crate decides what they run on, for how long, and what counts as valid.

pub mod characterize;
pub mod dry_run;
pub mod file;
pub mod plan;
pub mod run;
