//! Predicts query time on tiered memory: a closed queueing model of analytical work on DRAM and
//! CXL.
//!
//! The crate is pure: it reads no file and makes no system call. A [`Machine`] (parsed from text),
//! the [`Phase`]s of a query and a [`Placement`] go in, a [`Solution`] comes out. Every result is
//! *modelled*, not measured, and callers must label it so.
//!
//! ```text
//!   machine profile (YAML) ── Machine ──┐
//!   captured or written work ── Phase ──┼── solve ── Solution: tuples/s, tier loads, bottleneck
//!   weights per structure ── Placement ─┘
//! ```
//!
//! # A worked example
//!
//! Thirty-two workers scan a large column on a machine with one DDR5 channel and one CXL expander.
//! DRAM alone is saturated, so placing three pages on DRAM for every two on CXL adds up the
//! bandwidths of both:
//!
//! ```
//! use tierloom_model::*;
//! let machine = profiles::load("nus24")?;
//! let scan = Phase::new("scan", PhaseKind::Scan, 1e9)
//!     .access(Access::sequential_read("fact.price", 4.0, 4_000_000_000).vectorised());
//! let on = |weights: &[(&str, f64)]| {
//!     let placement = Placement::new(TierShares::from_weights(weights)?);
//!     solve(&machine, &scan, &placement, 32, &Options::default())
//! };
//! let (dram, both) = (on(&[("dram", 1.0)])?, on(&[("dram", 3.0), ("cxl", 2.0)])?);
//! assert_eq!(dram.bottleneck, Bottleneck::Bandwidth("dram".into()));
//! assert!(dram.time_ns / both.time_ns > 1.6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The derivation, the source of every term, and what the model leaves out are in `docs/model.md`;
//! the formulas are in [`solve()`].
#![doc = include_str!("examples.md")]

pub mod cluster;
pub mod cost;
mod error;
mod machine;
pub mod profiles;
pub mod reference;
pub mod search;
pub mod sensitivity;
mod solve;
mod work;

pub use error::{MisreadError, ModelError, ProfileError};
pub use machine::{
    Cache, Concurrency, Figure, FootprintLatency, LoadedLatency, LoadedPoint, Machine,
    MeasuredRate, Measurements, PathMeasurement, Prefetch, Provenance, SCHEMA, SourceKind,
    TIER_NAMES, Tier, Tlb, TouchRate, Value,
};
pub use solve::{
    Background, Bottleneck, Domain, Options, PhaseSolution, QuerySolution, QueryTier, Solution,
    Terms, TierLoad, TimeShares, balance, solve, solve_all, solve_together,
};
pub use work::{
    Access, COPY_NS_PER_LINE, LINE_BYTES, MORSEL_BYTES, Op, Pattern, Phase, PhaseKind, Placement,
    StructureClass, TierShare, TierShares,
};
