//! How a command ends when it does not end well.

use std::process::ExitCode;

/// Why a command stopped. Its kind decides the exit code; its text is printed after `error: `.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for cannot be: exit code 2, nothing was changed.
    BadInput(String),
    /// The machine failed while running: exit code 1.
    Runtime(String),
    /// The user stopped it: exit code 130, as shells have it for SIGINT. What was finished is kept.
    Interrupted(String),
}

impl Failure {
    /// A failure of the input.
    pub fn input(error: impl std::fmt::Display) -> Self {
        Failure::BadInput(error.to_string())
    }

    /// A failure of the machine.
    pub fn runtime(error: impl std::fmt::Display) -> Self {
        Failure::Runtime(error.to_string())
    }

    /// Prints the failure to stderr and gives its exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::BadInput(text) => {
                eprintln!("error: {text}");
                ExitCode::from(2)
            }
            Failure::Runtime(text) => {
                eprintln!("error: {text}");
                ExitCode::from(1)
            }
            Failure::Interrupted(text) => {
                eprintln!("interrupted: {text}");
                ExitCode::from(130)
            }
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
