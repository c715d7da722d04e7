//! Hot pages to the fast tier, cold ones away from it.
//!
//! Maruf et al., "TPP: Transparent Page Placement for CXL-Enabled Tiered-Memory" (ASPLOS 2023), as
//! in Linux with `numa_balancing` set to tiering and demotion on. New pages go to the fast tier,
//! which is kept free below a watermark by demoting the pages that were not accessed for longest. A
//! page of the slow tier is promoted at its second hint fault: hint faults come from a scan of the
//! address space, at the kernel's default rate of 256 MiB per second.
//!
//! Simplified: the lists of active and inactive pages are rates that decay; a page counts as
//! accessed between two scans with the probability that its structure's rate gives; a hint fault
//! costs no time; promotions that find no room are dropped.
//!
//! With `regulated`, promotions are scaled down where misses hardly cost time: ALTO of Liu et al.,
//! "Tiered Memory Management Beyond Hotness" (OSDI 2025). Its measure is the latency of a miss over
//! the number of misses that a core has outstanding. The two thresholds are ours: 10 ns (no
//! promotion below it) and 40 ns (no regulation above it).

use super::{Counters, Migration, Rates, TieredMemory, TieringPolicy};

const PAGE_BYTES: f64 = 4096.0;

/// Bytes whose pages are prepared for hint faults per second.
const SCANNED_BYTES_PER_S: f64 = 268_435_456.0;

/// Shortest time between two scans of a page, s.
const SCAN_PERIOD_S: f64 = 1.0;

/// Share of the fast tier that demotion keeps free for new pages.
const KEPT_FREE: f64 = 0.02;

/// Time constant of a page's activity, s.
const ACTIVITY_S: f64 = 5.0;

const UNIMPORTANT_NS: f64 = 10.0;
const IMPORTANT_NS: f64 = 40.0;

/// Promotion by hint faults, demotion by inactivity.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Promotion {
    regulated: bool,
    rates: Rates,
}

impl Promotion {
    pub fn new(regulated: bool) -> Self {
        Promotion {
            regulated,
            rates: Rates::default(),
        }
    }

    /// Part of the candidates that is promoted.
    fn regulation(&self, seen: &Counters) -> f64 {
        if !self.regulated {
            return 1.0;
        }
        let lines: f64 = seen.tiers.iter().map(|t| t.lines_per_s).sum();
        let waited: f64 = seen
            .tiers
            .iter()
            .map(|t| t.lines_per_s * t.latency_ns)
            .sum();
        let amortised_ns = waited / lines.max(1.0) / seen.lines_in_flight.max(1.0);
        ((amortised_ns - UNIMPORTANT_NS) / (IMPORTANT_NS - UNIMPORTANT_NS)).clamp(0.0, 1.0)
    }
}

impl TieringPolicy for Promotion {
    fn tick(&mut self, seen: &Counters, memory: &TieredMemory) -> Vec<Migration> {
        self.rates.note(seen, ACTIVITY_S);
        let mut migrations = Vec::new();
        let mut missing = KEPT_FREE * memory.fast_bytes - memory.room();
        for structure in self.rates.coldest_first(memory) {
            let here = &memory.structures[structure];
            let bytes = (here.bytes * (1.0 - here.slow)).min(missing);
            if bytes > 0.0 {
                missing -= bytes;
                migrations.push(Migration {
                    structure,
                    bytes,
                    down: true,
                });
            }
        }
        let live = || memory.structures.iter().enumerate().filter(|(_, s)| s.live);
        let slow_bytes: f64 = live().map(|(_, s)| s.bytes * s.slow).sum();
        let period_s = (slow_bytes / SCANNED_BYTES_PER_S).max(SCAN_PERIOD_S);
        let regulation = self.regulation(seen);
        for (structure, here) in live().filter(|(_, s)| s.slow > 0.0) {
            let per_page = self.rates.heat(structure, memory) * PAGE_BYTES * period_s;
            let accessed = 1.0 - (-per_page).exp();
            let scanned = here.bytes * here.slow * seen.elapsed_s / period_s;
            migrations.push(Migration {
                structure,
                bytes: scanned * accessed * accessed * regulation,
                down: false,
            });
        }
        migrations
    }
}
