//! Fits on figures that the model itself computed must recover the parameters.

use tierloom_calibrate::{
    Calibration, Constants, FigureFile, Fit, Knowledge, Library, Target, fit, price,
    rewrite_profile,
};
use tierloom_model::{Machine, Options, SourceKind, Value, profiles};

/// Reads and dependent loads on both tiers; [`published`] fills `published` in.
const FIGURES: &str = r#"schema: tierloom-figures/2
paper: MADE
citation: "made by the model"
defaults: { role: fitted, machine: m, noise_percent: 3, what: "w" }
figures:
  - { id: dram-1, work: { read: { simd: true } }, placement: dram, quantity: gbps, over: threads, points: { 1: 1, 2: 1, 16: 1, 24: 1, 32: 1 } }
  - { id: cxl-1, work: { read: { simd: true } }, placement: cxl, quantity: gbps, over: threads, points: { 1: 1, 2: 1, 16: 1, 24: 1, 32: 1 } }
  - { id: chase-dram, work: { chase: {} }, threads: 1, placement: dram, quantity: latency_ns, published: 1 }
  - { id: chase-cxl, work: { chase: {} }, threads: 1, placement: cxl, quantity: latency_ns, published: 1 }
  - { id: check, work: { read: { simd: true } }, placement: "3:2", quantity: gbps, role: check, published: 1 }
"#;

const CALIBRATION: &str = r#"schema: tierloom-calibration/1
figures: [../figures/made.yaml]
parameters:
  - { name: dram_gbps, sets: [{ machine: m, path: "tiers[dram].read_gbps" }], start: 28, low: 10, high: 90, why: "peak" }
  - { name: cxl_gbps, sets: [{ machine: m, path: "tiers[cxl].read_gbps" }], start: 30, low: 10, high: 60, why: "peak" }
  - { name: cxl_latency, sets: [{ machine: m, path: "tiers[cxl].idle_latency_ns" }], start: 250, low: 100, high: 900, why: "latency" }
  - { name: lines, sets: [{ machine: m, path: "concurrency.sequential_simd" }], start: 20, low: 4, high: 60, why: "lines" }
  - { name: prefetched, sets: [{ machine: m, path: "concurrency.random_prefetched" }], start: 16, low: 4, high: 60, why: "not used" }
"#;

/// Paths and true values of the parameters that the figures depend on.
const TRUTH: [(&str, f64); 4] = [
    ("tiers[dram].read_gbps", 36.0),
    ("tiers[cxl].read_gbps", 21.0),
    ("tiers[cxl].idle_latency_ns", 320.0),
    ("concurrency.sequential_simd", 14.0),
];

fn machine() -> Machine {
    profiles::load("nus24").unwrap()
}

fn library(machine: Machine) -> Library {
    let mut library = Library::default();
    library.machines.insert("m".into(), machine);
    library
}

/// Normal noise from a fixed sequence (a linear congruential generator and twelve sums).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

/// The figures as the true machine gives them, with `noise` (relative, one standard deviation).
fn published(noise: f64, seed: u64) -> Vec<FigureFile> {
    let mut truth = machine();
    for (path, value) in TRUTH {
        truth
            .set_number(path, Value::new(value, SourceKind::Assumed, "truth"))
            .unwrap();
    }
    let truth = library(truth);
    let mut file = FigureFile::from_yaml(FIGURES, "figures/made.yaml").unwrap();
    let mut random = Noise(seed);
    for figure in &mut file.figures {
        let exact = price(figure, &truth, &Options::default()).unwrap();
        figure.published = Some(exact * (noise * random.next()).exp());
    }
    vec![file]
}

fn fitted(noise: f64, seed: u64) -> Fit {
    let calibration = Calibration::from_yaml(CALIBRATION, "calibration/made.yaml").unwrap();
    fit(&calibration, &published(noise, seed), &library(machine())).unwrap()
}

#[test]
fn exact_figures_give_the_parameters_back_and_improve_what_the_fit_has_not_seen() {
    let fit = fitted(0.0, 1);
    for ((path, truth), parameter) in TRUTH.iter().zip(&fit.parameters) {
        let off = parameter.fitted / truth - 1.0;
        assert!(
            off.abs() < 0.005,
            "{path}: {} instead of {truth}",
            parameter.fitted
        );
        assert_eq!(parameter.knowledge, Knowledge::Determined, "{path}");
    }
    assert!(
        fit.after.iter().all(|f| f.error.unwrap().abs() < 0.005),
        "{:?}",
        fit.after
    );
    let files = published(0.0, 1);
    let check = files[0].figures.iter().find(|f| f.id == "check").unwrap();
    let unseen =
        price(check, &fit.library, &Options::default()).unwrap() / check.published.unwrap();
    assert!((unseen - 1.0).abs() < 0.01, "{unseen}");
    assert!(
        fit.after.iter().all(|f| f.role == "fitted"),
        "check figures stay out of the fit"
    );
}

#[test]
fn a_parameter_that_no_figure_depends_on_stays_at_its_start_and_is_marked_assumed() {
    let fit = fitted(0.02, 7);
    let unused = fit
        .parameters
        .iter()
        .find(|p| p.name == "prefetched")
        .unwrap();
    assert_eq!(
        (unused.fitted, unused.knowledge, unused.figures),
        (16.0, Knowledge::Undetermined, 0)
    );
    assert_eq!((unused.low, unused.high), (4.0, 60.0));
    let (_, value) = fit.values.last().unwrap();
    assert_eq!((value.value, value.kind), (16.0, SourceKind::Assumed));
    assert!(
        value
            .source
            .contains("no fitted figure of MADE depends on it"),
        "{}",
        value.source
    );
    assert!(
        fit.warnings.iter().any(|w| w.starts_with("prefetched")),
        "{:?}",
        fit.warnings
    );
}

#[test]
fn ninety_per_cent_intervals_hold_the_truth_about_that_often() {
    const SEEDS: u64 = 30;
    let mut held = 0;
    for seed in 1..=SEEDS {
        let fit = fitted(0.03, seed * 7919);
        for ((path, truth), parameter) in TRUTH.iter().zip(&fit.parameters) {
            assert!(
                (parameter.fitted / truth - 1.0).abs() < 0.2,
                "{path}: {}",
                parameter.fitted
            );
            held += u32::from((parameter.low..=parameter.high).contains(truth));
        }
    }
    let share = f64::from(held) / (SEEDS as f64 * TRUTH.len() as f64);
    assert!((0.80..=0.99).contains(&share), "{share}");
}

#[test]
fn a_fit_does_not_depend_on_what_the_profile_holds_for_its_parameters() {
    let calibration = Calibration::from_yaml(CALIBRATION, "calibration/made.yaml").unwrap();
    let figures = published(0.03, 5);
    let text = profiles::builtin("nus24").unwrap();
    let once = fit(&calibration, &figures, &library(machine())).unwrap();
    let numbers = |fit: &Fit| -> Vec<(String, Value)> {
        let of = |(target, value): &(Target, Value)| match target {
            Target::Number { path, .. } => (path.clone(), value.clone()),
            Target::Constant(name) => (name.clone(), value.clone()),
        };
        fit.values.iter().map(of).collect()
    };
    let write = |text: &str, fit: &Fit| {
        let numbers = numbers(fit);
        let numbers: Vec<(&str, &Value)> = numbers.iter().map(|(p, v)| (p.as_str(), v)).collect();
        rewrite_profile(text, "m.yaml", &numbers).unwrap()
    };
    let first = write(text, &once);
    let changed = library(Machine::from_yaml(&first, "m.yaml").unwrap());
    let twice = fit(&calibration, &figures, &changed).unwrap();
    assert_eq!(write(&first, &twice), first);
    assert_ne!(first, text);
}

#[test]
fn one_impossible_figure_does_not_pull_the_others_along() {
    let mut figures = published(0.0, 1);
    let wrong = figures[0]
        .figures
        .iter_mut()
        .find(|f| f.id == "dram-1@32")
        .unwrap();
    wrong.published = wrong.published.map(|p| p * 3.0);
    let calibration = Calibration::from_yaml(CALIBRATION, "calibration/made.yaml").unwrap();
    let fit = fit(&calibration, &figures, &library(machine())).unwrap();
    let cxl = &fit.parameters[1];
    assert!((cxl.fitted / 21.0 - 1.0).abs() < 0.02, "{}", cxl.fitted);
    let dram = &fit.parameters[0];
    assert!((dram.fitted / 36.0 - 1.0).abs() < 0.15, "{}", dram.fitted);
}

#[test]
fn relations_are_satisfied_where_they_can_be() {
    let text = FIGURES.replace(
        "  - { id: check,",
        "  - { id: bound, work: { read: { simd: true } }, placement: cxl, quantity: gbps, relation: { above: 25 } }\n  - { id: check,",
    );
    let mut with_bound = FigureFile::from_yaml(&text, "figures/made.yaml").unwrap();
    with_bound
        .figures
        .retain(|f| f.id == "bound" || f.id.starts_with("dram") || f.id.starts_with("chase"));
    for (figure, exact) in with_bound
        .figures
        .iter_mut()
        .zip(&published(0.0, 1)[0].figures)
    {
        if figure.id == exact.id {
            figure.published = exact.published;
        }
    }
    with_bound
        .figures
        .retain(|f| f.id == "bound" || f.id.starts_with("dram"));
    let low_start = CALIBRATION.replace("start: 30, low: 10", "start: 15, low: 10");
    let calibration = Calibration::from_yaml(&low_start, "calibration/made.yaml").unwrap();
    let fit = fit(&calibration, &[with_bound], &library(machine())).unwrap();
    let bound = fit.after.iter().find(|f| f.id == "bound").unwrap();
    assert_eq!(bound.agrees, Some(true), "{bound:?}");
}

#[test]
fn what_is_missing_is_named_before_anything_is_fitted() {
    let error = |calibration: &str, library: &Library| {
        let calibration = Calibration::from_yaml(calibration, "calibration/made.yaml").unwrap();
        fit(&calibration, &published(0.0, 1), library)
            .unwrap_err()
            .to_string()
    };
    let typo = CALIBRATION.replace("tiers[cxl].read_gbps", "tiers[cxl].read_gbs");
    let said = error(&typo, &library(machine()));
    assert!(
        said.starts_with("calibration/made.yaml:5:")
            && said.contains("`tiers[cxl].read_gbps` meant"),
        "{said}"
    );
    let absent = CALIBRATION.replace("concurrency.sequential_simd", "concurrency.smt_gain");
    let said = error(&absent, &library(machine()));
    assert!(said.contains("add it there as { value:"), "{said}");
    let said = error(
        CALIBRATION,
        &Library {
            constants: Constants::new(),
            ..Library::default()
        },
    );
    assert!(said.contains("needs machine \"m\""), "{said}");
    let calibration = Calibration::from_yaml(CALIBRATION, "calibration/made.yaml").unwrap();
    let none =
        FigureFile::from_yaml(&FIGURES.replace("role: fitted", "role: check"), "f.yaml").unwrap();
    let said = fit(&calibration, &[none], &library(machine()))
        .unwrap_err()
        .to_string();
    assert!(said.contains("no figure of role fitted"), "{said}");
}
