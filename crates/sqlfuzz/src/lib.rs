//! Random SQL on random data: Tierloom's session against plain DataFusion and DuckDB.
//!
//! ```text
//!  seed ── data ──► tables (types, layouts, files) ────┬─► session: placed columns ─┐
//!       └─ generate ──► statements (syntax trees) ─────┼─► plain DataFusion ────────┼─► compare
//!                                                      └─► DuckDB (Python worker) ──┘      │
//!  weights ◄── coverage: operators in the plans           case file ◄── shrink ◄──── difference
//! ```

pub mod ast;
pub mod case;
pub mod compare;
pub mod coverage;
pub mod data;
pub mod engines;
mod error;
mod excuses;
pub mod fuzz;
pub mod generate;
pub mod judge;
pub mod memory;
pub mod panics;
pub mod rng;
pub mod shrink;
pub mod step;
mod story;
pub mod table;
mod timed;
pub mod value;

pub use error::FuzzError;
