//! TPC-H and TPC-DS: generated data as Arrow batches, and the benchmarks' queries.
//!
//! ```text
//!   Benchmark ── tables ── Source (table at a scale factor) ── Batches: parts by threads, in order
//!        └────── queries ── stored answers of DuckDB ── compare
//! ```
//! The data is that of the generators by the Transaction Processing Performance Council, rewritten
//! in Rust (crates `tpchgen` and `tpcdsgen`). Results with it are not TPC results: the rules of an
//! audited run are not followed.

mod answer;
mod error;
mod query;
mod source;
mod stream;
mod tpcds;
mod tpch;

pub use answer::{STORED_SCALE_FACTOR, compare, stored_answer};
pub use error::TpcError;
pub use query::{Query, queries, query, stream_order};
pub use source::Source;
pub use stream::Batches;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

/// Version of the generated data, which is that of the generator crates.
///
/// Results with different versions are not comparable.
pub const GENERATOR_VERSION: u32 = 4;

/// Largest scale factor accepted: keys in 32-bit columns would overflow above it.
const LARGEST_SCALE_FACTOR: f64 = 1000.0;

/// The batches of one part of a table.
type Part = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// One of the two benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Benchmark {
    /// Orders, line items and their dimensions: 8 tables, 22 queries.
    TpcH,
    /// Three sales channels: 24 tables, 99 queries.
    TpcDs,
}

impl Benchmark {
    /// The name on the command line and in SQL: "tpch" or "tpcds".
    pub fn id(self) -> &'static str {
        match self {
            Benchmark::TpcH => "tpch",
            Benchmark::TpcDs => "tpcds",
        }
    }

    /// The tables, largest first: if memory is short, the order of loading decides which of them
    /// fit.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Benchmark::TpcH => &tpch::TABLES,
            Benchmark::TpcDs => tpcds::TABLES,
        }
    }

    /// The generator for table `table` at `scale_factor`.
    ///
    /// # Errors
    /// [`TpcError::NoTable`] or [`TpcError::ScaleFactor`] if the benchmark does not have it.
    pub fn source(self, table: &str, scale_factor: f64) -> Result<Source, TpcError> {
        Source::new(self, table, scale_factor)
    }
}

impl std::fmt::Display for Benchmark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Benchmark::TpcH => "TPC-H",
            Benchmark::TpcDs => "TPC-DS",
        })
    }
}
