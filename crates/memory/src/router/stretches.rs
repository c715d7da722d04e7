//! Counts intervals during which resident pages and accounted bytes differ.
//!
//! An allocation is counted before its pages are populated, and a free is uncounted after they are
//! released. An audit that compares accounts with page tables must run while no such interval is
//! open.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of intervals begun and ended so far.
#[derive(Debug)]
pub(super) struct Stretches {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Guard of one interval: while it exists, resident pages and accounted bytes may differ.
#[derive(Debug)]
pub(super) struct Moving<'a> {
    stretches: &'a Stretches,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // Sequentially consistent, as are the loads in `is_still`: the argument there needs one
        // total order over both counters.
        self.stretches.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Stretches {
    pub(super) const fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    pub(super) fn begin(&self) -> Moving<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Moving { stretches: self }
    }

    /// Whether no interval is open.
    pub(super) fn is_still(&self) -> bool {
        // `ended` is read first. Both only grow and `ended <= begun`, so equality means that every
        // interval begun by the second load had ended by the first. In the other order an interval
        // that begins and ends between the loads could hide one that is still open.
        let ended = self.ended.load(Ordering::SeqCst);
        ended == self.begun.load(Ordering::SeqCst)
    }
}
