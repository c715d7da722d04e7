//! `tierloom calibrate`: fits of profiles to figures and to measured runs.

mod common;

use common::{contents, profile, refused, repository, tierloom};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tierloom_model::{Machine, SourceKind};

const FIGURES: &str = r#"schema: tierloom-figures/2
paper: MADE
citation: "somebody, something, 2020"
defaults: { machine: nus24, role: fitted, work: { read: {} }, quantity: gbps, tool: tool, what: "a read" }
figures:
  - { id: dram, placement: dram, published: 33 }
  - { id: cxl, placement: cxl, published: 18, tool: [] }
  - { id: check, placement: "3:2", role: check, published: 50 }
"#;

const CALIBRATION: &str = r#"schema: tierloom-calibration/1
figures: [../figures/made.yaml]
parameters:
  - name: cxl
    sets: [{ machine: nus24, path: "tiers[cxl].read_gbps" }]
    start: 20
    low: 10
    high: 30
    why: "the \"peak\""
  - name: tool
    sets: [{ constant: tool }]
    start: 0.9
    low: 0.5
    high: 2
    why: "what the tool counts"
  - name: silent
    sets: [{ machine: nus24, path: "concurrency.random" }]
    start: 11
    low: 5
    high: 20
    why: "random loads"
"#;

/// A folder with figures, constants, a calibration file and a copy of a profile whose tiers lose
/// nothing by overload, so that readers who fill one get its peak.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["figures", "calibration", "machines"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("figures/made.yaml", FIGURES);
    write(
        "figures/constants.yaml",
        "schema: tierloom-constants/1\n# mine\nconstants: {}\n",
    );
    write("calibration/made.yaml", CALIBRATION);
    let profile = profile("nus24");
    let lines = profile.split_inclusive('\n');
    let lossless: String = lines.filter(|l| !l.contains("overload_loss:")).collect();
    assert!(lossless.len() < profile.len());
    write("machines/nus24.yaml", &lossless);
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn profiles_and_constants_change_in_their_numbers_alone_and_a_second_run_changes_nothing() {
    let folder = folder();
    let before = read(folder.path(), "machines/nus24.yaml");
    let ended = tierloom(folder.path(), &["calibrate", "calibration/made.yaml"]).with_code(0);
    assert!(
        ended.stdout.contains("median error 0.0%"),
        "{}",
        ended.stdout
    );
    let after = read(folder.path(), "machines/nus24.yaml");
    let changed: Vec<(&str, &str)> = before
        .lines()
        .zip(after.lines())
        .filter(|(a, b)| a != b)
        .collect();
    assert_eq!(
        (changed.len(), before.lines().count()),
        (2, after.lines().count()),
        "{changed:?}"
    );
    let machine = Machine::from_yaml(&after, "m").unwrap();
    let cxl = machine.number("tiers[cxl].read_gbps").unwrap();
    assert_eq!((cxl.kind, cxl.value), (SourceKind::Fitted, 18.0));
    assert_eq!(
        cxl.source,
        "fitted to 1 figure of MADE by calibration/made.yaml: the \"peak\""
    );
    assert!(cxl.low.unwrap() < 18.0 && cxl.high.unwrap() > 18.0);
    assert_eq!(
        machine.number("concurrency.random").unwrap().kind,
        SourceKind::Assumed
    );
    let constants = read(folder.path(), "figures/constants.yaml");
    assert!(
        constants.contains("# mine\nconstants:\n  tool: { value: 1.1"),
        "{constants}"
    );
    let state = contents(folder.path());
    let again = tierloom(folder.path(), &["calibrate", "calibration/made.yaml"]).with_code(0);
    assert!(
        again.stderr.contains("nothing to write"),
        "{}",
        again.stderr
    );
    assert!(contents(folder.path()) == state);
}

#[test]
fn a_dry_run_writes_nothing_and_a_folder_takes_the_files() {
    let folder = folder();
    let state = contents(folder.path());
    let dry = tierloom(
        folder.path(),
        &["calibrate", "calibration/made.yaml", "--dry-run", "--json"],
    )
    .with_code(0);
    assert!(contents(folder.path()) == state);
    let fits: Value = serde_json::from_str(&dry.stdout).unwrap();
    let parameters = fits[0]["parameters"].as_array().unwrap();
    assert_eq!(parameters[0]["informed_by"], serde_json::json!(["cxl"]));
    assert_eq!(parameters[2]["knowledge"], "undetermined");
    assert_eq!(
        fits[0]["after"].as_array().unwrap().len(),
        2,
        "check figures stay out"
    );
    fs::create_dir(folder.path().join("out")).unwrap();
    tierloom(
        folder.path(),
        &["calibrate", "calibration/made.yaml", "-o", "out"],
    )
    .with_code(0);
    assert_eq!(
        read(folder.path(), "machines/nus24.yaml"),
        state[&folder.path().join("machines/nus24.yaml")]
            .as_ref()
            .map(|b| String::from_utf8(b.clone()).unwrap())
            .unwrap()
    );
    for name in ["out/nus24.yaml", "out/constants.yaml"] {
        assert!(read(folder.path(), name).contains("kind: fitted"), "{name}");
    }
}

#[test]
fn wrong_files_are_refused_and_nothing_is_written() {
    let folder = folder();
    let path = folder.path();
    let broken = |from: &str, to: &str| {
        fs::write(
            path.join("calibration/bad.yaml"),
            CALIBRATION.replace(from, to),
        )
        .unwrap()
    };
    let args = ["calibrate", "calibration/bad.yaml"];
    broken("start: 20", "strat: 20");
    refused(path, &args, &["bad.yaml:6:", "did you mean \"start\"?"]);
    broken("tiers[cxl].read_gbps", "tiers[cxl].read_gbs");
    refused(
        path,
        &args,
        &["bad.yaml:4:", "add it there", "tiers[cxl].read_gbps"],
    );
    broken(
        "machine: nus24, path: \"tiers[cxl]",
        "machine: nus23, path: \"tiers[cxl]",
    );
    refused(path, &args, &["needs machine \"nus23\"", "nus24"]);
    broken("made.yaml]", "none.yaml]");
    refused(path, &args, &["none.yaml"]);
    refused(
        path,
        &["calibrate", "calibration/made.yaml", "-o", "none"],
        &["there is no such folder"],
    );
    let folded =
        read(path, "machines/nus24.yaml").replacen("read_gbps: {", "read_gbps: {\n      ", 2);
    fs::write(path.join("machines/nus24.yaml"), folded).unwrap();
    refused(
        path,
        &["calibrate", "calibration/made.yaml"],
        &["machines/nus24.yaml", "one line"],
    );
}

#[test]
fn a_fitted_figure_that_the_calibration_cannot_move_is_refused() {
    let folder = folder();
    let idle = "  - { id: idle, work: { chase: { footprint_bytes: 1e5 } }, threads: 1, placement: dram, tier: dram, quantity: tier_latency_ns, tool: [], published: 96 }\n";
    fs::write(
        folder.path().join("figures/made.yaml"),
        format!("{FIGURES}{idle}"),
    )
    .unwrap();
    refused(
        folder.path(),
        &["calibrate", "calibration/made.yaml"],
        &["made.yaml:9: figure \"idle\" has role fitted", "chosen"],
    );
}

#[test]
fn every_calibration_of_the_repository_runs_and_its_profiles_are_its_output() {
    let files = fs::read_dir(repository().join("calibration")).unwrap();
    let mut names: Vec<String> = files
        .map(|f| f.unwrap().path().display().to_string())
        .filter(|p| p.ends_with(".yaml"))
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    let args: Vec<&str> = ["calibrate", "--dry-run", "--json"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    let fits: Value =
        serde_json::from_str(&common::tierloom_anywhere(&args).with_code(0).stdout).unwrap();
    let constants = tierloom_calibrate::builtin::constants().unwrap();
    for fit in fits.as_array().unwrap() {
        for value in fit["values"].as_array().unwrap() {
            let number = value["number"].as_str().unwrap();
            let (machine, path) = number.split_once(' ').unwrap();
            let written = if machine == "constant" {
                constants[path].clone()
            } else {
                let profile = tierloom_model::profiles::load(machine).unwrap();
                profile.number(path).unwrap().clone()
            };
            let fitted = value["value"]["value"].as_f64().unwrap();
            let off = (written.value / fitted - 1.0).abs();
            assert!(
                off < 1e-3,
                "{number} is {} in the profile, {fitted} fitted: run `tierloom calibrate calibration/*.yaml`",
                written.value
            );
        }
    }
}

/// The record of a run of `tierloom bench` that reads `gbps` GB/s with `threads` threads from
/// `node`.
fn run(threads: u32, node: u32, gbps: f64) -> String {
    let spread = |x: f64| serde_json::json!({ "min": x, "median": x, "max": x, "values": [x] });
    let shares = serde_json::json!([{ "node": node, "share": 1.0 }]);
    let audit = serde_json::json!({ "bytes_checked": 1u64 << 36, "pages_checked": 1, "pages_absent": 0, "requested": shares, "effective": shares, "actual": shares, "worst_deviation": 0.0 });
    let region = serde_json::json!({ "memory": { "kind": "anonymous" }, "size_bytes": 1u64 << 36, "page_size": "thp", "placement": node.to_string() });
    let access = serde_json::json!({ "operation": "read", "order": "ascending", "access_bytes": 64, "stride_bytes": 64, "cache_op": "none", "prefetch_bytes": 0, "simd": "avx512" });
    let task = serde_json::json!({ "name": "main", "role": "main", "host": null, "work": { "kind": "throughput", "access": access, "batch_bytes": 67108864, "sharing": "queue" }, "regions": [region], "workers": { "threads": threads, "pin": { "kind": "free" } }, "amount": { "seconds": 1.0 }, "rate_gbps": null });
    let plan = serde_json::json!({ "id": "0123456789abcdef", "workload": "w", "file": "", "line": 0, "varied": [], "tasks": [task], "repeat": 1, "warmup_s": 0.0, "until_stable": null, "seed": 1 });
    let done = serde_json::json!({ "name": "m0", "memory": "anonymous memory", "size_bytes": 1u64 << 36, "page_size": "thp", "placement": node.to_string(), "resolved": node.to_string(), "before": audit, "after": audit, "moved_pages": 0, "huge_share": 1.0, "note": null });
    let result = serde_json::json!({ "name": "main", "role": "main", "host": "here", "access": "read, ascending, 64 B, avx512", "kind": "throughput", "regions": [done], "threads": threads, "cpus": ["0"], "bandwidth_gbps": spread(gbps), "operations_per_s": spread(gbps * 1e9 / 64.0), "bytes_per_operation": 64, "operations": 1, "thread_gbps": [], "rate_gbps": null, "latency": null, "counters": [], "data_check": null, "prepare_s": 0.1, "overhead_per_batch_ns": null });
    serde_json::json!({ "type": "bench", "schema": "tierloom-record/1", "provenance": "measured", "run_id": "0123456789abcdef", "session_id": "s", "workload": "w", "file": "", "line": 0, "varied": [{ "key": "threads", "value": threads.to_string() }], "plan": plan, "started_at": "2026-01-01T00:00:00Z", "elapsed_s": 1.0, "tool_version": "0.1.0", "commit": null, "build": "release", "command": [], "hosts": [], "tasks": [result], "valid": true, "remarks": [], "stability": null }).to_string() + "\n"
}

#[test]
fn a_profile_is_fitted_to_measured_runs_and_what_is_no_figure_is_told() {
    let folder = folder();
    let bad = run(1, 0, 3.0).replace("\"valid\":true", "\"valid\":false");
    let other = run(1, 7, 3.0);
    let records = [
        run(32, 0, 24.0),
        run(32, 1, 15.0),
        run(16, 1, 15.0),
        bad,
        other,
    ]
    .concat();
    fs::write(folder.path().join("r.jsonl"), records).unwrap();
    let args = [
        "calibrate",
        "--machine",
        "machines/nus24.yaml",
        "--records",
        "r.jsonl",
        "--tier",
        "0=dram,1=cxl",
        "-o",
        "mine.yaml",
    ];
    let ended = tierloom(folder.path(), &args).with_code(0);
    assert!(
        ended
            .stderr
            .contains("skipped: run 4 (w: threads=1): the record says"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains(
            "skipped: run 5 (w: threads=1): node 7 has no tier; name it with --tier 7=.."
        ),
        "{}",
        ended.stderr
    );
    let mine = Machine::from_yaml(&read(folder.path(), "mine.yaml"), "mine.yaml").unwrap();
    let base = tierloom_model::profiles::load("nus24").unwrap();
    let (dram, cxl) = (
        mine.number("tiers[dram].read_gbps").unwrap(),
        mine.number("tiers[cxl].read_gbps").unwrap(),
    );
    assert!(
        (dram.value / 24.0 - 1.0).abs() < 0.02 && (cxl.value / 15.0 - 1.0).abs() < 0.02,
        "{} {}",
        dram.value,
        cxl.value
    );
    assert_eq!(dram.kind, SourceKind::Fitted);
    assert_eq!(
        mine.number("tlb.walk_ns"),
        base.number("tlb.walk_ns"),
        "what no run depends on stays"
    );
}

#[test]
fn measured_runs_without_tiers_profile_or_use_are_refused() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("r.jsonl"), run(32, 0, 24.0)).unwrap();
    let with = |more: &[&str]| -> Vec<String> {
        let base = ["calibrate", "--machine", "nus24", "--records", "r.jsonl"];
        base.iter().chain(more).map(|s| (*s).to_owned()).collect()
    };
    for (more, says) in [
        (
            &["--tier", "0=hbm", "-o", "m.yaml"][..],
            "has no tier \"hbm\"",
        ),
        (&["--tier", "dram", "-o", "m.yaml"], "expected NODE=TIER"),
        (&["--tier", "0=dram,0=cxl", "-o", "m.yaml"], "given twice"),
        (&["--tier", "0=dram"], "where should the profile go?"),
        (&["--tier", "0=dram", "-o", "r.jsonl"], "is read from"),
        (
            &["--tier", "1=cxl", "-o", "m.yaml"],
            "no run in it can be fitted",
        ),
    ] {
        let args = with(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refused(path, &args, &[says]);
    }
}
