//! Errors of planning and running a suite.
//!
//! Texts are for users and name the options of `tierloom run` that they are about.

use std::fmt::Display;
use tierloom_memory::{MemoryError, PlacementError};
use tierloom_model::ModelError;
use tierloom_placement::PolicyError;
use tierloom_record::RecordError;
use tierloom_workloads::WorkloadError;

/// Why a run could not be planned or did not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The request cannot be fulfilled as written; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// There is no such query, or a scale factor is out of range.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A placement does not fit this machine.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A placement does not fit a modelled machine.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The observer asked to stop; the text says what was finished or kept.
    #[error("{0}")]
    Interrupted(String),
    /// An answer differs from the stored one.
    #[error("{0}")]
    WrongAnswer(String),
    /// The engine failed to load or to run a query.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// The state of memory cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Captured work cannot be priced.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Something else failed while running.
    #[error("{0}")]
    Failed(String),
    /// This build has no SQL engine.
    #[error(
        "this tierloom was built without its SQL engine; build it with the default features: cargo \
         build --release"
    )]
    NoEngine,
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Correct the request: nothing was changed.
    BadInput,
    /// Look at the machine.
    Failed,
    /// Nothing: the caller asked to stop.
    Interrupted,
}

impl RunError {
    /// A request that cannot be fulfilled as written.
    pub(crate) fn refused(text: impl Display) -> Self {
        RunError::Refused(text.to_string())
    }

    /// A failure while running that no other variant describes.
    pub fn failed(text: impl Display) -> Self {
        RunError::Failed(text.to_string())
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            RunError::Refused(_)
            | RunError::Workload(_)
            | RunError::Placement(_)
            | RunError::Policy(_) => ErrorKind::BadInput,
            RunError::Interrupted(_) => ErrorKind::Interrupted,
            RunError::Record(error) if error.is_bad_input() => ErrorKind::BadInput,
            _ => ErrorKind::Failed,
        }
    }
}
