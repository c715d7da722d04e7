//! How a long generation reports on itself and is stopped.

/// Listens to a generation: rows as they are finished, and whether to stop.
///
/// Both methods are called from worker threads, once for each chunk of a few thousand rows, so they must be cheap and must
/// not block. The trait does not know the total: [`crate::ssb::Lineorder::rows`] does.
pub trait Progress: Sync {
    /// `rows` more rows are finished.
    fn advance(&self, rows: u64);

    /// True when the caller wants the work to stop; checked before each chunk.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The listener that ignores everything and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _rows: u64) {}
}
