//! `tierloom run --operator-memory --memory-audit --plain-operators` from the outside, on this machine's first node.
#![cfg(feature = "sql")]

mod common;

use common::runs::{SMALL, from_json};
use common::tierloom_anywhere;
use serde_json::Value;
use std::fs;
use std::path::Path;

const EVERYTHING: &str = "join=0,aggregation=0,sort=0,repartition=0,temp=0,result=0,other=0";

/// A run with an audit: the operators of its query, and the audit.
fn audited(place: &Path, more: &[&str]) -> (Vec<String>, Value) {
    let file = place.join("audit.json");
    let audit = ["--memory-audit", file.to_str().unwrap(), "--json"];
    let settings = ["--operator-memory", EVERYTHING, "--placement", "dram"];
    let args = [&SMALL[..], &audit, &settings, &["--queries", "q2.1"], more].concat();
    let ended = tierloom_anywhere(&args).with_code(0);
    ended.no_panic();
    let run = from_json(&ended.stdout);
    let query = &run.queries[0];
    assert!(query.answer.as_ref().unwrap().checked);
    let operators = query.operators.iter().map(|o| o.operator.clone());
    let text = fs::read_to_string(&file).unwrap();
    (operators.collect(), serde_json::from_str(&text).unwrap())
}

#[test]
fn each_query_has_a_peak_of_its_own_on_our_operators_and_on_datafusions() {
    let place = tempfile::tempdir().unwrap();
    for (more, fused) in [(&[][..], true), (&["--plain-operators"][..], false)] {
        let (operators, audit) = audited(place.path(), more);
        let has_star = operators.iter().any(|name| name == "star join");
        assert_eq!(has_star, fused, "{operators:?}");
        let queries = audit["queries"].as_array().unwrap();
        let names: Vec<_> = queries
            .iter()
            .map(|q| q["query"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["first pass", "q2.1"]);
        for query in queries {
            let peak = &query["peak"];
            let held = peak["held_bytes"].as_u64().unwrap();
            assert!(held >= peak["accounted_bytes"].as_u64().unwrap());
            assert!(held < peak["process_bytes"].as_u64().unwrap());
            // A kernel without NUMA does not tell.
            if let Some(kernel) = peak["kernel_bytes"].as_u64() {
                assert!(held.abs_diff(kernel) <= kernel / 20, "{peak:#}");
            }
            assert_eq!(query["placement"], "dram");
        }
        assert_eq!(audit["events"], Value::Array(Vec::new()));
    }
}

#[test]
fn streams_write_their_audit_too() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("audit.json");
    let args = [
        "run",
        "tpch",
        "--sf",
        "0.01",
        "--queries",
        "q3",
        "--placement",
        "0",
        "--streams",
        "2",
        "--duration",
        "1s",
        "--operator-memory",
        "join=0:1GiB",
        "--memory-audit",
        file.to_str().unwrap(),
    ];
    tierloom_anywhere(&args).with_code(0).no_panic();
    let audit: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(audit["operator_memory"], "join=0:1GiB");
    let places = audit["places"].as_array().unwrap();
    assert!(
        places
            .iter()
            .any(|p| p["class"] == "join" && p["limit_bytes"] == 1u64 << 30),
        "{places:?}"
    );
}

#[test]
fn places_that_cannot_be_meant_are_bad_input() {
    for (text, part) in [
        ("join", "CLASS=PLACEMENT[:LIMIT]"),
        ("heap=0", "unknown class"),
        ("join=0:9KiB", "no limit"),
        ("join=[0:3,1:1", "bracket"),
        ("join=4095", "4095"),
    ] {
        let args = [&SMALL[..], &["--operator-memory", text, "--dry-run"]].concat();
        let ended = tierloom_anywhere(&args).with_code(2);
        assert!(
            ended.stderr.contains("--operator-memory") && ended.stderr.contains(part),
            "{text}: {}",
            ended.stderr
        );
    }
}
