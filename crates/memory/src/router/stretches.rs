//! Stretches in which pages come or go that are counted already, or still.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many have begun, and how many are over.
#[derive(Debug)]
pub(super) struct Stretches {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// While it lives, pages and counts may differ.
#[derive(Debug)]
pub(super) struct Moving<'a> {
    stretches: &'a Stretches,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
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

    /// Begins a stretch.
    pub(super) fn begin(&self) -> Moving<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Moving { stretches: self }
    }

    /// Whether no pages come or go.
    pub(super) fn is_still(&self) -> bool {
        // In this order: a stretch that ends between the two makes them differ.
        let ended = self.ended.load(Ordering::SeqCst);
        ended == self.begun.load(Ordering::SeqCst)
    }
}
