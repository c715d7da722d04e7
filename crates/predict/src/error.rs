//! Why a question has no answer.

use std::fmt::Display;
use tierloom_record::RecordError;

/// Why a prediction failed, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// The question has to be corrected; the text says where.
    #[error("{0}")]
    BadInput(String),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

impl PredictError {
    /// A question that has to be corrected.
    pub fn input(error: impl Display) -> Self {
        PredictError::BadInput(error.to_string())
    }

    /// A failure that no other question avoids.
    pub fn failed(error: impl Display) -> Self {
        PredictError::Failed(error.to_string())
    }
}

impl From<RecordError> for PredictError {
    fn from(error: RecordError) -> Self {
        if error.is_bad_input() {
            PredictError::input(error)
        } else {
            PredictError::failed(error)
        }
    }
}
