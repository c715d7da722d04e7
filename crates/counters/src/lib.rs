//! Hardware counters for measurements: cores, memory controllers, CXL devices and resctrl.
//!
//! ```text
//!   SysRoot ──▶ plan (counters to open: from files only, works on recorded trees)
//!                 │
//!          CounterSource ──▶ OpenCounters ──▶ ActiveCounters ──▶ Vec<Reading>
//!        ┌────────┴─────────┐   resume / pause / readings
//!   PerfSource        ResctrlSource
//!        │                  └── files below /sys/fs/resctrl
//!   PerfOpener: LinuxOpener (perf_event_open), FakeOpener (scripted),
//!               RefusingOpener (recorded trees)
//! ```
//!
//! [`stalls`] has the counters of single threads, which are read often: where the operators of a
//! query lose time. [`latencies`] has those that tell how long reads of each memory take.
//!
//! An unavailable counter is never reported as 0: its [`Reading`] has no value, and its note has
//! the reason and a remedy. The crate changes no setting of the machine.
//!
//! ```no_run
//! use tierloom_counters::Counters;
//! use tierloom_topology::SysRoot;
//!
//! let counters = Counters::probe(&SysRoot::host());
//! let running = counters.start(); // counts this thread and those that it creates from now on
//! std::thread::spawn(|| (0..1_000_000_u64).sum::<u64>()).join().ok();
//! for reading in running.stop() {
//!     println!("{} {:?} {} {:?}", reading.name, reading.value, reading.unit, reading.note);
//! }
//! ```

mod counters;
mod files;
pub mod latencies;
mod opener;
pub mod plan;
mod reading;
mod source;
pub mod stalls;

pub use counters::{ActiveCounters, Counters, Selection};
pub use opener::{
    Count, CountStep, FakeOpener, LinuxOpener, OpenCounter, PerfOpener, RefusingOpener,
};
pub use reading::Reading;
pub use source::{CounterSource, OpenCounters, PerfSource, ResctrlSource};
