//! `tierloom run tpcds --temps`: queries as scripts with temporary tables, measured and modelled.
#![cfg(feature = "sql")]

mod common;

use common::tierloom;
use serde_json::Value;
use std::fs;

#[test]
fn scripts_give_the_answers_of_their_queries_wherever_their_tables_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tierloom(at, &["pool", "create", "a.pool", "--size", "128MiB"]).with_code(0);
    let run = "run tpcds --sf 0.05 --queries q1,q30,q78 --repeat 2 --pool a.pool";
    let run: Vec<&str> = run.split(' ').collect();
    let places = ["--temps", "0", "--temps", "pool", "--temps", "0:1MiB,pool"];
    let dry = tierloom(at, &[&run[..], &places, &["--dry-run"]].concat()).with_code(0);
    assert!(
        dry.stdout.contains("q01: customer_total_return"),
        "{}",
        dry.stdout
    );
    let ended = tierloom(at, &[&run[..], &places, &["--records", "t.jsonl"]].concat());
    let ended = ended.with_code(0);
    assert!(
        ended
            .stdout
            .contains("No script failed, and all answers are equal."),
        "{}",
        ended.stdout
    );
    let lines = fs::read_to_string(at.join("t.jsonl")).unwrap();
    let records: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(records.len(), 9);
    let bytes_at = |record: &Value, place: &str| -> u64 {
        let all = record["bytes_by_place"].as_array().unwrap().iter();
        let here = all.filter(|at| at["place"] == place);
        here.map(|at| at["bytes"].as_u64().unwrap()).sum()
    };
    for record in &records {
        let tables = record["tables"].as_array().unwrap();
        assert!(!tables.is_empty(), "{record}");
        let sizes = tables
            .iter()
            .map(|table| table["size_bytes"].as_u64().unwrap());
        let size: u64 = sizes.sum();
        let median = |name: &str| record[name]["median"].as_f64().unwrap();
        assert!(median("script_ms") >= median("query_ms") && median("make_ms") > 0.0);
        assert_eq!(record["script_ms"]["values"].as_array().unwrap().len(), 2);
        // The bytes are where they were asked for, and nowhere else.
        let (node, pool) = (bytes_at(record, "0"), bytes_at(record, "pool"));
        match record["place"].as_str().unwrap() {
            "0" => assert!(node >= size && pool == 0, "{record}"),
            "pool" => assert!(pool >= size && node == 0, "{record}"),
            _ => assert!(node <= 1 << 20 && node + pool >= size, "{record}"),
        }
    }
    // A report of them can be made, and says the same.
    tierloom(at, &["report", "t.jsonl", "-o", "t.html"]).with_code(0);
    let html = fs::read_to_string(at.join("t.html")).unwrap();
    assert!(html.contains("No script failed, and all answers are equal."));
    // Nothing is left in the pool.
    let status = tierloom(at, &["pool", "status", "a.pool", "--json"]).with_code(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        status["regions"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
}

/// A profile like the published one.
fn small_caches() -> String {
    let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/");
    let text = fs::read_to_string(format!("{machines}sap26-pool.yaml")).unwrap();
    text.replace("name: sap26-pool", "name: small-caches")
        .replace(
            "llc_bytes: { value: 272629760",
            "llc_bytes: { value: 131072",
        )
        .replace("l2_bytes: { value: 2097152", "l2_bytes: { value: 65536")
}

/// The record of one query and place, or NULL.
fn record(records: &[Value], machine: &str, query: &str, place: &str) -> Value {
    let found = records.iter().find(|r| {
        (&r["machine"], &r["query"], &r["place"]) == (&machine.into(), &query.into(), &place.into())
    });
    found.cloned().unwrap_or_default()
}

fn tier(record: &Value, name: &str) -> f64 {
    let mut tiers = record["tiers"].as_array().unwrap().iter();
    let tier = tiers.find(|t| t["tier"] == name).unwrap();
    tier["bytes"].as_f64().unwrap()
}

fn median(record: &Value, name: &str) -> f64 {
    record[name]["median"].as_f64().unwrap()
}

/// Places differ as their memory does, and only the place does.
fn assert_script(records: &[Value], query: &str) {
    let here = record(records, "here", query, "0");
    assert_eq!(
        (&here["provenance"], &here["tiers"]),
        (&"measured".into(), &[0; 0][..].into())
    );
    let size: u64 = { here["tables"].as_array().unwrap() }
        .iter()
        .map(|table| table["size_bytes"].as_u64().unwrap())
        .sum();
    let all = ["0", "remote", "pool", "dram:1MiB,pool"]
        .map(|at| record(records, "small-caches", query, at));
    for record in &all {
        assert_eq!(record["provenance"], "modelled");
        assert_eq!(record["tables"], here["tables"]);
        assert_eq!(record["script_ms"]["values"].as_array().unwrap().len(), 2);
        let parts = median(record, "make_ms") + median(record, "query_ms");
        assert!(parts > 0.0 && (median(record, "script_ms") / parts - 1.0).abs() < 0.5);
    }
    let [dram, remote, pool, parts] = &all;
    // What is in DRAM is not on another tier, and the tables are written and read once at
    // least.
    assert_eq!((tier(dram, "cxl"), tier(dram, "remote")), (0.0, 0.0));
    assert!(tier(remote, "remote") > 0.0 && tier(remote, "cxl") == 0.0);
    assert!(tier(pool, "cxl") > 0.0 && tier(pool, "dram") < tier(dram, "dram"));
    assert!(tier(pool, "cxl") < 20.0 * size as f64, "{pool}");
    assert!(median(pool, "script_ms") >= median(remote, "script_ms"));
    assert!(median(remote, "script_ms") >= median(dram, "script_ms"));
    let limited = record(records, "small-caches", query, "dram:1MiB");
    if size > 1 << 20 {
        assert!(tier(parts, "cxl") > 0.0 && tier(parts, "cxl") < tier(pool, "cxl"));
        assert!(
            limited["failed"]
                .as_str()
                .unwrap()
                .contains("limit reached")
        );
    } else {
        assert_eq!(tier(parts, "cxl"), 0.0);
        assert_eq!(limited["failed"], Value::Null);
    }
}

#[test]
fn scripts_are_modelled_for_other_machines_from_the_work_captured_here() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // The tables of a small benchmark would fit into the caches of the published machine.
    fs::write(at.join("m.yaml"), small_caches()).unwrap();
    let run = "run tpcds --sf 0.05 --queries q1,q78 --repeat 2 --machine m.yaml --threads 2";
    // There is no pool and one socket: these are modelled only.
    let places = "--temps 0 --temps remote --temps pool --temps dram:1MiB,pool --temps dram:1MiB";
    let args: Vec<&str> = run.split(' ').chain(places.split(' ')).collect();
    let dry = tierloom(at, &[&args[..], &["--dry-run"]].concat()).with_code(0);
    let says = "model them for small-caches";
    assert!(dry.stdout.contains(says), "{}", dry.stdout);
    // The tables of one query are larger than the last place.
    let ended = tierloom(at, &[&args[..], &["--records", "t.jsonl"]].concat()).with_code(1);
    let says = "tpcds 0.05 modelled for small-caches: with temporary tables in pool";
    assert!(ended.stdout.contains(says), "{}", ended.stdout);
    let text = fs::read_to_string(at.join("t.jsonl")).unwrap();
    let records: Vec<Value> = { text.lines() }
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    for query in ["q01", "q78"] {
        assert_script(&records, query);
    }
    tierloom(at, &["report", "t.jsonl", "-o", "t.html"]).with_code(0);
    let html = fs::read_to_string(at.join("t.html")).unwrap();
    assert!(html.contains("modelled for small-caches"));
}

#[test]
fn machines_that_cannot_be_modelled_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        tierloom(folder.path(), &args).with_code(2).stderr
    };
    let all = "run tpcds --sf 0.01 --queries q1";
    assert!(refused(&format!("{all} --temps hbm --machine sap26-pool")).contains("hbm"));
    assert!(refused(&format!("{all} --temps dram --machine sap26")).contains("sap26-pool"));
    let none = refused(&format!("{all} --temps remote --machine sap26-pool"));
    assert!(none.contains("captured here"), "{none}");
}

#[test]
fn a_script_that_gets_no_memory_is_reported_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = "run tpcds --sf 0.05 --queries q1,q78 --repeat 1 --records t.jsonl";
    let run: Vec<&str> = run.split(' ').collect();
    let ended = tierloom(
        at,
        &[&run[..], &["--temps", "0", "--temps", "0:1MiB"]].concat(),
    );
    let ended = ended.with_code(1);
    assert!(ended.stdout.contains("Failed: "), "{}", ended.stdout);
    let lines = fs::read_to_string(at.join("t.jsonl")).unwrap();
    let failed = lines.lines().filter(|line| line.contains("limit reached"));
    assert!(failed.clone().count() > 0, "{lines}");
    assert!(
        failed.clone().all(|line| line.contains("0:1MiB")),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 4);
}

#[test]
fn scripts_that_cannot_be_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let refused = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        tierloom(at, &args).with_code(2).stderr
    };
    let all = "run tpcds --sf 0.01";
    assert!(refused(&format!("{all} --queries q3 --temps dram")).contains("it has no WITH"));
    assert!(refused(&format!("{all} --queries q1 --temps nowhere")).contains("nowhere"));
    assert!(refused(&format!("{all} --queries q1 --temps pool")).contains("pool"));
    assert!(
        refused(&format!("{all} --temps dram --restart 2 --pool a.pool")).contains("--restart")
    );
    assert!(refused(&format!("{all} --temps dram --placement cxl")).contains("--placement"));
    assert!(refused(&format!("{all} --temps dram --repeat 0")).contains("--repeat"));
}
