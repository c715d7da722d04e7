//! The Star Schema Benchmark: schema, data generator and the 13 queries.
//!
//! After P. O'Neil, E. O'Neil, X. Chen and S. Revilak, "The Star Schema Benchmark and Augmented
//! Fact Table Indexing", TPCTC 2009. There is one fact table, `lineorder`, and four dimensions:
//! `customer`, `supplier`, `part` and `date`.
//!
//! Tables, columns, value domains, cardinalities and filter factors are those of the paper. This
//! generator differs from the reference generator in these points:
//!
//! * Values come from a counter-based hash of (seed, table, column, row), so the data is the same
//!   for any number of threads and any chunk size. [`GENERATOR_VERSION`] changes whenever the data
//!   does.
//! * Order keys are dense, and foreign keys are uniform over all rows of a dimension (TPC-H leaves
//!   gaps in the order keys and gives a third of the customers no orders).
//! * Cities and brands are spread evenly instead of drawn independently: the shares that the filter
//!   factors assume hold at every scale factor.
//! * Order dates cover the whole date table; a commit date past its end becomes its last day.
//! * Money is in cents. The largest price is 10,495,000, so `lo_extendedprice * lo_discount` fits
//!   32 bits.

mod calendar;
mod columns;
mod config;
mod dimensions;
mod export;
mod golden;
mod lineorder;
mod memory;
mod queries;
mod rng;
mod schema;
mod words;

pub use crate::progress::{Progress, Silent};
pub use calendar::DATE_ROWS;
pub use columns::{ColumnValues, TextColumn};
pub use config::{ColumnStatistics, MAX_SCALE_FACTOR, MIN_SCALE_FACTOR, SsbConfig};
pub use dimensions::dimension;
pub use export::{ExportedTable, write_csv};
pub use golden::golden_answer;
pub use lineorder::Lineorder;
pub use memory::LineorderColumns;
pub use queries::{Query, queries, query};
pub use schema::{ColumnSpec, ColumnType, TableSpec, table, tables};

/// Version of the generated data; it increases when the same configuration gives other data.
pub const GENERATOR_VERSION: u32 = 1;
