//! Memory traffic of one tuple of a phase: lines, waits and busy time of each tier.

use tierloom_model::{Access, LINE_BYTES, Machine, Op, Pattern, Phase, Placement};

/// Traffic of one tuple on one tier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    /// Number of latencies that a tuple waits for: lines over lines in flight.
    pub waits: f64,
    /// Lines that miss the caches.
    pub lines: f64,
    /// Time that the tier is busy per tuple, ns.
    pub busy_ns: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// Traffic of one tuple on all tiers.
///
/// Caches are simpler than in the model: random accesses share the last-level cache in proportion
/// to their footprints, and streams always miss.
#[derive(Debug, Clone)]
pub(super) struct TupleTraffic {
    pub tiers: Vec<Traffic>,
    /// Time of hits in the last-level cache, ns.
    pub cache_ns: f64,
    /// Lines that miss the caches, for each access of the phase.
    pub missed: Vec<f64>,
}

impl TupleTraffic {
    pub fn of(machine: &Machine, phase: &Phase, placement: &Placement) -> Self {
        let random = |a: &&Access| a.pattern != Pattern::Sequential;
        let random_bytes: f64 = phase
            .accesses
            .iter()
            .filter(random)
            .map(|a| a.footprint_bytes as f64)
            .sum();
        let kept = (machine.cache.llc_bytes.value / random_bytes.max(1.0)).min(1.0);
        let mut tuple = TupleTraffic {
            tiers: vec![Traffic::default(); machine.tiers.len()],
            cache_ns: 0.0,
            missed: Vec::with_capacity(phase.accesses.len()),
        };
        for access in &phase.accesses {
            let in_flight = lines_in_flight(machine, access);
            let hit = if random(&access) { kept } else { 0.0 };
            let missed = access.lines_per_tuple * (1.0 - hit);
            tuple.missed.push(missed);
            tuple.cache_ns +=
                access.lines_per_tuple * hit * machine.cache.llc_latency_ns.value / in_flight;
            let (reads, writes) = match access.op {
                Op::Read => (1.0, 0.0),
                Op::NtWrite => (0.0, 1.0),
                Op::Write | Op::Update => (1.0, 1.0),
            };
            for share in placement.shares(access).iter() {
                let of_tier = machine.tiers.iter().position(|t| t.name == share.tier);
                let Some(index) = of_tier else { continue };
                let (tier, load) = (&machine.tiers[index], &mut tuple.tiers[index]);
                let lines = missed * share.share;
                load.waits += lines / in_flight;
                load.lines += lines;
                load.bytes += lines * LINE_BYTES * (reads + writes);
                load.busy_ns += lines
                    * LINE_BYTES
                    * (reads / tier.read_gbps.value + writes / tier.write_gbps.value);
            }
        }
        tuple
    }
}

/// Lines that a core keeps in flight for accesses of this kind.
pub(super) fn lines_in_flight(machine: &Machine, access: &Access) -> f64 {
    let lines = &machine.concurrency;
    match (access.pattern, access.simd) {
        (Pattern::Sequential, false) => lines.sequential_scalar.value,
        (Pattern::Sequential, true) => lines.sequential_simd.value,
        (Pattern::Dependent, _) => lines.dependent.value,
        (_, true) => lines.random_prefetched.value,
        _ => lines.random.value,
    }
}
