//! Reading figures, and the setting that is priced for each.

use proptest::prelude::*;
use tierloom_calibrate::{
    CalibrateError, Constants, FigureFile, FigurePoint, Library, Role, builtin, compare, explain,
    markdown, price, validate,
};
use tierloom_model::{Options, SourceKind, Value};

const HEAD: &str = "schema: tierloom-figures/2\npaper: P\ncitation: \"c\"\n";
const DEFAULTS: &str =
    "defaults: { role: check, machine: nus24, what: w, work: { read: {} }, placement: dram }\n";

fn file(figures: &str) -> Result<FigureFile, CalibrateError> {
    FigureFile::from_yaml(&format!("{HEAD}{DEFAULTS}figures:\n{figures}"), "f.yaml")
}

fn one(figure: &str) -> FigurePoint {
    file(&format!("  - {figure}\n")).unwrap().figures.remove(0)
}

fn wrong(figure: &str) -> String {
    file(&format!("  - {figure}\n")).unwrap_err().to_string()
}

fn library() -> Library {
    let mut constants = Constants::new();
    for (name, value) in [("half", 0.5), ("slow", 100.0)] {
        constants.insert(name.into(), Value::new(value, SourceKind::Assumed, "test"));
    }
    Library::builtin(constants).unwrap()
}

fn priced(figure: &str) -> f64 {
    price(&one(figure), &library(), &Options::default()).unwrap()
}

#[test]
fn errors_name_file_line_field_and_the_nearest_key() {
    for (figure, says) in [
        (
            "{ id: a, quantity: gbps, publised: 1 }",
            "f.yaml:6: `figures[0]`: unknown key \"publised\"",
        ),
        (
            "{ id: a, quantity: gbp, published: 1 }",
            "did you mean \"gbps\"?",
        ),
        ("{ id: a, quantity: gbps }", "nothing is published"),
        ("{ quantity: gbps, published: 1 }", "`id` is missing"),
        (
            "{ id: a, quantity: gbps, published: -3 }",
            "`figures[0].published`: is -3; expected a number above 0",
        ),
        (
            "{ id: a, quantity: ratio, published: 2 }",
            "is compared with nothing",
        ),
        (
            "{ id: a, quantity: gbps, published: 2, versus: { placement: cxl } }",
            "only ratios and gains compare",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, work: { probe: { rowz: 1 } } }",
            "`figures[0].work.probe`: unknown key \"rowz\"",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, work: { scan: { selectivity: 2 } } }",
            "selectivity is 2",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, placement: { tabel: cxl } }",
            "read touches no structure \"tabel\"",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, threads: 0 }",
            "at least one thread",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, threads: 1.5 }",
            "`figures[0].threads`: is \"1.5\"",
        ),
        (
            "{ id: a, quantity: gbps, relation: { above: 1, below: 2 } }",
            "is not one relation",
        ),
        (
            "{ id: a, quantity: gbps, relation: { between: [2, 1] } }",
            "no interval",
        ),
        (
            "{ id: a, quantity: gbps, over: thread, points: { 1: 1 } }",
            "threads, share",
        ),
        (
            "{ id: a, quantity: gbps, over: threads, points: { 1: 1 }, fitted_at: [2] }",
            "the curve has no point 2",
        ),
        (
            "{ id: a, quantity: gbps, over: threads, points: { 1: 1 }, fitted_at: [1], implied_at: [1] }",
            "`figures[0].implied_at`: point 1 has a role already",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, implied_at: [1] }",
            "a curve has no axis",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, role: chosen }",
            "a chosen figure gives no reason",
        ),
        (
            "{ id: a, quantity: gbps, over: threads, points: { 1: 1 }, chosen_at: [1] }",
            "a chosen figure gives no reason",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, role: calibration }",
            "`figures[0].role`: unknown word \"calibration\"; expected one of check, fitted",
        ),
        (
            "{ id: a, quantity: gbps, over: share, points: { 101: 1 } }",
            "101 is no share",
        ),
        (
            "{ id: a, quantity: gbps, over: work.skip, points: { 1: 1 } }",
            "unknown key \"skip\"",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, background: [{ teir: cxl }] }",
            "`figures[0].background[0]`",
        ),
        (
            "{ id: a, quantity: gbps, published: 1, groups: [{ threads: 2 }] }",
            "`placement` is missing",
        ),
    ] {
        let said = wrong(figure);
        assert!(said.contains(says), "{figure}\n{said}\nlacks {says}");
        assert!(said.starts_with("f.yaml:"), "{said}");
    }
    let said = FigureFile::from_yaml("schema: tierloom-figures/1\n", "f.yaml")
        .unwrap_err()
        .to_string();
    assert!(said.contains("expected \"tierloom-figures/2\""), "{said}");
}

#[test]
fn names_are_unique_and_both_places_are_told() {
    let twice = "  - { id: a, quantity: gbps, published: 1 }\n  - { id: a, quantity: mops, published: 1 }\n";
    let said = file(twice).unwrap_err().to_string();
    assert!(
        said.starts_with("f.yaml:7:") && said.contains("f.yaml:6"),
        "{said}"
    );
}

#[test]
fn curves_become_points_with_roles_of_their_own() {
    let curve = file("  - { id: c, quantity: gbps, over: threads, points: { 1: 2.5, 8: 20, 16: 30, 32: 30 }, fitted_at: [8], implied_at: [16], chosen_at: [32], because: why }\n").unwrap();
    let shown: Vec<(&str, Role, Option<u32>, Option<f64>)> = curve
        .figures
        .iter()
        .map(|f| (f.id.as_str(), f.role, f.setting.threads, f.published))
        .collect();
    assert_eq!(
        shown,
        [
            ("c@1", Role::Check, Some(1), Some(2.5)),
            ("c@8", Role::Fitted, Some(8), Some(20.0)),
            ("c@16", Role::Implied, Some(16), Some(30.0)),
            ("c@32", Role::Chosen, Some(32), Some(30.0))
        ]
    );
    let reasons: Vec<Option<&str>> = curve.figures.iter().map(|f| f.because.as_deref()).collect();
    assert_eq!(reasons, [None, None, None, Some("why")]);
    assert!(curve.figures.iter().all(|f| f.series == "c"));
    let shares = file("  - { id: s, work: { probe: {} }, moves: table, quantity: mops, over: share, points: { 0: 1, 40: 1, 100: 1 } }\n").unwrap();
    let on_cxl: Vec<f64> = shares
        .figures
        .iter()
        .map(|f| f.setting.placement.by_structure["table"].share("cxl"))
        .collect();
    assert_eq!(on_cxl, [0.0, 0.4, 1.0]);
    let skips = file(
        "  - { id: k, work: filter, quantity: mops, over: work.skip, points: { 0: 1, 7: 1 } }\n",
    )
    .unwrap();
    assert_ne!(skips.figures[0].setting.work, skips.figures[1].setting.work);
}

#[test]
fn quantities_agree_with_one_another() {
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    let gbps = priced("{ id: a, quantity: gbps, published: 1 }");
    close(
        priced("{ id: a, quantity: mops, published: 1 }") * 64.0 / 1e3,
        gbps,
    );
    close(
        priced("{ id: a, quantity: gbps, published: 1, tool: half }"),
        gbps / 2.0,
    );
    let loaded = priced("{ id: a, quantity: latency_ns, published: 1, threads: 32 }");
    close(32.0 / loaded * 64.0, gbps);
    let ratio = priced(
        "{ id: a, placement: '3:2', quantity: ratio, published: 1, versus: { placement: dram } }",
    );
    let gain = priced(
        "{ id: a, placement: '3:2', quantity: gain_percent, published: 1, versus: { placement: dram } }",
    );
    close(1.0 + gain / 100.0, ratio);
    let chase =
        priced("{ id: a, work: { chase: {} }, threads: 1, quantity: latency_ns, published: 1 }");
    let slower = priced(
        "{ id: a, work: { chase: {} }, threads: 1, compute: slow, quantity: latency_ns, published: 1 }",
    );
    assert!((slower - chase - 100.0).abs() < 1e-6, "{slower} {chase}");
    let idle = priced(
        "{ id: a, work: { chase: {} }, threads: 1, tier: dram, quantity: latency_ratio, published: 1 }",
    );
    assert!((idle - 1.0).abs() < 1e-3, "{idle}");
}

#[test]
fn the_best_share_is_the_one_with_the_best_gain() {
    let best = priced("{ id: a, quantity: best_share, published: 40 }");
    let gain = priced("{ id: a, quantity: best_gain_percent, published: 40 }");
    let at = |share: f64| {
        let placement = format!("dram:{},cxl:{share}", 100.0 - share);
        priced(&format!(
            "{{ id: a, placement: \"{placement}\", quantity: gain_percent, published: 1, versus: {{ placement: dram }} }}"
        ))
    };
    assert!((at(best) - gain).abs() < 1e-6);
    assert!(at(best - 1.0) <= gain && at(best + 1.0) <= gain);
}

#[test]
fn equal_groups_together_are_as_fast_as_one_of_their_size() {
    let alone = priced("{ id: a, threads: 32, quantity: gbps, published: 1 }");
    let groups = "groups: [{ threads: 16, placement: dram }, { threads: 16, placement: dram }]";
    for quantity in ["gbps", "mean_gbps"] {
        let together = priced(&format!(
            "{{ id: a, {groups}, quantity: {quantity}, published: 1 }}"
        ));
        assert!(
            (together / alone - 1.0).abs() < 0.02,
            "{quantity}: {together} {alone}"
        );
    }
    // A slow group makes the mean of the threads' times longer, so the tool reports less than what
    // is transferred.
    let apart = "groups: [{ threads: 16, placement: dram }, { threads: 16, placement: cxl }]";
    let sum = priced(&format!(
        "{{ id: a, {apart}, quantity: gbps, published: 1 }}"
    ));
    let mean = priced(&format!(
        "{{ id: a, {apart}, quantity: mean_gbps, published: 1 }}"
    ));
    assert!(mean < sum, "{mean} {sum}");
}

#[test]
fn all_queries_together_are_a_mean_of_ratios() {
    let of = |query: &str| {
        priced(&format!(
            "{{ id: a, work: {{ ssb: {{ query: {query}, compute_ns: 1 }} }}, placement: '3:2', quantity: ratio, published: 1, versus: {{ placement: dram }} }}"
        ))
    };
    let names = [
        "q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1",
        "q4.2", "q4.3",
    ];
    let logarithms: f64 = names.iter().map(|q| of(q).ln()).sum();
    assert!((of("all") - (logarithms / 13.0).exp()).abs() < 1e-9);
}

#[test]
fn what_the_work_or_machine_does_not_have_is_told() {
    let said = |figure: &str| {
        price(&one(figure), &library(), &Options::default())
            .unwrap_err()
            .to_string()
    };
    assert!(
        said("{ id: a, work: tree, quantity: gbps, published: 1 }")
            .contains("tree counts operations, no bytes")
    );
    assert!(
        said("{ id: a, placement: remote, machine: hpi24, quantity: gbps, published: 1 }")
            .contains("did you mean")
    );
    assert!(
        said("{ id: a, tool: hlaf, quantity: gbps, published: 1 }")
            .contains("did you mean \"half\"?")
    );
    assert!(
        said("{ id: a, tier: hbm, quantity: utilisation, published: 1 }")
            .contains("has no tier \"hbm\"")
    );
    assert!(said("{ id: a, work: { chase: { footprint_bytes: 64 } }, threads: 1, quantity: mops, published: 1 }").contains("takes no time"));
}

#[test]
fn misses_signs_and_remarks_are_shown() {
    let library = library();
    let files = [file(concat!(
        "  - { id: sign, placement: cxl, quantity: gain_percent, published: 20, versus: { placement: dram }, remark: \"why it misses\" }\n",
        "  - { id: fine, quantity: gbps, relation: { above: 1 }, role: fitted }\n",
    ))
    .unwrap()];
    let records = validate(&files, &library, &Options::default(), |_| true).unwrap();
    assert_eq!(records[0].id, "sign", "checks come first");
    assert_eq!(
        (records[0].agrees, records[1].agrees),
        (Some(false), Some(true))
    );
    let text = markdown(&records, &files);
    assert!(
        text.contains("**miss**") && text.contains("* sign: why it misses"),
        "{text}"
    );
    assert!(text.contains("| **all** | check | 1 |"), "{text}");
}

#[test]
fn only_checks_count_in_the_headline() {
    let text = |role: &str, because: &str| {
        let files = [file(&format!(
            "  - {{ id: good, quantity: gbps, relation: {{ above: 1 }} }}\n  - {{ id: bad, quantity: gbps, published: 900, relation: {{ above: 899 }}, role: {role}{because} }}\n"
        ))
        .unwrap()];
        let records = validate(&files, &library(), &Options::default(), |_| true).unwrap();
        markdown(&records, &files)
    };
    let checked = text("check", "");
    assert!(
        checked.contains("2 of 2 figures are checks") && checked.contains("1 of 2 signs"),
        "{checked}"
    );
    assert!(
        checked.contains("Checks with a wrong sign or relation: bad."),
        "{checked}"
    );
    let chosen = text("chosen", ", because: \"its value\"");
    assert!(
        chosen.contains("1 of 2 figures are checks: none of them has a value; 1 of 1 signs"),
        "{chosen}"
    );
    assert!(!chosen.contains("a wrong sign or relation"), "{chosen}");
    assert!(
        chosen.contains("What was chosen:\n\n* bad: its value"),
        "{chosen}"
    );
    assert!(
        chosen.contains("fewer than 10 checks") && chosen.contains("P (1)"),
        "{chosen}"
    );
}

#[test]
fn what_the_best_weights_add_is_counted_in_bandwidths_of_the_second_tier() {
    let added = priced("{ id: a, quantity: best_added_share, published: 40 }");
    let gain = priced("{ id: a, quantity: best_gain_percent, published: 40 }");
    let gbps = |tier: &str| {
        priced(&format!(
            "{{ id: a, placement: {tier}, quantity: gbps, published: 1 }}"
        ))
    };
    let expected = gain * gbps("dram") / gbps("cxl");
    assert!((added - expected).abs() < 1e-6, "{added} {expected}");
}

#[test]
fn a_curve_is_one_row_of_the_document_with_all_its_misses() {
    let curve = "  - { id: c, quantity: gbps, over: threads, points: { 1: 5, 8: 900, 32: 900 } }\n";
    let files = [file(curve).unwrap()];
    let records = validate(&files, &library(), &Options::default(), |_| true).unwrap();
    let text = markdown(&records, &files);
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| c")).collect();
    assert_eq!(rows.len(), 1, "{text}");
    let missed = records
        .iter()
        .filter(|r| tierloom_calibrate::is_miss(r))
        .count();
    assert!(missed >= 2);
    assert!(
        rows[0].starts_with("| c, 3 points |") && rows[0].contains("5 to 900 GB/s"),
        "{}",
        rows[0]
    );
    assert!(
        rows[0].contains(&format!("**{missed} of 3 miss**")),
        "{}",
        rows[0]
    );
}

#[test]
fn explanations_name_the_terms_that_matter() {
    let figure = one("{ id: a, work: { write: {} }, quantity: gbps, published: 10 }");
    let explained = explain(&figure, &[], &library(), &Options::default()).unwrap();
    assert_eq!(explained.terms.first().map(|t| t.term), Some("rfo"));
    // Only an explanation has the nearest fitted figure, here a built-in one.
    let mut record = explained.record;
    let nearest = record.nearest.take().unwrap();
    assert_eq!(
        (nearest.id.as_str(), nearest.distance),
        ("nus24-read-dram", 1.25)
    );
    assert_eq!(
        record,
        compare(&figure, &library(), &Options::default()).unwrap()
    );
}

proptest! {
    /// No text makes the parser panic, and its errors name a place in the text.
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\\n]{0,200}") {
        if let Err(error) = FigureFile::from_yaml(&text, "f.yaml") {
            prop_assert!(error.to_string().starts_with("f.yaml:"));
        }
    }

    /// A built-in figure file with one broken line is read or refused, without a panic.
    #[test]
    fn broken_lines_are_refused(file in 0usize..5, line in 0usize..80, with in "[ -~]{0,30}") {
        let (name, text) = builtin::figure_texts()[file];
        let mut lines: Vec<&str> = text.lines().collect();
        let index = line % lines.len();
        lines[index] = &with;
        let _ = FigureFile::from_yaml(&lines.join("\n"), name);
    }
}

/// The first block of a language behind a line of the documentation.
fn block<'a>(text: &'a str, behind: &str, language: &str) -> &'a str {
    let rest = text.split_once(behind).unwrap().1;
    let rest = rest.split_once(&format!("```{language}\n")).unwrap().1;
    rest.split_once("```").unwrap().0
}

#[test]
fn the_worked_example_of_the_documentation_runs_and_gives_the_table_below_it() {
    let text = include_str!("../../../docs/figures.md");
    let example = block(text, "## A paper's figures in ten minutes", "yaml");
    let files = vec![FigureFile::from_yaml(example, "doe26.yaml").unwrap()];
    let library = Library::builtin(builtin::constants().unwrap()).unwrap();
    let records = validate(&files, &library, &Options::default(), |_| true).unwrap();
    assert_eq!(records.len(), 5);
    for record in &records {
        let cells = tierloom_calibrate::cells(record);
        let row = format!(
            "| {} | {} | {} | {} |",
            record.id, cells.published, cells.modelled, cells.error
        );
        assert!(text.contains(&row), "docs/figures.md lacks: {row}");
    }
}
