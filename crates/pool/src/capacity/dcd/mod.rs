//! Dynamic capacity (CXL 3.x): a fabric manager adds memory to a device while it is in use, and
//! asks for it back.
//!
//! [`DcMachine`] is what a host has to remember between the device's event records and its own
//! commands, without any input or output. A [`DcMailbox`] carries both. [`DcdSource`] joins the two
//! and turns each allocation into a member for a pool.
//!
//! ```text
//!   record: add, more ──> chain ──closed──> accept ──> ready ──> in use
//!                           │ 20 s, mixed,             │          │  record: release
//!                           │ overlap, gap             │      asked back
//!                           └──> accept nothing        └───┬──────┘
//!                                             give back <──┘   record: forced release ──> lost
//! ```
//!
//! Linux has no such devices yet (7.3; patches exist). Their plan is kept to: extents of one tag
//! appear and disappear together, as one DAX device that shows the tag as its `uuid`.

mod machine;
mod source;
#[cfg(test)]
mod tests;

use uuid::Uuid;

pub use machine::{DcAllocation, DcMachine, DcState};
pub use source::{DcMailbox, DcdSource};

/// Memory of a device that is given out at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DcExtent {
    /// Its first address in the device.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// The allocation that it belongs to; the null UUID if it has none.
    pub tag: Uuid,
    /// Of an allocation that several hosts share: its place, counted from 0; 0 for all others.
    pub sequence: u16,
}

impl DcExtent {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end()
    }
}

/// What a device reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DcEvent {
    /// The host may have an extent.
    Add {
        /// The extent.
        extent: DcExtent,
        /// Whether the next record belongs to the same allocation.
        more: bool,
    },
    /// The host shall give a range back when it can.
    Release {
        /// First address.
        start: u64,
        /// Length.
        bytes: u64,
    },
    /// A range is gone.
    ForcedRelease {
        /// First address.
        start: u64,
        /// Length.
        bytes: u64,
    },
}

/// What a host tells a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DcCommand {
    /// Answers the oldest chain of added extents (opcode 4802h): takes these of it, and none of the
    /// others.
    Accept(Vec<DcExtent>),
    /// Gives extents back (opcode 4803h).
    GiveBack(Vec<DcExtent>),
}
