//! Failures of runs and of agents, as those of the command.

use crate::failure::Failure;
use tierloom_agent::AgentError;
use tierloom_bench::run::BenchError;

/// Converts an error of the agents to a failure.
pub fn of_agents(error: AgentError) -> Failure {
    match error {
        AgentError::Interrupted => {
            Failure::Interrupted("while hosts were working; they were stopped".into())
        }
        other => Failure::runtime(other),
    }
}

/// Converts the error of a run to a failure.
pub fn of_run(error: BenchError) -> Failure {
    match error {
        BenchError::Stopped { .. } => Failure::Interrupted(error.to_string()),
        error if error.is_bad_input() => Failure::input(error),
        error => Failure::runtime(error),
    }
}
