//! Where counts come from.

mod perf;
mod resctrl;

use std::fmt::Debug;

pub use perf::PerfSource;
pub use resctrl::ResctrlSource;

use crate::Reading;

/// A kind of counters that a machine may have. Probed once, opened for every measurement.
pub trait CounterSource: Send + Sync + Debug {
    /// Opens all counters of the source, switched off. What cannot be opened shows in the readings.
    fn open(&self) -> Box<dyn OpenCounters>;
}

/// Open counters of one source.
pub trait OpenCounters: Send + Debug {
    /// Counts from now on.
    fn resume(&mut self);

    /// Counts no more until resumed; what was counted stays.
    fn pause(&mut self);

    /// What was counted while switched on; one reading for everything that the source may have, available or not.
    fn readings(&mut self) -> Vec<Reading>;
}
