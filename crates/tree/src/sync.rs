//! Atomics, locks and waiting.
//!
//! They are imported through this module so that tests can compile the sources with those of `loom`
//! and `shuttle`, which explore thread interleavings.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, PoisonError};

/// Lets the holder of a lock go on: the processor's hint first, and the scheduler where the holder
/// may have lost its CPU.
pub(crate) fn pause(tries: u32) {
    const SPINS: u32 = 64;
    if tries < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
