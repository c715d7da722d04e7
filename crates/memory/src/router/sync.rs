//! Locks of the ledger and the slots.
//!
//! They are imported through this module so that a test (`orders.rs`) can compile both with the
//! locks of `shuttle`, which explores thread interleavings.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
