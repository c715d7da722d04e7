//! Where the threads of a query lose time: events of one thread, read together and often.
//!
//! ```text
//!   SysRoot ──▶ StallPlan ──▶ StallSource ──▶ ThreadMeter ──▶ Snapshot ─┬─ difference ──▶ Slice
//!               (events of    (opener)        (one thread)    Snapshot ─┘                  │
//!                the family)                          StallCounts (sums of slices) ◀──────┘
//!                                                        └──▶ Breakdown (shares, bytes)
//! ```
//! [`crate::Counters`] brackets a whole measurement; here a thread reads its own counters whenever
//! it goes from one operator to another. All events of a group are read by one system call.

mod breakdown;
mod counts;
mod fake;
mod family;
mod meter;

pub use breakdown::{Breakdown, Quantity};
pub use counts::{Slice, Snapshot, StallCounts};
pub use fake::FakeMeters;
pub use family::{EventGroup, Family, StallEvent, StallPlan};
pub use meter::{GroupReader, LinuxMeters, MeterOpener, StallSource, ThreadMeter};

/// Largest number of events of a plan, over all groups.
pub const MAX_EVENTS: usize = 16;

/// Largest number of groups of a plan.
pub const MAX_GROUPS: usize = 2;
