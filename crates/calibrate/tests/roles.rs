//! Whether the roles of the built-in figures are correct, as far as that can be computed, and
//! whether the computation can distinguish roles.

use tierloom_calibrate::{
    Arithmetic, Calibration, FigureFile, Library, Role, builtin, check_fitted, validate,
};
use tierloom_model::Options;

fn library() -> Library {
    Library::builtin(builtin::constants().unwrap()).unwrap()
}

/// Figures on machine nus24; two of them give its DRAM and CXL bandwidths.
fn made(more: &str) -> Vec<FigureFile> {
    let text = format!(
        "schema: tierloom-figures/2\npaper: MADE\ncitation: \"c\"\n\
         defaults: {{ machine: nus24, what: w, work: {{ read: {{ simd: true }} }}, role: check }}\n\
         figures:\n\
         \x20 - {{ id: dram, role: fitted, placement: dram, quantity: gbps, published: 28.5 }}\n\
         \x20 - {{ id: cxl, role: fitted, placement: cxl, quantity: gbps, published: 20.1 }}\n{more}"
    );
    vec![FigureFile::from_yaml(&text, "figures/made.yaml").unwrap()]
}

fn follows_from(figure: &str) -> Option<Vec<String>> {
    let (files, library) = (made(&format!("  - {figure}\n")), library());
    let known = Arithmetic::new(&files, &library).unwrap();
    let found = known
        .follows_from(files[0].figures.last().unwrap())
        .unwrap();
    found.map(|names| names.into_iter().map(str::to_owned).collect())
}

#[test]
fn what_repeats_divides_or_saturates_fitted_figures_follows_from_them() {
    let from = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    // A point on the plateau whose height was fitted.
    let plateau = "{ id: a, threads: 30, placement: dram, quantity: gbps, published: 28.5 }";
    assert_eq!(follows_from(plateau), from(&["dram"]));
    let ratio =
        "{ id: a, placement: cxl, quantity: ratio, published: 0.7, versus: { placement: dram } }";
    assert_eq!(follows_from(ratio), from(&["dram", "cxl"]));
    let best = "{ id: a, quantity: best_share, published: 40 }";
    assert_eq!(follows_from(best), from(&["dram", "cxl"]));
    let any_numbers = "{ id: a, placement: '9:1', quantity: gain_percent, relation: { above: 0 }, versus: { placement: dram } }";
    assert_eq!(follows_from(any_numbers), from(&[]));
}

#[test]
fn what_depends_on_other_numbers_or_is_missed_does_not_follow() {
    let chase = "{ id: a, work: { chase: {} }, threads: 1, placement: dram, quantity: latency_ns, published: 96 }";
    assert_eq!(follows_from(chase), None);
    let unsaturated = "{ id: a, threads: 2, placement: dram, quantity: gbps, published: 20 }";
    assert_eq!(follows_from(unsaturated), None);
    let missed = "{ id: a, threads: 30, placement: dram, quantity: gbps, published: 20 }";
    assert_eq!(follows_from(missed), None);
}

#[test]
fn a_fitted_figure_that_no_parameter_moves_is_an_error() {
    let calibration = "schema: tierloom-calibration/1\nfigures: [../figures/made.yaml]\nparameters:\n\
        \x20 - { name: p, sets: [{ machine: nus24, path: \"tiers[dram].read_gbps\" }], start: 28, low: 20, high: 35, why: w }\n\
        \x20 - { name: q, sets: [{ machine: nus24, path: \"tiers[cxl].read_gbps\" }], start: 20, low: 10, high: 35, why: w }\n";
    let calibration = Calibration::from_yaml(calibration, "calibration/made.yaml").unwrap();
    check_fitted(&calibration, &made(""), &library()).unwrap();
    let idle = "  - { id: idle, role: fitted, work: { chase: { footprint_bytes: 1e5 } }, threads: 1, placement: dram, tier: dram, quantity: tier_latency_ns, published: 96 }\n";
    let said = check_fitted(&calibration, &made(idle), &library())
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("figures/made.yaml:8: figure \"idle\" has role fitted, but no parameter of calibration/made.yaml changes how well it is met"),
        "{said}"
    );
}

#[test]
fn a_relation_that_holds_with_room_to_spare_was_not_fitted() {
    let calibration = "schema: tierloom-calibration/1\nfigures: [../figures/made.yaml]\nparameters:\n\
        \x20 - { name: p, sets: [{ machine: nus24, path: \"tiers[dram].read_gbps\" }], start: 28, low: 20, high: 35, why: w }\n\
        \x20 - { name: q, sets: [{ machine: nus24, path: \"tiers[cxl].read_gbps\" }], start: 20, low: 10, high: 35, why: w }\n";
    let calibration = Calibration::from_yaml(calibration, "calibration/made.yaml").unwrap();
    let relation = |above: f64| {
        format!(
            "  - {{ id: r, role: fitted, placement: dram, quantity: gbps, relation: {{ above: {above} }} }}\n"
        )
    };
    let of = |above| check_fitted(&calibration, &made(&relation(above)), &library());
    of(28.6).unwrap();
    assert!(of(20.0).is_err());
}

#[test]
fn fitted_figures_are_those_that_a_calibration_of_the_repository_uses() {
    let (library, files) = (library(), builtin::figures().unwrap());
    let calibrations = builtin::calibrations().unwrap();
    for file in &files {
        let beside = format!("../{}", file.file);
        let using: Vec<&Calibration> = calibrations
            .iter()
            .filter(|c| c.figures.contains(&beside))
            .collect();
        let fitted = file.figures.iter().any(|f| f.role == Role::Fitted);
        assert_eq!(using.len(), usize::from(fitted), "{}", file.file);
        for calibration in using {
            let of = std::slice::from_ref(file);
            check_fitted(calibration, of, &library).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn checks_do_not_follow_from_fitted_figures_and_implied_ones_do() {
    let (library, files) = (library(), builtin::figures().unwrap());
    let known = Arithmetic::new(&files, &library).unwrap();
    let mut wrong = Vec::new();
    for figure in files.iter().flat_map(|f| &f.figures) {
        let found = match figure.role {
            Role::Check | Role::Implied => known.follows_from(figure).unwrap(),
            Role::Fitted | Role::Chosen => continue,
        };
        if found.is_some() != (figure.role == Role::Implied) {
            wrong.push(format!(
                "{} is {}, follows from {found:?}",
                figure.id, figure.role
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_profiles_of_publications_with_checks_can_be_called_checked() {
    let records = validate(
        &builtin::figures().unwrap(),
        &library(),
        &Options::default(),
        |_| true,
    )
    .unwrap();
    let few: Vec<&str> = tierloom_calibrate::few_checks(&records)
        .into_iter()
        .map(|(paper, _)| paper)
        .collect();
    // docs/validation.md and README.md have the same numbers; change them together.
    assert_eq!(few, ["BENCH25", "NUS24", "SAP26"]);
}
