//! Tiering by the memory controller, one cache line at a time.
//!
//! Zhong et al., "Managing Memory Tiers with CXL in Virtualized Environments" (OSDI 2024): Intel's
//! flat memory mode. Each line of DRAM shares its place with one line of CXL memory, so that the
//! capacities add up; the line that was accessed last is in DRAM, and an access to the other one
//! swaps both.
//!
//! Simplified: the partner of a line is any other one of the process, if its place is in use at
//! all; accesses come in random order, so a line of rate a finds itself displaced by a partner of
//! rate b with probability b / (a + b). A swap costs a write to CXL memory, and a read and a write
//! of DRAM. CXL capacity for pairs is as large as DRAM, as the mode requires.

use super::{Counters, Migration, Rates, TieredMemory, TieringPolicy};

/// Time constant of the rates by which lines displace each other, s.
const DISPLACED_S: f64 = 10.0;

/// Flat memory mode.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct FlatMemory {
    rates: Rates,
}

impl TieringPolicy for FlatMemory {
    fn tick(&mut self, seen: &Counters, _memory: &TieredMemory) -> Vec<Migration> {
        self.rates.note(seen, DISPLACED_S);
        Vec::new()
    }

    fn enforced(&self, memory: &TieredMemory) -> Option<Vec<f64>> {
        let live = || memory.structures.iter().enumerate().filter(|(_, s)| s.live);
        let all_bytes = 2.0 * memory.fast_bytes.max(1.0);
        let share = |index: usize| {
            let own = self.rates.heat(index, memory);
            let displaced = |(other, s): (usize, &super::Structure)| {
                let rate = self.rates.heat(other, memory);
                let lost = if rate > 0.0 { rate / (own + rate) } else { 0.0 };
                (s.bytes / all_bytes).min(1.0) * lost
            };
            live().map(displaced).sum::<f64>().min(1.0)
        };
        Some((0..memory.structures.len()).map(share).collect())
    }
}
