//! `tierloom characterize` on this machine: a profile that other commands accept, with the source
//! and range of every number.

mod common;

use common::{command, contents, end_of, refused, tierloom, wait};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tierloom_model::{Machine, Options, Phase, PhaseKind, Placement, TierShares, solve};
use tierloom_record::RecordSet;

/// The smallest region allowed keeps the measurement short; its figures are those of caches.
const SMALL: [&str; 5] = ["characterize", "--region", "8", "--pages", "4k"];

/// Limit for a condition to become true.
const SLOW: Duration = Duration::from_secs(200);

/// The result of one characterization, shared by all tests because it takes half a minute.
struct Made {
    machine: Machine,
    records: RecordSet,
    stdout: String,
    folder: tempfile::TempDir,
}

fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let args = ["-o", "m.yaml", "--name", "mine", "--records", "r.jsonl"];
        let ended = tierloom(folder.path(), &[&SMALL[..], &args].concat()).with_code(0);
        ended.no_panic();
        let yaml = fs::read_to_string(folder.path().join("m.yaml")).unwrap();
        Made {
            machine: Machine::from_yaml(&yaml, "m.yaml").unwrap_or_else(|e| panic!("{e}\n{yaml}")),
            records: RecordSet::read(&folder.path().join("r.jsonl")).expect("a whole file"),
            stdout: ended.stdout,
            folder,
        }
    })
}

#[test]
fn other_commands_take_the_profile() {
    let made = made();
    let shown = tierloom(made.folder.path(), &["machines", "m.yaml"]).with_code(0);
    shown.no_panic();
    assert!(shown.stdout.contains("mine"), "{}", shown.stdout);
    assert!(made.stdout.contains("measured"), "{}", made.stdout);
    let again = Machine::from_yaml(&made.machine.to_yaml().unwrap(), "again.yaml").unwrap();
    assert_eq!(again, made.machine, "reading and writing keep every number");
}

/// Every number of a profile, with the path to it.
fn values<'v>(at: &str, value: &'v Value, found: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(fields) if fields.contains_key("value") => found.push((at.into(), value)),
        Value::Object(fields) => {
            for (name, field) in fields {
                values(&format!("{at}.{name}"), field, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                values(&format!("{at}[{index}]"), item, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_number_has_a_kind_a_source_and_an_interval_around_it() {
    let machine = serde_json::to_value(&made().machine).unwrap();
    let mut found = Vec::new();
    values("", &machine, &mut found);
    assert!(found.len() > 50, "only {} numbers", found.len());
    for (at, value) in found {
        let number = |field: &str| value[field].as_f64();
        let middle = number("value").unwrap_or_else(|| panic!("{at}: {value}"));
        assert!(middle.is_finite() && middle >= 0.0, "{at}: {value}");
        let kind = value["kind"].as_str().unwrap_or_default();
        assert!(
            ["measured", "derived", "assumed"].contains(&kind),
            "{at}: {value}"
        );
        assert!(
            value["source"].as_str().is_some_and(|s| s.len() > 3),
            "{at}: {value}"
        );
        if let (Some(low), Some(high)) = (number("low"), number("high")) {
            assert!(low <= middle && middle <= high, "{at}: {value}");
        }
        // Every rate and latency below `measurements` was repeated.
        if at.starts_with(".measurements") {
            let known = number("low").is_some() && number("high").is_some();
            assert!(known && kind == "measured", "{at}: {value}");
        }
    }
}

#[test]
fn the_matrix_has_every_initiator_with_every_target() {
    let topology = tierloom_topology::Topology::read(&tierloom_topology::SysRoot::host()).unwrap();
    let allowed = &topology.limits;
    let with_cpus = topology
        .nodes
        .iter()
        .filter(|node| !node.cpus.intersection(&allowed.cpus_allowed).is_empty())
        .map(|node| node.id.0);
    let mut expected = BTreeSet::new();
    for initiator in with_cpus {
        for target in topology.memory_nodes() {
            if allowed.mems_allowed.contains(target.0) {
                expected.insert((initiator, target.0));
            }
        }
    }
    let measured = made().machine.measurements.as_ref().expect("measurements");
    let pairs: Vec<(u32, u32)> = measured
        .paths
        .iter()
        .map(|path| (path.initiator_node, path.target_node))
        .collect();
    assert_eq!(pairs.iter().copied().collect::<BTreeSet<_>>(), expected);
    assert_eq!(pairs.len(), expected.len(), "a pair is there twice");
    for path in &measured.paths {
        for operation in ["read", "write", "stream-write", "random read"] {
            assert!(
                path.rates.iter().any(|rate| rate.operation == operation),
                "no {operation} in {:?}",
                path.rates
            );
        }
    }
}

#[test]
fn every_run_leaves_a_record_from_which_the_profile_can_be_checked() {
    let made = made();
    let dry = tierloom(
        made.folder.path(),
        &[&SMALL[..], &["-o", "none.yaml", "--dry-run"]].concat(),
    )
    .with_code(0);
    let (probes, total) = dry.stdout.trim_end().rsplit_once('\n').unwrap();
    let probes: BTreeSet<&str> = probes.lines().collect();
    assert_eq!(total, format!("{} probes", probes.len()));
    let mut runs_of = std::collections::BTreeMap::new();
    for record in &made.records.benches {
        assert!(record.valid, "{:?}", record.remarks);
        let probe = record.varied.iter().find(|setting| setting.key == "probe");
        let probe = probe.expect("the probe's name").value.clone();
        *runs_of.entry(probe).or_insert(0_usize) += 1;
    }
    let recorded: BTreeSet<&str> = runs_of.keys().map(String::as_str).collect();
    assert_eq!(recorded, probes, "what was announced is what was measured");
    let rounds: BTreeSet<usize> = runs_of.values().copied().collect();
    assert!(rounds.len() == 1 && !rounds.contains(&1), "{runs_of:?}");

    // The profile's read rate of one thread is the median of all repetitions in the records.
    let path = &made.machine.measurements.as_ref().unwrap().paths[0];
    let rate = path
        .rates
        .iter()
        .find(|rate| rate.operation == "read" && rate.threads == 1)
        .unwrap();
    let probe = format!(
        "read, 1 threads, node {} to {} (node {})",
        path.initiator_node, path.tier, path.target_node
    );
    let mut all: Vec<f64> = made
        .records
        .benches
        .iter()
        .filter(|record| record.varied.iter().any(|s| s.value == probe))
        .flat_map(|record| record.tasks[0].bandwidth_gbps.clone().unwrap().values)
        .collect();
    all.sort_by(f64::total_cmp);
    assert!(all.len() > 2);
    let middle = f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2]);
    assert!(
        (rate.gbps.value / middle - 1.0).abs() < 0.001,
        "{} in the profile, {middle} from {all:?}",
        rate.gbps.value
    );
}

/// The purpose of a profile: the model with it gives what this machine did.
#[test]
fn the_model_gives_the_measured_rate_of_one_thread_back() {
    let machine = &made().machine;
    let path = &machine.measurements.as_ref().unwrap().paths[0];
    let rate = path
        .rates
        .iter()
        .find(|rate| rate.operation == "read" && rate.threads == 1)
        .unwrap();
    let scan = tierloom_model::Access::sequential_read("a", 64.0, 64_000_000_000).vectorised();
    let phase = Phase::new("read", PhaseKind::Scan, 1e9).access(scan);
    let placement = Placement::new(TierShares::from_weights(&[(&path.tier, 1.0)]).unwrap());
    let solution = solve(machine, &phase, &placement, 1, &Options::default()).unwrap();
    let modelled = 64.0 * phase.tuples / solution.time_ns;
    assert!(
        (modelled / rate.gbps.value - 1.0).abs() < 0.1,
        "modelled {modelled:.1} GB/s, measured {:.1} GB/s",
        rate.gbps.value
    );
}

#[test]
fn wrong_options_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    for (args, says) in [
        (
            &["-o", "m.yaml", "--initiators", "900"][..],
            &["initiator 900", "nodes with CPUs", "0"][..],
        ),
        (
            &["-o", "m.yaml", "--targets", "900"],
            &["target 900", "nodes with memory", "0"],
        ),
        (&["-o", "m.yaml", "--targets", "0,900"], &["target 900"]),
        (&["-o", "m.yaml", "--pages", "3k"], &["3k", "4k"]),
        (&["-o", "m.yaml", "--region", "1"], &["too small"]),
        (
            &["-o", "none/m.yaml"],
            &["none/m.yaml", "folder does not exist"],
        ),
        (
            &["-o", "file/m.yaml"],
            &["file/m.yaml", "folder does not exist"],
        ),
        (
            &["-o", "m.yaml", "--records", "m.yaml"],
            &["--records", "--output", "same file"],
        ),
    ] {
        refused(folder.path(), &[&["characterize"], args].concat(), says);
        let dry = [&["characterize", "--dry-run"], args].concat();
        refused(folder.path(), &dry, says);
    }
    // These errors come from the argument parser, with usage lines.
    for args in [
        &["characterize"][..],
        &["characterize", "-o", "m.yaml", "--targets", "x"],
    ] {
        let ended = tierloom(folder.path(), args).with_code(2);
        ended.one_error();
        assert_eq!(contents(folder.path()).len(), 1);
    }
}

#[test]
fn a_dry_run_measures_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        &SMALL[..],
        &["-o", "m.yaml", "--records", "r.jsonl", "--dry-run"],
    ]
    .concat();
    let ended = tierloom(folder.path(), &args).with_code(0);
    assert!(ended.stdout.contains("idle latency"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with(" probes\n"), "{}", ended.stdout);
    assert!(contents(folder.path()).is_empty());
}

#[test]
fn ctrl_c_leaves_no_profile() {
    let folder = tempfile::tempdir().unwrap();
    let args = [&SMALL[..], &["-o", "m.yaml", "--records", "r.jsonl"]].concat();
    let mut child = command(folder.path(), &args).spawn().unwrap();
    // When threads are bound and busy, it is in the middle of a probe.
    let start = Instant::now();
    let tasks = format!("/proc/{}/task", child.id());
    while fs::read_dir(&tasks).map_or(0, Iterator::count) < 4 {
        assert!(start.elapsed() < SLOW, "no probe was ever begun");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt(child.id());
    let status = wait(&mut child, Duration::from_secs(20)).expect("an interrupted command ends");
    assert_eq!(status.code(), Some(130));
    let ended = end_of(child);
    assert!(ended.stderr.contains("interrupted: "), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    ended.no_panic();
    assert!(contents(folder.path()).is_empty(), "files are left");
}

fn interrupt(pid: u32) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -INT {pid}")])
        .status()
        .expect("sh");
    assert!(sent.success(), "the command ended too early");
}
