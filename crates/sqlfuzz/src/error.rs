//! What keeps the fuzzer itself from working.

/// An error of the fuzzer, not of what it tests.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// A case file, or a table of a case, is not what it should be.
    #[error("case: {0}")]
    Case(String),
    /// Arrow refused.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// Parquet refused.
    #[error("parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A file or a process.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The session does not load a table.
    #[error("{0}")]
    Load(String),
    /// An engine could not be set up.
    #[error("{0}")]
    Setup(String),
}

impl FuzzError {
    /// For `map_err` of input and output.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> FuzzError {
        let what = what.into();
        move |source| FuzzError::Io { what, source }
    }
}
