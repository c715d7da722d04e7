//! Safety factors for tiers that have not been measured under load.
//!
//! The uncertainty in a profile assumes that it describes this machine. It may describe another one
//! altogether: a different device, fewer lanes, a switch on the way. Until a tier was measured
//! under load it is therefore assumed to be slower than the profile by a factor, which decreases as
//! measured times rule it out. Bandwidth and latency have separate factors, because a few pages on
//! a tier reveal its latency but not its peak bandwidth.

use super::Layout;
use tierloom_model::{Machine, ModelError, Options, Phase, Tier, Value, solve};

/// Initial factors by which bandwidth and latency of a tier may be worse than in its profile.
const INITIAL_BANDWIDTH_FACTOR: f64 = 6.0;
const INITIAL_LATENCY_FACTOR: f64 = 4.0;

/// Decrease of a factor per measured run of a phase: no single outlier settles it.
const DECREASE: f64 = 0.6;

/// Lower limit of the factors; some margin remains however much was measured.
const MIN_FACTOR: f64 = 2.0;

/// Safety factors of every tier but the first.
#[derive(Debug, Clone)]
pub(super) struct Distrust {
    tiers: Vec<Factors>,
    /// Tiers of the profile.
    profile: Vec<Tier>,
}

#[derive(Debug, Clone)]
struct Factors {
    tier: String,
    bandwidth: f64,
    latency: f64,
}

/// Measured slowdown of a layout relative to the phase's own layout in the same run.
pub(super) struct MeasuredSlowdown<'a> {
    pub phase: &'a Phase,
    pub from: &'a Layout,
    pub to: &'a Layout,
    /// Upper confidence bound of the ratio of times, `to` over `from`.
    pub at_most: f64,
}

impl Distrust {
    pub fn new(machine: &Machine) -> Self {
        let others = machine.tiers.iter().skip(1);
        Distrust {
            tiers: others
                .map(|t| Factors {
                    tier: t.name.clone(),
                    bandwidth: INITIAL_BANDWIDTH_FACTOR,
                    latency: INITIAL_LATENCY_FACTOR,
                })
                .collect(),
            profile: machine.tiers.clone(),
        }
    }

    /// Whether a measured time can still lower a factor.
    pub fn is_open(&self) -> bool {
        let open = |f: &Factors| f.bandwidth > MIN_FACTOR || f.latency > MIN_FACTOR;
        self.tiers.iter().any(open)
    }

    /// The worst machine not ruled out: every tier but the first is slowed down by its factors.
    pub fn worst(&self, machine: &Machine) -> Machine {
        let mut worst = machine.clone();
        for factors in &self.tiers {
            let Factors {
                tier,
                bandwidth,
                latency,
            } = factors;
            slow_down_named(&mut worst, tier, *bandwidth, *latency);
        }
        worst
    }

    /// The same with the initial factors, for writes and random accesses.
    ///
    /// Trials measure sequential reads, so what they rule out says nothing about other access
    /// patterns. For the same reason the factors start from the slower of the profile and
    /// `machine`, the profile as corrected by trials: they may have made a tier look faster than it
    /// is. And the first tier is `first_faster` times as fast, if above 1: what a phase loses on
    /// the others depends on how fast it was before.
    pub fn worst_unmeasured(&self, machine: &Machine, first_faster: f64) -> Machine {
        let mut worst = machine.clone();
        let (first, others) = worst.tiers.split_at_mut(1);
        for tier in first {
            let faster = first_faster.max(1.0);
            slow_down(tier, 1.0 / faster, 1.0 / faster);
        }
        for tier in others {
            if let Some(profile) = self.profile.iter().find(|t| t.name == tier.name) {
                take_slower(tier, profile);
            }
            slow_down(tier, INITIAL_BANDWIDTH_FACTOR, INITIAL_LATENCY_FACTOR);
        }
        worst
    }

    /// Lowers the factors that the measured time rules out.
    ///
    /// # Errors
    /// Same as [`solve()`].
    pub fn narrow(
        &mut self,
        machine: &Machine,
        workers: u32,
        seen: &MeasuredSlowdown<'_>,
    ) -> Result<(), ModelError> {
        let first = machine.tiers.first().map_or("", |t| t.name.as_str());
        let time = |machine: &Machine, layout: &Layout| -> Result<f64, ModelError> {
            let placement = layout.placement(first);
            Ok(solve(
                machine,
                seen.phase,
                &placement,
                workers,
                &Options::default(),
            )?
            .time_ns)
        };
        let before = time(machine, seen.from)?;
        for factors in &mut self.tiers {
            if seen.to.columns.share(&factors.tier) <= 0.0 {
                continue;
            }
            for (factor, is_bandwidth) in [
                (&mut factors.bandwidth, true),
                (&mut factors.latency, false),
            ] {
                let lower = (*factor * DECREASE).max(MIN_FACTOR);
                if *factor <= MIN_FACTOR {
                    continue;
                }
                let mut slower = machine.clone();
                // One factor at a time: the measured time has to rule it out even if the other one
                // is 1.
                let (bandwidth, latency) = if is_bandwidth {
                    (lower, 1.0)
                } else {
                    (1.0, lower)
                };
                slow_down_named(&mut slower, &factors.tier, bandwidth, latency);
                // Even with the lower factor the phase would have been slower than measured, so any
                // larger factor is ruled out as well.
                if time(&slower, seen.to)? / before > seen.at_most {
                    *factor = lower;
                }
            }
        }
        Ok(())
    }
}

/// Replaces the peaks and the latency of a tier where those of another one are worse.
fn take_slower(tier: &mut Tier, other: &Tier) {
    let less = |value: &mut Value, other: &Value| value.value = value.value.min(other.value);
    less(&mut tier.read_gbps, &other.read_gbps);
    less(&mut tier.write_gbps, &other.write_gbps);
    for (value, other) in [
        (&mut tier.nt_write_gbps, &other.nt_write_gbps),
        (&mut tier.random_share, &other.random_share),
    ] {
        if let (Some(value), Some(other)) = (value, other) {
            less(value, other);
        }
    }
    let latency_ns = tier.idle_latency_ns.value.max(other.idle_latency_ns.value);
    tier.idle_latency_ns.value = latency_ns;
}

fn slow_down(tier: &mut Tier, bandwidth: f64, latency: f64) {
    tier.read_gbps.value /= bandwidth;
    tier.write_gbps.value /= bandwidth;
    if let Some(peak) = &mut tier.nt_write_gbps {
        peak.value /= bandwidth;
    }
    tier.idle_latency_ns.value *= latency;
}

fn slow_down_named(machine: &mut Machine, name: &str, bandwidth: f64, latency: f64) {
    let tiers = machine.tiers.iter_mut().filter(|t| t.name == name);
    tiers.for_each(|tier| slow_down(tier, bandwidth, latency));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind, profiles};

    #[test]
    fn a_few_pages_tell_the_latency_and_many_the_bandwidth() {
        let machine = profiles::load("nus24").unwrap();
        let phase = Phase::new("scan", PhaseKind::Scan, 1e9)
            .compute_ns(2.0)
            .access(Access::sequential_read("t.c", 8.0, 8_000_000_000).vectorised());
        let home = Layout::on("dram").unwrap();
        let with = |cxl: u32| Layout {
            columns: format!("dram {}, cxl {cxl}", 100 - cxl).parse().unwrap(),
            ..home.clone()
        };
        let mut distrust = Distrust::new(&machine);
        let time = |machine: &Machine, layout: &Layout, workers: u32| {
            let placement = layout.placement("dram");
            let options = Options::default();
            solve(machine, &phase, &placement, workers, &options)
                .unwrap()
                .time_ns
        };
        let see = |distrust: &mut Distrust, cxl: u32, workers: u32| {
            let to = with(cxl);
            let at_most = 1.02 * time(&machine, &to, workers) / time(&machine, &home, workers);
            let seen = MeasuredSlowdown {
                phase: &phase,
                from: &home,
                to: &to,
                at_most,
            };
            for _ in 0..6 {
                distrust.narrow(&machine, workers, &seen).unwrap();
            }
        };
        see(&mut distrust, 8, 4);
        let few = distrust.tiers[0].clone();
        assert!(few.latency < INITIAL_LATENCY_FACTOR, "{few:?}");
        assert!(few.bandwidth > few.latency, "{few:?}");
        see(&mut distrust, 80, 32);
        let many = distrust.tiers[0].clone();
        assert!(many.bandwidth < few.bandwidth, "{many:?}");
        assert!(distrust.worst(&machine).check().is_ok());
    }
}
