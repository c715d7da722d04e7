//! DataFusion's own SQL test files, run through Tierloom's session with placed tables.
//!
//! ```text
//!   registry ── fetch ──► *.slt ── sqllogictest ──► records ──► Placed ─┬─ SqlSession (the answer)
//!                                                                       └─ Plain (data set up)
//!   FileReport ◄── run_file ◄── render, compare                 skipped.yaml ── list ──► verdict
//! ```
//! Nothing of the suite lies in this repository: the crate that ships it is found in cargo's
//! registry, in the version of the DataFusion that `Cargo.lock` names. Statements that fill tables
//! later than when they are made run in a plain DataFusion beside the session, and the table that
//! they leave is placed; every query runs on the session alone, twice.

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
pub use render::{Column, column_kinds, text_rows};
pub use run_file::{Difference, FileReport, count_records, run_file};

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A file or folder of this run.
    #[error("{what}: {source}")]
    File {
        /// What was being read or written.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The crate with the test files is neither in cargo's registry nor can it be fetched.
    #[error(
        "the test files of {what} are not in cargo's registry and could not be fetched; they are \
         needed once, with a network: {told}"
    )]
    Registry {
        /// Crate and version.
        what: String,
        /// What cargo said.
        told: String,
    },
    /// A test file that the parser does not take.
    #[error("{0}")]
    Suite(String),
    /// The list of what is skipped.
    #[error("skipped.yaml: {0}")]
    List(String),
}

impl SuiteError {
    fn file(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.to_string();
        move |source| SuiteError::File { what, source }
    }
}
