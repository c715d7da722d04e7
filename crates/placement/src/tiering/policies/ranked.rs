//! Objects in the fast tier by how much their misses cost.
//!
//! SOAR of Liu et al., "Tiered Memory Management Beyond Hotness" (OSDI 2025). A first execution is
//! profiled: each sampled access counts with the latency of a miss at that time over the misses
//! that a core has outstanding. Afterwards the objects with the largest sum per byte get the fast
//! tier, from their allocation on.
//!
//! Simplified: the profiled execution is the first round, and starting again is free; an object may
//! be divided at the end of the fast tier; the fast tier's capacity is shared by all columns and
//! the operator memory of the query that has most of it.

use super::{Counters, Migration, Structure, TieredMemory, TieringPolicy};
use std::collections::BTreeMap;

/// SOAR.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct RankedObjects {
    /// Cost of each structure's misses so far, ns.
    cost_ns: Vec<f64>,
    /// Shares on the slow tier by name, after the profiled execution.
    assigned: BTreeMap<String, f64>,
}

impl TieringPolicy for RankedObjects {
    fn slow_share_of_new(&self, new: &Structure) -> f64 {
        self.assigned.get(&new.name).copied().unwrap_or(0.0)
    }

    fn tick(&mut self, seen: &Counters, memory: &TieredMemory) -> Vec<Migration> {
        self.cost_ns.resize(memory.structures.len(), 0.0);
        let lines: f64 = seen.tiers.iter().map(|t| t.lines_per_s).sum();
        let waited: f64 = seen
            .tiers
            .iter()
            .map(|t| t.lines_per_s * t.latency_ns)
            .sum();
        let amortised_ns = waited / lines.max(1.0) / seen.lines_in_flight.max(1.0);
        for (cost, lines) in self.cost_ns.iter_mut().zip(&seen.lines) {
            *cost += (lines[0] + lines[1]) * amortised_ns;
        }
        Vec::new()
    }

    fn restart(&mut self, memory: &TieredMemory) -> Option<Vec<f64>> {
        let score = |index: usize| {
            let cost_ns = self.cost_ns.get(index).copied().unwrap_or(0.0);
            cost_ns / memory.structures[index].bytes.max(1.0)
        };
        let mut order: Vec<usize> = (0..memory.structures.len()).collect();
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        let mut left = memory.fast_bytes;
        let mut shares = vec![1.0; memory.structures.len()];
        for index in order {
            let bytes = memory.structures[index].bytes.max(1.0);
            let fits = (left / bytes).clamp(0.0, 1.0);
            shares[index] = 1.0 - fits;
            left -= fits * bytes;
        }
        let named = memory.structures.iter().zip(&shares);
        self.assigned = named.map(|(s, slow)| (s.name.clone(), *slow)).collect();
        Some(shares)
    }
}
