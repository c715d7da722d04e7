//! TPC-H and TPC-DS: data from the generator crates as Arrow, and their queries.
//!
//! ```text
//!   Benchmark ── tables ── Source (table at a scale factor) ── batches: parts made by threads, handed out in order
//!        └────── queries ── stored answers of DuckDB ── compare
//! ```
//! The data is that of the Transaction Processing Performance Council's own generators, rewritten in Rust (crates `tpchgen` and
//! `tpcdsgen`). Figures made with it are not TPC results: no rule of an audited run is kept.

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

/// The version of the generated data: that of the generator crates. Figures of different versions are not comparable.
pub const GENERATOR_VERSION: u32 = 4;

/// One of the two benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Benchmark {
    /// Orders, line items and their dimensions: 8 tables, 22 queries.
    TpcH,
    /// Three sales channels: 24 tables, 99 queries.
    TpcDs,
}

impl Benchmark {
    /// Its name as one types it: "tpch", "tpcds".
    pub fn id(self) -> &'static str {
        match self {
            Benchmark::TpcH => "tpch",
            Benchmark::TpcDs => "tpcds",
        }
    }

    /// Its tables, the largest first: what is loaded first decides whether the rest fits.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Benchmark::TpcH => &tpch::TABLES,
            Benchmark::TpcDs => tpcds::TABLES,
        }
    }

    /// What is generated for table `table` at `scale_factor`.
    ///
    /// # Errors
    /// A table or scale factor that does not exist.
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
