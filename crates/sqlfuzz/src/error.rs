//! Errors of the fuzzer itself.

/// An error of the fuzzer, as opposed to a failure that it found.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// A case file, or a table of a case, is invalid.
    #[error("case: {0}")]
    Case(String),
    /// Arrow rejected data of a case.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// Parquet rejected data of a case.
    #[error("parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A file or process could not be used.
    #[error("{what}: {source}")]
    Io {
        /// The path, or what was attempted.
        what: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The session could not load a table.
    #[error("{0}")]
    Load(String),
    /// An engine could not be set up.
    #[error("{0}")]
    Setup(String),
}

impl FuzzError {
    /// A closure for `map_err` on I/O errors.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> FuzzError {
        let what = what.into();
        move |source| FuzzError::Io { what, source }
    }
}
