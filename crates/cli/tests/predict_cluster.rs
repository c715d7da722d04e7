//! `tierloom predict --nodes`: one machine behind a free network is one process, more of a scarce
//! thing is never slower, and every mistake is one error.

mod common;

use common::{refused, tierloom, tierloom_anywhere};
use serde_json::Value;

const SSB: [&str; 5] = [
    "predict",
    "--machine",
    "nus24",
    "--work",
    "ssb:query=all,compute_ns=5",
];
const BALLISTA: [&str; 2] = ["--backend", "ballista"];
const TPCH: [&str; 5] = ["predict", "--machine", "nus24", "--work", "tpch"];
const NETWORK: [&str; 4] = ["--network-gbps", "12.5", "--network-us", "50"];

/// Options with which scheduler and network cost next to nothing.
const FREE: [&str; 14] = [
    "--network-gbps",
    "1e12",
    "--network-us",
    "0",
    "--statement-ms",
    "0",
    "--task-us",
    "0",
    "--task-shard-us",
    "0",
    "--shard-us",
    "0",
    "--fetch-us",
    "0",
];

fn document(args: &[&[&str]]) -> Value {
    let ended = tierloom_anywhere(&[&args.concat()[..], &["--json"]].concat()).with_code(0);
    ended.no_panic();
    serde_json::from_str(&ended.stdout).expect("one JSON document and nothing else")
}

fn clusters(document: &Value) -> &Vec<Value> {
    document["predictions"][0]["clusters"].as_array().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {value}"))
}

#[test]
fn one_machine_behind_a_free_network_takes_what_predict_says_without_nodes() {
    let all = [SSB, TPCH].map(|work| ["ballista", "distributed"].map(|backend| (work, backend)));
    for (work, backend) in all.into_iter().flatten() {
        let alone = document(&[&work]);
        let solution = &alone["predictions"][0]["result"]["solution"];
        let ms = number(solution, "time_ns") / 1e6;
        let one = document(&[&work, &["--nodes", "1", "--backend", backend], &FREE]);
        let cluster = &clusters(&one)[0];
        for key in ["time_ms", "one_process_ms"] {
            let apart = (number(cluster, key) / ms - 1.0).abs();
            assert!(apart < 1e-6, "{work:?} {key}: {apart}");
        }
        assert_eq!(cluster["round"]["moved_bytes"], 0.0);
    }
}

#[test]
fn everything_is_modelled_and_ranges_hold_the_answers() {
    let all = document(&[&SSB, &["--nodes", "1,4,16"], &NETWORK]);
    assert_eq!(all["provenance"], "modelled");
    assert_eq!(all["predictions"][0]["provenance"], "modelled");
    let sizes = clusters(&all);
    assert_eq!(sizes.len(), 3);
    for size in sizes {
        let queries = size["queries"].as_array().unwrap();
        assert_eq!(queries.len(), 13);
        for query in queries {
            let [low, time, high] = ["low_ms", "time_ms", "high_ms"].map(|key| number(query, key));
            assert!(low < time && time < high, "{query}");
            let parts = [
                "fixed_ms",
                "giving_out_ms",
                "node_plan_ms",
                "fetch_ms",
                "final_plan_ms",
            ];
            let sum: f64 = parts.map(|key| number(query, key)).iter().sum();
            assert!((sum / time - 1.0).abs() < 1e-6, "{query}");
        }
        let sum: f64 = queries.iter().map(|q| number(q, "time_ms")).sum();
        assert!((sum / number(size, "time_ms") - 1.0).abs() < 1e-9);
        // All that nodes make and do not keep goes over the network.
        let round = &size["round"];
        let made: f64 = queries.iter().map(|q| number(q, "sent_bytes")).sum();
        assert!((number(round, "made_bytes") - made).abs() <= 1e-6 * made);
        assert!(number(round, "moved_bytes") <= made);
    }
    let text = tierloom_anywhere(&[&SSB[..], &["--nodes", "4"], &NETWORK].concat()).with_code(0);
    assert!(
        text.stdout.starts_with("Modelled on clusters of nus24 ("),
        "{}",
        text.stdout
    );
    assert!(text.stdout.contains("q4.3") && text.stdout.contains("No check covers"));
    assert_eq!(text.stderr, "");
}

#[test]
fn more_bandwidth_is_never_slower_and_orders_of_tpch_need_it() {
    let at = |gbps: &str| {
        let network = ["--nodes", "8", "--network-gbps", gbps, "--network-us", "50"];
        document(&[&TPCH, &network, &BALLISTA])
    };
    let (slow, fast) = (at("0.1"), at("12.5"));
    let queries = |d: &Value| clusters(d)[0]["queries"].as_array().unwrap().clone();
    for (slow, fast) in queries(&slow).iter().zip(&queries(&fast)) {
        let (s, f) = (number(slow, "time_ms"), number(fast, "time_ms"));
        assert!(f <= s * (1.0 + 1e-12), "{slow} {fast}");
        if slow["query"] == "q13" {
            assert!(s > 2.0 * f, "{slow} {fast}");
        }
    }
}

#[test]
fn a_thousand_machines_are_held_up_by_the_scheduler() {
    let all = document(&[&SSB, &["--nodes", "10,1000"], &NETWORK, &BALLISTA]);
    let [few, many] = [&clusters(&all)[0], &clusters(&all)[1]];
    assert!(number(many, "time_ms") > number(few, "time_ms"));
    let busy = &many["busy_with_streams"];
    assert!(number(busy, "scheduler") > 0.5, "{busy}");
    assert!(number(busy, "nodes") < 0.5, "{busy}");
    assert!(number(many, "task_bytes") > 10.0 * number(few, "task_bytes"));
    assert_eq!(many["longest_part"], "giving out tasks");
}

#[test]
fn all_machines_end_what_nodes_give_many_rows_of() {
    let at = |nodes, backend: &[&str]| {
        let document = document(&[&TPCH, &["--nodes", nodes], &NETWORK, backend]);
        clusters(&document)[0].clone()
    };
    let (one, all) = (at("16", &BALLISTA), at("16", &[]));
    assert_eq!(
        [&one["backend"], &all["backend"]],
        ["ballista", "distributed"]
    );
    let ends = |cluster: &Value| {
        let queries = cluster["queries"].as_array().unwrap().iter();
        let of = |q: &Value| q["final_plan_on"].as_str().unwrap().to_owned();
        queries.map(of).collect::<Vec<_>>()
    };
    // Three queries read no table in shards.
    let count = |cluster, on: &str| ends(cluster).iter().filter(|found| *found == on).count();
    assert_eq!(
        [count(&one, "one node"), count(&one, "nobody")],
        [19, 3],
        "{one}"
    );
    // Rows of q13, q17, q20 and q22, and states of q10 and q15 that are more than 64 MiB.
    let of_all = [
        count(&all, "client"),
        count(&all, "all nodes"),
        count(&all, "nobody"),
    ];
    assert_eq!(of_all, [13, 6, 3], "{all}");
    assert!(number(&all, "time_ms") < number(&one, "time_ms"));
    assert!(all["busy_with_streams"].get("client").is_some(), "{all}");
}

#[test]
fn mistakes_are_one_error_before_anything_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let with = |args: &[&[&str]], says: &[&str]| refused(folder.path(), &args.concat(), says);
    with(&[&SSB, &["--nodes", "0"], &NETWORK], &["nodes is 0"]);
    with(
        &[&SSB, &["--nodes", "20000"], &NETWORK],
        &["nodes is 20000; expected 1 to 10000"],
    );
    let probe = ["predict", "--machine", "nus24", "--work", "probe"];
    with(
        &[&probe, &["--nodes", "2"], &NETWORK],
        &["probe has no tables"],
    );
    let network = ["--nodes", "2", "--network-us", "50", "--network-gbps"];
    with(&[&SSB, &network, &["0"]], &["network bandwidth in GB/s 0"]);
    with(&[&SSB, &network, &["inf"]], &["network bandwidth is inf"]);
    let more = ["--nodes", "2", "--task-us", "NaN"];
    with(&[&SSB, &more, &NETWORK], &["time of a task in us NaN"]);
    let files = ["--nodes", "2", "--shuffle", "cxl"];
    with(&[&SSB, &files, &NETWORK], &["write no rows to files"]);
    let placed = ["--nodes", "2", "--placement", "pmem"];
    with(&[&SSB, &placed, &NETWORK], &["pmem"]);
    for args in [
        &["--nodes", "2"][..],
        &["--network-gbps", "1", "--network-us", "1"],
        &[
            "--nodes",
            "2",
            "--network-gbps",
            "1",
            "--network-us",
            "1",
            "--versus",
            "cxl",
        ],
    ] {
        let ended = tierloom(folder.path(), &[&SSB, args].concat()).with_code(2);
        assert_eq!(ended.stdout, "");
    }
}
