//! Benchmarks whose tables are in a pool: the same answers, tables that stay, and capacity that
//! changes while queries run.
#![cfg(feature = "sql")]

mod common;

use common::{Ended, tierloom};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The rows of a query, as CSV.
#[track_caller]
fn rows(folder: &Path, args: &[&str], statements: &str) -> String {
    let query = ["sql", "--format", "csv", "-c", statements];
    tierloom(folder, &[&query, args].concat())
        .with_code(0)
        .stdout
}

/// The records of `run ssb` under `placement`.
fn benchmark(folder: &Path, pool: &str, placement: &str) -> (Vec<Value>, String) {
    let args = [
        "run",
        "ssb",
        "--sf",
        "0.01",
        "--queries",
        "q1.1,q2.1",
        "--repeat",
        "2",
        "--placement",
        placement,
        "--pool",
        pool,
        "--jsonl",
    ];
    let ended = tierloom(folder, &args).with_code(0);
    let records = ended.stdout.lines().map(serde_json::from_str);
    (records.collect::<Result<_, _>>().unwrap(), ended.stderr)
}

#[test]
fn benchmarks_answer_alike_in_memory_and_in_a_pool_which_keeps_their_tables() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tierloom(at, &["pool", "create", "b.pool", "--size", "256MiB"]).with_code(0);
    let (records, said) = benchmark(at, "b.pool", "dram,pool");
    assert!(said.contains("0 attached, 5 written"), "{said}");
    let digest = |records: &[Value], query: &str, placement: &str| {
        let mut found = records.iter().filter(|r| {
            r["query"] == query && r["placement"] == placement && r["machine"] == "here"
        });
        let record = found.next().unwrap();
        assert_eq!(record["provenance"], "measured");
        record["answer"]["digest"].as_str().unwrap().to_owned()
    };
    for query in ["q1.1", "q2.1"] {
        let digests = ["dram", "pool"].map(|placement| digest(&records, query, placement));
        assert_eq!(digests[0], digests[1], "{query}");
    }
    let cards = records.last().unwrap()["placements"].as_array().unwrap();
    let card = cards.iter().find(|c| c["placement"] == "pool").unwrap();
    assert_eq!(card["columns"][0]["placement"], "pool");
    for audit in ["audit_before", "audit_after"] {
        assert!(card[audit]["pages_checked"].as_u64().unwrap() > 0, "{card}");
    }

    // Another run attaches them, another scale factor replaces them, and SQL reads them.
    let (_, said) = benchmark(at, "b.pool", "pool");
    assert!(said.contains("5 attached, 0 written"), "{said}");
    let counted = "select count(*) > 50000 from lineorder";
    assert_eq!(
        rows(at, &["--pool", "b.pool"], counted).lines().last(),
        Some("true")
    );
    let other = [
        "--sf",
        "0.02",
        "--queries",
        "q1.1",
        "--repeat",
        "1",
        "--placement",
        "pool",
    ];
    let other = [&["run", "ssb", "--pool", "b.pool"], other.as_slice()].concat();
    let ended = tierloom(at, &other).with_code(0);
    assert!(ended.stderr.contains("attached, "), "{}", ended.stderr);
    let counted = "select count(*) > 100000 from lineorder";
    assert_eq!(
        rows(at, &["--pool", "b.pool"], counted).lines().last(),
        Some("true")
    );
}

#[test]
fn benchmarks_replace_no_table_that_a_user_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("names.csv"), "customer,name\n1,one\n2,two\n").unwrap();
    tierloom(at, &["pool", "create", "a.pool", "--size", "64MiB"]).with_code(0);
    let load = ["--pool", "a.pool", "-t", "customer=names.csv"];
    let before = rows(at, &load, "select count(*) from customer");
    let args = [
        "run",
        "ssb",
        "--sf",
        "0.01",
        "--placement",
        "pool",
        "--pool",
        "a.pool",
    ];
    let ended = tierloom(at, &args).with_code(2);
    assert!(
        ended
            .stderr
            .contains("a table customer that no benchmark made"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        rows(at, &["--pool", "a.pool"], "select count(*) from customer"),
        before
    );

    let ended = tierloom(at, &["run", "ssb", "--sf", "0.01", "--placement", "pool"]).with_code(2);
    assert!(
        ended.stderr.contains("name one with --pool"),
        "{}",
        ended.stderr
    );
    let set = "set tierloom.placement = 'pool'";
    let ended = tierloom(at, &["sql", "--pool", "a.pool", "-c", set]).with_code(2);
    assert!(
        ended.stderr.contains("cannot move to a pool"),
        "{}",
        ended.stderr
    );
}

/// Two streams of two queries on the tables of `c.pool`.
fn streams(folder: &Path, more: &[&str]) -> Ended {
    let args = [
        "run",
        "tpch",
        "--sf",
        "0.01",
        "--queries",
        "q1,q6",
        "--streams",
        "2",
        "--duration",
        "4s",
        "--pool",
        "c.pool",
        "--jsonl",
    ];
    tierloom(folder, &[args.as_slice(), more].concat())
}

#[test]
fn capacity_changes_while_streams_run_and_rates_around_it_are_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tierloom(at, &["pool", "create", "c.pool", "--size", "64MiB"]).with_code(0);
    let resize = "1s=128MiB,2s=64MiB,3s=1MiB";
    let ended = streams(at, &["--placement", "pool", "--resize", resize]).with_code(0);
    let records: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |placement: &str| {
        let mut found = records.iter().filter(|r| r["type"] == "throughput");
        found.find(|r| r["placement"] == placement).unwrap()
    };
    assert!(of("dram").get("capacity").is_none());
    let record = of("pool");
    let changes = record["capacity"].as_array().unwrap();
    let bytes = |change: &Value, field: &str| change[field].as_u64().unwrap() >> 20;
    let sizes: Vec<_> = changes.iter().map(|c| bytes(c, "to_bytes")).collect();
    assert_eq!(sizes, [128, 64, 64], "{changes:?}");
    assert!(changes[0]["refused"].is_null() && changes[1]["refused"].is_null());
    // The tables that the queries read do not fit.
    assert!(changes[2]["refused"].is_string(), "{changes:?}");
    assert_eq!(changes[2]["moved_bytes"], 0);

    let windows = record["rates"].as_array().unwrap();
    let during: Vec<_> = windows.iter().map(|w| w["change"].as_u64()).collect();
    assert_eq!(during.first(), Some(&None));
    assert_eq!(during.iter().flatten().collect::<Vec<_>>(), [&0, &1, &2]);
    let counted: u64 = windows.iter().map(|w| w["queries"].as_u64().unwrap()).sum();
    let all = record["queries"].as_u64().unwrap();
    // A query that ends after the time is up is in no window.
    assert!(
        counted > 0 && counted <= all && all - counted <= 2,
        "{counted} of {all}"
    );
    let last = records.last().unwrap();
    let notes = last["notes"].to_string();
    assert!(
        notes.contains("64 MiB to 128 MiB") && notes.contains("was refused"),
        "{notes}"
    );
    tierloom(at, &["pool", "check", "c.pool", "--data"]).with_code(0);
}

#[test]
fn wrong_changes_of_the_capacity_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (more, expected) in [
        (
            ["--placement", "dram", "--resize", "1s=1GiB"],
            "add --placement pool",
        ),
        (
            ["--placement", "pool", "--resize", "5s=1GiB"],
            "the streams have ended by then",
        ),
        (
            ["--placement", "pool", "--resize", "2s=1GiB,1s=2GiB"],
            "must be after the one before",
        ),
        (
            ["--placement", "pool", "--resize", "1GiB"],
            "expected TIME=SIZE",
        ),
    ] {
        let ended = streams(folder.path(), &more).with_code(2);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}
