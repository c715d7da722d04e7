//! `tierloom cost`: it reproduces the published prices, every assumption can be changed, and wrong
//! input is reported.

mod common;

use common::{contents, refused, tierloom, tierloom_anywhere};
use serde_json::Value;
use std::fs;
use tierloom_record::{CostRecord, Provenance, Record, RecordSet};

fn json(more: &[&str]) -> CostRecord {
    let ended = tierloom_anywhere(&[&["cost", "--json"], more].concat()).with_code(0);
    assert_eq!(ended.stderr, "");
    match serde_json::from_str(&ended.stdout).expect("one JSON document") {
        Record::Cost(record) => *record,
        other => panic!("not a cost record: {other:?}"),
    }
}

fn prices_at(record: &CostRecord, demand_gib: u64) -> Vec<Option<f64>> {
    let point = record.points.iter().find(|p| p.demand_gib == demand_gib);
    let point = point.expect("a point for this demand");
    point
        .cheapest
        .iter()
        .map(|c| c.as_ref().map(|c| c.price))
        .collect()
}

#[test]
fn published_prices_and_findings_come_back() {
    let record = json(&["--demand", "256GiB..10TiB"]);
    assert_eq!(record.provenance, Provenance::Modelled);
    assert_eq!(record.points.len(), 40);
    // From the table published with the code of Weisgut et al. (2025).
    assert_eq!(
        prices_at(&record, 1024),
        [9536.0, 10560.0, 10560.0].map(Some)
    );
    assert_eq!(
        prices_at(&record, 4608),
        [110_400.0, 43_536.0, 26_992.0].map(Some)
    );
    assert_eq!(
        prices_at(&record, 6144),
        [110_400.0, 115_600.0, 39_872.0].map(Some)
    );
    assert_eq!(prices_at(&record, 10_240)[0], None);
    let found = record.findings.join("\n");
    for says in [
        "CPU memory alone is the cheapest up to 1 TiB.",
        "saves at most 61% at demands above 4 TiB to 5 TiB",
        "saves at most 64% at demands above 5 TiB to 6 TiB",
        "decided most by",
        "price of DDR5 256 GiB",
        "break-even where it saves",
    ] {
        assert!(found.contains(says), "no {says:?} in\n{found}");
    }
}

#[test]
fn reused_dimms_save_more_than_new_ones() {
    let record = json(&["--demand", "5TiB", "--reuse"]);
    assert_eq!(record.kinds.len(), 5);
    assert!(record.kinds[4].contains("reused"));
    let expected = [110_400.0, 43_536.0, 30_336.0, 38_336.0, 9_536.0];
    assert_eq!(prices_at(&record, 5120), expected.map(Some));
}

#[test]
fn a_changed_price_changes_the_findings_and_the_name() {
    let same = json(&["--demand", "5TiB"]);
    let changed = json(&["--demand", "5TiB", "--set", "dimms[ddr5-256].price=1600"]);
    assert_ne!(same.findings, changed.findings);
    assert_ne!(same.prices, changed.prices);
    assert_eq!(
        prices_at(&changed, 5120)[0],
        Some(2.0 * (4000.0 + 16.0 * 1600.0))
    );
}

#[test]
fn printed_prices_are_read_again_and_edits_take_effect() {
    let folder = tempfile::tempdir().unwrap();
    let shown = tierloom(folder.path(), &["cost", "--show-prices"]).with_code(0);
    let edited = shown.stdout.replace("value: 4000", "value: 5000");
    assert_ne!(edited, shown.stdout);
    fs::write(folder.path().join("mine.yaml"), edited).unwrap();
    let args = [
        "cost",
        "--prices",
        "mine.yaml",
        "--demand",
        "1TiB",
        "--json",
    ];
    let ended = tierloom(folder.path(), &args).with_code(0);
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["points"][0]["cheapest"][0]["price"], 10_536.0);
    // The prices after --set are printed as a file that can be loaded: two CPUs at 1 with 32 x 32
    // GiB at 137.
    let changed = [
        "cost",
        "--prices",
        "mine.yaml",
        "--set",
        "cpu.price=1",
        "--show-prices",
    ];
    let printed = tierloom(folder.path(), &changed).with_code(0).stdout;
    fs::write(folder.path().join("cheap.yaml"), printed).unwrap();
    let args = [
        "cost",
        "--prices",
        "cheap.yaml",
        "--demand",
        "1TiB",
        "--json",
    ];
    let ended = tierloom(folder.path(), &args).with_code(0);
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["points"][0]["cheapest"][0]["price"], 4386.0);
}

#[test]
fn the_table_has_a_row_per_demand_and_says_that_it_is_modelled() {
    let ended = tierloom_anywhere(&["cost", "--demand", "1TiB..2TiB", "--step", "512GiB"]);
    let text = ended.with_code(0).stdout;
    for says in [
        "│ 1 TiB",
        "│ 1.5 TiB",
        "│ 2 TiB",
        "modelled",
        "Findings",
        "9 536",
        "2025-03",
    ] {
        assert!(text.contains(says), "no {says:?} in\n{text}");
    }
}

#[test]
fn throughput_is_modelled_per_configuration_and_the_best_is_named() {
    let args = [
        "--demand",
        "2TiB..3TiB",
        "--step",
        "1TiB",
        "--machine",
        "hpi25-1dev",
    ];
    let record = json(&args);
    assert!(
        record
            .throughput_of
            .as_deref()
            .unwrap()
            .contains("hpi25-1dev")
    );
    for config in record
        .points
        .iter()
        .flat_map(|p| p.cheapest.iter().flatten())
    {
        assert!(config.queries_per_hour.unwrap() > 0.0, "{config:?}");
    }
    let named = "costs least per modelled query throughput";
    assert!(record.findings.iter().any(|f| f.contains(named)));
    assert!(json(&["--demand", "2TiB"]).throughput_of.is_none());
    // Twice the data takes longer; a fixed scale factor does not depend on the demand.
    let queries = |record: &CostRecord| {
        record.points[0].cheapest[0]
            .clone()
            .unwrap()
            .queries_per_hour
    };
    let small = json(&[&args[..], &["--ssb-sf", "1000"]].concat());
    assert!(queries(&small) > queries(&record));
    let probes = json(&[
        "--demand",
        "2TiB",
        "--machine",
        "hpi25-1dev",
        "--work",
        "probe",
    ]);
    assert!(queries(&probes).unwrap() > 0.0);
}

#[test]
fn the_record_and_the_report_hold_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["--records", "c.jsonl", "--report", "c.html"];
    let args = [
        &["cost", "--demand", "1TiB..6TiB", "--step", "1TiB"],
        &files[..],
    ]
    .concat();
    tierloom(folder.path(), &args).with_code(0);
    let set = RecordSet::read(&folder.path().join("c.jsonl")).unwrap();
    assert_eq!(set.costs.len(), 1);
    let html = fs::read_to_string(folder.path().join("c.html")).unwrap();
    for says in [
        "What memory costs",
        "<svg",
        "saves at most 61%",
        "price of DDR5 256 GiB",
        "modelled",
    ] {
        assert!(html.contains(says), "no {says:?}");
    }
    assert_eq!(
        contents(folder.path()).len(),
        2,
        "nothing half-written is left"
    );
    // A report made from the records shows the same.
    tierloom(folder.path(), &["report", "c.jsonl", "-o", "again.html"]).with_code(0);
    let again = fs::read_to_string(folder.path().join("again.html")).unwrap();
    assert!(again.contains("saves at most 61%"));
}

#[test]
fn wrong_input_is_told_with_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let shown = tierloom(folder.path(), &["cost", "--show-prices"])
        .with_code(0)
        .stdout;
    fs::write(
        folder.path().join("bad.yaml"),
        shown.replace("board_price", "bord_price"),
    )
    .unwrap();
    let cases: [(&[&str], &[&str]); 12] = [
        (&["--demand", "5TB"], &["--demand", "256GiB"]),
        (&["--demand", "3TiB..1TiB"], &["ends before it begins"]),
        (
            &["--demand", "1GiB..1000TiB", "--step", "1GiB"],
            &["larger --step"],
        ),
        (&["--step", "0GiB"], &["--step"]),
        (&["--kinds", "ccl:1"], &["cxl:N"]),
        (&["--kinds", "cxl:5"], &["devices[0].max"]),
        (&["--set", "cpu.price"], &["PATH=VALUE"]),
        (&["--set", "cpu.prize=1"], &["cpu.price"]),
        (&["--set", "cpu.price=-1"], &["at least 0"]),
        (
            &["--prices", "bad.yaml"],
            &["bad.yaml:", "bord_price", "board_price"],
        ),
        (&["--prices", "none.yaml"], &["none.yaml"]),
        (&["--machine", "nus25"], &["nus24"]),
    ];
    for (args, says) in cases {
        refused(folder.path(), &[&["cost"], args].concat(), says);
    }
    let more: [(&[&str], &[&str]); 3] = [
        (&["--machine", "nus24", "--ssb-sf", "1e6"], &["of memory"]),
        (
            &["--machine", "nus24", "--compute-ns", "NaN"],
            &["--compute-ns"],
        ),
        (&["--records", "x/y.jsonl"], &["its folder does not exist"]),
    ];
    for (args, says) in more {
        refused(folder.path(), &[&["cost"], args].concat(), says);
    }
}

fn pool_json(folder: &std::path::Path, args: &[&str]) -> Value {
    let ended = tierloom(folder, &[&["cost", "--json"], args].concat()).with_code(0);
    serde_json::from_str(&ended.stdout).expect("one JSON document")
}

#[test]
fn a_pool_is_compared_with_own_peaks_and_says_what_decides() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let usual = ["--pool", "8", "--demand", "512GiB..2TiB"];
    let none_meet = pool_json(at, &[&usual[..], &["--joint-peak", "0%"]].concat());
    assert_eq!(none_meet["provenance"], "modelled");
    // The worst moment: one host at its peak, the others at their base.
    assert_eq!(none_meet["joint_peak_gib"], 7 * 512 + 2048);
    assert_eq!(none_meet["pool"]["devices"], 12);
    let at_once = pool_json(at, &[&usual[..], &["--joint-peak", "100%"]].concat());
    let saving = |json: &Value| json["saving"].as_f64();
    // All peaks at once, 8 x 1 TiB beyond the DRAM of one CPU: the devices have more lanes than the
    // switch, and DRAM for the peak leaves nothing for a pool.
    assert!(saving(&none_meet) > Some(0.2), "{:?}", saving(&none_meet));
    assert_eq!((saving(&at_once), &at_once["pool"]), (None, &Value::Null));
    let dear = ["--joint-peak", "0", "--set", "pool.switch_price=1e6"];
    let lost = saving(&pool_json(at, &[&usual[..], &dear].concat()));
    assert!(lost.is_some_and(|saving| saving < 0.0), "{lost:?}");
    let seldom = [&["cost"], &usual[..], &["--joint-peak", "40%"]].concat();
    let text = tierloom(at, &seldom).with_code(0).stdout;
    for says in [
        "stranded",
        "depends most on",
        "assumptions",
        "cheaper from",
        "break-even",
    ] {
        assert!(text.contains(says), "no {says:?} in\n{text}");
    }
}

#[test]
fn the_comparison_of_a_pool_is_on_record_and_its_report_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let args = "cost --pool 8 --demand 512GiB..2TiB --joint-peak 40% --records p.jsonl";
    let args: Vec<&str> = args.split(' ').collect();
    let printed = tierloom(at, &[&args[..], &["--json"]].concat()).with_code(0);
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    let written = fs::read_to_string(at.join("p.jsonl")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        (&printed, &written["type"]),
        (&written, &"pool_cost".into())
    );
    let saved = written["saving"].as_f64().unwrap();
    let price = |offer: &str| written[offer]["price"].as_f64().unwrap();
    let without = price("own").min(price("own_cxl"));
    assert!(
        (saved - (1.0 - price("pool") / without)).abs() < 1e-9,
        "{written}"
    );
    tierloom(at, &["report", "p.jsonl", "-o", "p.html"]).with_code(0);
    let html = fs::read_to_string(at.join("p.html")).unwrap();
    let found = written["findings"].as_array().unwrap();
    assert!(found.len() >= 4, "{written}");
    for finding in found {
        let words = finding.as_str().unwrap().split('\'').next().unwrap();
        assert!(html.contains(words.trim_end_matches('`')), "{finding}");
    }
}

#[test]
fn recorded_demands_are_read_and_bad_ones_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let trace = |text: &str| fs::write(at.join("trace.csv"), text).unwrap();
    let args = ["--pool", "2", "--trace", "trace.csv"];
    trace("time,a,b\n0,512,2TiB\n1,2TiB,512GiB\n");
    let found = pool_json(at, &args);
    assert_eq!(found["joint_peak_gib"], 2560);
    assert_eq!(found["own_peaks_gib"], serde_json::json!([2048, 2048]));
    for (text, says) in [
        ("a,b\n1,2\n3,much\n", "trace.csv:3"),
        ("a,b\n1,2\n3\n", "trace.csv:3"),
        ("a\n1\n", "1 hosts and --pool says 2"),
        ("", "no hosts"),
        ("time\n1\n", "no hosts"),
    ] {
        trace(text);
        let ended = tierloom(at, &[&["cost"], &args[..]].concat()).with_code(2);
        assert!(
            ended.one_error().contains(says),
            "{text:?}: {}",
            ended.stderr
        );
    }
    for (args, says) in [
        (&["--pool", "2"][..], "BASE..PEAK"),
        (&["--pool", "2", "--demand", "2TiB..1TiB"], "BASE..PEAK"),
        (
            &["--pool", "0", "--demand", "1TiB..2TiB"],
            "at least one host",
        ),
        (
            &["--pool", "2", "--demand", "1TiB..2TiB", "--joint-peak", "2"],
            "60%",
        ),
        (&["--pool", "2", "--trace", "none.csv"], "none.csv"),
        (
            &["--pool", "2", "--demand", "1TiB..2TiB", "--step", "1TiB"],
            "--step",
        ),
    ] {
        let ended = tierloom(at, &[&["cost"], args].concat()).with_code(2);
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    }
}
