//! `tierloom validate`: published figures compared with modelled ones.

mod common;

use common::{refused, repository, tierloom, tierloom_anywhere};
use serde_json::Value;
use std::fs;
use std::path::Path;

const FIGURES: &str = r#"schema: tierloom-figures/2
paper: MADE
citation: "somebody, something, 2020"
defaults: { machine: nus24, work: { read: {} }, placement: dram, quantity: gbps }
figures:
  - { id: right, what: "a read", role: fitted, relation: { above: 1 } }
  - { id: far-off, what: "a read", role: check, published: 900, remark: "made to miss" }
  - { id: write, what: "a write", role: check, work: { write: {} }, published: 12, placement: cxl }
  - { id: loses, what: "cxl instead of dram", role: check, placement: cxl, versus: { placement: dram }, quantity: gain_percent, published: 40 }
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.yaml"), FIGURES).unwrap();
    folder
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let all = [&["validate", "--json"], args].concat();
    serde_json::from_str(&tierloom(folder, &all).with_code(0).stdout).unwrap()
}

#[test]
fn every_built_in_figure_is_priced_and_roles_stay_apart() {
    let record = json(folder().path(), &[]);
    assert_eq!(record["provenance"], "modelled");
    let figures = record["figures"].as_array().unwrap();
    assert!(figures.len() >= 1300, "{}", figures.len());
    let mut roles: Vec<&str> = figures
        .iter()
        .map(|f| f["role"].as_str().unwrap())
        .collect();
    roles.dedup();
    assert_eq!(roles, ["check", "fitted", "chosen", "implied"]);
    let of_all: Vec<&Value> = record["summaries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|s| s["paper"].is_null())
        .collect();
    let hard = |f: &&Value| f["nearest"]["distance"].as_f64().unwrap() >= 1.0;
    let of = |role: &'static str| figures.iter().filter(move |f| f["role"] == role);
    let count = |role: &str| match role {
        "easy check" => of("check").filter(|f| !hard(f)).count(),
        "hard check" => of("check").filter(hard).count(),
        role => figures.iter().filter(|f| f["role"] == role).count(),
    };
    assert_eq!(of_all.len(), roles.len() + 2);
    for summary in of_all {
        assert_eq!(summary["figures"], count(summary["role"].as_str().unwrap()));
    }
    assert!(
        figures
            .iter()
            .all(|f| f["modelled"].as_f64().is_some_and(f64::is_finite))
    );
    let table = tierloom_anywhere(&["validate"]).with_code(0);
    assert_eq!(table.stderr, "");
    for paper in ["EPFL25", "NUS24", "HPI25", "BENCH25", "SAP26"] {
        assert!(table.stdout.contains(paper), "{paper}");
    }
}

#[test]
fn misses_are_marked_with_their_remark_and_only_strict_makes_them_a_failure() {
    let folder = folder();
    let shown = tierloom(folder.path(), &["validate", "--figures", "f.yaml"]).with_code(0);
    assert!(
        shown.stdout.contains("miss: made to miss"),
        "{}",
        shown.stdout
    );
    assert!(
        shown
            .stdout
            .contains("Checks with a wrong sign or relation: loses."),
        "{}",
        shown.stdout
    );
    let strict = tierloom(
        folder.path(),
        &["validate", "--figures", "f.yaml", "--strict"],
    )
    .with_code(1);
    assert!(
        strict
            .one_error()
            .contains("1 checks have a wrong sign or relation: loses"),
        "{}",
        strict.stderr
    );
    assert!(
        strict.stdout.contains("far-off"),
        "the table is printed all the same"
    );
    let only = tierloom(
        folder.path(),
        &[
            "validate",
            "--figures",
            "f.yaml",
            "--role",
            "fitted",
            "--strict",
        ],
    );
    only.with_code(0);
    let misses = tierloom(
        folder.path(),
        &["validate", "--figures", "f.yaml", "--misses"],
    )
    .with_code(0);
    assert!(!misses.stdout.contains("right"), "{}", misses.stdout);
}

#[test]
fn a_term_that_is_off_changes_what_it_explains_and_the_record_says_so() {
    let folder = folder();
    let whole = json(folder.path(), &["--figures", "f.yaml"]);
    let without = json(folder.path(), &["--figures", "f.yaml", "--off", "rfo"]);
    assert_eq!(without["terms_off"], serde_json::json!(["rfo"]));
    let of = |record: &Value, id: &str| {
        let figures = record["figures"].as_array().unwrap();
        figures.iter().find(|f| f["id"] == id).unwrap()["modelled"]
            .as_f64()
            .unwrap()
    };
    assert!(of(&without, "write") > 1.2 * of(&whole, "write"));
    assert_eq!(of(&without, "far-off"), of(&whole, "far-off"));
    let table = tierloom(
        folder.path(),
        &["validate", "--figures", "f.yaml", "--off", "rfo"],
    )
    .with_code(0);
    assert!(
        table.stdout.contains("error of the whole model"),
        "{}",
        table.stdout
    );
}

#[test]
fn an_explanation_shows_tiers_bottleneck_and_terms() {
    let folder = folder();
    let shown = tierloom(
        folder.path(),
        &["validate", "--figures", "f.yaml", "--explain", "write"],
    )
    .with_code(0)
    .stdout;
    for part in [
        "machine nus24, modelled",
        "bandwidth of cxl",
        "rfo",
        "published 12 GB/s",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}

#[test]
fn records_reports_and_tables_are_written_whole() {
    let folder = folder();
    let args = [
        "validate",
        "--figures",
        "f.yaml",
        "--records",
        "v.jsonl",
        "--report",
        "v.html",
        "--markdown",
        "v.md",
    ];
    let ended = tierloom(folder.path(), &args).with_code(0);
    assert_eq!(ended.stderr.lines().count(), 3, "{}", ended.stderr);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let record: Value = serde_json::from_str(&read("v.jsonl")).unwrap();
    assert_eq!(
        (
            record["type"].as_str(),
            record["figures"].as_array().unwrap().len()
        ),
        (Some("validation"), 4)
    );
    assert!(read("v.html").contains("far-off"));
    assert!(read("v.md").contains("| far-off |"));
    let again = tierloom(folder.path(), &["report", "v.jsonl", "-o", "again.html"]);
    again.with_code(0);
}

#[test]
fn only_what_is_between_the_marks_of_a_document_changes() {
    let folder = folder();
    let path = folder.path().join("doc.md");
    fs::write(
        &path,
        "# Mine\n\n<!-- validate -->\nold\n<!-- /validate -->\n\nend\n",
    )
    .unwrap();
    let run = || {
        tierloom(
            folder.path(),
            &["validate", "--figures", "f.yaml", "--markdown", "doc.md"],
        )
        .with_code(0)
    };
    run();
    let once = fs::read_to_string(&path).unwrap();
    assert!(
        once.starts_with("# Mine\n\n<!-- validate -->\n")
            && once.ends_with("<!-- /validate -->\n\nend\n"),
        "{once}"
    );
    assert!(!once.contains("\nold\n") && once.contains("| far-off |"));
    run();
    assert_eq!(fs::read_to_string(&path).unwrap(), once);
    fs::write(&path, "<!-- validate -->\n").unwrap();
    refused(
        folder.path(),
        &["validate", "--figures", "f.yaml", "--markdown", "doc.md"],
        &["it needs both lines"],
    );
}

#[test]
fn the_documented_comparison_is_that_of_the_built_in_figures_and_machines() {
    let marks = [
        ("docs/validation.md", "<!-- validate -->"),
        ("README.md", "<!-- validate headline -->"),
    ];
    for (document, mark) in marks {
        let checked_in = fs::read_to_string(repository().join(document)).unwrap();
        assert!(checked_in.contains(mark), "{document} has no {mark}");
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.md");
        fs::write(&copy, &checked_in).unwrap();
        tierloom(folder.path(), &["validate", "--markdown", "copy.md"]).with_code(0);
        let made = fs::read_to_string(&copy).unwrap();
        assert!(
            made == checked_in,
            "{document} is out of date: run `tierloom validate --markdown {document}`"
        );
    }
}

#[test]
fn only_a_wrong_check_fails_the_strict_comparison() {
    let folder = folder();
    let chosen = FIGURES
        .replace("role: check", "role: chosen, because: \"its value\"")
        .replace("role: fitted", "role: check");
    fs::write(folder.path().join("c.yaml"), chosen).unwrap();
    let args = ["validate", "--figures", "c.yaml", "--strict"];
    let passed = tierloom(folder.path(), &args).with_code(0);
    assert!(passed.stdout.contains("far-off"), "{}", passed.stdout);
    assert!(
        passed.stdout.contains("1 of 4 figures are checks"),
        "{}",
        passed.stdout
    );
}

#[test]
fn an_explanation_says_what_an_implied_figure_follows_from() {
    let of = |id: &str| {
        tierloom_anywhere(&["validate", "--explain", id])
            .with_code(0)
            .stdout
    };
    let ratio = of("bench25-nt-over-store");
    assert!(
        ratio.contains("role implied")
            && ratio.contains("follows from the fitted bench25-store and bench25-nt"),
        "{ratio}"
    );
    let gain = of("nus24-gain-3to2");
    assert!(
        gain.contains("follows from the form of the model"),
        "{gain}"
    );
    let check = of("epfl25-ssb-9to1-snc2-pf-on");
    assert!(!check.contains("follows from"), "{check}");
    let chosen = of("sap26-tables-two-links");
    assert!(chosen.contains("chosen: the 8 ns"), "{chosen}");
    assert!(chosen.contains("nearest fitted figure: "), "{chosen}");
}

#[test]
fn wrong_input_is_refused_before_anything_is_priced() {
    let folder = folder();
    let path = folder.path();
    refused(path, &["validate", "--off", "rof"], &["--off rof", "rfo"]);
    refused(path, &["validate", "--paper", "EPFL24"], &["EPFL25"]);
    refused(
        path,
        &["validate", "--figures", "none.yaml"],
        &["none.yaml"],
    );
    refused(
        path,
        &["validate", "--figures", "f.yaml", "--explain", "far"],
        &["did you mean far-off?"],
    );
    refused(
        path,
        &["validate", "--report", "no/v.html"],
        &["its folder does not exist"],
    );
    fs::write(
        path.join("bad.yaml"),
        FIGURES.replace("published: 900", "publshed: 900"),
    )
    .unwrap();
    refused(
        path,
        &["validate", "--figures", "bad.yaml"],
        &["bad.yaml:7:", "did you mean \"published\"?"],
    );
    fs::write(
        path.join("bad.yaml"),
        FIGURES.replace("machine: nus24", "machine: nus25"),
    )
    .unwrap();
    refused(
        path,
        &["validate", "--figures", "bad.yaml"],
        &["needs machine \"nus25\"", "nus24"],
    );
}

#[test]
fn machines_come_from_a_folder_or_from_beside_the_figures() {
    let folder = folder();
    fs::create_dir(folder.path().join("own")).unwrap();
    let text = fs::read_to_string(repository().join("machines/nus24.yaml")).unwrap();
    let cores = text
        .lines()
        .find(|l| l.starts_with("cores:"))
        .unwrap()
        .to_owned();
    let slower = text.replace(
        &cores,
        "cores: { value: 2, kind: assumed, source: \"test\" }",
    );
    fs::write(folder.path().join("own/nus24.yaml"), slower).unwrap();
    let read = |record: &Value| record["figures"][0]["modelled"].as_f64().unwrap();
    let builtin = read(&json(folder.path(), &["--figures", "f.yaml"]));
    let own = read(&json(
        folder.path(),
        &["--figures", "f.yaml", "--machines", "own"],
    ));
    assert!(own < builtin, "{own} {builtin}");
    fs::write(
        folder.path().join("p.yaml"),
        FIGURES.replace("machine: nus24", "machine: own/nus24.yaml"),
    )
    .unwrap();
    assert_eq!(read(&json(folder.path(), &["--figures", "p.yaml"])), own);
}
