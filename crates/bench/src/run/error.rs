//! Errors that stop a run before it has a record.
//!
//! Problems that only make a figure doubtful are not errors: they become remarks in the record.

use tierloom_kernels::access::AccessError;
use tierloom_memory::{DevdaxError, MemoryError, PlacementError};

/// Why a run has no record.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The plan does not make sense or does not fit this machine; nothing was run.
    #[error("{place}: {problem}")]
    Plan {
        /// File, line and task.
        place: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// This machine lacks what the plan names: a node, a tier, a device or a CPU; nothing was run.
    #[error("{place}: {problem}")]
    Machine {
        /// File, line and task.
        place: String,
        /// What is missing, and what there is.
        problem: String,
    },
    /// Memory could not be allocated, placed or audited.
    #[error("{place}: {source}")]
    Memory {
        /// File, line and task.
        place: String,
        /// The error of the memory layer.
        source: Box<MemoryError>,
        /// Whether the plan is wrong and not the machine.
        bad_input: bool,
    },
    /// A thread could not be started or bound to its CPUs.
    #[error("{place}: cannot {action}: {source}")]
    Thread {
        /// File, line and task.
        place: String,
        /// The attempted action, after "cannot".
        action: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The run was interrupted before it had a figure.
    #[error("{place}: stopped before the first repetition was complete")]
    Stopped {
        /// File, line and task.
        place: String,
    },
    /// A worker thread panicked: a defect of this program.
    #[error("{place}: a worker thread failed: {problem}")]
    Worker {
        /// File, line and task.
        place: String,
        /// The message of the panic.
        problem: String,
    },
}

impl BenchError {
    /// Whether the input is wrong (exit code 2) and not the machine (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Plan { .. } | Self::Machine { .. } => true,
            Self::Memory { bad_input, .. } => *bad_input,
            Self::Thread { .. } | Self::Stopped { .. } | Self::Worker { .. } => false,
        }
    }

    /// What this machine lacks, if that is why the plan cannot run here.
    pub fn lacks(&self) -> Option<String> {
        match self {
            Self::Machine { problem, .. } => Some(problem.clone()),
            Self::Memory { source, .. } => match source.as_ref() {
                MemoryError::Placement(error) => Some(error.to_string()),
                MemoryError::Devdax(error) => Some(error.to_string()),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn machine(place: &str, problem: impl ToString) -> Self {
        Self::Machine {
            place: place.to_owned(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn plan(place: &str, problem: impl ToString) -> Self {
        Self::Plan {
            place: place.to_owned(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn memory(place: &str, source: MemoryError) -> Self {
        Self::Memory {
            place: place.to_owned(),
            bad_input: is_asked_wrongly(&source),
            source: Box::new(source),
        }
    }

    pub(crate) fn access(place: &str, error: AccessError) -> Self {
        Self::plan(place, error)
    }

    pub(crate) fn placement(place: &str, error: PlacementError) -> Self {
        Self::machine(place, error)
    }
}

/// Whether a different plan would work on this machine.
///
/// Otherwise the machine has to change (free memory, permissions, drivers).
fn is_asked_wrongly(error: &MemoryError) -> bool {
    use DevdaxError as Dax;
    matches!(
        error,
        MemoryError::Placement(_)
            | MemoryError::SizeNotPages { .. }
            | MemoryError::SizeZero { .. }
            | MemoryError::Offset { .. }
            | MemoryError::FileSize { .. }
            | MemoryError::FileSystem { .. }
            | MemoryError::PlacementNotOurs { .. }
            | MemoryError::Devdax(
                Dax::Missing { .. }
                    | Dax::SystemRam { .. }
                    | Dax::NotADevice { .. }
                    | Dax::HugetlbPages { .. }
                    | Dax::SizeNotPages { .. }
                    | Dax::PastTheEnd { .. }
            )
    )
}
