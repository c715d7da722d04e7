//! Pages where the loaded latencies of the tiers become equal.
//!
//! Vuppalapati and Agarwal, "Tiered Memory Management: Access Latency is the Key!" (SOSP 2024),
//! Colloid on top of a system that knows the hottest pages. While the fast tier's measured latency
//! is below the slow tier's, accesses move to it, else away from it. How many is a binary search
//! over the fast tier's share of the accesses, whose bounds open again when they have met: the load
//! may have changed. Pages are taken hottest first until they carry the wanted share, and cold ones
//! make room in a full fast tier.
//!
//! Simplified: the interval is the simulation's (50 ms; the publication's is 10 ms), latencies and
//! rates are smoothed by one time constant, and hotness is per structure.

use super::{Counters, Migration, Rates, TieredMemory, TieringPolicy};

/// Width at which the bounds of the search have met.
const MET: f64 = 0.01;

/// Relative difference of the latencies that counts as balanced.
const BALANCED: f64 = 0.05;

/// Weight of the present interval in the smoothed latencies.
const NEW: f64 = 0.3;

/// Time constant of hotness, s.
const HOTNESS_S: f64 = 1.0;

/// Colloid.
#[derive(Debug, Clone)]
pub(in super::super) struct BalancedLatencies {
    rates: Rates,
    latency_ns: Option<[f64; 2]>,
    /// Bounds of the fast tier's share of the accesses.
    low: f64,
    high: f64,
}

impl BalancedLatencies {
    pub fn new() -> Self {
        BalancedLatencies {
            rates: Rates::default(),
            latency_ns: None,
            low: 0.0,
            high: 1.0,
        }
    }

    /// Share of the accesses to shift, towards the slow tier if positive.
    fn shift(&mut self, fast_share: f64, [fast_ns, slow_ns]: [f64; 2]) -> f64 {
        let up = fast_ns < slow_ns;
        if up {
            self.low = fast_share;
        } else {
            self.high = fast_share;
        }
        if self.high - self.low < MET {
            // The search has ended; it opens in the direction in which there is an imbalance.
            if up {
                self.high = 1.0;
            } else {
                self.low = 0.0;
            }
        }
        if (fast_ns - slow_ns).abs() < BALANCED * fast_ns {
            return 0.0;
        }
        fast_share - 0.5 * (self.low + self.high)
    }

    /// Moves pages that carry this many lines per second, hottest first.
    fn moves(&self, lines_per_s: f64, down: bool, memory: &TieredMemory) -> Vec<Migration> {
        let mut migrations = Vec::new();
        let (mut left, mut room) = (lines_per_s, memory.room());
        let order = self.rates.coldest_first(memory);
        let mut cold = order.iter();
        for &structure in order.iter().rev() {
            let (here, heat) = (
                &memory.structures[structure],
                self.rates.heat(structure, memory),
            );
            let there = if down { 1.0 - here.slow } else { here.slow };
            let bytes = (here.bytes * there).min(left / heat.max(1e-30));
            if left <= 0.0 || heat <= 0.0 || bytes <= 0.0 {
                continue;
            }
            left -= bytes * heat;
            while !down && room < bytes {
                // Colder pages only: a swap must raise the fast tier's share.
                let Some(&victim) = cold.next() else { break };
                if self.rates.heat(victim, memory) >= heat {
                    break;
                }
                let victim_bytes = memory.structures[victim].bytes;
                let freed =
                    (victim_bytes * (1.0 - memory.structures[victim].slow)).min(bytes - room);
                room += freed;
                migrations.push(Migration {
                    structure: victim,
                    bytes: freed,
                    down: true,
                });
            }
            room -= bytes;
            migrations.push(Migration {
                structure,
                bytes,
                down,
            });
        }
        migrations
    }
}

impl TieringPolicy for BalancedLatencies {
    fn tick(&mut self, seen: &Counters, memory: &TieredMemory) -> Vec<Migration> {
        self.rates.note(seen, HOTNESS_S);
        let now = seen.tiers.map(|t| t.latency_ns);
        let before = self.latency_ns.unwrap_or(now);
        let smooth = [0, 1].map(|at| before[at] + NEW * (now[at] - before[at]));
        self.latency_ns = Some(smooth);
        let total: f64 = seen.tiers.iter().map(|t| t.lines_per_s).sum();
        if total <= 0.0 {
            return Vec::new();
        }
        let shift = self.shift(seen.tiers[0].lines_per_s / total, smooth);
        if shift == 0.0 {
            return Vec::new();
        }
        self.moves(shift.abs() * total, shift > 0.0, memory)
    }
}
