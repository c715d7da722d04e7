//! An alternative memory model: simpler caches than the controller's model, other latency curves.

use super::traffic::{Traffic, TupleTraffic};
use tierloom_model::{Background, Machine, Phase, Placement};

/// Latency of a tier relative to idle, as a function of its utilisation.
#[derive(Debug, Clone, Copy)]
pub(super) enum LatencyCurve {
    /// 1 up to the first utilisation, then linear to each factor, the last one at the peak.
    Pieces { at: [f64; 2], factor: [f64; 2] },
    /// Linear; each doubling of demand beyond the peak reduces the peak bandwidth by this share.
    Falling { by: f64, ratio: f64 },
    /// 1 below a utilisation, this factor above it.
    Step { at: f64, factor: f64 },
    /// 1 / (1 - u), limited to this factor.
    OpenQueue { most: f64 },
}

impl LatencyCurve {
    fn factor(self, u: f64) -> f64 {
        let u = u.clamp(0.0, 1.0);
        match self {
            LatencyCurve::Pieces { at, factor } => {
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
            LatencyCurve::Falling { ratio, .. } => 1.0 + (ratio - 1.0) * u,
            // A ramp of 1% utilisation, so that the fixed point is unique.
            LatencyCurve::Step { at, factor } => {
                1.0 + (factor - 1.0) * ((u - at) / 0.01).clamp(0.0, 1.0)
            }
            LatencyCurve::OpenQueue { most } => (1.0 / (1.0 - u).max(1e-6)).min(most),
        }
    }

    /// Share of the peak bandwidth available when demand is `asked` times the peak.
    fn peak(self, asked: f64) -> f64 {
        match self {
            LatencyCurve::Falling { by, .. } if asked > 1.0 => (1.0 - by * asked.log2()).max(0.3),
            _ => 1.0,
        }
    }
}

/// A machine under this model, with one curve for its first tier and one for all others.
#[derive(Debug, Clone)]
pub struct ShapedMachine {
    machine: Machine,
    curves: [LatencyCurve; 2],
}

impl ShapedMachine {
    pub(super) fn new(machine: Machine, curves: [LatencyCurve; 2]) -> Self {
        ShapedMachine { machine, curves }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    fn curve(&self, tier: usize) -> LatencyCurve {
        self.curves[tier.min(1)]
    }

    /// Latency of a tier at a utilisation, ns.
    pub(super) fn latency_ns(&self, tier: usize, utilisation: f64) -> f64 {
        self.machine.tiers[tier].idle_latency_ns.value * self.curve(tier).factor(utilisation)
    }

    /// Time of a phase, ns; other programs take their part of a tier, at most half of it.
    pub(super) fn time_ns(
        &self,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        others: &[Background],
    ) -> f64 {
        let machine = &self.machine;
        let workers = f64::from(workers).min(machine.cores.value);
        let tuple = TupleTraffic::of(machine, phase, placement);
        let taken = utilisation_by_others(machine, others);
        let cycle = |x: f64| {
            let memory: f64 = tuple.cache_ns + self.memory_ns(&tuple.tiers, &taken, x);
            let compute = phase.compute_ns_per_tuple;
            let overlap = machine.overlap.as_ref().map_or(0.0, |o| o.value);
            memory.max(compute) + (1.0 - overlap) * memory.min(compute)
        };
        let unloaded = workers / cycle(0.0).max(1e-9);
        let mut full = f64::INFINITY;
        for (tier, load) in tuple.tiers.iter().enumerate() {
            let asked = unloaded * load.busy_ns + taken[tier];
            let left = self.curve(tier).peak(asked) * (1.0 - taken[tier].min(MOST_TAKEN));
            full = full.min(left / load.busy_ns.max(1e-12));
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

    fn memory_ns(&self, loads: &[Traffic], taken: &[f64], x: f64) -> f64 {
        let tiers = loads.iter().enumerate();
        tiers
            .map(|(tier, load)| load.waits * self.latency_ns(tier, x * load.busy_ns + taken[tier]))
            .sum()
    }
}

/// Largest share of a tier that other programs keep when demand exceeds its peak.
const MOST_TAKEN: f64 = 0.5;

/// Utilisation of each tier by other programs, at most 1.
pub(super) fn utilisation_by_others(machine: &Machine, others: &[Background]) -> Vec<f64> {
    let of = |tier: &tierloom_model::Tier| {
        let here = others.iter().filter(|b| b.tier == tier.name);
        let busy =
            here.map(|b| b.read_gbps / tier.read_gbps.value + b.write_gbps / tier.write_gbps.value);
        busy.sum::<f64>().min(1.0)
    };
    machine.tiers.iter().map(of).collect()
}
