//! `tierloom predict`: it prints what the model gives, everything is marked as modelled, and no
//! mistake is ignored.

mod common;

use common::{refused, tierloom, tierloom_anywhere};
use serde_json::{Value, json};
use std::fs;
use tierloom_model::reference::work::{Join, Work};
use tierloom_model::{Options, Phase, Placement, TierShares, profiles, solve_all};
use tierloom_record::{
    DataCard, EngineKind, HERE, HostCard, Provenance, QueryRecord, Record, RecordWriter, RunRecord,
    SCHEMA, Settings, Spread,
};

const PROBE: [&str; 5] = ["predict", "--machine", "nus24", "--work", "probe"];

fn document(args: &[&str]) -> Value {
    let ended = tierloom_anywhere(&[args, &["--json"]].concat()).with_code(0);
    ended.no_panic();
    serde_json::from_str(&ended.stdout).expect("one JSON document and nothing else")
}

fn rate(result: &Value) -> f64 {
    result["tuples_per_s"]["value"].as_f64().expect("a rate")
}

fn phases() -> Vec<Phase> {
    Work::Probe(Join::default()).phases(32).unwrap()
}

/// The library's result for the default probe.
fn modelled(shares: TierShares) -> f64 {
    let machine = profiles::load("nus24").unwrap();
    let placement = Placement::new(shares);
    let solution = solve_all(&machine, &phases(), &placement, 32, &Options::default()).unwrap();
    1e9 / solution.time_ns * 1e9
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

#[test]
fn figures_are_those_of_the_library_and_marked_as_modelled() {
    let both = TierShares::from_weights(&[("dram", 3.0), ("cxl", 2.0)]).unwrap();
    let more = ["--placement", "3:2", "--versus", "dram"];
    let all = document(&[&PROBE[..], &more].concat());
    let one = &all["predictions"][0];
    assert_eq!(all["provenance"], "modelled");
    assert_eq!(
        (&one["provenance"], &one["machine"]),
        (&json!("modelled"), &json!("nus24"))
    );
    assert_eq!(one["workers"], 32);
    let (own, other) = (rate(&one["result"]), rate(&one["versus"]));
    assert!(close(own, modelled(both)) && close(other, modelled(TierShares::all("dram"))));
    assert!(close(one["gain"]["value"].as_f64().unwrap(), own / other));
    let text = tierloom_anywhere(&[&PROBE[..], &more].concat()).with_code(0);
    assert!(
        text.stdout.starts_with("Modelled on nus24 ("),
        "{}",
        text.stdout
    );
    assert!(
        text.stdout.contains("Throughput (modelled): "),
        "{}",
        text.stdout
    );
    assert!(
        text.stdout.contains(&format!("{:.3}x", own / other)),
        "{}",
        text.stdout
    );
    assert_eq!(text.stderr, "");
}

#[test]
fn the_range_holds_the_figure_and_a_certain_machine_has_only_what_checks_miss() {
    let range = |document: &Value| {
        let rate = &document["predictions"][0]["result"]["tuples_per_s"];
        ["low", "value", "high"].map(|key| rate[key].as_f64().unwrap())
    };
    let [low, value, high] = range(&document(&PROBE));
    assert!(low < value && value < high);
    let folder = tempfile::tempdir().unwrap();
    let mut machine = profiles::load("nus24").unwrap();
    for figure in machine.figures() {
        let own = machine.number(&figure.path).unwrap().clone();
        let sure = own.within(figure.value, figure.value);
        machine.set_number(&figure.path, sure).unwrap();
    }
    fs::write(folder.path().join("sure.yaml"), machine.to_yaml().unwrap()).unwrap();
    let args = [
        "predict",
        "--machine",
        "./sure.yaml",
        "--work",
        "probe",
        "--json",
    ];
    let ended = tierloom(folder.path(), &args).with_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let [low, value, high] = range(&document);
    let checked = &document["predictions"][0]["checked"];
    let worst = checked["worst"].as_f64().unwrap();
    // The error that is largest says how far the truth may be on one side.
    let (below, above) = (value / low - 1.0, 1.0 - value / high);
    assert!(
        (below.max(above) - worst).abs() < 1e-9,
        "{below} {above} {worst}"
    );
}

#[test]
fn an_answer_says_how_well_its_kind_of_work_is_known() {
    let on = |work: &str| {
        let args = [
            "predict",
            "--machine",
            "nus24",
            "--work",
            work,
            "--placement",
            "3:2",
            "--versus",
            "dram",
        ];
        tierloom_anywhere(&args).with_code(0).stdout
    };
    let ssb = on("ssb");
    assert!(
        ssb.contains("How well rates are known: ssb: checked on "),
        "{ssb}"
    );
    assert!(
        ssb.contains("How well comparisons are known: ssb: checked on "),
        "{ssb}"
    );
    let probe = on("aggregate");
    assert!(
        probe.contains("no check of this kind of work has such a value; all kinds: checked on "),
        "{probe}"
    );
}

#[test]
fn sensitivity_names_what_decides_first_with_kind_and_source() {
    let args = [
        "predict",
        "--machine",
        "nus24",
        "--work",
        "read",
        "--sensitivity",
    ];
    let all = document(&args);
    let one = &all["predictions"][0];
    let effects = one["sensitivity"].as_array().unwrap();
    assert_eq!(
        effects.len(),
        profiles::load("nus24").unwrap().figures().len()
    );
    assert_eq!(effects[0]["figure"]["path"], "tiers[0].read_gbps");
    assert!((effects[0]["elasticity"].as_f64().unwrap() - 1.0).abs() < 0.02);
    assert!(!effects[0]["figure"]["source"].as_str().unwrap().is_empty());
    let terms = one["terms"].as_array().unwrap();
    assert!(terms.iter().any(|t| t["term"] == "rfo"));
    let text = tierloom_anywhere(&args).with_code(0).stdout;
    let kind = effects[0]["figure"]["kind"].as_str().unwrap().to_owned();
    let rows = |text: &str| text.matches("\n│ ").count();
    assert!(
        text.contains("dram read bandwidth") && text.contains(&kind),
        "{text}"
    );
    let everything = tierloom_anywhere(&[&args[..], &["--all"]].concat())
        .with_code(0)
        .stdout;
    assert!(rows(&everything) > rows(&text) + 20, "{everything}");
    assert!(everything.contains("tlb.walkers"), "{everything}");
}

#[test]
fn terms_and_loads_of_others_change_the_answer_and_are_told() {
    let write = ["predict", "--machine", "nus24", "--work", "write"];
    let of = |more: &[&str]| document(&[&write[..], more].concat())["predictions"][0].clone();
    let (plain, without) = (of(&[]), of(&["--off", "rfo,llc"]));
    assert!(rate(&without["result"]) > rate(&plain["result"]) * 1.2);
    assert_eq!(without["terms_off"], json!(["llc", "rfo"]));
    let loaded = of(&["--background", "dram:read=10"]);
    assert!(rate(&loaded["result"]) < rate(&plain["result"]) * 0.9);
    assert_eq!(loaded["background"][0]["read_gbps"], 10.0);
    let fewer = of(&["--workers", "1"]);
    assert!(rate(&fewer["result"]) < rate(&plain["result"]) && fewer["workers"] == 1);
    let more = ["--off", "rfo", "--background", "dram:read=10"];
    let text = tierloom_anywhere(&[&write[..], &more].concat())
        .with_code(0)
        .stdout;
    let heading = text.lines().next().unwrap();
    assert!(
        heading.contains("without the terms rfo") && heading.contains("dram loaded by others"),
        "{heading}"
    );
}

#[test]
fn work_from_words_from_yaml_and_as_phases_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let work = Work::Probe(Join {
        table_bytes: 4.0 * 2f64.powi(30),
        ..Join::default()
    });
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("work.yaml", "probe: { table_bytes: 4294967296 }\n".into());
    write("work.json", serde_json::to_string(&work).unwrap());
    write(
        "phases.json",
        serde_json::to_string(&work.phases(32).unwrap()).unwrap(),
    );
    // JSON is also YAML.
    write(
        "phases.yaml",
        serde_json::to_string_pretty(&work.phases(32).unwrap()).unwrap(),
    );
    let mut rates = Vec::new();
    for what in [
        ["--work", "probe:table_bytes=4GiB"],
        ["--work", "work.yaml"],
        ["--work", "./work.json"],
        ["--phases", "phases.json"],
        ["--phases", "phases.yaml"],
    ] {
        let args = [&["predict", "--machine", "nus24"][..], &what, &["--json"]].concat();
        let ended = tierloom(folder.path(), &args).with_code(0);
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        rates.push(rate(&document["predictions"][0]["result"]));
    }
    assert!(rates.iter().all(|r| close(*r, rates[0])), "{rates:?}");
}

fn run(run_id: &str) -> Record {
    Record::Run(Box::new(RunRecord {
        schema: SCHEMA.into(),
        run_id: run_id.into(),
        tool_version: "0.1.0".into(),
        commit: None,
        build: "dev".into(),
        started_at: "2025-01-01T00:00:00Z".into(),
        command: vec![],
        workload: "ssb".into(),
        settings: Settings {
            scale_factor: 1.0,
            seed: 1,
            generator_version: 1,
            threads: 2,
            modelled_workers: "all cores".into(),
            repeat: 1,
            warmup: 1,
            page_size: "thp".into(),
            batch_rows: 8192,
            queries: vec![],
            placements: vec![],
            machines: vec![],
            time_per_tuple_ns: None,
        },
        host: HostCard {
            cpu_model: "Sample".into(),
            cpus: 2,
            smt: 1,
            caches: vec![],
            kernel: "6.1".into(),
            thp: "madvise".into(),
            numa_balancing: None,
            governor: "performance".into(),
            memory_bytes: 1 << 30,
            tiers: vec![],
            probe: None,
            notes: vec![],
        },
        machines: vec![],
        data: DataCard {
            tables: vec![],
            column_bytes: 10,
            region_bytes: 4096,
        },
    }))
}

fn query(run_id: &str, phases: Vec<Phase>) -> Record {
    Record::Query(Box::new(QueryRecord {
        run_id: run_id.into(),
        query: "q2.1".into(),
        placement: "dram".into(),
        machine: HERE.into(),
        provenance: Provenance::Measured,
        engine: EngineKind::Tierloom,
        time_ms: Spread::of(vec![1.0]).unwrap(),
        speedup_over_dram: None,
        plan_ms: None,
        text_ms: None,
        answer: None,
        shares: None,
        bottleneck: None,
        tiers: vec![],
        phases,
        operators: vec![],
        counters: vec![],
    }))
}

fn lines(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, "memory");
    for record in records {
        writer.write(record).unwrap();
    }
    bytes
}

#[test]
fn a_recorded_query_is_priced_by_its_last_captured_phases() {
    let folder = tempfile::tempdir().unwrap();
    let older = vec![phases()[0].clone().compute_ns(500.0)];
    let records = [
        run("a"),
        query("a", older),
        run("b"),
        query("b", phases()),
        query("b", vec![]),
    ];
    fs::write(folder.path().join("r.jsonl"), lines(&records)).unwrap();
    let args = [
        "predict",
        "--machine",
        "nus24",
        "--query",
        "q2.1",
        "--from",
        "r.jsonl",
    ];
    let placed = [&args[..], &["--placement", "hash-table=cxl", "--json"]].concat();
    let ended = tierloom(folder.path(), &placed).with_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["work"], "q2.1 of run b");
    let ended = tierloom(folder.path(), &args).with_code(0);
    assert!(ended.stdout.contains("q2.1 of run b") && ended.stdout.contains("probe"));
    assert!(
        ended.stderr.contains("note: the work of q2.1 was captured"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("more than once"), "{}", ended.stderr);
    let wrong = [
        "predict",
        "--machine",
        "nus24",
        "--query",
        "q2.2",
        "--from",
        "r.jsonl",
    ];
    refused(
        folder.path(),
        &wrong,
        &["no phases of query \"q2.2\"", "did you mean q2.1?"],
    );
    fs::write(
        folder.path().join("r.jsonl"),
        lines(&[run("a"), query("a", vec![])]),
    )
    .unwrap();
    refused(
        folder.path(),
        &args,
        &["no query in it has captured phases", "--placement dram"],
    );
}

#[test]
fn every_machine_is_answered_and_a_wrong_one_leaves_nothing_half_printed() {
    let args = ["predict", "--work", "ssb:query=all", "--machine"];
    let two = tierloom_anywhere(&[&args[..], &["nus24,epfl25-full-pf-on"]].concat()).with_code(0);
    for machine in ["nus24", "epfl25-full-pf-on"] {
        assert!(
            two.stdout.contains(&format!("Modelled on {machine} (")),
            "{}",
            two.stdout
        );
    }
    let folder = tempfile::tempdir().unwrap();
    refused(
        folder.path(),
        &[&args[..], &["nus24,nus42"]].concat(),
        &["did you mean nus24?"],
    );
}

#[test]
fn bad_input_is_named_with_what_may_stand_there() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.yaml"), "probe: { tabel: 1 }\n").unwrap();
    fs::write(folder.path().join("bad.json"), "[{\"name\": 1}]").unwrap();
    fs::write(folder.path().join("idle.json"), "[]").unwrap();
    let machine = ["predict", "--machine", "nus24"];
    for (more, says) in [
        (&["--work", "prob"][..], &["did you mean probe?"][..]),
        (
            &["--work", "probe:tabel_bytes=1"],
            &["did you mean table_bytes?"],
        ),
        (&["--work", "scan:selectivity=2"], &["selectivity is 2"]),
        (&["--work", "bad.yaml"], &["bad.yaml", "tabel"]),
        (
            &["--phases", "bad.json"],
            &["bad.json", "not a list of phases"],
        ),
        (&["--phases", "idle.json"], &["no phase does any work"]),
        (
            &["--phases", "none.json"],
            &["cannot read phases none.json"],
        ),
        (
            &["--work", "probe", "--placement", "tabel=cxl"],
            &["did you mean table?", "hash-table"],
        ),
        (
            &["--work", "probe", "--placement", "hbm"],
            &["has no tier \"hbm\""],
        ),
        (
            &["--work", "probe", "--versus", "0:0"],
            &["no weight is above 0"],
        ),
        (&["--work", "probe", "--off", "tbl"], &["did you mean tlb?"]),
        (
            &["--work", "probe", "--background", "cxl"],
            &["such as cxl:read=40"],
        ),
        (
            &["--work", "probe", "--background", "hbm:read=4"],
            &["names tier \"hbm\"", "dram, cxl"],
        ),
    ] {
        refused(folder.path(), &[&machine[..], more].concat(), says);
    }
    for more in [
        &[][..],
        &["--work", "probe", "--query", "q1.1"],
        &["--query", "q1.1"],
        &["--work", "probe", "--workers", "0"],
        &["--work", "probe", "--all"],
    ] {
        let ended = tierloom(folder.path(), &[&machine[..], more].concat()).with_code(2);
        assert_eq!(ended.stdout, "", "{more:?}");
        ended.no_panic();
    }
}

#[test]
fn policies_are_compared_for_any_seed_and_marked_as_modelled() {
    let args = [
        "predict",
        "policies",
        "--machine",
        "nus24",
        "--work",
        "chase",
    ];
    let seed = std::process::id().to_string();
    let short = ["--machines", "1", "--seed", &seed];
    let result = document(&[&args[..], &short[..]].concat());
    assert_eq!(result["schema"], json!("tierloom-policies/1"));
    assert_eq!(result["provenance"], json!("modelled"));
    let policies = result["works"][0]["policies"].as_array().unwrap();
    let mean = |name: &str| {
        let of_name = policies.iter().find(|p| p["policy"] == json!(name));
        of_name.expect(name)["mean"].as_f64().unwrap()
    };
    // Accesses that depend on each other gain nothing from a tier that is slower.
    assert!(mean("3:2") > mean("9:1"), "seed {seed}: {result}");
    assert!(mean("9:1") > mean("first touch"), "seed {seed}: {result}");
    assert!(mean("Tierloom") < mean("9:1"), "seed {seed}: {result}");
    for (wrong, said) in [
        (["--machine", "nope"], "unknown machine"),
        (["--machines", "0"], "--machines"),
        (["--work", "nope"], "--work"),
    ] {
        let ended = tierloom_anywhere(&[&["predict", "policies"], &wrong[..]].concat());
        let ended = ended.with_code(2);
        ended.no_panic();
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
