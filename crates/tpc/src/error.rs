//! The error type of this crate.

use crate::Benchmark;

/// Errors of generating data, finding tables and queries, and comparing answers.
#[derive(Debug, thiserror::Error)]
pub enum TpcError {
    /// The benchmark has no table of this name.
    #[error("{benchmark} has no table {table:?}; it has {}", benchmark.tables().join(", "))]
    NoTable {
        /// The benchmark that was asked for.
        benchmark: Benchmark,
        /// The name that was given.
        table: String,
    },
    /// The benchmark has no query of this name.
    #[error("{benchmark} has no query {query:?}; it has {known}")]
    NoQuery {
        /// The benchmark that was asked for.
        benchmark: Benchmark,
        /// The name that was given.
        query: String,
        /// The names that exist, as a short text.
        known: String,
    },
    /// The scale factor is out of range.
    #[error(
        "scale factor {scale_factor}: {benchmark} data is made for 0.01 to {}",
        crate::LARGEST_SCALE_FACTOR
    )]
    ScaleFactor {
        /// The benchmark that was asked for.
        benchmark: Benchmark,
        /// The scale factor that was given.
        scale_factor: f64,
    },
    /// The generator or Arrow rejected a batch.
    #[error("generating {table}: {source}")]
    Generate {
        /// Name of the table.
        table: String,
        /// The error of Arrow or the generator.
        source: arrow::error::ArrowError,
    },
    /// A worker thread ended before its rows were complete.
    #[error("generating {table}: a worker thread {problem}")]
    Worker {
        /// Name of the table.
        table: String,
        /// How the thread ended.
        problem: String,
    },
    /// An answer differs from the stored one.
    #[error("{query} answers differently from DuckDB on the same data: {difference}")]
    Answer {
        /// Identifier of the query.
        query: String,
        /// The first difference found.
        difference: String,
    },
}
