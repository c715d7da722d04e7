//! What an agent runs: the seam between this crate and benchmarks.

use std::time::SystemTime;

use crate::Stop;

/// Makes work ready on this host. The agent calls it for one request at a time, on a thread of its own.
pub trait HostRunner: Send + Sync + 'static {
    /// Makes everything ready: reads `request` (JSON of the coordinator), makes regions, starts threads that wait. Blocks as long as that
    /// takes; looks at `stop` now and then.
    ///
    /// # Errors
    /// When the request cannot be done here; [`RunnerError::Stopped`] if `stop` came first.
    fn prepare(&self, request: &str, stop: &Stop) -> Result<Box<dyn Ready>, RunnerError>;
}

/// Work that waits for its start. Dropped without a run if the coordinator changes its mind.
pub trait Ready: Send {
    /// JSON for the coordinator: what was made ready.
    fn summary(&self) -> String;

    /// Begins at `start` on this host's clock (see [`crate::Clock::wait_until`]), runs until the work is done or `stop`, and gives JSON
    /// for the coordinator. Work without an end of its own (background load) ends by `stop` and then gives its result all the same.
    ///
    /// # Errors
    /// When the work failed; [`RunnerError::Stopped`] if it was stopped and has nothing to show.
    fn run(self: Box<Self>, start: SystemTime, stop: &Stop) -> Result<String, RunnerError>;
}

/// Why a runner has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    /// It was told to stop before there was a result.
    #[error("stopped before there was a result")]
    Stopped,
    /// Something went wrong; the text says what, on what, and what to do.
    #[error("{0}")]
    Failed(String),
}
