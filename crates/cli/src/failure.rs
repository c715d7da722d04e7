//! Why a command failed, and the exit code that follows from it.
//!
//! Every error of a library is sorted into one of three kinds here, because scripts depend on the
//! exit code: whether to correct the arguments (2), to look at the machine (1), or neither (130).

use std::fmt;
use std::process::ExitCode;
use tierloom_predict::PredictError;
use tierloom_suite::{ErrorKind, RunError};

/// Why a command stopped. The kind decides the exit code; the text is printed after `error: `.
#[derive(Debug)]
pub enum Failure {
    /// The request cannot be fulfilled as written: exit code 2, nothing was changed.
    BadInput(String),
    /// Something failed while running: exit code 1.
    Runtime(String),
    /// The user interrupted it: exit code 130, the shells' convention for SIGINT. Finished work is
    /// kept.
    Interrupted(String),
}

impl Failure {
    /// Bad input, exit code 2.
    pub fn input(error: impl std::fmt::Display) -> Self {
        Failure::BadInput(error.to_string())
    }

    /// A failure while running, exit code 1.
    pub fn runtime(error: impl std::fmt::Display) -> Self {
        Failure::Runtime(error.to_string())
    }

    /// Prints the failure to stderr and returns its exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::BadInput(text) => {
                note!("error: {text}");
                ExitCode::from(2)
            }
            Failure::Runtime(text) => {
                note!("error: {text}");
                ExitCode::from(1)
            }
            Failure::Interrupted(text) => {
                note!("interrupted: {text}");
                ExitCode::from(130)
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadInput(text) | Failure::Runtime(text) | Failure::Interrupted(text) => {
                f.write_str(text)
            }
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::BadInput => Failure::BadInput(text),
            ErrorKind::Failed => Failure::Runtime(text),
            ErrorKind::Interrupted => Failure::Interrupted(text),
        }
    }
}

impl From<tierloom_record::RecordError> for Failure {
    fn from(error: tierloom_record::RecordError) -> Self {
        if error.is_bad_input() {
            Failure::input(error)
        } else {
            Failure::runtime(error)
        }
    }
}

impl From<PredictError> for Failure {
    fn from(error: PredictError) -> Self {
        match error {
            PredictError::BadInput(text) => Failure::BadInput(text),
            PredictError::Failed(text) => Failure::Runtime(text),
        }
    }
}
