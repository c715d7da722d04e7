//! Progress reports and cancellation of a long generation.

/// Receives finished rows, and decides whether to stop.
///
/// Both methods are called from worker threads, once for each chunk of a few thousand rows, so they
/// must be cheap and must not block. The total is not passed: [`crate::ssb::Lineorder::rows`] has
/// it.
pub trait Progress: Sync {
    /// Called when `rows` more rows are finished.
    fn advance(&self, rows: u64);

    /// Whether to stop; called before each chunk.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores progress and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _rows: u64) {}
}
