//! Opening of planned events, as a trait so that tests can substitute the kernel.

mod fake;
mod linux;
mod refusal;

use std::fmt::Debug;
use std::io;

pub use fake::{CountStep, FakeOpener};
pub use linux::{LinuxOpener, RefusingOpener};
pub(crate) use refusal::refusal;

use crate::plan::PlannedEvent;

/// Count since opening, over the time in which the counter was switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Number of occurrences of the event.
    pub count: u64,
    /// Time switched on, ns; summed over all threads if threads are counted.
    pub enabled_ns: u64,
    /// Time on the hardware, ns; less than `enabled_ns` if counters were multiplexed.
    pub running_ns: u64,
}

/// Opens counters: [`LinuxOpener`], [`FakeOpener`] or [`RefusingOpener`].
pub trait PerfOpener: Send + Sync + Debug {
    /// Opens a counter, switched off.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open(&self, event: &PlannedEvent) -> io::Result<Box<dyn OpenCounter>>;
}

/// One open counter; dropping it closes it.
pub trait OpenCounter: Send + Debug {
    /// Switches the counter on.
    ///
    /// # Errors
    /// The error of the operating system.
    fn resume(&mut self) -> io::Result<()>;

    /// Switches the counter off and keeps its count.
    ///
    /// # Errors
    /// The error of the operating system.
    fn pause(&mut self) -> io::Result<()>;

    /// Reads the present count.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read(&mut self) -> io::Result<Count>;
}
