//! `tierloom run --operator-memory --memory-audit --plain-operators`, run as a program on this
//! machine's first node.
#![cfg(feature = "sql")]

mod common;

use common::runs::{SMALL, from_json};
use common::{Ended, end_of, tierloom_anywhere};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const EVERYTHING: &str = "join=0,aggregation=0,sort=0,repartition=0,temp=0,result=0,other=0";

/// Runs with an audit; returns the operators of its query and the audit.
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
            // A kernel without NUMA support does not report this.
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
fn operators_use_a_pool_that_is_named_and_nothing_is_left_there() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (pool, file) = (at("a.pool"), at("audit.json"));
    tierloom_anywhere(&["pool", "create", &pool, "--size", "256MiB"]).with_code(0);
    let run = |more: &[&str]| {
        let places = EVERYTHING.replace('0', "pool");
        let memory = ["--operator-memory", &places, "--placement", "dram"];
        let audit = ["--memory-audit", &file, "--plain-operators", "--json"];
        let args = [&SMALL[..], &memory, &audit, &["--queries", "q2.1"], more].concat();
        tierloom_anywhere(&args)
    };
    let ended = run(&["--pool", &pool]).with_code(0);
    ended.no_panic();
    assert!(
        from_json(&ended.stdout).queries[0]
            .answer
            .as_ref()
            .unwrap()
            .checked
    );
    let audit: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(audit["events"], Value::Array(Vec::new()));
    let places = audit["places"].as_array().unwrap();
    let used = |p: &&Value| p["place"] == "pool" && p["peak_bytes"].as_u64() > Some(0);
    assert!(places.iter().filter(used).count() > 0, "{places:?}");
    let status = tierloom_anywhere(&["pool", "status", &pool, "--json"]).with_code(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["space"]["used_bytes"], 0);
    let refused = run(&[]).with_code(2);
    assert!(
        refused.stderr.contains("no pool is open"),
        "{}",
        refused.stderr
    );
}

#[test]
fn places_that_cannot_be_meant_are_bad_input() {
    for (text, part) in [
        ("join", "CLASS=PLACEMENT[:LIMIT]"),
        ("heap=0", "unknown class"),
        ("join=0:9KiB", "not between"),
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

/// Runs the binary in `folder` with its address space limited to `kib` KiB.
fn with_addresses(kib: u64, folder: &Path, args: &[&str]) -> Ended {
    let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    let child = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_tierloom")])
        .args(args)
        .current_dir(folder)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    end_of(child.expect("a shell starts"))
}

#[test]
fn a_sort_whose_class_has_used_up_its_addresses_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let all = "max(rn), max(lo_quantity), max(lo_discount), max(lo_revenue), max(lo_supplycost), \
               max(lo_orderkey), max(lo_custkey), max(lo_partkey), max(lo_suppkey), max(lo_tax)";
    let sql = format!(
        "select {all} from (select *, row_number() over (order by lo_revenue, lo_orderkey) rn from lineorder)"
    );
    let args = [
        "sql",
        "--generate",
        "ssb:0.2",
        "--format",
        "csv",
        "-c",
        &sql,
    ];
    let limited = with_addresses(12_000_000, folder.path(), &args).with_code(0);
    assert_eq!(limited.stdout, tierloom_anywhere(&args).with_code(0).stdout);
}

#[test]
fn thousands_of_columns_of_one_row_need_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let line = |of: fn(usize) -> String| (0..20_000).map(of).collect::<Vec<_>>().join(",");
    let text = format!(
        "{}\n{}\n",
        line(|n| format!("c{n}")),
        line(|n| n.to_string())
    );
    fs::write(folder.path().join("wide.csv"), text).unwrap();
    let sql = "select c0, c19999 from t";
    let args = ["sql", "-t", "t=wide.csv", "--format", "csv", "-c", sql];
    // One MiB per column would be five times as much.
    let ended = with_addresses(4_000_000, folder.path(), &args).with_code(0);
    assert_eq!(ended.stdout, "c0,c19999\n0,19999\n");
}
