//! DataFusion's own SQL test files, run through Tierloom's session with placed tables.
//!
//! ```text
//!   registry ── fetch ──► *.slt ── sqllogictest ──► records ─► SharedPair ┬─ SqlSession (answer)
//!                                                                        └─ PlainSession (data)
//!   FileReport ◄── run_file ◄── render, compare                 skipped.yaml ── list ──► verdict
//! ```
//! The suite's files are not in this repository: the crate that contains them is found in cargo's
//! registry, in the version of DataFusion in `Cargo.lock`. Statements that change tables after
//! their creation run in a plain DataFusion beside the session, and the resulting table is then
//! placed. Every query runs on the session alone, twice.

mod compare;
mod fetch;
mod kind;
mod list;
mod lost;
mod placed;
mod plain;
mod reason;
mod render;
mod run_file;
mod stamp;
mod tpch;

pub use compare::{same_rows, trimmed};
pub use fetch::{Suite, find};
pub use list::{Listed, Skips, blessed};
pub use reason::Reason;
pub use render::{ColumnKind, column_kinds, text_rows};
pub use run_file::{Difference, FileReport, count_records, run_file};

/// Why the suite or one of its files could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A file or folder could not be read or written.
    #[error("{what}: {source}")]
    File {
        /// The path, or what was being done.
        what: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The crate with the test files is neither in cargo's registry nor can it be fetched.
    #[error(
        "the test files of {what} are not in cargo's registry and could not be fetched; they are \
         needed once, with a network: {message}"
    )]
    Registry {
        /// Name and version of the crate.
        what: String,
        /// The error message of cargo.
        message: String,
    },
    /// A test file cannot be parsed, or a session cannot be created.
    #[error("{0}")]
    Suite(String),
    /// The list of skipped records cannot be read or parsed.
    #[error("skipped.yaml: {0}")]
    List(String),
}

impl SuiteError {
    fn file(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.to_string();
        move |source| SuiteError::File { what, source }
    }
}
