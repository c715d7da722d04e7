//! `tierloom tune`: weights by the model, set on copies of recorded machines and restored, and
//! everything that is refused.

mod common;

use common::{command, contents, end_of, recorded, refused, tierloom, tierloom_anywhere};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tierloom_model::reference::work::{Join, Work};
use tierloom_model::search::{Problem, Weights};
use tierloom_model::{Machine, Options, profiles};
use tierloom_record::{Provenance, Record, RecordSet, TuneRecord};
use tierloom_topology::{SysRoot, Topology};

const WEIGHTS: &str = "sys/kernel/mm/mempolicy/weighted_interleave";
const USUAL: [&str; 8] = [
    "scan",
    "write",
    "nt-write",
    "filter",
    "build",
    "probe",
    "partition",
    "aggregate",
];

/// The weights of a record as [`Weights`].
fn weights(of: &[tierloom_record::TierWeight]) -> Weights {
    Weights::new(of.iter().map(|w| (w.tier.clone(), w.weight))).unwrap()
}

fn machine(name: &str) -> Machine {
    profiles::load(name).unwrap()
}

#[test]
fn every_usual_phase_is_told_with_what_the_figures_are() {
    let done = tierloom_anywhere(&["tune", "--machine", "nus24"]).with_code(0);
    assert_eq!(done.stderr, "");
    let head = done.stdout.lines().next().unwrap();
    assert!(
        head.starts_with("modelled on nus24") && head.contains("publications"),
        "{head}"
    );
    for phase in USUAL {
        assert!(
            done.stdout.contains(&format!("│ {phase} ")),
            "{phase} in\n{}",
            done.stdout
        );
    }
    for column in [
        "over dram only",
        "gain range",
        "over kernel's",
        "over 1:1",
        "limited by",
    ] {
        assert!(done.stdout.contains(column), "{column} in\n{}", done.stdout);
    }
}

#[test]
fn records_hold_what_the_model_gives_for_these_weights() {
    let folder = tempfile::tempdir().unwrap();
    let work = "probe: { table_bytes: 4e9, prefetched: true }";
    fs::write(folder.path().join("mine.yaml"), work).unwrap();
    let args = [
        "tune",
        "-m",
        "nus24",
        "-w",
        "16",
        "--work",
        "mine.yaml",
        "--records",
        "r.jsonl",
        "--report",
        "r.html",
        "--json",
    ];
    let done = tierloom(folder.path(), &args).with_code(0);
    let set = RecordSet::read(&folder.path().join("r.jsonl")).unwrap();
    let [record] = set.tunes.as_slice() else {
        panic!("{} records", set.tunes.len())
    };
    let printed: Value = serde_json::from_str(&done.stdout).unwrap();
    let printed: Record = serde_json::from_value(printed["records"][0].clone()).unwrap();
    assert_eq!(printed, Record::Tune(Box::new(record.clone())));

    assert_eq!((record.phase.as_str(), record.workers), ("mine", 16));
    assert_eq!(record.provenance, Provenance::Modelled);
    let work = Work::Probe(Join {
        table_bytes: 4e9,
        prefetched: true,
        ..Join::default()
    });
    let (machine, options) = (machine("nus24"), Options::default());
    let phases = work.phases(16).unwrap();
    let problem = Problem::new(&machine, &phases, 16, &options);
    let priced = |of: &[tierloom_record::TierWeight]| problem.rate(&weights(of)).unwrap() / 1e6;
    for (reported, priced) in [
        (record.best_rate, priced(&record.best)),
        (record.kernel_rate, priced(&record.kernel)),
    ] {
        assert!(
            (reported / priced - 1.0).abs() < 1e-9,
            "{reported} is {priced} {}",
            record.unit
        );
    }
    let html = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(html.contains("mine") && html.contains("modelled"));
}

#[test]
fn interleaving_that_loses_is_warned_of() {
    let done = tierloom_anywhere(&["tune", "probe", "-m", "hpi25-4dev", "-w", "1"]).with_code(0);
    assert!(done.stdout.contains("│ probe ┆ dram 1 "), "{}", done.stdout);
    assert!(
        done.stdout.contains("interleaving does not gain"),
        "{}",
        done.stdout
    );
}

#[test]
fn several_machines_and_curves_are_told_one_after_the_other() {
    let args = [
        "tune",
        "read",
        "-m",
        "nus24,sap26-direct",
        "--curve",
        "--tiers",
        "dram,cxl",
    ];
    let done = tierloom_anywhere(&args).with_code(0);
    let heads = done
        .stdout
        .lines()
        .filter(|line| line.starts_with("modelled on "))
        .count();
    assert_eq!(heads, 2, "{}", done.stdout);
    assert_eq!(
        done.stdout.matches("  100.0% ┆").count(),
        2,
        "{}",
        done.stdout
    );
}

#[test]
fn only_what_moves_is_spread() {
    let folder = tempfile::tempdir().unwrap();
    let best = |moved: &str| -> TuneRecord {
        let args = ["tune", "probe", "-m", "nus24", "--moved", moved, "--json"];
        let done = tierloom(folder.path(), &args).with_code(0);
        let value: Value = serde_json::from_str(&done.stdout).unwrap();
        serde_json::from_value(value["records"][0].clone()).unwrap()
    };
    assert_eq!(best("table").best_rate, best("hash-table").best_rate);
    assert!(best("input").best_rate < best("input,table").best_rate);
}

#[test]
fn what_cannot_be_tuned_is_refused_with_a_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("bad.yaml"), "probe: { tabel_bytes: 1 }").unwrap();
    let cases: [(&[&str], &[&str]); 17] = [
        (&[], &["--machine", "nus24", "--measure"]),
        (
            &["skan", "-m", "nus24"],
            &["skan", "did you mean scan", "nt-write"],
        ),
        (&["-m", "nus42"], &["nus42", "did you mean nus24"]),
        (&["read", "read", "-m", "nus24"], &["read is named twice"]),
        (&["-m", "nus24", "--tiers", "dram"], &["two tiers"]),
        (&["-m", "nus24", "--tiers", "dram,hbm"], &["hbm"]),
        (
            &["probe", "-m", "nus24", "--moved", "tabel"],
            &["tabel", "input, table"],
        ),
        (
            &["probe", "-m", "nus24", "--moved", "table,column"],
            &["not both"],
        ),
        (
            &["-m", "nus24", "--work", "bad.yaml"],
            &["bad.yaml", "tabel_bytes"],
        ),
        (&["-m", "nus24", "--work", "none.yaml"], &["none.yaml"]),
        (
            &["--measure", "--work", "bad.yaml"],
            &["bad.yaml", "tabel_bytes"],
        ),
        (
            &["--measure", "filter:skp=7"],
            &["skp", "did you mean skip"],
        ),
        (
            &["-m", "nus24", "--yes"],
            &["--apply, --restore or --prefetchers"],
        ),
        (
            &["-m", "nus24", "--records", "x", "--report", "x"],
            &["same file"],
        ),
        (
            &["-m", "nus24", "--records", "no/x"],
            &["no/x", "folder does not exist"],
        ),
        (&["-m", "nus24,sap26-pool", "--apply"], &["one machine"]),
        (
            &["read", "-m", "nus24", "--apply", "--no-kernel"],
            &["--config"],
        ),
    ];
    for (args, says) in cases {
        refused(dir, &[&["tune"], args].concat(), says);
    }
}

/// Whether this machine has the two tiers that measuring weights requires.
fn has_two_tiers() -> bool {
    Topology::read(&SysRoot::host()).is_ok_and(|topology| topology.tiers.len() > 1)
}

#[test]
fn measuring_on_a_machine_of_one_tier_says_what_is_missing() {
    if has_two_tiers() {
        return tierloom_testing::checked_nothing("this machine has two tiers");
    }
    let folder = tempfile::tempdir().unwrap();
    let says = ["second NUMA node", "daxctl", "--machine"];
    fs::write(
        folder.path().join("join.yaml"),
        "probe: { prefetched: true }",
    )
    .unwrap();
    // No phase is refused for what it is: only the second tier is missing.
    for more in [
        &["read"][..],
        &["partition", "tree", "chase", "scan", "filter:skip=7"],
        &["--work", "join.yaml"],
    ] {
        let args = [&["tune", "--measure"], more].concat();
        refused(folder.path(), &args, &says);
    }
}

/// A copy of a recorded machine that can be written to, and a folder to work in.
struct Copy {
    machine: tempfile::TempDir,
    folder: tempfile::TempDir,
}

impl Copy {
    fn of(machine: &str) -> Self {
        let copy = Copy {
            machine: tempfile::tempdir().unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        let copied = Command::new("cp")
            .arg("-a")
            .arg(recorded(machine))
            .arg(copy.root())
            .status();
        assert!(copied.unwrap().success());
        copy
    }

    fn root(&self) -> PathBuf {
        self.machine.path().join("root")
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Everything that could have changed: weights, saved state, files.
    fn all(&self) -> Vec<BTreeMap<PathBuf, Option<Vec<u8>>>> {
        let state = self.root().join("var");
        let folders = [self.root().join(WEIGHTS), self.dir().to_owned(), state];
        folders
            .iter()
            .filter(|folder| folder.exists())
            .map(|folder| contents(folder))
            .collect()
    }

    fn weight(&self, node: u32) -> String {
        let file = self.root().join(WEIGHTS).join(format!("node{node}"));
        fs::read_to_string(file).unwrap().trim().to_owned()
    }

    fn tune(&self, args: &[&str]) -> common::Ended {
        let root = self.root().display().to_string();
        let all = [&["tune", "--sysroot", &root], args].concat();
        end_of(command(self.dir(), &all).spawn().unwrap())
    }
}

fn state(copy: &Copy) -> PathBuf {
    copy.root().join("var/lib/tierloom/kernel-weights.json")
}

#[test]
fn weights_are_told_then_set_then_kept_then_restored() {
    let copy = Copy::of("guest-2node-hmat");
    let before = copy.all();
    let reported = copy
        .tune(&["--apply", "--weights", "5:4"])
        .with_code(0)
        .stdout;
    assert!(
        reported.contains("│ 0    ┆ dram ┆ 3          ┆ 5 "),
        "{reported}"
    );
    assert!(
        reported.contains("nothing was written; add --yes"),
        "{reported}"
    );
    assert!(copy.all() == before, "a dry run changed something");

    let done = copy
        .tune(&["--apply", "--weights", "5:4", "--yes"])
        .with_code(0)
        .stdout;
    assert!(done.contains("--restore"), "{done}");
    assert_eq!((copy.weight(0), copy.weight(1)), ("5".into(), "4".into()));
    let saved = fs::read(state(&copy)).unwrap();
    let again = copy
        .tune(&["--apply", "--weights", "dram:7,cxl:1", "--yes"])
        .with_code(0)
        .stdout;
    assert!(again.contains("first old weights are kept"), "{again}");
    assert_eq!(fs::read(state(&copy)).unwrap(), saved);
    assert_eq!(copy.weight(0), "7");

    let reported = copy.tune(&["--restore"]).with_code(0).stdout;
    assert!(reported.contains("add --yes"), "{reported}");
    assert_eq!(copy.weight(0), "7");
    copy.tune(&["--restore", "--yes"]).with_code(0);
    assert_eq!((copy.weight(0), copy.weight(1)), ("3".into(), "2".into()));
    let nothing = copy.tune(&["--restore", "--yes"]).with_code(0).stdout;
    assert!(nothing.starts_with("nothing to restore"), "{nothing}");
    assert!(!state(&copy).exists());
}

#[test]
fn tuned_weights_go_to_the_kernel_and_to_the_files_of_an_engine() {
    let copy = Copy::of("guest-2node-hmat");
    let apply = [
        "scan",
        "probe",
        "-m",
        "nus24",
        "--apply",
        "--phase",
        "scan",
        "--config",
        "w.yaml",
        "--env-file",
        "w.sh",
        "--json",
    ];
    let reported = copy.tune(&apply).with_code(0);
    assert!(
        !copy.dir().join("w.yaml").exists(),
        "a dry run wrote a file"
    );
    let reported: Value = serde_json::from_str(&reported.stdout).unwrap();
    assert_eq!(
        (&reported["apply"]["done"], &reported["apply"]["phase"]),
        (&false.into(), &"scan".into())
    );
    let done = copy.tune(&[&apply[..], &["--yes"]].concat()).with_code(0);
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    let record: Record = serde_json::from_value(done["records"][0].clone()).unwrap();
    let Record::Tune(scan) = record else {
        panic!("{done}")
    };
    let best = weights(&scan.best);
    assert_eq!(copy.weight(0), best.weight("dram").to_string());
    assert_eq!(copy.weight(1), best.weight("cxl").to_string());
    assert_eq!(done["apply"]["nodes"][0]["old"], 3);

    let yaml = fs::read_to_string(copy.dir().join("w.yaml")).unwrap();
    let file = tierloom_tune::engine::EngineWeights::from_yaml(&yaml, "w.yaml").unwrap();
    assert_eq!(
        (file.provenance, file.machine.as_str()),
        (Provenance::Modelled, "nus24")
    );
    assert_eq!(file.phases.len(), 2);
    let placement = format!("dram:{},cxl:{}", best.weight("dram"), best.weight("cxl"));
    assert_eq!(file.phases[0].placement, placement);
    // The shell itself shows how it parsed the file.
    let shell = Command::new("sh")
        .current_dir(copy.dir())
        .args([
            "-c",
            ". ./w.sh; echo $TIERLOOM_WEIGHTS; cat \"$TIERLOOM_WEIGHTS_FILE\"",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8(shell.stdout).unwrap();
    assert_eq!(said, format!("{placement}\n{yaml}"));
}

#[test]
fn auto_stays_on_unless_it_may_go_off_and_comes_back() {
    let copy = Copy::of("guest-2node-hmat");
    let auto = copy.root().join(WEIGHTS).join("auto");
    fs::write(&auto, "true\n").unwrap();
    let before = copy.all();
    for yes in [&[][..], &["--yes"]] {
        let args = [&["--apply", "--weights", "5:4"], yes].concat();
        let ended = copy.tune(&args).with_code(2);
        let error = ended.one_error();
        assert!(
            error.contains("--auto-off") && error.contains("auto is on"),
            "{error}"
        );
    }
    assert!(copy.all() == before);
    let done = copy
        .tune(&["--apply", "--weights", "5:4", "--auto-off", "--yes"])
        .with_code(0);
    assert!(done.stdout.contains("on to off"), "{}", done.stdout);
    assert_eq!(fs::read_to_string(&auto).unwrap(), "false\n");
    copy.tune(&["--restore", "--yes"]).with_code(0);
    assert_eq!(fs::read_to_string(&auto).unwrap(), "true\n");
    assert_eq!(copy.weight(0), "3");
}

#[test]
fn a_tier_of_four_nodes_has_its_share_over_all_four() {
    let copy = Copy::of("server-2s-4cxl");
    let done = copy
        .tune(&["--apply", "--weights", "dram:3,cxl:2", "--yes"])
        .with_code(0)
        .stdout;
    let new: Vec<u32> = (0..6)
        .map(|node| copy.weight(node).parse().unwrap())
        .collect();
    let topology = Topology::read(&SysRoot::at(copy.root())).unwrap();
    let of = |kind: tierloom_topology::TierKind| -> u32 {
        topology
            .tier(kind)
            .unwrap()
            .nodes
            .iter()
            .map(|node| new[node.0 as usize])
            .sum()
    };
    let (dram, cxl) = (
        of(tierloom_topology::TierKind::Dram),
        of(tierloom_topology::TierKind::Cxl),
    );
    assert_eq!(dram * 2, cxl * 3, "{new:?}\n{done}");
}

#[test]
fn what_cannot_be_set_is_refused_and_changes_nothing() {
    let copy = Copy::of("guest-2node-hmat");
    let (dir, root) = (copy.dir(), copy.root().display().to_string());
    let root = root.as_str();
    let apply = |more: &[&'static str]| [&["tune", "--sysroot", root, "--apply"], more].concat();
    refused(
        dir,
        &apply(&["--weights", "1:0"]),
        &["everything on dram", "--no-kernel"],
    );
    refused(dir, &apply(&["--weights", "3:2:1"]), &["two numbers"]);
    refused(dir, &apply(&["--weights", "hbm:1"]), &["hbm"]);
    refused(dir, &apply(&["-m", "nus24"]), &["--phase", "aggregate"]);
    refused(
        dir,
        &apply(&["read", "-m", "nus24", "--phase", "scan"]),
        &["scan was not tuned"],
    );
    let no_cxl = apply(&["-m", "nus24", "read", "--tiers", "dram=0,1", "--yes"]);
    refused(dir, &no_cxl, &["two tiers"]);
    fs::write(dir.join("saved"), "{}").unwrap();
    refused(
        dir,
        &["tune", "--restore", "--sysroot", root, "--state", "saved"],
        &["saved"],
    );
    fs::write(copy.root().join(WEIGHTS).join("node0"), "0\n").unwrap();
    let garbled = apply(&["--weights", "3:2", "--yes"]);
    let ended = tierloom(dir, &garbled).with_code(1);
    assert!(ended.one_error().contains("1 to 255"), "{}", ended.stderr);
    fs::remove_dir_all(copy.root().join(WEIGHTS)).unwrap();
    refused(dir, &garbled, &["6.9", "--no-kernel"]);
}

#[test]
fn an_engine_gets_its_file_from_a_kernel_without_weights() {
    let copy = Copy::of("guest-2node-hmat");
    fs::remove_dir_all(copy.root().join(WEIGHTS)).unwrap();
    let args = [
        "read",
        "-m",
        "nus24",
        "--apply",
        "--no-kernel",
        "--config",
        "w.yaml",
        "--yes",
    ];
    copy.tune(&args).with_code(0);
    assert!(copy.dir().join("w.yaml").exists());
    assert!(!copy.root().join("var").exists(), "nothing to save");
}

/// The register of the prefetchers on Intel processors, one per CPU, and one of its bits that has
/// another purpose.
const MISC_FEATURES: u64 = 0x1a4;
const OTHER_BIT: u64 = 1 << 5;

/// A recorded machine with a processor whose prefetchers are known, and the registers of two CPUs
/// as plain files.
fn with_prefetchers() -> Copy {
    let copy = Copy::of("guest-2node-hmat");
    let cpuinfo =
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\n";
    fs::create_dir_all(copy.root().join("proc")).unwrap();
    fs::write(copy.root().join("proc/cpuinfo"), cpuinfo).unwrap();
    for cpu in 0..2 {
        let folder = copy.root().join(format!("dev/cpu/{cpu}"));
        fs::create_dir_all(&folder).unwrap();
        let mut registers = vec![0u8; MISC_FEATURES as usize];
        registers.extend(OTHER_BIT.to_le_bytes());
        fs::write(folder.join("msr"), registers).unwrap();
    }
    copy
}

fn register(copy: &Copy, cpu: u32) -> u64 {
    let bytes = fs::read(copy.root().join(format!("dev/cpu/{cpu}/msr"))).unwrap();
    let at = MISC_FEATURES as usize;
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn prefetchers_are_told_switched_only_when_told_to_and_put_back_bit_by_bit() {
    let copy = with_prefetchers();
    let reported = copy.tune(&["--prefetchers", "show"]).with_code(0).stdout;
    assert!(reported.contains("register 0x1a4"), "{reported}");
    assert!(reported.contains("CPU 0,1: 0x20, on: "), "{reported}");
    let dry = copy.tune(&["--prefetchers", "off"]).with_code(0).stdout;
    assert!(dry.contains("nothing was written; add --yes"), "{dry}");
    assert_eq!(register(&copy, 0), OTHER_BIT);

    let done = copy
        .tune(&["--prefetchers", "off", "--yes"])
        .with_code(0)
        .stdout;
    assert!(done.contains("on 2 CPUs"), "{done}");
    for cpu in 0..2 {
        assert_eq!(register(&copy, cpu), OTHER_BIT | 0xf, "CPU {cpu}");
    }
    let reported = copy.tune(&["--restore"]).with_code(0).stdout;
    assert!(
        reported.contains("2 of 2 CPUs would be put back"),
        "{reported}"
    );
    assert_eq!(register(&copy, 1), OTHER_BIT | 0xf);
    copy.tune(&["--restore", "--yes"]).with_code(0);
    for cpu in 0..2 {
        assert_eq!(register(&copy, cpu), OTHER_BIT, "CPU {cpu}");
    }
}

#[test]
fn a_machine_without_the_driver_or_with_an_unknown_processor_names_the_way_on() {
    let copy = with_prefetchers();
    fs::remove_dir_all(copy.root().join("dev/cpu")).unwrap();
    let ended = copy.tune(&["--prefetchers", "show"]);
    assert_ne!(ended.code, Some(0));
    assert!(
        ended.one_error().contains("modprobe msr"),
        "{}",
        ended.stderr
    );
    let unknown = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 9999\n";
    fs::write(copy.root().join("proc/cpuinfo"), unknown).unwrap();
    let ended = copy.tune(&["--prefetchers", "show"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.one_error().contains("9999"), "{}", ended.stderr);
}
