//! Placements that never change: first touch, and one ratio for all memory of the process.

use super::{Structure, TieringPolicy};

/// Linux without a policy: DRAM first, and the slow tier when DRAM is full.
#[derive(Debug, Clone)]
pub(in super::super) struct FirstTouch;

impl TieringPolicy for FirstTouch {}

/// Weighted interleaving of all memory of the process, by `numactl` or the kernel's own weights.
#[derive(Debug, Clone)]
pub(in super::super) struct FixedShare {
    pub slow: f64,
}

impl TieringPolicy for FixedShare {
    fn slow_share_of_new(&self, _new: &Structure) -> f64 {
        self.slow
    }
}
