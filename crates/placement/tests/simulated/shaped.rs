//! An alternative memory model: simpler caches than the controller's model, other latency curves.

use tierloom_model::{Access, LINE_BYTES, Machine, Op, Pattern, Phase, Placement};

/// Latency of a tier relative to idle, as a function of its utilisation.
#[derive(Debug, Clone, Copy)]
pub enum Curve {
    /// 1 up to the first utilisation, then linear to each factor, the last one at the peak.
    Pieces { at: [f64; 2], factor: [f64; 2] },
    /// Linear; each doubling of demand beyond the peak reduces the peak bandwidth by this share.
    Falling { by: f64, ratio: f64 },
    /// 1 below a utilisation, this factor above it.
    Step { at: f64, factor: f64 },
    /// 1 / (1 - u), limited to this factor.
    OpenQueue { most: f64 },
}

impl Curve {
    fn factor(self, u: f64) -> f64 {
        let u = u.clamp(0.0, 1.0);
        match self {
            Curve::Pieces { at, factor } => {
                let line = |from: (f64, f64), to: (f64, f64)| {
                    from.1 + (to.1 - from.1) * (u - from.0) / (to.0 - from.0).max(1e-9)
                };
                if u <= at[0] {
                    1.0
                } else if u <= at[1] {
                    line((at[0], 1.0), (at[1], factor[0]))
                } else {
                    line((at[1], factor[0]), (1.0, factor[1]))
                }
            }
            Curve::Falling { ratio, .. } => 1.0 + (ratio - 1.0) * u,
            // A ramp of 1% utilisation, so that the fixed point is unique.
            Curve::Step { at, factor } => 1.0 + (factor - 1.0) * ((u - at) / 0.01).clamp(0.0, 1.0),
            Curve::OpenQueue { most } => (1.0 / (1.0 - u).max(1e-6)).min(most),
        }
    }

    /// Share of the peak bandwidth available when demand is `asked` times the peak.
    fn peak(self, asked: f64) -> f64 {
        match self {
            Curve::Falling { by, .. } if asked > 1.0 => (1.0 - by * asked.log2()).max(0.3),
            _ => 1.0,
        }
    }
}

/// A machine under this model, with one curve for its first tier and one for all others.
#[derive(Debug, Clone)]
pub struct Shaped {
    machine: Machine,
    curves: [Curve; 2],
}

#[derive(Default)]
struct Load {
    /// Number of latencies that a tuple waits for: lines over lines in flight.
    waits: f64,
    /// Time that the tier is busy per tuple, ns.
    busy_ns: f64,
}

impl Shaped {
    pub fn new(machine: Machine, curves: [Curve; 2]) -> Self {
        Shaped { machine, curves }
    }

    fn curve(&self, tier: usize) -> Curve {
        self.curves[tier.min(1)]
    }

    pub fn time_ns(&self, phase: &Phase, placement: &Placement, workers: u32) -> f64 {
        let machine = &self.machine;
        let workers = f64::from(workers).min(machine.cores.value);
        let (loads, cache_ns) = self.loads(phase, placement);
        let cycle = |x: f64| {
            let memory: f64 = cache_ns + self.memory_ns(&loads, x);
            let compute = phase.compute_ns_per_tuple;
            let overlap = machine.overlap.as_ref().map_or(0.0, |o| o.value);
            memory.max(compute) + (1.0 - overlap) * memory.min(compute)
        };
        let unloaded = workers / cycle(0.0).max(1e-9);
        let mut full = f64::INFINITY;
        for (tier, load) in loads.iter().enumerate() {
            let asked = unloaded * load.busy_ns;
            full = full.min(self.curve(tier).peak(asked) / load.busy_ns.max(1e-12));
        }
        let (mut low, mut high) = (0.0, unloaded.min(full));
        if workers / cycle(high) >= high {
            return phase.tuples / high;
        }
        for _ in 0..48 {
            let x = 0.5 * (low + high);
            if workers / cycle(x) >= x {
                low = x;
            } else {
                high = x;
            }
        }
        phase.tuples / high
    }

    fn memory_ns(&self, loads: &[Load], x: f64) -> f64 {
        let tiers = self.machine.tiers.iter().zip(loads).enumerate();
        tiers
            .map(|(index, (tier, load))| {
                let latency = tier.idle_latency_ns.value;
                load.waits * latency * self.curve(index).factor(x * load.busy_ns)
            })
            .sum()
    }

    /// Load of one tuple on each tier, and its time in the last-level cache.
    fn loads(&self, phase: &Phase, placement: &Placement) -> (Vec<Load>, f64) {
        let machine = &self.machine;
        let random = |a: &&Access| a.pattern != Pattern::Sequential;
        let random_bytes: f64 = phase
            .accesses
            .iter()
            .filter(random)
            .map(|a| a.footprint_bytes as f64)
            .sum();
        let kept = (machine.cache.llc_bytes.value / random_bytes.max(1.0)).min(1.0);
        let mut loads: Vec<Load> = machine.tiers.iter().map(|_| Load::default()).collect();
        let mut cache_ns = 0.0;
        for access in &phase.accesses {
            let lines = &machine.concurrency;
            let in_flight = match (access.pattern, access.simd) {
                (Pattern::Sequential, false) => lines.sequential_scalar.value,
                (Pattern::Sequential, true) => lines.sequential_simd.value,
                (Pattern::Dependent, _) => lines.dependent.value,
                (_, true) => lines.random_prefetched.value,
                _ => lines.random.value,
            };
            let hit = if random(&access) { kept } else { 0.0 };
            let missed = access.lines_per_tuple * (1.0 - hit);
            cache_ns +=
                access.lines_per_tuple * hit * machine.cache.llc_latency_ns.value / in_flight;
            let (reads, writes) = match access.op {
                Op::Read => (1.0, 0.0),
                Op::NtWrite => (0.0, 1.0),
                Op::Write | Op::Update => (1.0, 1.0),
            };
            for share in placement.shares(access).iter() {
                let index = machine.tiers.iter().position(|t| t.name == share.tier);
                let index = index.unwrap();
                let (tier, load) = (&machine.tiers[index], &mut loads[index]);
                let lines = missed * share.share;
                load.waits += lines / in_flight;
                load.busy_ns += lines
                    * LINE_BYTES
                    * (reads / tier.read_gbps.value + writes / tier.write_gbps.value);
            }
        }
        (loads, cache_ns)
    }
}
