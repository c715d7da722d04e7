//! The interface to the work that an agent runs; the benchmark implements it.

use std::time::SystemTime;

use crate::Stop;

/// Prepares work on this host. The agent calls it for one request at a time, on a separate thread.
pub trait HostRunner: Send + Sync + 'static {
    /// Prepares everything for `request` (the coordinator's JSON): allocates regions, starts
    /// threads that wait.
    ///
    /// Blocks as long as that takes, and polls `stop` now and then.
    ///
    /// # Errors
    /// If the request cannot be carried out here; [`RunnerError::Stopped`] if `stop` was requested
    /// first.
    fn prepare(&self, request: &str, stop: &Stop) -> Result<Box<dyn Ready>, RunnerError>;

    /// The session with the coordinator is over and none of its work is running: what was kept
    /// between its runs can go.
    ///
    /// The agent answers no call meanwhile, so what takes long belongs on another thread.
    fn session_ended(&self) {}
}

/// Prepared work that waits for its start. It is dropped without a run if it is stopped before.
pub trait Ready: Send {
    /// A description of what was prepared, as JSON for the coordinator.
    fn summary(&self) -> String;

    /// Starts at `start` on this host's clock ([`crate::WallClock::wait_until`]), runs until the
    /// work is done or `stop` is requested, and returns JSON for the coordinator.
    ///
    /// Work that does not end by itself (background load) ends by `stop` and still returns its
    /// result.
    ///
    /// # Errors
    /// If the work failed; [`RunnerError::Stopped`] if it was stopped and has no result.
    fn run(self: Box<Self>, start: SystemTime, stop: &Stop) -> Result<String, RunnerError>;
}

/// Why a runner returned no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    /// It was stopped before there was a result.
    #[error("stopped before there was a result")]
    Stopped,
    /// An error; the text says what failed, on what, and what the user can do.
    #[error("{0}")]
    Failed(String),
}
