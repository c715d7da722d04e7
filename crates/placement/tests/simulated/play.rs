//! Runs a mix of queries under the controller on a simulated machine, and tallies the results.

use super::noise::{NOISES, Noise, NoiseKind};
use super::rates;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::search::SplitMix;
use tierloom_model::{Phase, Placement, StructureClass, TierShares, profiles};
use tierloom_placement::adaptive::{
    Action, Controller, Layout, Measured, PhaseDecision, Settings, TierLatencies,
};
use tierloom_placement::mixes::{Engine, Mix, tpch_queries};
use tierloom_placement::tiering::{KINDS, MachineKind as Kind, TrueMachine};

pub const PROFILES: [&str; 12] = [
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

/// Runs of each query: five to learn, a sixth to judge, four more to detect oscillation.
pub const RUNS: usize = 10;
pub const LEARNED: usize = 5;

/// Runs over which a migration has to pay off.
///
/// Large enough for migrations to cost nothing, as in the best static placement that is compared
/// with.
const EXPECTED_RUNS: f64 = 1e6;

/// Ratios to the time with DRAM only above which a run counts as slower, and as much slower.
pub const SLOWER: f64 = 1.01;
pub const MUCH_SLOWER: f64 = 1.03;

/// Ratios to the time of the best placement up to which a query counts as near it.
const NEAR: f64 = 1.02;
const FAIRLY_NEAR: f64 = 1.03;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// SSB as in the profile's paper: 4-byte values and 3 ns per tuple, or 8 bytes and 2 ns.
    Ssb,
    /// TPC-H at scale factor 100; the engine is four times as fast as usual, so memory limits it.
    Tpch,
}

impl Workload {
    pub fn mix(self, profile: &str) -> Mix {
        match self {
            Workload::Ssb if profile.starts_with("epfl25") => ssb_queries(100.0, 8, 2.0),
            Workload::Ssb => ssb_queries(30.0, 4, 3.0),
            Workload::Tpch => tpch_queries(100.0, &Engine::default().faster(4.0)),
        }
    }
}

/// One simulated machine with one workload.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub workload: Workload,
    pub machine: Kind,
    pub noise: NoiseKind,
    /// Profile given to the controller.
    pub profile: &'static str,
    pub seed: u64,
    /// Whether counters measure the latencies of the tiers, with an error of 5%.
    pub counters: bool,
}

const LATENCY_ERROR: f64 = 0.05;

impl Case {
    /// Runs of each query: steps led by latencies begin where trials end, so they need more.
    fn runs(&self) -> usize {
        if self.counters { RUNS + RUNS / 2 } else { RUNS }
    }
}

/// Cases for `count` machines with one workload.
///
/// 80 of them combine every kind of machine with every kind of noise once; profiles rotate.
pub fn cases(workload: Workload, seed: u64, count: u64) -> Vec<Case> {
    let case = |i: u64| Case {
        workload,
        machine: KINDS[(i % 10) as usize],
        noise: NOISES[((i / 10 * 3 + i) % 8) as usize],
        profile: PROFILES[((7 * i + i / 12 + seed % 12) % 12) as usize],
        seed: seed.wrapping_add(i),
        counters: false,
    };
    (0..count).map(case).collect()
}

/// Counts over all runs of one or more cases.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Machines simulated.
    pub machines: u64,
    /// Machines with at least one slower run.
    pub slower_machines: u64,
    /// Runs of queries, runs slower than DRAM only, and runs much slower.
    pub runs: u64,
    pub slower: u64,
    pub much_slower: u64,
    /// Largest ratio of a run's time to that with DRAM only, and the run's name.
    pub worst: (f64, String),
    /// Queries judged after [`LEARNED`] runs, and those near the best static placement.
    pub queries: u64,
    pub near: u64,
    /// Times of these queries over those of the best static placements.
    pub over_best: Vec<f64>,
    /// Sums over the judged queries: possible and actual gain, as shares of the time with DRAM
    /// only.
    pub to_gain: f64,
    pub gained: f64,
    /// Maximum number of changes of a phase, actions after the learning runs, and returns.
    pub changes: u32,
    pub late: u64,
    pub returns: u64,
}

impl Tally {
    pub fn take(&mut self, other: &Tally) {
        self.machines += other.machines;
        self.slower_machines += other.slower_machines;
        self.runs += other.runs;
        self.slower += other.slower;
        self.much_slower += other.much_slower;
        if other.worst.0 > self.worst.0 {
            self.worst = other.worst.clone();
        }
        self.queries += other.queries;
        self.near += other.near;
        self.over_best.extend(&other.over_best);
        self.to_gain += other.to_gain;
        self.gained += other.gained;
        self.changes = self.changes.max(other.changes);
        self.late += other.late;
        self.returns += other.returns;
    }

    pub fn summary(&self) -> String {
        let percent = |part: f64, of: f64| 100.0 * part / of.max(f64::MIN_POSITIVE);
        format!(
            "{} machines, {} runs: {} more than 1% slower than DRAM only (on {} machines; at most {:.1e} of runs with 95% confidence), {} more than 3%, at most {:+.2}% ({}); run {}: {:.1}% of {} queries within 2% of the best, {:.1}% of the gain found; at most {} changes of a phase, {} late, {} taken back",
            self.machines,
            self.runs,
            self.slower,
            self.slower_machines,
            rates::upper(self.slower, self.runs, 0.95),
            self.much_slower,
            100.0 * (self.worst.0 - 1.0),
            self.worst.1,
            LEARNED + 1,
            percent(self.near as f64, self.queries as f64),
            self.queries,
            percent(self.gained, self.to_gain),
            self.changes,
            self.late,
            self.returns
        )
    }

    /// The tally as a table row.
    ///
    /// Columns: machines, runs, slower ones, their rate, much slower ones, the slowest, queries
    /// near the best: the median over it, within 2% and 3%; gain found.
    pub fn row(&self) -> String {
        let (median, near) = self.distance();
        format!(
            "{} | {} | {} | {:.1e} | {} | {:+.2}% | {:+.2}% | {:.1}% | {:.1}% | {:.0}%",
            self.machines,
            self.runs,
            self.slower,
            rates::upper(self.slower, self.runs, 0.95),
            self.much_slower,
            100.0 * (self.worst.0 - 1.0),
            100.0 * (median - 1.0),
            100.0 * self.near as f64 / self.queries as f64,
            100.0 * near,
            100.0 * self.gained / self.to_gain
        )
    }

    /// Median time over that of the best placement, and the share of queries fairly near it.
    pub fn distance(&self) -> (f64, f64) {
        let mut over = self.over_best.clone();
        over.sort_by(f64::total_cmp);
        let near = over.partition_point(|over| *over <= FAIRLY_NEAR);
        let median = over.get(over.len() / 2).copied().unwrap_or(1.0);
        (median, near as f64 / over.len().max(1) as f64)
    }

    fn run(&mut self, over: f64, at: impl Fn() -> String) {
        self.runs += 1;
        self.slower += u64::from(over > SLOWER);
        self.much_slower += u64::from(over > MUCH_SLOWER);
        if over > self.worst.0 {
            self.worst = (over, at());
        }
    }
}

pub struct Simulation {
    pub truth: TrueMachine,
    pub workers: u32,
    controller: Controller,
    noise: Noise,
    /// Errors of counters.
    random: SplitMix,
    mix: Mix,
    case: Case,
    trace: Option<String>,
}

impl Simulation {
    pub fn new(case: Case) -> Self {
        let profile = case.profile;
        let machine = profiles::load(profile).unwrap();
        let workers = machine.cores.value as u32;
        let settings = Settings {
            expected_runs: EXPECTED_RUNS,
            ..Settings::new(workers)
        };
        Simulation {
            truth: TrueMachine::new(case.machine, &machine, case.seed).unwrap(),
            workers,
            controller: Controller::new(&machine, settings).unwrap(),
            noise: Noise::new(case.noise, case.seed),
            random: SplitMix::new(case.seed ^ 0x636f_756e),
            mix: case.workload.mix(profile),
            case,
            trace: std::env::var("TIERLOOM_TRACE").ok(),
        }
    }

    fn time(&self, phase: &Phase, placement: &Placement) -> f64 {
        let time_ns = self.truth.time_ns(phase, placement, self.workers, &[]);
        time_ns.unwrap()
    }

    fn on(&self, phase: &Phase, layout: &Layout) -> f64 {
        self.time(phase, &layout.placement("dram"))
    }

    /// True time of a phase under a decision, and its measured times.
    fn run(&mut self, phase: &Phase, decision: &PhaseDecision) -> (f64, Measured) {
        let whole = self.on(phase, &decision.layout);
        let trials = decision.trials.iter();
        let trials: Vec<f64> = trials
            .map(|t| self.on(phase, &t.layout) * t.share)
            .collect();
        let main = whole * decision.rest();
        let measured = Measured {
            time_ns: main * self.noise.of_phase(),
            trials_ns: trials
                .iter()
                .zip(&decision.trials)
                .map(|(t, d)| t * self.noise.of_trial(d.share))
                .collect(),
            latencies: self.latencies(phase, &decision.layout),
        };
        (main + trials.iter().sum::<f64>(), measured)
    }

    fn latencies(&mut self, phase: &Phase, layout: &Layout) -> Option<TierLatencies> {
        if !self.case.counters {
            return None;
        }
        let placement = layout.placement("dram");
        let shown = self.truth.latencies(phase, &placement, self.workers, &[]);
        let shown = shown.unwrap()?;
        let mut read = |ns: f64| ns * (1.0 + LATENCY_ERROR * self.random.normal());
        Some(TierLatencies {
            first_ns: read(shown.first_ns),
            others_ns: shown.others_ns.map(read),
        })
    }

    /// Plans, runs and learns once; returns the decisions and the true time of each phase.
    fn query(&mut self, index: usize) -> (Vec<PhaseDecision>, Vec<f64>) {
        let (query, phases) = self.mix[index].clone();
        let decisions = self.controller.plan(&query, &phases).unwrap();
        self.noise.next_run();
        let runs = phases.iter().zip(&decisions);
        let ran: Vec<(f64, Measured)> = runs.map(|(p, d)| self.run(p, d)).collect();
        let took = ran.iter().map(|(t, _)| *t).collect();
        let measured: Vec<Option<Measured>> = ran.into_iter().map(|(_, m)| Some(m)).collect();
        self.controller.learn(&query, &measured).unwrap();
        (decisions, took)
    }

    pub fn on_dram(&self, phase: &Phase) -> f64 {
        self.on(phase, &Layout::on("dram").unwrap())
    }

    pub fn uniform(&self, phase: &Phase, cxl: f64, all: bool) -> f64 {
        let shares = TierShares::from_weights(&[("dram", 1.0 - cxl), ("cxl", cxl)]).unwrap();
        let placement = if all {
            Placement::new(shares)
        } else {
            Placement::new(TierShares::all("dram")).with_class(StructureClass::Column, shares)
        };
        self.time(phase, &placement)
    }

    /// Shortest time over static weights, for columns alone and for all memory alike.
    ///
    /// The search tries every fourth per cent, then each one around the best of those.
    fn best(&self, phase: &Phase) -> f64 {
        let at = |percent: i32, all: bool| self.uniform(phase, f64::from(percent) / 100.0, all);
        let least = |all: bool| {
            let rough = (0..=25).map(|i| (at(4 * i, all), 4 * i));
            let (_, place) = rough.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let near = (place - 3).max(0)..=(place + 3).min(100);
            near.map(|percent| at(percent, all))
                .fold(f64::INFINITY, f64::min)
        };
        least(false).min(least(true))
    }

    /// Time of the last of `count` rounds of the mix.
    pub fn rounds(&mut self, count: usize) -> f64 {
        let mut took = 0.0;
        for _ in 0..count {
            took = (0..self.mix.len())
                .map(|query| self.query(query).1.iter().sum::<f64>())
                .sum();
        }
        took
    }

    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    pub fn play(mut self) -> Tally {
        let mut tally = Tally {
            machines: 1,
            ..Tally::default()
        };
        let on_dram: Vec<f64> = self
            .mix
            .iter()
            .map(|(_, phases)| phases.iter().map(|p| self.on_dram(p)).sum())
            .collect();
        for run in 0..self.case.runs() {
            for (query, on_dram) in on_dram.iter().enumerate() {
                let (decisions, times) = self.query(query);
                let took: f64 = times.iter().sum();
                let case = self.case;
                let at = || format!("{case:?} {} run {}", self.mix[query].0, run + 1);
                tally.run(took / on_dram, at);
                self.print_trace(&at(), query, &decisions, &times);
                let acted =
                    |action: Action| decisions.iter().filter(|d| d.action == action).count();
                tally.returns += acted(Action::Return) as u64;
                if run >= LEARNED {
                    tally.late += (decisions.len() - acted(Action::Keep)) as u64;
                }
                if run == LEARNED {
                    let best: f64 = self.mix[query].1.iter().map(|p| self.best(p)).sum();
                    tally.queries += 1;
                    tally.near += u64::from(took <= NEAR * best);
                    tally.over_best.push(took / best);
                    tally.to_gain += 1.0 - best / on_dram;
                    tally.gained += 1.0 - took / on_dram;
                }
            }
        }
        let changes = self.controller.changes().map(|(_, n)| n);
        tally.changes = changes.max().unwrap_or(0);
        tally.slower_machines = u64::from(tally.slower > 0);
        tally
    }

    /// Prints the decisions of runs whose name contains `TIERLOOM_TRACE`.
    fn print_trace(&self, at: &str, query: usize, decisions: &[PhaseDecision], times: &[f64]) {
        if !self.trace.as_ref().is_some_and(|trace| at.contains(trace)) {
            return;
        }
        let phases = &self.mix[query].1;
        for ((d, phase), took) in decisions.iter().zip(phases).zip(times) {
            eprintln!(
                "{at} {}: {:?} [{}] wanted [{}] gain {:.4} +- {:.4}; true {:.3} of dram {:.3} best {:.3} expected {:.3} us; {}",
                d.phase,
                d.action,
                d.layout,
                d.proposed,
                d.gain,
                d.std_dev,
                took / 1e3,
                self.on_dram(phase) / 1e3,
                self.best(phase) / 1e3,
                d.expected_ns / 1e3,
                d.reason
            );
        }
    }
}

/// Simulates all cases on two threads.
pub fn play(cases: &[Case]) -> Vec<Tally> {
    let next = AtomicUsize::new(0);
    let tallies = Mutex::new(vec![Tally::default(); cases.len()]);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { break };
            let tally = Simulation::new(*case).play();
            if tally.slower > 0 {
                eprintln!(
                    "{} slower runs: {:+.2}% {}",
                    tally.slower,
                    100.0 * (tally.worst.0 - 1.0),
                    tally.worst.1
                );
            }
            tallies.lock().unwrap()[index] = tally;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    tallies.into_inner().unwrap()
}
