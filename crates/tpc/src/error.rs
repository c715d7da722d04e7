//! What can go wrong.

use crate::Benchmark;

/// Errors of generating data and of naming tables and queries.
#[derive(Debug, thiserror::Error)]
pub enum TpcError {
    /// A table that the benchmark does not have.
    #[error("{benchmark} has no table {table:?}; it has {}", benchmark.tables().join(", "))]
    NoTable {
        /// The benchmark.
        benchmark: Benchmark,
        /// What was asked for.
        table: String,
    },
    /// A query that the benchmark does not have.
    #[error("{benchmark} has no query {query:?}; it has {known}")]
    NoQuery {
        /// The benchmark.
        benchmark: Benchmark,
        /// What was asked for.
        query: String,
        /// What there is, in short.
        known: String,
    },
    /// A scale factor out of range.
    #[error(
        "scale factor {scale_factor}: {benchmark} data is made for 0.01 to {}",
        crate::source::LARGEST_SCALE_FACTOR
    )]
    ScaleFactor {
        /// The benchmark.
        benchmark: Benchmark,
        /// What was asked for.
        scale_factor: f64,
    },
    /// The generator or Arrow refused a batch.
    #[error("generating {table}: {source}")]
    Generate {
        /// The table.
        table: String,
        /// Arrow's error.
        source: arrow::error::ArrowError,
    },
    /// A thread of the generator ended without its rows.
    #[error("generating {table}: a worker thread {problem}")]
    Worker {
        /// The table.
        table: String,
        /// What happened to it.
        problem: String,
    },
    /// An answer that differs from the stored one.
    #[error("{query} answers differently from DuckDB on the same data: {difference}")]
    Answer {
        /// The query.
        query: String,
        /// The first difference.
        difference: String,
    },
}
