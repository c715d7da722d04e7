//! Time to find weights. The target for `best` is well below 5 milliseconds, so that an engine can
//! call it before a query.

use tierloom_model::reference::work::{Join, Scan, Work};
use tierloom_model::search::{Problem, SearchLimits, Weights, best, exhaustive, measured, robust};
use tierloom_model::{Machine, Options, Phase, profiles};

fn main() {
    divan::main();
}

fn machine() -> Machine {
    profiles::load("hpi25-4dev").expect("built in")
}

fn scan() -> Vec<Phase> {
    let work = Work::Scan(Scan {
        selectivity: 0.1,
        ..Scan::default()
    });
    work.phases(24).expect("valid")
}

#[divan::bench]
fn best_of_two_tiers(bencher: divan::Bencher) {
    let (machine, phases, options) = (machine(), scan(), Options::default());
    bencher.bench_local(|| best(&Problem::new(&machine, &phases, 24, &options)));
}

#[divan::bench]
fn best_of_three_tiers(bencher: divan::Bencher) {
    let (machine, phases, options) = (machine(), scan(), Options::default());
    let mut problem = Problem::new(&machine, &phases, 24, &options);
    problem.tiers = machine.tiers.iter().map(|t| t.name.clone()).collect();
    bencher.bench_local(|| best(&problem));
}

#[divan::bench]
fn best_of_a_probe(bencher: divan::Bencher) {
    let (machine, options) = (machine(), Options::default());
    let phases = Work::Probe(Join::default()).phases(24).expect("valid");
    bencher.bench_local(|| best(&Problem::new(&machine, &phases, 24, &options)));
}

#[divan::bench(sample_count = 10)]
fn exhaustive_of_two_tiers(bencher: divan::Bencher) {
    let (machine, phases, options) = (machine(), scan(), Options::default());
    bencher.bench_local(|| exhaustive(&Problem::new(&machine, &phases, 24, &options)));
}

#[divan::bench(sample_count = 10)]
fn range_over_the_uncertainty(bencher: divan::Bencher) {
    let (machine, phases, options) = (machine(), scan(), Options::default());
    let problem = Problem::new(&machine, &phases, 24, &options);
    let found = best(&problem).expect("valid");
    bencher.bench_local(|| robust(&problem, &found));
}

/// The cost of the search itself between measurements: the probe replies at once, and the profile
/// is 15% off.
#[divan::bench(sample_count = 10)]
fn a_whole_search_by_measuring(bencher: divan::Bencher) {
    struct Other<'a>(Problem<'a>);
    impl tierloom_model::search::Probe for Other<'_> {
        type Error = tierloom_model::ModelError;
        fn rate(&mut self, weights: &Weights) -> Result<f64, Self::Error> {
            self.0.rate(weights)
        }
    }
    let (machine, phases, options) = (machine(), scan(), Options::default());
    let mut truth = machine.clone();
    truth.tiers[1].read_gbps.value *= 0.85;
    truth.tiers[1].write_gbps.value *= 0.85;
    let problem = Problem::new(&machine, &phases, 24, &options);
    let limits = SearchLimits::default();
    bencher.bench_local(|| {
        let mut probe = Other(Problem {
            machine: &truth,
            ..problem.clone()
        });
        measured(&problem, &mut probe, &limits)
    });
}
