//! Errors of this crate.

use std::fmt::Display;

/// Why something in a cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The request cannot be fulfilled as written; nothing was changed.
    #[error("{0}")]
    Input(String),
    /// It failed while running.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
    #[error("the statement was stopped")]
    Interrupted,
}

impl ClusterError {
    /// A request that cannot be fulfilled as written.
    pub(crate) fn input(text: impl Display) -> Self {
        ClusterError::Input(text.to_string())
    }

    /// A failure while doing `what`.
    pub(crate) fn failed(what: impl Display) -> impl FnOnce(Box<dyn std::error::Error>) -> Self {
        move |error| ClusterError::Failed(format!("{what}: {error}"))
    }
}

/// Adds to an error what was attempted.
pub(crate) trait While<T> {
    /// The same result, whose error says what was attempted.
    fn attempting(self, what: impl Display) -> Result<T, ClusterError>;
}

impl<T, E: std::error::Error + 'static> While<T> for Result<T, E> {
    fn attempting(self, what: impl Display) -> Result<T, ClusterError> {
        self.map_err(|error| ClusterError::failed(what)(Box::new(error)))
    }
}
