//! All outputs of a run agree: document, lines, file of records, report.
#![cfg(feature = "sql")]

mod common;

use common::runs::{SMALL, small_run, what};
use common::{contents, tierloom, tierloom_anywhere};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use tierloom_record::{RecordSet, RunSet, SCHEMA};

#[test]
fn json_lines_hold_the_same_figures_one_record_a_line() {
    let document = small_run(&["--queries", "q1.1,q3.1"]);
    let folder = tempfile::tempdir().unwrap();
    let args = [
        &SMALL[..],
        &["--queries", "q1.1,q3.1", "--jsonl", "--records", "r.jsonl"],
    ]
    .concat();
    let ended = tierloom(folder.path(), &args).with_code(0);
    let first: Value = serde_json::from_str(ended.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (first["type"].as_str(), first["schema"].as_str()),
        (Some("run"), Some(SCHEMA))
    );
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "summary");
    let lines = RecordSet::parse(&ended.stdout, "stdout").unwrap();
    let set = |run: &RunSet| run.queries.iter().map(what).collect::<BTreeSet<_>>();
    assert_eq!(set(&lines.runs[0]), set(&document));
    assert_eq!(lines.runs[0].queries.len(), document.queries.len());
    let saved = fs::read_to_string(folder.path().join("r.jsonl")).unwrap();
    assert!(saved == ended.stdout, "the file holds what stdout got");
}

#[test]
fn records_report_and_a_later_report_hold_the_same_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let args = [&SMALL[..], &["--records", "r.jsonl", "--report", "r.html"]].concat();
    let ended = tierloom(path, &args).with_code(0);
    assert!(
        ended.stderr.contains("r.jsonl") && ended.stderr.contains("r.html"),
        "{}",
        ended.stderr
    );
    tierloom(path, &["report", "r.jsonl", "-o", "later.html"]).with_code(0);
    let records = RecordSet::read(&path.join("r.jsonl")).unwrap();
    for page in ["r.html", "later.html"] {
        let html = fs::read_to_string(path.join(page)).unwrap();
        let inside = tierloom_report::extract_records(&html).expect("records inside");
        assert!(
            RecordSet::parse(&inside, page).unwrap() == records,
            "{page}"
        );
    }
    let left: BTreeSet<String> = contents(path)
        .into_keys()
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        left,
        BTreeSet::from(["r.jsonl".into(), "r.html".into(), "later.html".into()])
    );
}

#[test]
fn two_runs_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = [
        &SMALL[..],
        &["--queries", "q1.1,q2.1", "--machine", "nus24", "--records"],
    ]
    .concat();
    tierloom(path, &[&run[..], &["a.jsonl"]].concat()).with_code(0);
    tierloom(path, &[&run[..], &["b.jsonl"]].concat()).with_code(0);
    let ended = tierloom(
        path,
        &["report", "a.jsonl", "b.jsonl", "--compare", "-o", "c.html"],
    )
    .with_code(0);
    assert!(
        !ended.stderr.contains("warning"),
        "the settings are the same: {}",
        ended.stderr
    );
    for part in ["q1.1", "q2.1", "verdict"] {
        assert!(ended.stdout.contains(part), "{part}\n{}", ended.stdout);
    }
    assert!(
        fs::read_to_string(path.join("c.html"))
            .unwrap()
            .contains("q2.1")
    );
    let other = [
        &SMALL[..],
        &["--queries", "q1.1", "--seed", "5", "--records", "d.jsonl"],
    ]
    .concat();
    tierloom(path, &other).with_code(0);
    let ended = tierloom(path, &["report", "a.jsonl", "d.jsonl", "--compare"]).with_code(0);
    assert!(
        ended.stderr.contains("warning") && ended.stderr.contains("seed"),
        "{}",
        ended.stderr
    );
}

#[test]
fn tables_label_every_figure() {
    let ended = tierloom_anywhere(&[&SMALL[..], &["--machine", "nus24"]].concat()).with_code(0);
    for part in [
        "measured",
        "modelled",
        "geo mean",
        "page audit dram",
        "nus24",
        "q4.3",
        "time: ",
    ] {
        assert!(ended.stdout.contains(part), "{part}\n{}", ended.stdout);
    }
    assert!(
        ended.stderr.contains("generating"),
        "it says what it is doing: {}",
        ended.stderr
    );
}

/// A reader must not have to look for the answer, and must not find two different ones.
#[test]
fn terminal_report_and_records_begin_with_the_same_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let more = [
        "--machine",
        "nus24",
        "--report",
        "r.html",
        "--records",
        "r.jsonl",
    ];
    let ended = tierloom(path, &[&SMALL[..], &more].concat()).with_code(0);
    let answer: Vec<&str> = ended.stdout.lines().take(3).collect();
    for (sentence, opening) in answer
        .iter()
        .zip(["Measured: ", "Best placement", "Next: "])
    {
        assert!(sentence.starts_with(opening), "{}", ended.stdout);
    }
    let run = RecordSet::read(&path.join("r.jsonl"))
        .unwrap()
        .runs
        .remove(0);
    let html = fs::read_to_string(path.join("r.html")).unwrap();
    let findings = run.summary.unwrap().findings;
    assert_eq!(findings[..3], answer);
    for sentence in &findings {
        assert!(
            ended.stdout.contains(sentence.as_str()),
            "{sentence} is not in the terminal"
        );
        let escaped = sentence
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let escaped = escaped.replace('"', "&quot;");
        assert!(html.contains(&escaped), "{sentence} is not in the report");
    }
}

#[test]
fn a_dry_run_prints_the_plan_and_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ended = tierloom(
        folder.path(),
        &[
            "run",
            "ssb",
            "--dry-run",
            "--sf",
            "0.1",
            "--threads",
            "1",
            "--queries",
            "q1.1,q4.3",
            "--machine",
            "nus24,epfl25-full-pf-on",
            "--baseline",
            "--records",
            "r.jsonl",
            "--report",
            "r.html",
        ],
    )
    .with_code(0);
    assert_eq!(ended.stderr, "");
    assert!(contents(folder.path()).is_empty());
    // Whether a placement can be measured depends on the machine.
    insta::with_settings!({filters => vec![(r"; (measured here|not here: .*)", "; [here or not]")]}, {
        insta::assert_snapshot!(ended.stdout);
    });
}
