//! The best weights by the model: against trying all weights, and properties that must hold on any
//! machine.

use proptest::prelude::*;
use tierloom_model::reference::work::{Filter, Join, Partition, Scan, Stream, Work};
use tierloom_model::search::{
    Moved, Problem, SIMPLER_WITHIN, Weights, best, exhaustive, robust, warnings,
};
use tierloom_model::*;

fn works() -> Vec<Work> {
    let join = || Join {
        compute_ns: 2.0,
        ..Join::default()
    };
    vec![
        Work::Read(Stream::default()),
        Work::Write(Stream::default()),
        Work::NtWrite(Stream::default()),
        Work::Filter(Filter {
            skip: 15,
            ..Filter::default()
        }),
        Work::Build(join()),
        Work::Probe(Join {
            prefetched: true,
            ..join()
        }),
        Work::Aggregate(join()),
        Work::Partition(Partition::default()),
        Work::Scan(Scan {
            selectivity: 0.3,
            compute_ns: 0.1,
            ..Scan::default()
        }),
    ]
}

/// Largest loss of `best` against trying all weights, over phases and numbers of workers.
fn worst_loss(name: &str, with_remote: bool) -> (f64, String) {
    let machine = profiles::load(name).unwrap();
    let (options, cores) = (Options::default(), machine.cores.value as u32);
    let mut worst = (0.0, String::new());
    for work in works() {
        for workers in [1, (cores / 3).max(2), cores] {
            let phases = work.phases(workers).unwrap();
            let mut problem = Problem::new(&machine, &phases, workers, &options);
            if with_remote {
                problem.tiers = machine.tiers.iter().map(|t| t.name.clone()).collect();
            }
            let (found, all) = (best(&problem).unwrap(), exhaustive(&problem).unwrap());
            assert_eq!(found.rate, problem.rate(&found.weights).unwrap());
            let loss = 1.0 - found.rate / all.rate;
            if loss > worst.0 {
                let what = format!(
                    "{name} {} {workers}: {} instead of {}",
                    work.name(),
                    found.weights,
                    all.weights
                );
                worst = (loss, what);
            }
        }
    }
    worst
}

#[test]
fn best_weights_of_every_built_in_machine_are_those_of_trying_all() {
    let names = profiles::builtin_names();
    let (some, others) = names.split_at(names.len() / 2);
    let check = |names: &[&str]| {
        for name in names {
            let (loss, what) = worst_loss(name, false);
            assert!(loss < 2.0 * SIMPLER_WITHIN, "{what}: {loss}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check(some));
        check(others);
    });
}

#[test]
fn best_weights_of_three_tiers_are_those_of_trying_all() {
    let three = |name: &&str| profiles::load(name).unwrap().tiers.len() == 3;
    let names = profiles::builtin_names();
    let names: Vec<&str> = names.into_iter().filter(three).collect();
    assert!(!names.is_empty());
    for name in names {
        let (loss, what) = worst_loss(name, true);
        assert!(loss < 2.0 * SIMPLER_WITHIN, "{what}: {loss}");
    }
}

#[test]
fn best_weights_of_four_tiers_add_all_their_bandwidth() {
    let mut machine = profiles::load("nus24").unwrap();
    // Enough lines in flight to fill all tiers.
    machine.concurrency.sequential_simd.value = 16.0;
    let peaks = [
        ("dram", 40.0),
        ("hbm", 80.0),
        ("cxl", 20.0),
        ("remote", 30.0),
    ];
    machine.tiers = peaks
        .map(|(name, gbps)| Tier::plain(name, gbps, 100.0, "test"))
        .into();
    let (options, phases) = (
        Options::default(),
        Work::Read(Stream::default()).phases(32).unwrap(),
    );
    let mut problem = Problem::new(&machine, &phases, 32, &options);
    problem.tiers = peaks.map(|(name, _)| name.to_owned()).into();
    let (found, all) = (best(&problem).unwrap(), exhaustive(&problem).unwrap());
    assert!(found.rate > all.rate * (1.0 - SIMPLER_WITHIN));
    assert!(
        (found.rate * 64.0 / 170e9 - 1.0).abs() < 2.0 * SIMPLER_WITHIN,
        "{found:?}"
    );
}

#[test]
fn structures_get_weights_of_their_own() {
    let machine = profiles::load("nus24").unwrap();
    let (options, phases) = (
        Options::default(),
        Work::Probe(Join::default()).phases(32).unwrap(),
    );
    let all = Problem::new(&machine, &phases, 32, &options);
    let input = Problem {
        moved: Moved::Structures(vec!["input".into()]),
        ..all.clone()
    };
    let (all, input) = (best(&all).unwrap(), best(&input).unwrap());
    assert!(input.rate <= all.rate * (1.0 + SIMPLER_WITHIN));
    assert!(
        input.share > 0.0 && input.weights != all.weights,
        "{input:?} {all:?}"
    );
}

#[test]
fn the_two_papers_get_opposite_advice() {
    let advice = |name: &str, workers: u32, compute_ns: f64| {
        let machine = profiles::load(name).unwrap();
        let work = Work::Probe(Join {
            compute_ns,
            ..Join::default()
        });
        let (phases, options) = (work.phases(workers).unwrap(), Options::default());
        let problem = Problem::new(&machine, &phases, workers, &options);
        let found = best(&problem).unwrap();
        let range = robust(&problem, &found).unwrap();
        let said = warnings(&problem, &found, &range).unwrap();
        assert!(range.best_share.0 <= found.share && found.share <= range.best_share.1);
        assert!(range.gain.0 <= found.gain_over_dram() && found.gain_over_dram() <= range.gain.1);
        (found, said)
    };
    let (found, said) = advice("epfl25-full-pf-on", 8, 5.0);
    assert_eq!(found.share, 0.0);
    assert!(
        said[0].starts_with("interleaving does not gain"),
        "{said:?}"
    );
    let (found, said) = advice("nus24", 32, 0.0);
    assert!(found.gain_over_dram() > 1.3, "{found:?}");
    assert!(
        said.iter().all(|s| !s.contains("does not gain")),
        "{said:?}"
    );
}

fn value(x: f64) -> Value {
    Value::new(x, SourceKind::Assumed, "test")
}

prop_compose! {
    fn tier(name: &'static str)(read in 5.0..500.0, write in 0.4..1.0, idle in 50.0..1000.0, ratio in 1.0..6.0, knee in 0.0..0.95, exponent in 1.0..6.0, duplex in 0.0..1.0) -> Tier {
        Tier {
            write_gbps: value(read * write),
            duplex: Some(value(duplex)),
            loaded: LoadedLatency { ratio_at_peak: value(ratio), knee: value(knee), exponent: value(exponent) },
            ..Tier::plain(name, read, idle, "test")
        }
    }
}

prop_compose! {
    fn machine()(dram in tier("dram"), hbm in tier("hbm"), cxl in tier("cxl"), tiers in 2usize..4, cores in 1u32..64, lines in prop::array::uniform4(1.0..64.0)) -> Machine {
        let mut machine = profiles::load("epfl25-full-pf-on").unwrap();
        machine.tiers = vec![dram, cxl, hbm];
        machine.tiers.truncate(tiers);
        machine.cores = value(f64::from(cores));
        let c = &mut machine.concurrency;
        (c.sequential_scalar, c.sequential_simd, c.random, c.random_prefetched) = (value(lines[0]), value(lines[1]), value(lines[2]), value(lines[3]));
        machine
    }
}

prop_compose! {
    fn work()(which in 0usize..9, compute_ns in 0.0..4.0) -> Vec<Phase> {
        works()[which].clone().with_compute_ns(compute_ns).phases(16).unwrap()
    }
}

fn problem<'a>(machine: &'a Machine, phases: &'a [Phase], options: &'a Options) -> Problem<'a> {
    Problem::new(machine, phases, machine.cores.value as u32, options)
}

/// Two simplifications of weights and the largest weight are between two best rates.
const TOLERANCE: f64 = 3.0 * SIMPLER_WITHIN;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sampled_weights_beat_the_best(m in machine(), phases in work(), tried in prop::collection::vec(prop::array::uniform3(0u32..100), 30)) {
        let options = Options::default();
        let problem = problem(&m, &phases, &options);
        let found = best(&problem).unwrap();
        for weights in tried.iter().filter(|w| w[..m.tiers.len()].iter().any(|w| *w > 0)) {
            let named = problem.tiers.iter().cloned().zip(weights.iter().copied());
            let weights = Weights::new(named).unwrap();
            prop_assert!(problem.rate(&weights).unwrap() <= found.rate * (1.0 + TOLERANCE), "{weights} beats {}", found.weights);
        }
        for usual in [found.dram_rate, found.kernel_rate, found.equal_rate] {
            prop_assert!(usual <= found.rate * (1.0 + TOLERANCE));
        }
    }

    #[test]
    fn a_better_tier_never_lowers_the_best_rate(m in machine(), phases in work(), tier in 0usize..3, factor in 1.0..4.0) {
        let options = Options::default();
        let before = best(&problem(&m, &phases, &options)).unwrap().rate;
        let tier = tier % m.tiers.len();
        let (mut faster, mut nearer) = (m.clone(), m);
        let t = &mut faster.tiers[tier];
        (t.read_gbps.value, t.write_gbps.value) = (t.read_gbps.value * factor, t.write_gbps.value * factor);
        nearer.tiers[tier].idle_latency_ns.value /= factor;
        for better in [faster, nearer] {
            prop_assert!(best(&problem(&better, &phases, &options)).unwrap().rate >= before * (1.0 - TOLERANCE));
        }
    }

    /// Weights on identical tiers do not matter while no tier's latency has begun to rise. Above
    /// that, spreading the load is still a gain, and equal weights are the best ones.
    #[test]
    fn identical_tiers_make_weights_irrelevant_until_they_are_loaded(m in machine(), phases in work(), weight in 1u32..100) {
        let options = Options::default();
        let mut m = m;
        m.tiers[1] = Tier { name: "cxl".into(), ..m.tiers[0].clone() };
        m.tiers.truncate(2);
        let loaded = problem(&m, &phases, &options);
        let found = best(&loaded).unwrap();
        prop_assert!((found.equal_rate / found.rate - 1.0).abs() < TOLERANCE, "{found:?}");
        let mut roomy = m.clone();
        for tier in &mut roomy.tiers {
            (tier.read_gbps, tier.write_gbps, tier.loaded.ratio_at_peak) = (value(1e7), value(1e7), value(1.0));
        }
        let unloaded = problem(&roomy, &phases, &options);
        let rate = |w: &Weights| unloaded.rate(w).unwrap();
        let (some, first) = (Weights::new([("dram", 100 - weight), ("cxl", weight)]).unwrap(), unloaded.on_first().unwrap());
        prop_assert!((rate(&some) / rate(&first) - 1.0).abs() < 1e-9);
        prop_assert_eq!(best(&unloaded).unwrap().weights, first);
    }

    #[test]
    fn weights_survive_being_printed_and_read(weights in prop::array::uniform4(0u32..300)) {
        prop_assume!(weights.iter().any(|w| *w > 0));
        let tiers: Vec<String> = TIER_NAMES.map(str::to_owned).into();
        let made = Weights::new(tiers.iter().cloned().zip(weights)).unwrap();
        prop_assert_eq!(&made.to_string().parse::<Weights>().unwrap(), &made);
        prop_assert_eq!(&Weights::parse(&made.to_string(), &tiers).unwrap(), &made);
        let sum: f64 = tiers.iter().map(|t| made.share(t)).sum();
        prop_assert!((sum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_text_of_weights_panics(text in "[ -~]{0,30}") {
        let tiers = ["dram".to_owned(), "cxl".to_owned()];
        if let Ok(weights) = Weights::parse(&text, &tiers) {
            prop_assert!(weights.iter().all(|(tier, weight)| weight > 0 && tiers.iter().any(|t| t == tier)));
        }
    }
}
