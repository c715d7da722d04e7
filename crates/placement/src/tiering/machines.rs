//! Simulated machines that differ from their profile in numbers and in curve shapes.

use super::shaped::{LatencyCurve, ShapedMachine};
use tierloom_model::search::SplitMix;
use tierloom_model::{Background, Machine, ModelError, Options, Phase, Placement, solve};

/// How the machine differs from the profile, in addition to an error of up to 20% in every number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineKind {
    /// No further difference.
    Numbers,
    /// Knee, exponent and height of the latency curves are arbitrary, from flat to a wall.
    Knees,
    /// CXL has 20% to 60% of the bandwidth and 1.3 to 3 times the latency.
    CxlWorse,
    /// CXL has 1.5 to 3 times the bandwidth and 40% to 80% of the latency.
    CxlBetter,
    /// Writes and random accesses are much slower than sequential reads.
    Asymmetric,
    /// CXL resembles the memory of another socket: higher latency, almost the same bandwidth.
    Remote,
    /// Different model: piecewise linear latency.
    Pieces,
    /// Different model: peak bandwidth decreases under overload.
    Falling,
    /// Different model: latency jumps at some utilisation.
    Step,
    /// Different model: latency of an open queue, 1 / (1 - u).
    OpenQueue,
}

/// All kinds, in a fixed order.
pub const KINDS: [MachineKind; 10] = [
    MachineKind::Numbers,
    MachineKind::Knees,
    MachineKind::CxlWorse,
    MachineKind::CxlBetter,
    MachineKind::Asymmetric,
    MachineKind::Remote,
    MachineKind::Pieces,
    MachineKind::Falling,
    MachineKind::Step,
    MachineKind::OpenQueue,
];

/// What the phases really take on a simulated machine, which no policy knows.
#[derive(Debug, Clone)]
pub enum TrueMachine {
    /// Computed by the controller's model, from these numbers.
    Model(Machine),
    /// Computed by a different model.
    Other(ShapedMachine),
}

impl TrueMachine {
    /// Draws a machine of this kind around the profile.
    ///
    /// # Errors
    /// [`ModelError`] if the profile is not valid.
    pub fn new(kind: MachineKind, profile: &Machine, seed: u64) -> Result<Self, ModelError> {
        let mut machine = perturbed(profile, seed)?;
        let mut random = SplitMix::new(seed ^ 0x006d_6163_6869_6e65);
        let r = &mut random;
        match kind {
            MachineKind::Numbers => {}
            MachineKind::Knees => bend(&mut machine, r),
            MachineKind::CxlWorse => {
                scale_cxl(&mut machine, between(r, 0.2, 0.6), between(r, 1.3, 3.0));
            }
            MachineKind::CxlBetter => {
                scale_cxl(&mut machine, between(r, 1.5, 3.0), between(r, 0.4, 0.8));
            }
            MachineKind::Asymmetric => slow_writes(&mut machine, r),
            MachineKind::Remote => as_remote(&mut machine, r),
            MachineKind::Pieces
            | MachineKind::Falling
            | MachineKind::Step
            | MachineKind::OpenQueue => {
                let shaped = ShapedMachine::new(machine, curves(kind, r));
                return Ok(TrueMachine::Other(shaped));
            }
        }
        machine.check()?;
        Ok(TrueMachine::Model(machine))
    }

    /// The numbers of the machine; its curves may have another shape.
    pub fn machine(&self) -> &Machine {
        match self {
            TrueMachine::Model(machine) => machine,
            TrueMachine::Other(shaped) => shaped.machine(),
        }
    }

    /// Time of a phase on the machine, ns, with the load of other programs on its tiers.
    ///
    /// # Errors
    /// Same as [`solve()`].
    pub fn time_ns(
        &self,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        others: &[Background],
    ) -> Result<f64, ModelError> {
        match self {
            TrueMachine::Model(machine) => {
                let options = Options {
                    background: others.to_vec(),
                    ..Options::default()
                };
                Ok(solve(machine, phase, placement, workers, &options)?.time_ns)
            }
            TrueMachine::Other(shaped) => {
                phase.check()?;
                Ok(shaped.time_ns(phase, placement, workers, others))
            }
        }
    }
}

/// Changes every number by up to 20%, independently.
///
/// Counts stay exact, and numbers stay within the limits of the profile format.
fn perturbed(machine: &Machine, seed: u64) -> Result<Machine, ModelError> {
    let mut random = SplitMix::new(seed.wrapping_mul(7919).wrapping_add(17));
    let mut truth = machine.clone();
    for figure in machine.figures() {
        let x = figure.value * (0.8 + 0.4 * random.uniform());
        let x = match figure.key() {
            // Counts and sizes that the operating system reports are never wrong.
            _ if figure.is_counted() => figure.value,
            "entries" => figure.value,
            "ratio_at_peak" | "smt_yield" | "walkers" => x.max(1.0),
            "knee" => x.min(0.99),
            "overlap" | "duplex" | "random_share" | "prefetched_share" => x.min(1.0),
            "overload_loss" => x.min(0.99),
            _ if figure.path.starts_with("concurrency.") => x.max(1.0),
            _ => x,
        };
        truth.put(&figure.path, x);
    }
    truth.check()?;
    Ok(truth)
}

pub(super) fn between(random: &mut SplitMix, low: f64, high: f64) -> f64 {
    low + (high - low) * random.uniform()
}

/// Changes the numbers of a tier (of all tiers for `None`) whose path ends with `end`.
fn change(machine: &mut Machine, tier: Option<&str>, end: &str, to: impl Fn(f64) -> f64) {
    for figure in machine.figures() {
        let of = figure.path.strip_prefix("tiers[").and_then(|rest| {
            let (index, _) = rest.split_once(']')?;
            Some(machine.tiers[index.parse::<usize>().ok()?].name.clone())
        });
        let Some(of) = of else { continue };
        if figure.path.ends_with(end) && tier.is_none_or(|t| t == of) {
            machine.put(&figure.path, to(figure.value));
        }
    }
}

fn bend(machine: &mut Machine, random: &mut SplitMix) {
    for tier in ["dram", "cxl"] {
        let (knee, exponent) = (between(random, 0.1, 0.95), between(random, 0.7, 6.0));
        let ratio = between(random, 1.05, 5.0);
        change(machine, Some(tier), "knee", |_| knee);
        change(machine, Some(tier), "exponent", |_| exponent);
        change(machine, Some(tier), "ratio_at_peak", |_| ratio);
    }
}

fn scale_cxl(machine: &mut Machine, bandwidth: f64, latency: f64) {
    change(machine, Some("cxl"), "_gbps", |x| x * bandwidth);
    change(machine, Some("cxl"), "idle_latency_ns", |x| x * latency);
}

fn slow_writes(machine: &mut Machine, random: &mut SplitMix) {
    for tier in ["dram", "cxl"] {
        let (writes, single) = (between(random, 0.2, 0.7), between(random, 0.3, 1.0));
        let duplex = random.uniform().round();
        change(machine, Some(tier), ".write_gbps", |x| x * writes);
        change(machine, Some(tier), "random_share", |_| single);
        change(machine, Some(tier), "duplex", |_| duplex);
    }
}

fn as_remote(machine: &mut Machine, random: &mut SplitMix) {
    let Some(dram) = machine.tier("dram").cloned() else {
        return;
    };
    let (latency, bandwidth) = (between(random, 1.3, 2.0), between(random, 0.3, 0.8));
    let writes = bandwidth * between(random, 0.5, 1.0);
    let to = |x: f64| move |_| x;
    let cxl = Some("cxl");
    change(
        machine,
        cxl,
        "idle_latency_ns",
        to(dram.idle_latency_ns.value * latency),
    );
    change(
        machine,
        cxl,
        ".read_gbps",
        to(dram.read_gbps.value * bandwidth),
    );
    change(
        machine,
        cxl,
        ".write_gbps",
        to(dram.write_gbps.value * writes),
    );
}

fn curves(kind: MachineKind, random: &mut SplitMix) -> [LatencyCurve; 2] {
    [(); 2].map(|()| match kind {
        MachineKind::Pieces => {
            let first = between(random, 0.2, 0.6);
            let second = between(random, first, 0.95);
            let height = between(random, 1.1, 1.6);
            LatencyCurve::Pieces {
                at: [first, second],
                factor: [height, height * between(random, 1.2, 3.0)],
            }
        }
        MachineKind::Falling => LatencyCurve::Falling {
            by: between(random, 0.05, 0.4),
            ratio: between(random, 1.2, 3.0),
        },
        MachineKind::Step => LatencyCurve::Step {
            at: between(random, 0.5, 0.98),
            factor: between(random, 1.1, 2.5),
        },
        _ => LatencyCurve::OpenQueue {
            most: between(random, 1.5, 6.0),
        },
    })
}
