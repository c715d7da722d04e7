//! Sources of counts: perf events and resctrl.

mod perf;
mod resctrl;

use std::fmt::Debug;

pub use perf::PerfSource;
pub use resctrl::ResctrlSource;

use crate::Reading;

/// A kind of counters that a machine may have; probed once, opened for each measurement.
pub trait CounterSource: Send + Sync + Debug {
    /// Opens all counters of the source, switched off; those that fail show in the readings.
    fn open(&self) -> Box<dyn OpenCounters>;
}

/// Open counters of one source.
pub trait OpenCounters: Send + Debug {
    /// Starts counting, or continues after a pause.
    fn resume(&mut self);

    /// Stops counting until resumed, and keeps the counts.
    fn pause(&mut self);

    /// Counts so far: one reading per quantity that the source may have, available or not.
    fn readings(&mut self) -> Vec<Reading>;
}
