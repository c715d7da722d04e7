//! Keeps moves of pages and running queries apart.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Queries pass together, a move alone: it waits for the queries that run, and those that come wait for it.
#[derive(Debug, Default)]
pub struct Gate(RwLock<()>);

/// Held while a query runs.
pub type Running<'a> = RwLockReadGuard<'a, ()>;

/// Held while pages move.
pub type Moving<'a> = RwLockWriteGuard<'a, ()>;

impl Gate {
    /// A query begins; no page moves until the guard is dropped.
    pub fn run(&self) -> Running<'_> {
        // There is nothing inside that a panic could have left half done.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages are about to move; no query runs until the guard is dropped.
    pub fn move_pages(&self) -> Moving<'_> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// From moving to running, without a moment in which others could move what was just placed.
    pub fn run_after(moving: Moving<'_>) -> Running<'_> {
        RwLockWriteGuard::downgrade(moving)
    }
}
