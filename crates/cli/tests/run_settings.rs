//! `tierloom run ssb` does what was requested and records it, or says why it does not.
#![cfg(feature = "sql")]

mod common;

use common::runs::{PLACEMENTS, SMALL, from_json, measured, modelled, small_run, what};
use common::{RECORDED, contents, profile, recorded, tierloom, tierloom_anywhere};
use std::collections::BTreeSet;
use std::fs;
use tierloom_record::{QueryRecord, RunSet, SCHEMA};

#[test]
fn settings_are_recorded_as_they_were_asked_for() {
    let run = small_run(&[
        "--threads",
        "1",
        "--seed",
        "3",
        "--pages",
        "4k",
        "--queries",
        "q2.1,q1.1,q2.1",
        "--placement",
        "cxl,columns:23%",
        "--machine",
        "hpi25-4dev",
        "--model-workers",
        "7",
        "--time-per-tuple",
        "2.5",
    ]);
    let s = &run.run.settings;
    assert_eq!(
        (s.scale_factor, s.seed, s.threads, s.repeat),
        (0.01, 3, 1, 2)
    );
    assert_eq!(
        (s.page_size.as_str(), s.modelled_workers.as_str()),
        ("4k", "7")
    );
    assert_eq!(s.queries, ["q2.1", "q1.1"]);
    assert_eq!(
        s.placements,
        ["dram", "cxl", "columns:23%"],
        "dram is always there to compare with"
    );
    assert_eq!(
        (s.machines.as_slice(), s.time_per_tuple_ns),
        (&["hpi25-4dev".to_owned()][..], Some(2.5))
    );
    assert_eq!(run.run.schema, SCHEMA);
    assert!(run.run.command.contains(&"--model-workers".to_owned()));
    let asked: BTreeSet<&str> = run.queries.iter().map(|q| q.query.as_str()).collect();
    assert_eq!(asked, BTreeSet::from(["q1.1", "q2.1"]));
    let card = &run.run.machines[0];
    assert!(!card.figures.is_empty() && card.figures.iter().all(|f| !f.source.is_empty()));
}

/// Explicit huge pages are requested, but columns this small get none: that must be reported.
#[test]
fn a_page_size_that_was_not_used_is_not_claimed() {
    let ended = tierloom_anywhere(
        &[
            &SMALL[..],
            &["--queries", "q1.1", "--pages", "1g", "--json"],
        ]
        .concat(),
    );
    if ended.code != Some(0) {
        // An error that the pool has no such page is accepted too.
        assert!(
            ended.one_error().contains("1g") || ended.one_error().contains("huge"),
            "{}",
            ended.stderr
        );
        return;
    }
    let run = from_json(&ended.stdout);
    let summary = run.summary.unwrap();
    let audit = summary.placements[0].audit_after.as_ref().unwrap();
    if audit.pages_checked > audit.bytes_checked >> 30 {
        let message = format!(
            "{}\n{}\n{}",
            run.run.host.notes.join("\n"),
            summary.findings.join("\n"),
            ended.stderr
        )
        .to_lowercase();
        let words = ["4 kib", "4k", "small pages", "base pages"];
        assert!(
            words.iter().any(|w| message.contains(w)),
            "1g pages asked for, smaller ones used, nobody told:\n{message}"
        );
    }
}

#[test]
fn a_profile_of_ones_own_gives_what_the_same_built_in_one_gives() {
    let folder = tempfile::tempdir().unwrap();
    let text = profile("nus24").replacen("name: nus24", "name: my-server", 1);
    fs::write(folder.path().join("mine.yaml"), text).unwrap();
    let args = [
        &SMALL[..],
        &[
            "--json",
            "--queries",
            "q1.1,q4.1",
            "--machine",
            "nus24,mine.yaml",
        ],
    ]
    .concat();
    let run = from_json(&tierloom(folder.path(), &args).with_code(0).stdout);
    let of = |machine: &str| {
        modelled(&run)
            .filter(|q| q.machine == machine)
            .map(|q| {
                (
                    q.query.clone(),
                    q.placement.clone(),
                    q.time_ms.values.clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(of("nus24").len(), 2 * PLACEMENTS.len());
    assert_eq!(of("my-server"), of("nus24"));
    let names: Vec<&str> = run.run.machines.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["nus24", "my-server"]);
}

#[test]
fn a_given_time_per_tuple_moves_modelled_figures_and_no_answer() {
    let at = |ns: &str| small_run(&["--machine", "nus24", "--time-per-tuple", ns]);
    // So far apart that the times which are measured here, as that of planning, are small beside
    // the difference on any machine.
    let (fast, slow) = (at("5"), at("5000"));
    assert_eq!(fast.run.settings.time_per_tuple_ns, Some(5.0));
    let answers = |run: &RunSet| measured(run).map(what).collect::<BTreeSet<_>>();
    assert_eq!(answers(&fast), answers(&slow));
    let slow_of = |q: &QueryRecord| {
        modelled(&slow)
            .find(|s| s.query == q.query && s.placement == q.placement)
            .unwrap()
            .time_ms
            .median
    };
    assert_eq!(modelled(&fast).count(), 13 * PLACEMENTS.len());
    for q in modelled(&fast) {
        assert!(
            slow_of(q) > 10.0 * q.time_ms.median,
            "{} {}: {} and {}",
            q.query,
            q.placement,
            q.time_ms.median,
            slow_of(q)
        );
    }
}

/// Figures are measured on the machine that runs the command, not on the one that a recorded tree
/// describes.
#[test]
fn nothing_is_measured_on_a_machine_that_is_only_recorded() {
    for machine in RECORDED {
        let root = recorded(machine);
        let folder = tempfile::tempdir().unwrap();
        let args = [
            &SMALL[..],
            &[
                "--queries",
                "q1.1",
                "--sysroot",
                &root,
                "--json",
                "--records",
                "r.jsonl",
            ],
        ]
        .concat();
        let ended = tierloom(folder.path(), &args).with_code(2);
        assert!(
            ended.one_error().contains("--sysroot"),
            "{machine}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{machine}");
        assert!(contents(folder.path()).is_empty(), "{machine}");
    }
}

#[test]
fn a_plan_for_a_recorded_machine_does_not_say_here() {
    for machine in RECORDED {
        let root = recorded(machine);
        let plan = tierloom_anywhere(&["run", "ssb", "--dry-run", "--sysroot", &root])
            .with_code(0)
            .stdout;
        assert!(!plan.contains("measured here"), "{machine}:\n{plan}");
    }
}

/// Without a DRAM tier nothing is measured under `dram`; modelled figures must still be made, or
/// their absence reported.
#[test]
fn nothing_planned_is_left_out_without_a_word() {
    let run = small_run(&["--queries", "q1.1", "--tiers", "cxl=0"]);
    let summary = run.summary.as_ref().unwrap();
    assert_eq!(summary.finished, summary.planned, "{:?}", summary.findings);
    assert!(modelled(&run).count() > 0);
}

/// Upper and lower case name the same placement.
#[test]
fn a_placement_is_measured_once_however_it_is_spelled() {
    let run = small_run(&["--queries", "q1.1", "--placement", "DRAM,dram"]);
    assert_eq!(
        measured(&run).count(),
        1,
        "{:?}",
        run.run.settings.placements
    );
}

/// A size that cannot fit is refused before part of it fills the memory.
#[test]
fn data_that_cannot_fit_is_refused_before_it_is_generated() {
    let here = fs::read_to_string("/proc/meminfo").unwrap();
    let total_kib: u64 = here
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    // Scale factor 1400 is too much for 500 GiB.
    let scale = (1400 * (1 + total_kib / (500 << 20))).to_string();
    let args = ["run", "ssb", "--sf", &scale, "--repeat", "1", "--dry-run"];
    let ended = tierloom_anywhere(&args);
    let error = ended.with_code(2);
    assert!(error.one_error().contains("free"), "{}", error.stderr);
}

/// Queries whose share of rows is the same at every scale factor: those on the date alone, and one
/// on whole regions.
const STEADY: &str = "q1.1,q1.2,q1.3,q2.1,q3.1,q4.1";

#[test]
fn grown_work_is_like_work_that_was_captured_there() {
    let run = |sf: &str, more: &[&str]| {
        let queries = ["--queries", STEADY, "--placement", "cxl"];
        let sized = ["run", "ssb", "--sf", sf, "--machine", "nus24", "--json"];
        let args = [&sized[..], &queries, &["--repeat", "1"], more].concat();
        from_json(&tierloom_anywhere(&args).with_code(0).stdout)
    };
    // At this scale factor no column fits into a cache of the machine.
    let grown = run("0.02", &["--model-sf", "20"]);
    let captured = run("0.2", &["--model-sf", "20"]);
    assert_eq!(grown.run.machines[0].scale_factor, Some(20.0));
    assert_eq!(
        grown.run.machines[0].table_bytes,
        captured.run.machines[0].table_bytes
    );
    let bytes = |run: &RunSet, query: &str| {
        let mut records = modelled(run).filter(|q| q.query == query && q.placement == "cxl");
        let tiers = &records.next().unwrap().tiers;
        tiers.iter().map(|t| t.bytes).sum::<f64>()
    };
    for query in STEADY.split(',') {
        let ratio = bytes(&grown, query) / bytes(&captured, query);
        assert!((0.8..1.25).contains(&ratio), "{query}: {ratio}");
    }
}
