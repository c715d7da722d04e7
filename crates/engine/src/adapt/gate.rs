//! Excludes page moves while queries run, and the reverse.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A readers-writer lock: queries share it, a page move takes it exclusively.
#[derive(Debug, Default)]
pub struct Gate(RwLock<()>);

/// Guard of a running query.
pub type RunGuard<'a> = RwLockReadGuard<'a, ()>;

/// Guard of a page move.
pub type Moving<'a> = RwLockWriteGuard<'a, ()>;

impl Gate {
    /// Enters a query; no page moves until the guard is dropped.
    pub fn run(&self) -> RunGuard<'_> {
        // The lock protects no data, so poisoning has no meaning.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for running queries, then keeps new ones out until the guard is dropped.
    pub fn move_pages(&self) -> Moving<'_> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Downgrades atomically from moving to running, so that no other move can undo the placement.
    pub fn run_after(moving: Moving<'_>) -> RunGuard<'_> {
        RwLockWriteGuard::downgrade(moving)
    }
}
