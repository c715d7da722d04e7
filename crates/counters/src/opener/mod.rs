//! The seam between planned events and the kernel.

mod fake;
mod linux;
mod refusal;

use std::fmt::Debug;
use std::io;

pub use fake::{CountStep, FakeOpener};
pub use linux::{LinuxOpener, RefusingOpener};
pub(crate) use refusal::refusal;

use crate::plan::PlannedEvent;

/// What an open counter has counted since it was opened, while it was switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Occurrences.
    pub count: u64,
    /// Time it was switched on, ns; of a counter of threads, that of all threads added.
    pub enabled_ns: u64,
    /// Of this, the time it really was on the hardware, ns. Smaller where counters have to take turns.
    pub running_ns: u64,
}

/// Opens counters. See the crate for the implementations.
pub trait PerfOpener: Send + Sync + Debug {
    /// Opens a counter, switched off.
    ///
    /// # Errors
    /// What the kernel answered.
    fn open(&self, event: &PlannedEvent) -> io::Result<Box<dyn OpenCounter>>;
}

/// One open counter. Closed when dropped.
pub trait OpenCounter: Send + Debug {
    /// Switches it on.
    ///
    /// # Errors
    /// What the kernel answered.
    fn resume(&mut self) -> io::Result<()>;

    /// Switches it off; the count stays.
    ///
    /// # Errors
    /// What the kernel answered.
    fn pause(&mut self) -> io::Result<()>;

    /// Reads it.
    ///
    /// # Errors
    /// What the kernel answered.
    fn read(&mut self) -> io::Result<Count>;
}
