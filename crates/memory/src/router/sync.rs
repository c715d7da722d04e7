//! The locks of ledger and slots, in one place: a test puts others there that try all orders of
//! threads.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
