//! The adaptive controller against simulated machines that its profile is wrong about.
//!
//! The model with every number off by up to 20% plays the unknown machine, and each measured time carries noise of 1% (of a trial: 2%).
//! A run of a query costs what its phases take under the decided placements, trials included; all comparisons are of times without noise.

use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::search::SplitMix;
use tierloom_model::{Machine, Options, Phase, Placement, TierShares, profiles, solve};
use tierloom_placement::adaptive::{Action, Controller, Layout, Measured, PhaseDecision, Settings};
use tierloom_placement::mixes::{Engine, Mix, tpch_queries};

const SEEDS: u64 = 200;

/// Runs of each query: five to learn, the sixth is judged, and four more in which nothing may oscillate.
const RUNS: usize = 10;
const LEARNED: usize = 5;

/// Runs over which a migration has to pay. The best static placement costs no migration, so what is compared with it must not shun one.
const EXPECTED_RUNS: f64 = 1e6;

const PROFILES: [&str; 12] = [
    "nus24",
    "epfl25-full-pf-on",
    "hpi25-1dev",
    "epfl25-snc4-pf-on",
    "hpi25-4dev",
    "epfl25-snc2-pf-on",
    "hpi25-2dev",
    "epfl25-full-pf-off",
    "hpi25-3dev",
    "epfl25-snc2-pf-off",
    "hpi25-far",
    "epfl25-snc4-pf-off",
];

/// A machine whose every number is off by up to 20%, each by itself; whole numbers stay whole and shares below 1.
fn perturbed(machine: &Machine, seed: u64) -> Machine {
    let mut random = SplitMix::new(seed.wrapping_mul(7919).wrapping_add(17));
    let mut truth = machine.clone();
    for figure in machine.figures() {
        let x = figure.value * (0.8 + 0.4 * random.uniform());
        let x = match figure.path.rsplit('.').next().unwrap() {
            // Whoever runs the phases counts these.
            "cores" | "smt" | "devices" | "entries" | "page_bytes" | "capacity_bytes" => {
                figure.value
            }
            "ratio_at_peak" | "smt_yield" | "walkers" => x.max(1.0),
            "knee" => x.min(0.99),
            "overlap" | "duplex" | "random_share" => x.min(1.0),
            _ if figure.path.starts_with("concurrency.") => x.max(1.0),
            _ => x,
        };
        let value = machine.number(&figure.path).unwrap().with(x);
        truth.set_number(&figure.path, value).unwrap();
    }
    truth.check().unwrap();
    truth
}

fn time(machine: &Machine, phase: &Phase, placement: &Placement, workers: u32) -> f64 {
    solve(machine, phase, placement, workers, &Options::default())
        .unwrap()
        .time_ns
}

fn uniform(machine: &Machine, phase: &Phase, cxl: f64, workers: u32, all: bool) -> f64 {
    let shares = TierShares::from_weights(&[("dram", 1.0 - cxl), ("cxl", cxl)]).unwrap();
    let placement = if all {
        Placement::new(shares)
    } else {
        Placement::new(TierShares::all("dram"))
            .with_class(tierloom_model::StructureClass::Column, shares)
    };
    time(machine, phase, &placement, workers)
}

/// The least time over static weights, found by trying every per cent, for columns alone and for everything alike.
fn exhaustive(machine: &Machine, phase: &Phase, workers: u32) -> f64 {
    let tried = (0..=100).flat_map(|percent| {
        let cxl = f64::from(percent) / 100.0;
        [false, true].map(|all| uniform(machine, phase, cxl, workers, all))
    });
    tried.fold(f64::INFINITY, f64::min)
}

/// The worst that happened.
#[derive(Debug, Default, Clone)]
struct Worst {
    /// Time of a run over the time on DRAM only.
    over_dram: (f64, String),
    /// Time of the judged runs over the best static placement per phase.
    over_best: (f64, String),
    /// Sum of ratios over best, to see the mean.
    sum: f64,
    count: usize,
    /// Queries further than 2% from the best.
    far: usize,
    late: usize,
    changes: u32,
    returns: usize,
}

impl Worst {
    fn take(&mut self, other: &Worst) {
        if other.over_dram.0 > self.over_dram.0 {
            self.over_dram = other.over_dram.clone();
        }
        if other.over_best.0 > self.over_best.0 {
            self.over_best = other.over_best.clone();
        }
        self.sum += other.sum;
        self.count += other.count;
        self.far += other.far;
        self.late += other.late;
        self.changes = self.changes.max(other.changes);
        self.returns += other.returns;
    }
}

struct Simulation<'a> {
    truth: Machine,
    workers: u32,
    controller: Controller,
    random: SplitMix,
    mix: &'a Mix,
    label: String,
}

impl<'a> Simulation<'a> {
    fn new(profile: &str, mix: &'a Mix, seed: u64) -> Self {
        let machine = profiles::load(profile).unwrap();
        let workers = machine.cores.value as u32;
        let settings = Settings {
            expected_runs: EXPECTED_RUNS,
            ..Settings::new(workers)
        };
        Simulation {
            truth: perturbed(&machine, seed),
            workers,
            controller: Controller::new(&machine, settings).unwrap(),
            random: SplitMix::new(seed ^ 0x5eed),
            mix,
            label: format!("{profile} seed {seed}"),
        }
    }

    /// True time of a phase as decided, and what is measured of it.
    fn run(&mut self, phase: &Phase, decision: &PhaseDecision) -> (f64, Measured) {
        let on =
            |layout: &Layout| time(&self.truth, phase, &layout.placement("dram"), self.workers);
        let whole = on(&decision.layout);
        let trials: Vec<f64> = decision
            .trials
            .iter()
            .map(|trial| on(&trial.layout) * trial.share)
            .collect();
        let main = whole * decision.rest();
        let measured = Measured {
            time_ns: main * (1.0 + 0.01 * self.random.normal()),
            trials_ns: trials
                .iter()
                .map(|t| t * (1.0 + 0.02 * self.random.normal()))
                .collect(),
        };
        (main + trials.iter().sum::<f64>(), measured)
    }

    /// Time of the last of so many rounds of the mix.
    fn rounds(&mut self, count: usize) -> f64 {
        let mut took = 0.0;
        for _ in 0..count {
            took = 0.0;
            for (query, phases) in self.mix {
                let decisions = self.controller.plan(query, phases).unwrap();
                let runs = phases.iter().zip(&decisions);
                let ran: Vec<(f64, Measured)> = runs.map(|(p, d)| self.run(p, d)).collect();
                took += ran.iter().map(|(time, _)| time).sum::<f64>();
                let measured: Vec<Option<Measured>> =
                    ran.into_iter().map(|(_, m)| Some(m)).collect();
                self.controller.learn(query, &measured).unwrap();
            }
        }
        took
    }

    fn play(mut self) -> Worst {
        let dram = Layout::on("dram").unwrap().placement("dram");
        let mut worst = Worst::default();
        for run in 0..RUNS {
            for (query, phases) in self.mix {
                let decisions = self.controller.plan(query, phases).unwrap();
                let ran: Vec<(f64, Measured)> = phases
                    .iter()
                    .zip(&decisions)
                    .map(|(p, d)| self.run(p, d))
                    .collect();
                let took: f64 = ran.iter().map(|(t, _)| t).sum();
                let on_dram: f64 = phases
                    .iter()
                    .map(|p| time(&self.truth, p, &dram, self.workers))
                    .sum();
                let at = format!("{} {query} run {}", self.label, run + 1);
                if took / on_dram > worst.over_dram.0 {
                    worst.over_dram = (took / on_dram, at.clone());
                }
                worst.returns += decisions
                    .iter()
                    .filter(|d| d.action == Action::Return)
                    .count();
                if run >= LEARNED {
                    worst.late += decisions
                        .iter()
                        .filter(|d| d.action != Action::Keep)
                        .count();
                }
                if run == LEARNED {
                    let best: f64 = phases
                        .iter()
                        .map(|p| exhaustive(&self.truth, p, self.workers))
                        .sum();
                    worst.sum += took / best;
                    worst.count += 1;
                    worst.far += usize::from(took / best > 1.02);
                    if took / best > 1.02 {
                        eprintln!("more than 2% from the best: {at}, {:.4}", took / best);
                    }
                    if took / best > worst.over_best.0 {
                        worst.over_best = (took / best, at.clone());
                    }
                }
                if std::env::var("TRACE").is_ok_and(|t| at.starts_with(&t)) {
                    for ((d, p), r) in decisions.iter().zip(phases).zip(&ran) {
                        eprintln!(
                            "{at} {}: {:?} [{}] wanted [{}] gain {:.4} +- {:.4}; true {:.3} of best {:.3} expected {:.3} us; {}",
                            d.phase,
                            d.action,
                            d.layout,
                            d.wanted,
                            d.gain,
                            d.doubt,
                            r.0 / 1e3,
                            exhaustive(&self.truth, p, self.workers) / 1e3,
                            d.expected_ns / 1e3,
                            d.reason
                        );
                    }
                }
                let measured: Vec<Option<Measured>> =
                    ran.into_iter().map(|(_, m)| Some(m)).collect();
                self.controller.learn(query, &measured).unwrap();
            }
        }
        worst.changes = self.controller.changes().map(|(_, n)| n).max().unwrap_or(0);
        worst
    }
}

/// SSB as the papers ran it on each machine: 4-byte values and 3 ns per tuple, or 8 bytes and 2 ns.
fn ssb(profile: &str) -> Mix {
    match profile.starts_with("epfl25") {
        true => ssb_queries(100.0, 8, 2.0),
        false => ssb_queries(30.0, 4, 3.0),
    }
}

fn play(seeds: std::ops::Range<u64>, profiles: &[&str], mix: impl Fn(&str) -> Mix + Sync) -> Worst {
    let threads = 2;
    let mut worst = Worst::default();
    std::thread::scope(|scope| {
        let run = |first: u64| {
            let (seeds, mix) = (seeds.clone(), &mix);
            move || {
                let mut worst = Worst::default();
                for seed in seeds.filter(|s| s % threads == first) {
                    let profile = profiles[seed as usize % profiles.len()];
                    let mix = mix(profile);
                    worst.take(&Simulation::new(profile, &mix, seed).play());
                }
                worst
            }
        };
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(run(t))).collect();
        for handle in handles {
            worst.take(&handle.join().unwrap());
        }
    });
    worst
}

/// TPC-H on each machine at scale factor 100, by an engine four times as fast as usual: it waits for memory more.
fn tpch(_: &str) -> Mix {
    tpch_queries(100.0, &Engine::default().faster(4.0))
}

fn told(worst: &Worst) -> String {
    format!(
        "runs of queries against DRAM only: at most {:.4} ({}); run {} against the best static placement per phase: mean {:.4}, {} of {} queries more than 2% away, at most {:.4} ({}); at most {} changes of a phase, {} in all runs after the fifth, {} taken back",
        worst.over_dram.0,
        worst.over_dram.1,
        LEARNED + 1,
        worst.sum / worst.count as f64,
        worst.far,
        worst.count,
        worst.over_best.0,
        worst.over_best.1,
        worst.changes,
        worst.late,
        worst.returns
    )
}

/// No run of any query loses more than 1% against DRAM only. After five runs all but one in `in_queries` queries are within 2% of the best static placement
/// per phase, and all within `at_most`: the others still climb towards an edge where one more per cent of the pages fills a tier.
fn hold(worst: &Worst, in_queries: usize, at_most: f64) {
    eprintln!("{}", told(worst));
    assert!(worst.over_dram.0 <= 1.01, "{}", told(worst));
    assert!(worst.far * in_queries <= worst.count, "{}", told(worst));
    assert!(worst.over_best.0 <= at_most, "{}", told(worst));
    assert!(
        worst.changes <= Settings::new(1).max_changes,
        "{}",
        told(worst)
    );
}

#[test]
fn ssb_is_never_slower_than_dram_and_soon_near_the_best() {
    hold(&play(0..SEEDS, &PROFILES, ssb), 1000, 1.03);
}

#[test]
fn tpch_is_never_slower_than_dram_and_soon_near_the_best() {
    hold(&play(0..SEEDS, &PROFILES, tpch), 400, 1.06);
}

#[test]
#[ignore = "200 seeds of each profile take a quarter of an hour"]
fn every_profile_with_every_seed() {
    for profile in PROFILES {
        for (name, mix) in [("SSB", ssb as fn(&str) -> Mix), ("TPC-H", tpch)] {
            eprintln!(
                "{profile}, {name}: {}",
                told(&play(0..SEEDS, &[profile], mix))
            );
        }
    }
}

#[test]
#[ignore = "one simulation, told in full"]
fn one() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let (profile, seed) = (var("PROFILE"), var("SEED").parse().unwrap());
    let mix = if var("MIX") == "tpch" {
        tpch(&profile)
    } else {
        ssb(&profile)
    };
    eprintln!("{:?}", Simulation::new(&profile, &mix, seed).play());
}

/// Lebedev et al., "Demystifying CXL Memory Bandwidth Expansion for Analytical Workloads" (ADMS 2025): a tenth of all memory on CXL, blindly.
#[test]
fn the_loss_of_a_blind_interleave_becomes_a_gain_or_nothing() {
    let profile = "epfl25-full-pf-on";
    let mix = ssb(profile);
    let machine = profiles::load(profile).unwrap();
    let workers = machine.cores.value as u32;
    for seed in 0..12 {
        // The machine of the profile first, then ones that it is wrong about.
        let mut simulation = Simulation::new(profile, &mix, seed);
        if seed == 0 {
            simulation.truth = machine.clone();
        }
        let dram = Layout::on("dram").unwrap().placement("dram");
        let truth = simulation.truth.clone();
        let of = |cost: &dyn Fn(&Phase) -> f64| -> f64 {
            mix.iter().flat_map(|(_, phases)| phases).map(cost).sum()
        };
        let on_dram = of(&|p| time(&truth, p, &dram, workers));
        let blind = of(&|p| uniform(&truth, p, 0.1, workers, true));
        let learned = simulation.rounds(LEARNED + 1);
        eprintln!(
            "seed {seed}: blind {:+.1}%, adaptive {:+.2}%",
            100.0 * (on_dram / blind - 1.0),
            100.0 * (on_dram / learned - 1.0)
        );
        if seed == 0 {
            assert!(blind > 1.1 * on_dram, "the blind interleave loses");
        }
        assert!(
            learned <= 1.005 * on_dram,
            "seed {seed}: {learned} {on_dram}"
        );
    }
}
