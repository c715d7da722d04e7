//! The clock that concurrent sessions share.

use crate::Observer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When streams end, and where they report progress.
pub struct Clock<'a> {
    pub start: Instant,
    pub duration: Duration,
    /// Set by the first stream that fails, so that the others stop.
    pub failed: &'a AtomicBool,
    pub observer: &'a dyn Observer,
}

impl Clock<'_> {
    /// Whether no further query begins.
    pub fn is_up(&self) -> bool {
        self.elapsed() >= self.duration
    }

    /// Time since the streams began.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether the run was interrupted, or a stream has failed.
    pub fn stopped(&self) -> bool {
        self.observer.stopped() || self.failed.load(Ordering::Relaxed)
    }
}
