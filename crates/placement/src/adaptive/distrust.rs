//! Safety factors for tiers that have not been measured under load.
//!
//! The uncertainty in a profile assumes that it describes this machine. It may describe another one
//! altogether: a different device, fewer lanes, a switch on the way. Until a tier was measured
//! under load it is therefore assumed to be slower than the profile by factors on bandwidth and
//! latency. A measured time rules out the pairs of both with which it would have been longer: a few
//! pages on a tier tell its latency but not its peak bandwidth, and a high latency with a low
//! bandwidth is ruled out before each of them alone.
//!
//! The model may be wrong in other numbers too, and then rules out what is true. A time that is
//! longer than all pairs that are left allow shows it, and brings all pairs of the tier back.

use super::Layout;
use tierloom_model::{Machine, ModelError, Options, Phase, Tier, Value, solve};

/// Factors by which bandwidth and latency of a tier may be worse than in its profile, the worst
/// first. Any two of them may apply together.
const BANDWIDTH_FACTORS: [f64; 5] = [6.0, 4.0, 3.0, 2.0, 1.0];
const LATENCY_FACTORS: [f64; 4] = [4.0, 3.0, 2.0, 1.0];

/// Factor on both that is never ruled out: some margin remains however much was measured.
const MARGIN: f64 = 2.0;

/// Measured runs that have to rule a pair of factors out: no single outlier settles it.
const LEAST_RUNS: u32 = 2;

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
    pairs: Vec<Slowdown>,
    /// Runs that were slower than under every pair that was left.
    unexplained: u32,
    /// Whether the present run is one of them.
    now: bool,
}

/// Factors on bandwidth and latency that may apply together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slowdown {
    bandwidth: f64,
    latency: f64,
    /// Runs that it would have made slower than they were.
    against: u32,
    /// Whether the present run is one of them.
    now: bool,
}

impl Slowdown {
    fn is_ruled_out(&self) -> bool {
        self.against >= LEAST_RUNS
    }

    /// Whether nothing rules it out.
    fn is_margin(&self) -> bool {
        self.bandwidth <= MARGIN && self.latency <= MARGIN
    }

    /// Whether no factor is smaller and one is larger.
    fn is_worse_than(&self, other: &Slowdown) -> bool {
        let same = self.bandwidth == other.bandwidth && self.latency == other.latency;
        self.bandwidth >= other.bandwidth && self.latency >= other.latency && !same
    }
}

impl Factors {
    fn new(tier: &str) -> Self {
        let pairs = BANDWIDTH_FACTORS.iter().flat_map(|&bandwidth| {
            LATENCY_FACTORS.map(|latency| Slowdown {
                bandwidth,
                latency,
                against: 0,
                now: false,
            })
        });
        Factors {
            tier: tier.to_owned(),
            pairs: pairs.collect(),
            unexplained: 0,
            now: false,
        }
    }

    /// Whether what ruled pairs out has proved wrong, and all may apply again.
    ///
    /// The model that ruled them out differs from the machine in more than the pairs, and the same
    /// times would rule them out again, so nothing does from here on.
    fn is_contradicted(&self) -> bool {
        self.unexplained >= LEAST_RUNS
    }

    fn open(&self) -> impl Iterator<Item = &Slowdown> {
        let all = self.is_contradicted();
        let pairs = self.pairs.iter();
        pairs.filter(move |pair| all || !pair.is_ruled_out())
    }

    /// The pairs that may apply, without those that are better than another one in both factors.
    fn worst(&self) -> impl Iterator<Item = &Slowdown> {
        self.open()
            .filter(|pair| !self.open().any(|other| other.is_worse_than(pair)))
    }
}

/// Measured slowdown of a layout relative to the phase's own layout in the same run.
pub(super) struct MeasuredSlowdown<'a> {
    pub phase: &'a Phase,
    pub from: &'a Layout,
    pub to: &'a Layout,
    /// Confidence bounds of the ratio of times, `to` over `from`.
    pub at_least: f64,
    pub at_most: f64,
}

impl Distrust {
    pub fn new(machine: &Machine) -> Self {
        let others = machine.tiers.iter().skip(1);
        Distrust {
            tiers: others.map(|t| Factors::new(&t.name)).collect(),
            profile: machine.tiers.clone(),
        }
    }

    /// Whether a measured time can still rule something out.
    pub fn is_open(&self) -> bool {
        self.tiers
            .iter()
            .any(|f| f.open().any(|pair| !pair.is_margin()))
    }

    /// The worst machines not ruled out, of which one or another is the worst for a phase: tiers to
    /// which a layout gives columns are slowed down by a pair of factors each.
    pub fn worst(&self, machine: &Machine, to: &Layout) -> Vec<Machine> {
        let mut worst = vec![machine.clone()];
        for factors in &self.tiers {
            if to.columns.share(&factors.tier) <= 0.0 {
                continue;
            }
            let slower = worst.iter().flat_map(|machine| {
                factors.worst().map(|pair| {
                    let mut slower = machine.clone();
                    slow_down_named(&mut slower, &factors.tier, pair.bandwidth, pair.latency);
                    slower
                })
            });
            worst = slower.collect();
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
            slow_down(tier, BANDWIDTH_FACTORS[0], LATENCY_FACTORS[0]);
        }
        worst
    }

    /// Ends a run of a phase, whose times count once however many there were.
    pub fn end_run(&mut self) {
        for factors in &mut self.tiers {
            for pair in &mut factors.pairs {
                pair.against += u32::from(std::mem::take(&mut pair.now));
            }
            factors.unexplained += u32::from(std::mem::take(&mut factors.now));
        }
    }

    /// Notes the factors that a measured time of the present run contradicts.
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
            if seen.to.columns.share(&factors.tier) <= 0.0 || factors.is_contradicted() {
                continue;
            }
            let mut most = 0.0_f64;
            for pair in &mut factors.pairs {
                if pair.is_ruled_out() {
                    continue;
                }
                let mut slower = machine.clone();
                slow_down_named(&mut slower, &factors.tier, pair.bandwidth, pair.latency);
                let ratio = time(&slower, seen.to)? / before;
                most = most.max(ratio);
                pair.now |= !pair.is_margin() && ratio > seen.at_most;
            }
            factors.now |= most < seen.at_least;
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
            let ratio = time(&machine, &to, workers) / time(&machine, &home, workers);
            let seen = MeasuredSlowdown {
                phase: &phase,
                from: &home,
                to: &to,
                at_least: ratio / 1.02,
                at_most: 1.02 * ratio,
            };
            // Several times of one run count once.
            distrust.narrow(&machine, workers, &seen).unwrap();
            distrust.narrow(&machine, workers, &seen).unwrap();
            distrust.end_run();
        };
        let worst = |distrust: &Distrust, of: &dyn Fn(&Slowdown) -> f64| {
            let open = distrust.tiers[0].open();
            open.map(of).fold(0.0, f64::max)
        };
        let bandwidth = |distrust: &Distrust| worst(distrust, &|pair| pair.bandwidth);
        let latency = |distrust: &Distrust| worst(distrust, &|pair| pair.latency);
        see(&mut distrust, 8, 4);
        assert_eq!(distrust.tiers[0].open().count(), 20, "one run may be off");
        see(&mut distrust, 8, 4);
        assert!(latency(&distrust) < LATENCY_FACTORS[0]);
        assert_eq!(bandwidth(&distrust), BANDWIDTH_FACTORS[0]);
        see(&mut distrust, 80, 32);
        see(&mut distrust, 80, 32);
        assert_eq!((bandwidth(&distrust), latency(&distrust)), (MARGIN, MARGIN));
        assert!(!distrust.tiers[0].open().any(|pair| !pair.is_margin()));
        let machines = distrust.worst(&machine, &with(50));
        assert_eq!(machines.len(), 1);
        assert!(machines.iter().all(|machine| machine.check().is_ok()));
        // Nothing was measured of the tiers that a layout does not use.
        assert_eq!(
            distrust.worst(&machine, &home),
            std::slice::from_ref(&machine)
        );
    }

    #[test]
    fn times_longer_than_all_that_is_left_bring_every_pair_back() {
        let machine = profiles::load("nus24").unwrap();
        let phase = Phase::new("scan", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("t.c", 8.0, 8_000_000_000).vectorised());
        let (from, to) = (Layout::on("dram").unwrap(), Layout::on("cxl").unwrap());
        let mut distrust = Distrust::new(&machine);
        let mut see = |ratio: f64| {
            let seen = MeasuredSlowdown {
                phase: &phase,
                from: &from,
                to: &to,
                at_least: ratio / 1.02,
                at_most: 1.02 * ratio,
            };
            distrust.narrow(&machine, 32, &seen).unwrap();
            distrust.end_run();
            let worst = distrust.tiers[0].worst();
            worst.map(|p| (p.bandwidth, p.latency)).collect::<Vec<_>>()
        };
        let initial = vec![(BANDWIDTH_FACTORS[0], LATENCY_FACTORS[0])];
        let margin = vec![(MARGIN, MARGIN)];
        let _ = see(0.1);
        assert_eq!(
            see(0.1),
            margin,
            "two fast runs rule out all but the margin"
        );
        assert_eq!(see(50.0), margin, "one slow run may be off");
        assert_eq!(see(50.0), initial);
        let _ = see(0.1);
        assert_eq!(see(0.1), initial, "what misled once does not again");
    }

    #[test]
    fn of_pairs_that_may_apply_only_the_worst_count() {
        let mut factors = Factors::new("cxl");
        let pairs = |factors: &Factors| -> Vec<(f64, f64)> {
            factors.worst().map(|p| (p.bandwidth, p.latency)).collect()
        };
        assert_eq!(pairs(&factors), [(6.0, 4.0)]);
        for pair in &mut factors.pairs {
            let much = pair.bandwidth * pair.latency > 12.0;
            pair.against = if much { LEAST_RUNS } else { 0 };
        }
        assert_eq!(pairs(&factors), [(6.0, 2.0), (4.0, 3.0), (3.0, 4.0)]);
    }
}
