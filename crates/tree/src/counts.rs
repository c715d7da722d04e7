//! What operations cost besides themselves.

use std::ops::AddAssign;

/// Events of one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that an operation began again because a node had changed or its lock was taken.
    pub restarts: u64,
    /// Nodes that were split, leaves and inner nodes.
    pub splits: u64,
    /// Nodes that were merged into their neighbour, and roots with a single child.
    pub merges: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.restarts += other.restarts;
        self.splits += other.splits;
        self.merges += other.merges;
    }
}
