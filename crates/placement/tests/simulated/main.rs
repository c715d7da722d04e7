//! Simulation of the adaptive controller on machines whose profile is wrong, under noisy times.
//!
//! Machines differ from the profile in numbers and in the shape of their latency curves. A run of a
//! query costs what its phases take under the decided placements, trials included; all comparisons
//! use times without noise.
//!
//! Machines are drawn at random in each run of the test. `TIERLOOM_SEED=N` repeats a draw,
//! `TIERLOOM_MACHINES=N` sets the number of machines per workload, and `TIERLOOM_TRACE=TEXT` prints
//! the decisions of all runs whose name contains the text.

mod noise;
mod play;
mod rates;

use noise::{NOISES, NoiseKind};
use play::{Case, LEARNED, PROFILES, Simulation, Tally, Workload, cases, play};
use std::collections::BTreeMap;
use tierloom_model::search::SplitMix;
use tierloom_model::{Access, Phase, PhaseKind, profiles};
use tierloom_placement::adaptive::{Action, Controller, Layout, Measured, Settings, Trial};
use tierloom_placement::tiering::{KINDS, MachineKind as Kind, TrueMachine};
use tierloom_testing::{number, seed};

/// Machines per workload, unless `TIERLOOM_MACHINES` is set.
const MACHINES: u64 = 100;

/// Confidence level of all rates.
const CONFIDENCE: f64 = 0.95;

/// Rate of runs more than 1% slower than DRAM only that the default number of machines can exclude.
const SLOWER_RUNS: f64 = 1.0 / 5000.0;

const BOTH: [Workload; 2] = [Workload::Ssb, Workload::Tpch];

fn count() -> u64 {
    number("TIERLOOM_MACHINES").unwrap_or(MACHINES)
}

fn summed<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> Tally {
    let mut sum = Tally::default();
    tallies.into_iter().for_each(|tally| sum.take(tally));
    sum
}

#[test]
fn runs_slower_than_dram_are_rarer_than_stated_and_most_of_the_gain_is_found() {
    let seed = seed();
    let of = BOTH.map(|workload| summed(&play(&cases(workload, seed, count()))));
    for (workload, tally) in BOTH.iter().zip(&of) {
        eprintln!("{workload:?}: {}", tally.summary());
    }
    let all = summed(&of);
    let summary = all.summary();
    assert_eq!(all.much_slower, 0, "{summary}");
    let rate = rates::upper(all.slower, all.runs, CONFIDENCE);
    assert!(rate <= SLOWER_RUNS, "{summary}");
    assert!(all.changes <= Settings::new(1).max_changes, "{summary}");
    // Well below the usual values: machines are few, and some of them have most of the possible
    // gain.
    let [ssb, tpch] = of;
    for (tally, near, gained) in [(ssb, 0.8, 0.35), (tpch, 0.42, 0.25)] {
        let summary = tally.summary();
        assert!(
            tally.near as f64 >= near * tally.queries as f64,
            "{summary}"
        );
        assert!(tally.gained >= gained * tally.to_gain, "{summary}");
    }
}

/// The same with counters, whose latencies lead further steps of operator memory and of columns.
///
/// Fewer machines; the rate is that which they can exclude.
#[test]
fn runs_led_by_latencies_are_slower_than_dram_no_more_often_than_stated() {
    let seed = seed();
    let of = BOTH.map(|workload| {
        let mut cases = cases(workload, seed, count() / 5);
        cases.iter_mut().for_each(|case| case.counters = true);
        summed(&play(&cases))
    });
    for (workload, tally) in BOTH.iter().zip(&of) {
        eprintln!("{workload:?} with counters: {}", tally.summary());
    }
    let all = summed(&of);
    let summary = all.summary();
    assert_eq!(all.much_slower, 0, "{summary}");
    let rate = rates::upper(all.slower, all.runs, CONFIDENCE);
    assert!(rate <= 4.0 * SLOWER_RUNS, "{summary}");
    assert!(all.changes <= Settings::new(1).max_changes, "{summary}");
}

/// Machines on which earlier controllers were slower than DRAM only.
///
/// Those controllers trusted the model, a single trial, a trial on a large part of a phase, trials
/// in a phase that was disturbed, or what a model that was wrong had ruled out.
#[test]
fn machines_that_once_were_slower_are_not() {
    use Kind::{CxlWorse, Numbers, Step};
    use NoiseKind::{Drift, Expected, HeavyTails, Lognormal, SlowParts, SlowRuns};
    let (ssb, tpch) = (Workload::Ssb, Workload::Tpch);
    let known = [
        (ssb, Numbers, Expected, "epfl25-full-pf-off", 5011),
        (tpch, Numbers, Expected, "epfl25-full-pf-off", 5083),
        (ssb, CxlWorse, Lognormal, "nus24", 24),
        (tpch, CxlWorse, Lognormal, "nus24", 24),
        (tpch, CxlWorse, Drift, "epfl25-snc4-pf-off", 35),
        (tpch, CxlWorse, SlowRuns, "epfl25-snc2-pf-off", 20_025),
        (tpch, Step, Lognormal, "epfl25-full-pf-on", 20_101),
        (ssb, CxlWorse, SlowParts, "nus24", 274_345_723_973_231),
        (tpch, CxlWorse, SlowParts, "nus24", 274_345_723_973_231),
        (
            tpch,
            CxlWorse,
            SlowParts,
            "epfl25-full-pf-off",
            183_050_122_528_542,
        ),
        (
            tpch,
            CxlWorse,
            Drift,
            "epfl25-full-pf-off",
            246_913_412_759_656,
        ),
        (
            tpch,
            CxlWorse,
            Lognormal,
            "epfl25-snc4-pf-off",
            86_909_032_344_107,
        ),
        (
            tpch,
            CxlWorse,
            HeavyTails,
            "epfl25-snc4-pf-on",
            86_909_032_344_177,
        ),
    ];
    let known = known.map(|(workload, machine, noise, profile, seed)| Case {
        workload,
        machine,
        noise,
        profile,
        seed,
        counters: false,
    });
    for (case, tally) in known.iter().zip(play(&known)) {
        assert_eq!(tally.slower, 0, "{case:?}: {}", tally.summary());
    }
}

/// Prints the table of docs/adaptive.md, for one kind only with `TIERLOOM_ONLY="Numbers Expected"`.
#[test]
#[ignore = "prints the table of docs/adaptive.md; 1,000 machines take minutes"]
fn table() {
    let (seed, count) = (seed(), count());
    let mut rows: BTreeMap<(usize, String), Tally> = BTreeMap::new();
    for (first, workload) in BOTH.into_iter().enumerate() {
        let mut cases = cases(workload, seed, count);
        if let Ok(only) = std::env::var("TIERLOOM_ONLY") {
            let (machine, noise) = kinds(&only);
            for case in &mut cases {
                let profile = PROFILES[(case.seed % 12) as usize];
                *case = Case {
                    machine,
                    noise,
                    profile,
                    ..*case
                };
            }
        }
        for (case, tally) in cases.iter().zip(play(&cases)) {
            let machine = KINDS.iter().position(|k| *k == case.machine).unwrap();
            let noise = NOISES.iter().position(|n| *n == case.noise).unwrap();
            let keys = [
                (first, format!("{workload:?}")),
                (10 + machine, format!("machines: {:?}", case.machine)),
                (30 + noise, format!("noise: {:?}", case.noise)),
                (99, "all".to_owned()),
            ];
            for key in keys {
                rows.entry(key).or_default().take(&tally);
            }
        }
    }
    println!(
        "| | machines | runs | > 1% slower | at most (95%) | > 3% | slowest | median over the best | within 2% | within 3% | gain found |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for ((_, name), tally) in &rows {
        println!("| {name} | {} |", tally.row());
    }
    let all = &rows[&(99, "all".to_owned())];
    println!("\n{}", all.summary());
}

/// Parses kinds of machine and noise, such as "CxlWorse Drift".
fn kinds(text: &str) -> (Kind, NoiseKind) {
    let of = |name: &str| text.split_whitespace().any(|word| word == name);
    let machine = KINDS.into_iter().find(|k| of(&format!("{k:?}")));
    let noise = NOISES.into_iter().find(|n| of(&format!("{n:?}")));
    (
        machine.expect("a kind of machine"),
        noise.expect("a kind of noise"),
    )
}

/// Runs one machine, such as `TIERLOOM_CASE="Tpch CxlWorse Drift nus24 17"`.
#[test]
#[ignore = "plays the one machine that TIERLOOM_CASE names"]
fn one() {
    let text = std::env::var("TIERLOOM_CASE").expect("TIERLOOM_CASE names a machine");
    let words: Vec<&str> = text.split_whitespace().collect();
    let (machine, noise) = kinds(&text);
    let case = Case {
        workload: BOTH
            .into_iter()
            .find(|w| format!("{w:?}") == words[0])
            .unwrap(),
        machine,
        noise,
        profile: PROFILES.into_iter().find(|p| *p == words[3]).unwrap(),
        seed: words[4].parse().unwrap(),
        counters: words.len() > 5,
    };
    eprintln!("{}", play(&[case])[0].summary());
}

/// Blind interleave with a tenth of all memory on CXL.
///
/// Lebedev et al., "Demystifying CXL Memory Bandwidth Expansion for Analytical Workloads" (ADMS
/// 2025).
#[test]
fn the_loss_of_a_blind_interleave_becomes_a_gain_or_nothing() {
    let profile = "epfl25-full-pf-on";
    for seed in 0..6 {
        let mut simulation = Simulation::new(Case {
            workload: Workload::Ssb,
            machine: Kind::Numbers,
            noise: NoiseKind::Expected,
            profile,
            seed,
            counters: false,
        });
        // Seed 0 is the machine of the profile itself; on the others the profile is wrong.
        if seed == 0 {
            simulation.truth = TrueMachine::Model(profiles::load(profile).unwrap());
        }
        let of = |cost: &dyn Fn(&Phase) -> f64| -> f64 {
            let phases = simulation.mix().iter().flat_map(|(_, phases)| phases);
            phases.map(cost).sum()
        };
        let on_dram = of(&|p| simulation.on_dram(p));
        let blind = of(&|p| simulation.uniform(p, 0.1, true));
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

/// A scan of four columns on a machine that matches its profile, timed without noise.
///
/// After run 4 every placement with pages on CXL takes four times as long.
#[test]
fn a_gain_is_adopted_in_four_runs_and_what_turns_slow_is_given_up() {
    let machine = profiles::load("nus24").unwrap();
    let truth = TrueMachine::Model(machine.clone());
    let settings = Settings {
        min_phase_ns: 0.0,
        expected_runs: 1e9,
        ..Settings::new(32)
    };
    let mut controller = Controller::new(&machine, settings).unwrap();
    let phase = [2.0, 1.0, 1.0, 4.0].iter().enumerate().fold(
        Phase::new("lineorder", PhaseKind::Probe, 1e9).compute_ns(0.1),
        |phase, (i, bytes)| {
            let name = format!("lineorder.{i}");
            phase.access(Access::sequential_read(name, *bytes, (1e9 * bytes) as u64).vectorised())
        },
    );
    let phases = [phase];
    let (mut returns, mut late) = (0, 0);
    for run in 1..=30 {
        let decision = controller.plan("q", &phases).unwrap().remove(0);
        let share = decision.layout.columns.share("cxl");
        let summary = format!("run {run}: {decision:?}");
        if run == 4 {
            assert!(share > 0.1, "{summary}");
        }
        returns += u32::from(decision.action == Action::Return);
        late += u32::from(run > 18 && decision.action != Action::Keep);
        if run == 30 {
            assert_eq!(share, 0.0, "{summary}");
        }
        let time = |layout: &Layout| {
            let is_slow = run > 4 && layout.columns.share("cxl") > 0.0;
            let slower = if is_slow { 4.0 } else { 1.0 };
            slower
                * truth
                    .time_ns(&phases[0], &layout.placement("dram"), 32, &[])
                    .unwrap()
        };
        let measured = Measured {
            time_ns: time(&decision.layout) * decision.rest(),
            trials_ns: decision
                .trials
                .iter()
                .map(|t| time(&t.layout) * t.share)
                .collect(),
            latencies: None,
        };
        // The first run only reveals a query's phases; the driver reports no times for it.
        let measured = (run > 1).then_some(measured);
        controller.learn("q", &[measured]).unwrap();
    }
    assert!((1..=3).contains(&returns), "{returns} returns");
    assert_eq!(late, 0, "it comes to rest");
    assert!(controller.changes().all(|(_, changes)| changes <= 6));
}

/// Pages that later trials move take a fiftieth of the queries' time but for a few trials that
/// should earn what they cost, also where what is better changes from run to run.
#[test]
fn trials_go_on_with_little_migration_where_gains_come_and_go() {
    let mut random = SplitMix::new(seed());
    let machine = profiles::load("epfl25-snc4-pf-on").unwrap();
    let truth = TrueMachine::Model(machine.clone());
    let settings = Settings::new(48);
    let gbps = settings.migration_gbps;
    let mut controller = Controller::new(&machine, settings).unwrap();
    let phase = Phase::new("lineorder", PhaseKind::Probe, 1e9)
        .compute_ns(0.1)
        .access(Access::sequential_read("lineorder.a", 8.0, 8_000_000_000).vectorised());
    let phases = [phase];
    let (mut attempts, mut first_ns, mut later_ns, mut allowed_ns) = (0, 0.0, 0.0, 0.0);
    let (mut beyond, mut beyond_ns, mut all_ns) = (0, 0.0, 0.0);
    for run in 1..=200 {
        let decision = controller.plan("q", &phases).unwrap().remove(0);
        // Another program takes DRAM or CXL away for some runs.
        let against_cxl = run / 3 % 2 == 0;
        let time = |layout: &Layout, noise: f64| {
            let placement = layout.placement("dram");
            let alone = truth.time_ns(&phases[0], &placement, 48, &[]).unwrap();
            let on_cxl = layout.columns.share("cxl");
            let slower = if against_cxl { on_cxl } else { 1.0 - on_cxl };
            alone * (1.0 + 0.5 * slower) * (1.0 + 0.01 * noise)
        };
        let moved =
            |t: &Trial| 2.0 * t.share * decision.layout.moved_bytes(&t.layout, &phases[0]) as f64;
        let moved_ns = decision.trials.iter().map(moved).sum::<f64>() / gbps;
        attempts += u32::from(!decision.trials.is_empty());
        allowed_ns += 0.02 * decision.expected_ns.max(time(&decision.layout, 0.0));
        all_ns += time(&decision.layout, 0.0);
        if attempts <= 10 {
            first_ns += moved_ns;
        } else if later_ns + moved_ns <= 1.1 * allowed_ns {
            later_ns += moved_ns;
        } else {
            beyond += 1;
            beyond_ns += moved_ns;
        }
        assert!(
            beyond <= 8,
            "run {run}: {later_ns} ns of migration, {allowed_ns} allowed, {beyond_ns} beyond"
        );
        let measured = Measured {
            time_ns: time(&decision.layout, random.normal()) * decision.rest(),
            trials_ns: (decision.trials.iter())
                .map(|t| time(&t.layout, random.normal()) * t.share)
                .collect(),
            latencies: None,
        };
        controller.learn("q", &[Some(measured)]).unwrap();
    }
    assert!(
        attempts > 4 && first_ns > 0.0,
        "{attempts} runs with trials"
    );
    let share = (first_ns + later_ns + beyond_ns) / all_ns;
    eprintln!("{attempts} runs with trials, {beyond} beyond, {share:.3} of the time");
    assert!(share < 0.1, "{share} of the queries' time");
}
