//! Time of one solution; the target is below 10 microseconds per phase.

use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::{Options, Phase, Placement, TierShares, profiles, solve, solve_all};

fn main() {
    divan::main();
}

fn work() -> Vec<Phase> {
    ssb_queries(100.0, 8, 5.0).swap_remove(10).1
}

fn blind() -> Placement {
    Placement::new(
        TierShares::from_weights(&[("dram", 9.0), ("cxl", 1.0)]).expect("weights are positive"),
    )
}

/// The widest phase of the benchmark: four probes, seven columns, groups.
#[divan::bench]
fn one_phase(bencher: divan::Bencher) {
    let machine = profiles::load("epfl25-full-pf-on").expect("built in");
    let (phase, placement) = (work().pop().expect("has phases"), blind());
    bencher.bench_local(|| solve(&machine, &phase, &placement, 48, &Options::default()));
}

/// A whole query of five phases.
#[divan::bench]
fn one_query(bencher: divan::Bencher) {
    let machine = profiles::load("epfl25-full-pf-on").expect("built in");
    let (phases, placement) = (work(), blind());
    bencher.bench_local(|| solve_all(&machine, &phases, &placement, 48, &Options::default()));
}

/// Parsing and checking a profile.
#[divan::bench]
fn parse_profile(bencher: divan::Bencher) {
    bencher.bench_local(|| profiles::load("nus24"));
}
