//! The controller against published tiering policies, on simulated machines drawn anew.
//!
//! `TIERLOOM_SEED=N` repeats a draw, `TIERLOOM_MACHINES=N` sets the number of machines per workload
//! (for the table: and profile).

#[path = "../simulated/rates.rs"]
mod rates;

use tierloom_model::{Machine, profiles};
use tierloom_placement::tiering::{
    KINDS, POLICIES, PolicyTime, TieringWork, TrueMachine, WORKS, compare, compete,
};
use tierloom_testing::{number, seed};

const PROFILES: [&str; 6] = [
    "nus24",
    "epfl25-full-pf-on",
    "hpi25-1dev",
    "epfl25-snc4-pf-on",
    "hpi25-4dev",
    "epfl25-full-pf-off",
];

/// Workloads of one phase each, which take milliseconds to simulate.
const SHORT: [&str; 6] = ["scan", "filter", "build", "probe", "partition", "chase"];

const CONFIDENCE: f64 = 0.95;

/// Ratio of the controller's time to a policy's, geometric mean over all machines, that must be
/// excluded.
const BEHIND: f64 = 1.03;

/// One-sided quantile of the normal distribution at [`CONFIDENCE`].
const QUANTILE: f64 = 1.645;

/// Rate of machines on which a fixed ratio that loses against DRAM only may beat the controller.
const FIXED_RUNS: f64 = 0.1;

fn count(usual: u64) -> u64 {
    number("TIERLOOM_MACHINES").unwrap_or(usual)
}

/// Times of all policies on machine `i` of a draw.
fn times(work: &str, seed: u64, i: u64) -> Vec<PolicyTime> {
    let profile = profiles::load(PROFILES[(i % 6) as usize]).unwrap();
    let work = TieringWork::new(work, &profile).unwrap().unwrap();
    let kind = KINDS[((seed + i + i / 6) % 10) as usize];
    let machine = TrueMachine::new(kind, &profile, seed + i).unwrap();
    compete(&profile, &machine, &work, seed + i).unwrap()
}

fn of(times: &[PolicyTime], policy: &str) -> f64 {
    let found = times.iter().find(|t| t.policy == policy);
    found.unwrap().settled
}

/// Mean of the controller's ln(time) less that of a policy, and its upper confidence bound.
fn behind(all: &[Vec<PolicyTime>], policy: &str) -> (f64, f64) {
    let apart = |times: &Vec<PolicyTime>| (of(times, "Tierloom") / of(times, policy)).ln();
    let apart: Vec<f64> = all.iter().map(apart).collect();
    let count = apart.len() as f64;
    let mean = apart.iter().sum::<f64>() / count;
    let variance = apart.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, mean + QUANTILE * (variance / count).sqrt())
}

#[test]
fn the_controller_is_not_behind_a_policy_on_average_and_beats_ratios_that_lose() {
    let (seed, machines) = (seed(), count(60));
    let runs = SHORT
        .iter()
        .flat_map(|work| (0..machines).map(move |i| (work, i)));
    let all: Vec<Vec<PolicyTime>> = runs.map(|(work, i)| times(work, seed, i)).collect();
    for policy in &POLICIES[1..] {
        let (mean, at_most) = behind(&all, policy);
        let summary = format!(
            "Tierloom over {policy}: {:.3}, at most {:.3} (95%)",
            mean.exp(),
            at_most.exp()
        );
        eprintln!("{summary}");
        assert!(at_most.exp() <= BEHIND, "{summary}");
    }
    let (mut lost, mut faster) = (0, 0);
    for times in &all {
        for fixed in ["9:1", "3:2"] {
            if of(times, fixed) > of(times, "first touch") {
                lost += 1;
                faster += u64::from(of(times, "Tierloom") > of(times, fixed));
            }
        }
    }
    let summary = format!("{faster} of {lost} ratios that lose against DRAM are faster");
    eprintln!("{summary}");
    assert!(
        rates::upper(faster, lost, CONFIDENCE) <= FIXED_RUNS,
        "{summary}"
    );
}

/// Nobody may beat the best static placement by more than an error of the grid explains.
///
/// The grid has steps of 4%, and it places all columns alike; a policy that seems much faster
/// found a fault of the simulation.
#[test]
fn no_policy_is_faster_than_the_best_static_placement_allows() {
    let seed = seed();
    for (i, work) in (0..).zip(SHORT) {
        for time in times(work, seed, i) {
            assert!(time.settled > 0.95, "{work}: {time:?}");
            assert!(time.settled.is_finite(), "{work}: {time:?}");
        }
    }
}

/// The same seed gives the same machines, noise and times, so that a table can be made again.
#[test]
fn a_comparison_is_repeated_by_its_seed() {
    let profile = profiles::load("nus24").unwrap();
    let table = || compare(std::slice::from_ref(&profile), &["scan", "build"], 2, 7).unwrap();
    let rows = table();
    assert_eq!(rows, table());
    let named: Vec<(&str, usize)> = rows.iter().map(|r| (r.work.as_str(), r.machines)).collect();
    assert_eq!(named, [("scan", 2), ("build", 2), ("all", 4)]);
}

#[test]
#[ignore = "prints the table of docs/adaptive.md; takes minutes"]
fn table() {
    let (seed, machines) = (seed(), count(10));
    let profiles: Vec<Machine> = PROFILES.map(|name| profiles::load(name).unwrap()).into();
    let rows = compare(&profiles, &WORKS, machines, seed).unwrap();
    println!("| | {} |", POLICIES.join(" | "));
    println!("|---{}|", "|---".repeat(POLICIES.len()));
    for row in &rows {
        let cells = row
            .policies
            .iter()
            .map(|p| format!("{:.2} ({:.2})", p.mean, p.worst));
        println!(
            "| {} | {} |",
            row.work,
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    let all = rows.last().unwrap();
    let cells = all
        .policies
        .iter()
        .map(|p| format!("{:.2}", p.with_learning));
    println!(
        "| all, with learning | {} |",
        cells.collect::<Vec<_>>().join(" | ")
    );
}
