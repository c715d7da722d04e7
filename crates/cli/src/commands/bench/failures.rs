//! Failures of runs, as those of the command.

use crate::failure::Failure;
use tierloom_bench::run::BenchError;

/// Converts the error of a run to a failure.
pub fn of_run(error: BenchError) -> Failure {
    match error {
        BenchError::Stopped { .. } => Failure::Interrupted(error.to_string()),
        error if error.is_bad_input() => Failure::input(error),
        error => Failure::runtime(error),
    }
}
