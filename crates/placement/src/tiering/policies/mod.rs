//! Tiering policies that know nothing of queries, written after their publications.
//!
//! All see the same: counters and sampled accesses of the last interval ([`Counters`]), and where
//! the pages of each structure are. A real policy sees addresses; here all pages of a structure are
//! alike, so that the address ranges which it would find are the structures. That favours these
//! policies: none of them mixes up structures.
//!
//! ```text
//!   allocation ──> slow_share_of_new ──> pages
//!   interval   ──> Counters ──> tick ──> migrations, at the machine's migration rate
//!   first round ends ──> restart (policies that profile first)
//! ```

mod balanced;
mod fixed;
mod flat;
mod promotion;
mod ranked;

pub(super) use balanced::BalancedLatencies;
pub(super) use fixed::{FirstTouch, FixedShare};
pub(super) use flat::FlatMemory;
pub(super) use promotion::Promotion;
pub(super) use ranked::RankedObjects;

use super::counters::Counters;
use super::memory::{Migration, Structure, TieredMemory};

/// A policy under simulation.
///
/// It does not: see the future, know which query runs, or move pages faster than the machine does.
pub(super) trait TieringPolicy {
    /// Share of a new structure's pages that goes to the slow tier.
    fn slow_share_of_new(&self, _new: &Structure) -> f64 {
        0.0
    }

    /// Looks at an interval and returns what is to be moved, which replaces what it asked before.
    fn tick(&mut self, _seen: &Counters, _memory: &TieredMemory) -> Vec<Migration> {
        Vec::new()
    }

    /// Shares on the slow tier with which the program starts again after the first round; `None` to
    /// go on.
    fn restart(&mut self, _memory: &TieredMemory) -> Option<Vec<f64>> {
        None
    }

    /// Shares on the slow tier that hardware enforces at once, without migrations.
    fn enforced(&self, _memory: &TieredMemory) -> Option<Vec<f64>> {
        None
    }
}

/// Exponentially decaying access rates of structures, lines per second, on each tier.
#[derive(Debug, Clone, Default)]
struct Rates {
    lines_per_s: Vec<[f64; 2]>,
}

impl Rates {
    /// Takes an interval in; `memory_s` is the time constant of the decay.
    fn note(&mut self, seen: &Counters, memory_s: f64) {
        self.lines_per_s.resize(seen.lines.len(), [0.0; 2]);
        let kept = (-seen.elapsed_s / memory_s).exp();
        for (rate, lines) in self.lines_per_s.iter_mut().zip(&seen.lines) {
            for (rate, lines) in rate.iter_mut().zip(lines) {
                *rate = kept * *rate + (1.0 - kept) * lines / seen.elapsed_s.max(1e-9);
            }
        }
    }

    /// Lines per second and byte of a structure, on both tiers together.
    fn heat(&self, structure: usize, memory: &TieredMemory) -> f64 {
        let rate = self.lines_per_s.get(structure).map_or(0.0, |r| r[0] + r[1]);
        rate / memory.structures[structure].bytes.max(1.0)
    }

    /// Live structures, coldest first.
    fn coldest_first(&self, memory: &TieredMemory) -> Vec<usize> {
        let live = memory.structures.iter().enumerate().filter(|(_, s)| s.live);
        let mut order: Vec<usize> = live.map(|(index, _)| index).collect();
        order.sort_by(|&a, &b| self.heat(a, memory).total_cmp(&self.heat(b, memory)));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters::TierCounters;
    use super::*;
    use tierloom_model::{Access, Phase, PhaseKind};

    const PAGES_BYTES: u64 = 1 << 30;

    /// A column that is read at `column` lines per second and a table at `table`, 1 GiB each.
    fn memory(fast_bytes: f64) -> TieredMemory {
        let phase = Phase::new("p", PhaseKind::Probe, 1.0)
            .access(Access::sequential_read("t.c", 8.0, PAGES_BYTES))
            .access(Access::probe("hash(t)", 1.0, PAGES_BYTES));
        let tiers = ["dram".to_owned(), "cxl".to_owned()];
        let mut memory = TieredMemory::new(std::iter::once(&phase), fast_bytes, tiers);
        memory.allocate(0, 0.0);
        memory.allocate(1, 0.0);
        memory
    }

    fn seen(memory: &TieredMemory, latencies_ns: [f64; 2], rates: [f64; 2]) -> Counters {
        let elapsed_s = 0.05;
        let slow = |at: usize| memory.structures[at].slow;
        let lines = [0, 1].map(|at| {
            let all = rates[at] * elapsed_s;
            [all * (1.0 - slow(at)), all * slow(at)]
        });
        let tier = |tier: usize| TierCounters {
            latency_ns: latencies_ns[tier],
            lines_per_s: (lines[0][tier] + lines[1][tier]) / elapsed_s,
        };
        Counters {
            elapsed_s,
            tiers: [tier(0), tier(1)],
            lines: lines.into(),
            lines_in_flight: 10.0,
        }
    }

    fn apply(memory: &mut TieredMemory, migrations: &[Migration]) {
        for migration in migrations {
            memory.migrate(migration, f64::INFINITY);
        }
        assert!(memory.fast_used() <= memory.fast_bytes + 1.0);
    }

    #[test]
    fn colloid_moves_away_from_a_slow_first_tier_until_latencies_meet_and_back_again() {
        let mut memory = memory(1e12);
        let mut colloid = BalancedLatencies::new();
        // The fast tier's latency grows with its share: equal to the other one's at 60%.
        let fast_share = |memory: &TieredMemory| {
            1.0 - 0.5 * (memory.structures[0].slow + memory.structures[1].slow)
        };
        for (fast_at_peak_ns, share) in [(500.0, 0.6), (375.0, 0.8)] {
            for _ in 0..60 {
                let fast_ns = fast_at_peak_ns * fast_share(&memory);
                let seen = seen(&memory, [fast_ns, 300.0], [1e9, 1e9]);
                let migrations = colloid.tick(&seen, &memory);
                apply(&mut memory, &migrations);
            }
            let found = fast_share(&memory);
            assert!((found - share).abs() < 0.08, "{found} instead of {share}");
        }
    }

    #[test]
    fn tpp_promotes_what_is_accessed_and_demotes_what_is_not() {
        let mut memory = memory(1.1e9);
        assert!(
            memory.structures[1].slow > 0.9,
            "the second structure found no room"
        );
        let mut tpp = Promotion::new(false);
        for _ in 0..2000 {
            let seen = seen(&memory, [100.0, 300.0], [0.0, 1e9]);
            let migrations = tpp.tick(&seen, &memory);
            apply(&mut memory, &migrations);
        }
        assert!(memory.structures[0].slow > 0.9, "{memory:?}");
        assert!(memory.structures[1].slow < 0.2, "{memory:?}");
    }

    #[test]
    fn alto_does_not_promote_where_misses_overlap() {
        let mut memory = memory(1.1e9);
        let before = memory.structures[1].slow;
        let mut alto = Promotion::new(true);
        for _ in 0..500 {
            let mut seen = seen(&memory, [100.0, 150.0], [1e9, 1e9]);
            seen.lines_in_flight = 30.0;
            let migrations = alto.tick(&seen, &memory);
            let ups = migrations.iter().filter(|m| !m.down);
            assert!(ups.map(|m| m.bytes).sum::<f64>() < 1.0);
            apply(&mut memory, &migrations);
        }
        assert!(memory.structures[1].slow >= before);
    }

    #[test]
    fn soar_prefers_what_is_accessed_while_misses_are_expensive() {
        let memory = memory(1.1e9);
        let mut soar = RankedObjects::default();
        let mut stream = seen(&memory, [100.0, 300.0], [1e9, 0.0]);
        stream.lines_in_flight = 30.0;
        let mut chase = seen(&memory, [100.0, 300.0], [0.0, 2e8]);
        chase.lines_in_flight = 1.0;
        soar.tick(&stream, &memory);
        soar.tick(&chase, &memory);
        let shares = soar.restart(&memory).unwrap();
        assert!(shares[1] < 0.01 && shares[0] > 0.9, "{shares:?}");
    }

    #[test]
    fn flat_memory_displaces_nothing_that_fits_and_half_of_what_fills_both_tiers() {
        let displaced = |fast_bytes: f64| {
            let memory = memory(fast_bytes);
            let mut flat = FlatMemory::default();
            flat.tick(&seen(&memory, [100.0, 300.0], [1e9, 1e9]), &memory);
            flat.enforced(&memory).unwrap()[0]
        };
        assert!(displaced(1e12) < 0.01);
        assert!((displaced(PAGES_BYTES as f64) - 0.5).abs() < 0.01);
    }
}
