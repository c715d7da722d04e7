//! Memory benchmarks: every path between processors and memory, measured so that the figures can be trusted and repeated.
//!
//! ```text
//!   workload file (YAML) ── file: parsed with places ──> plan: resolved runs ── run: regions, workers, samples ──> record: one line each
//!                                                             │
//!   characterize: plans of its own ───────────────────────────┘──> machine profile
//! ```

pub mod characterize;
pub mod dry_run;
pub mod file;
pub mod plan;
pub mod run;
