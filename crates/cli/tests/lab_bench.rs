//! `tierloom bench` in real Linux guests: on a CXL device that is node 1, on the same device as
//! `/dev/dax0.0`, and in two guests at once that share it.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` skips the guests.
//! Guests are emulated: regions are small, and figures are only checked to exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use tierloom_lab::{
    CommandOutcome, GuestCommand, GuestFile, GuestKind, GuestLink, GuestOptions, GuestOutcome, Kit,
    kit_for_tests, run, run_together,
};
use tierloom_record::{AuditRecord, BenchRecord, NodeShare, Provenance, Record, TaskRecord};

const MIB: u64 = 1 << 20;
/// Smallest size of a guest's CXL device.
const DEVICE_BYTES: u64 = 256 * MIB;
/// Limit for one guest, or one wait in it, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Every kind of access on both tiers, and every way to spread pages over both.
const ON_NODES: &str = include_str!("lab_bench/nodes.yaml");

/// Every kind of access on the device, with CXL-Bench's keys.
const ON_DEVICE: &str = include_str!("lab_bench/device.yaml");

/// One guest writes and is measured while the other reads in the background, and the other way
/// round.
const ON_TWO_HOSTS: &str = include_str!("lab_bench/two-hosts.yaml");

/// Wrong values of `--set`, and what the error must contain. The device has 256 MiB in pages of 2
/// MiB.
const REFUSED: [(&str, &str); 5] = [
    ("region_offset=256M", "/dev/dax0.0 has 268435456 bytes"),
    ("region_offset=254M", "use a smaller offset or size"),
    ("region_offset=1M", "use 0 or 2097152"),
    ("memory_region_size=3M", "a multiple of 2 MiB"),
    ("device_path=/dev/dax9.0", "DAX devices here: dax0.0"),
];

/// A script that prints every kernel setting that concerns memory, and the contents of the folders
/// of temporary files. Counters are left out, and settings that the kernel changes by itself.
const STATE: &str = r"
for d in /proc/sys/kernel /proc/sys/vm /sys/kernel/mm /sys/devices/system/node /sys/devices/system/memory; do find $d -type f; done >/run/names
for d in /sys/bus/cxl/devices/*/ /sys/bus/dax/devices/*/; do [ -d $d ] && find $d -maxdepth 1 -type f; done >>/run/names
grep -vE '/random/|/ns_last_pid$|/meminfo$|/numastat$|/vmstat$|/stats/|/perf_|/bitmap$|/full_scans$|/pages_[a-z]*$' /run/names | sort | xargs grep -Hs ''
ls -A /tmp /dev/shm /dev/hugepages /root
rm /run/names
";

/// The packages for guests; `None` where guests are skipped.
fn kit() -> Option<Kit> {
    kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))
}

/// A guest with the built binary and `workload` as `/bench.yaml` in it.
fn guest(kind: GuestKind, folder: &Path, workload: &str) -> GuestOptions {
    let file = folder.join("bench.yaml");
    std::fs::write(&file, workload).unwrap();
    let mut options = GuestOptions::new(kind);
    options.slow_bytes = DEVICE_BYTES;
    options.timeout = LIMIT;
    // Automatic NUMA balancing would move pages while they are counted.
    options.kernel_args.push("numa_balancing=disable".into());
    options.files.push(GuestFile::new(
        env!("CARGO_BIN_EXE_tierloom"),
        "/bin/tierloom",
    ));
    options.files.push(GuestFile::new(file, "/bench.yaml"));
    options
}

fn boot(kit: &Kit, options: &GuestOptions, commands: &[GuestCommand]) -> Vec<String> {
    let outcome = run(kit, options, commands, &mut |line| {
        eprintln!("[{}] {line}", options.kind)
    })
    .unwrap_or_else(|error| panic!("{}: {error}", options.kind));
    outputs(&outcome)
}

/// What the commands printed to stdout; all must have succeeded.
fn outputs(outcome: &GuestOutcome) -> Vec<String> {
    let failed: String = outcome.commands.iter().filter_map(complaint).collect();
    assert!(failed.is_empty(), "in the guest:\n{failed}");
    outcome
        .commands
        .iter()
        .map(CommandOutcome::stdout_text)
        .collect()
}

/// What a failed command printed, both streams.
fn complaint(command: &CommandOutcome) -> Option<String> {
    (command.exit_code != 0).then(|| {
        format!(
            "{:?} ended with exit code {}\nstderr:\n{}\nstdout:\n{}\n",
            command.argv,
            command.exit_code,
            command.stderr_text(),
            command.stdout_text()
        )
    })
}

fn shell(script: impl Into<String>) -> GuestCommand {
    GuestCommand::shell(script).quiet()
}

/// The records of the benchmarks in `lines`.
fn records(lines: &str) -> Vec<BenchRecord> {
    lines
        .lines()
        .map(|line| match serde_json::from_str(line) {
            Ok(Record::Bench(record)) => *record,
            other => panic!("no record of a benchmark: {other:?} in {line}"),
        })
        .collect()
}

/// The number of runs per workload.
fn runs(records: &[BenchRecord]) -> BTreeMap<&str, usize> {
    let mut runs = BTreeMap::new();
    for record in records {
        *runs.entry(record.workload.as_str()).or_default() += 1;
    }
    runs
}

/// The value of a varied key in a record.
fn varied(record: &BenchRecord, key: &str) -> String {
    let mut of_key = record.varied.iter().filter(|setting| setting.key == key);
    of_key
        .next()
        .map(|setting| setting.value.clone())
        .unwrap_or_default()
}

/// Checks that the record is valid and that its main task has figures and correct data; returns
/// that task.
fn is_sound(record: &BenchRecord) -> &TaskRecord {
    let what = format!(
        "{} {:?} {:?}",
        record.workload, record.varied, record.remarks
    );
    assert!(record.valid, "{what}");
    assert_eq!(record.provenance, Provenance::Measured, "{what}");
    assert!(
        !record.remarks.iter().any(|remark| remark.invalidates),
        "{what}"
    );
    let task = &record.tasks[0];
    assert_eq!(task.role, "main", "{what}");
    assert!(task.operations > 0, "{what}");
    if task.kind != "mapping" {
        assert!(task.bandwidth_gbps.as_ref().unwrap().min > 0.0, "{what}");
    }
    if task.kind != "throughput" {
        let latency = task.latency.as_ref().expect(&what);
        assert!(
            latency.samples > 0 && latency.max_ns > 0.0,
            "{what}: {latency:?}"
        );
    }
    let check = task.data_check.as_deref();
    let right = match (task.kind.as_str(), varied(record, "operation").as_str()) {
        ("chase" | "mapping", _) => check.is_none(),
        (_, "copy") => check == Some("the copy holds what was copied"),
        (_, "fetch-and-add") => {
            check == Some(format!("all {} additions arrived", task.operations).as_str())
        }
        (_, "compare-and-swap") => check.is_some_and(|text| {
            text.ends_with(&format!(" of {} swaps succeeded", task.operations))
        }),
        _ => check == Some("every byte is what it has to be"),
    };
    assert!(
        right,
        "{what}: {check:?} after {} operations",
        task.operations
    );
    task
}

fn share_of(shares: &[NodeShare], node: u32) -> f64 {
    shares
        .iter()
        .filter(|share| share.node == node)
        .map(|share| share.share)
        .sum()
}

/// The share of node 0 that a workload requests, and the accepted deviation.
fn wanted_on_node_0(record: &BenchRecord) -> (f64, f64) {
    match (record.workload.as_str(), varied(record, "memory").as_str()) {
        ("weights", _) => (0.6, 1e-9),
        // The kernel's interleaving may begin at any node.
        ("kernel_weighted", _) => (0.6, 0.01),
        ("partitioned", _) => (0.25, 1e-9),
        ("latency" | "chase" | "loaded", _) | (_, "cxl") => (0.0, 1e-9),
        (_, "dram") => (1.0, 1e-9),
        other => panic!("no wish is known for {other:?}"),
    }
}

/// Checks that every page was audited before and after the run, was present, and was where it was
/// requested.
fn pages_are_where_they_were_asked_for(record: &BenchRecord, task: &TaskRecord) {
    let [region] = task.regions.as_slice() else {
        panic!("{}: {:?}", record.workload, task.regions)
    };
    assert_eq!((region.moved_pages, &region.note), (0, &None), "{region:?}");
    let (wanted, tolerance) = wanted_on_node_0(record);
    for audit in [&region.before, &region.after] {
        let what = format!("{} {:?}: {region:?}", record.workload, record.varied);
        let audit: &AuditRecord = audit.as_ref().expect(&what);
        assert_eq!(audit.bytes_checked, region.size_bytes, "{what}");
        assert_eq!(audit.pages_checked * 4096, region.size_bytes, "{what}");
        assert_eq!(audit.pages_absent, 0, "{what}");
        for (node, wanted) in [(0, wanted), (1, 1.0 - wanted)] {
            let found = share_of(&audit.actual, node);
            assert!((found - wanted).abs() <= tolerance, "{found} of {what}");
        }
    }
}

#[test]
fn on_a_cxl_node_pages_and_data_are_right_and_no_setting_is_changed() {
    let Some(kit) = kit() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = guest(GuestKind::Cxl, dir.path(), ON_NODES);
    let weights = "/sys/kernel/mm/mempolicy/weighted_interleave";
    let commands = [
        shell(format!(
            "echo 3 >{weights}/node0 && echo 2 >{weights}/node1"
        )),
        shell(STATE),
        shell("tierloom bench /bench.yaml --records /out.jsonl --csv /out.csv --report /out.html"),
        shell("cat /out.jsonl"),
        shell("cat /out.csv"),
        shell("cat /out.html"),
        shell(
            "tierloom characterize --dry-run -o /machine.yaml --region 8 --pages 4k && [ ! -e /machine.yaml ]",
        ),
        shell(STATE),
    ];
    let out = boot(&kit, &options, &commands);

    let records = records(&out[3]);
    let wanted = [
        ("chase", 1),
        ("kernel_weighted", 1),
        ("latency", 1),
        ("loaded", 1),
        ("partitioned", 1),
        ("random", 6),
        ("streams", 8),
        ("weights", 1),
    ];
    assert_eq!(runs(&records), BTreeMap::from(wanted));
    for record in &records {
        is_sound(record);
        for task in &record.tasks {
            pages_are_where_they_were_asked_for(record, task);
        }
        assert!(out[2].contains(&record.workload), "{}", out[2]);
        assert!(out[5].contains(&record.workload), "{}", record.workload);
        let rows = out[4].lines().filter(|row| row.starts_with(&record.run_id));
        let tasks = record.tasks.len();
        assert_eq!(rows.count(), tasks, "{} in\n{}", record.run_id, out[4]);
    }
    assert!(out[6].contains("node 1"), "{}", out[6]);
    let set = format!("{weights}/node0:3\n{weights}/node1:2\n");
    assert!(out[1].contains(&set), "no {set} in\n{}", out[1]);
    let (before, after): (BTreeSet<_>, BTreeSet<_>) =
        (out[1].lines().collect(), out[7].lines().collect());
    let changed: Vec<_> = before.symmetric_difference(&after).collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

/// A device whose bytes are `0xa5` from 3 to 9 MiB and zero elsewhere.
fn marked_device(path: &Path) {
    let mut file = File::create(path).unwrap();
    file.set_len(DEVICE_BYTES).unwrap();
    file.seek(SeekFrom::Start(3 * MIB)).unwrap();
    file.write_all(&vec![0xa5; 6 * MIB as usize]).unwrap();
}

/// MiB of the device at `path` that are not full of one byte: zero, or the mark from 3 to 9 MiB.
fn touched_mib(path: &Path) -> Vec<u64> {
    let mut file = File::open(path).unwrap();
    let mut chunk = vec![0; MIB as usize];
    let [zeros, marks] = [0, 0xa5].map(|byte| vec![byte; MIB as usize]);
    let mut touched = Vec::new();
    for mib in 0..DEVICE_BYTES / MIB {
        file.read_exact(&mut chunk).unwrap();
        let before = if (3..9).contains(&mib) {
            &marks
        } else {
            &zeros
        };
        if chunk != *before {
            touched.push(mib);
        }
    }
    touched
}

#[test]
fn on_a_dax_device_only_the_region_is_written_and_every_addition_arrives() {
    let Some(kit) = kit() else { return };
    let dir = tempfile::tempdir().unwrap();
    let device = dir.path().join("device");
    marked_device(&device);
    let mut options = guest(GuestKind::CxlDevdax, dir.path(), ON_DEVICE);
    options.cxl_backing = Some(device.clone());
    let mut commands = vec![
        shell("tierloom bench /bench.yaml --records /out.jsonl"),
        shell("cat /out.jsonl"),
    ];
    for (set, _) in REFUSED {
        commands.push(shell(format!(
            "tierloom bench /bench.yaml --only sequential --set {set} --records /no.jsonl 2>&1; echo exit code $?; [ ! -e /no.jsonl ]"
        )));
    }
    let out = boot(&kit, &options, &commands);

    let records = records(&out[1]);
    let wanted = [
        ("atomics", 2),
        ("latency", 1),
        ("mapping", 2),
        ("random", 3),
        ("sequential", 3),
        ("written_back", 3),
    ];
    assert_eq!(runs(&records), BTreeMap::from(wanted));
    for record in &records {
        let task = is_sound(record);
        for region in &task.regions {
            assert_eq!(region.memory, "/dev/dax0.0 from 4 MiB", "{region:?}");
            assert_eq!(
                (region.size_bytes, region.page_size.as_str()),
                (4 * MIB, "device"),
                "{region:?}"
            );
            // The kernel reports no node for these pages: the record says so instead of inventing a
            // share.
            assert_eq!((&region.before, &region.after), (&None, &None));
            assert!(region.note.is_some(), "{region:?}");
        }
        assert_eq!(task.regions.len(), 1, "{}", record.workload);
        let instruction = varied(record, "cache_instruction");
        assert!(task.access.ends_with(&instruction), "{}", task.access);
    }
    assert!(out[0].contains("of /dev/dax0.0 from 4 MiB"), "{}", out[0]);
    for ((set, fix), out) in REFUSED.iter().zip(&out[2..]) {
        assert!(out.contains(fix), "{set}: {fix:?} is missing in\n{out}");
        assert!(out.contains("exit code 2"), "{set}:\n{out}");
    }
    assert_eq!(touched_mib(&device), [4, 5, 6, 7]);
}

#[test]
fn two_guests_work_on_one_device_and_the_record_names_both() {
    let Some(kit) = kit() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (device, socket) = (dir.path().join("device"), dir.path().join("link"));
    marked_device(&device);
    let end = |link| {
        let mut options = guest(GuestKind::CxlDevdax, dir.path(), ON_TWO_HOSTS);
        options.cxl_backing = Some(device.clone());
        options.link = Some(link);
        options
    };
    let token = "5a".repeat(32);
    let with_token = |script: &str| shell(script).env("TIERLOOM_TOKEN", &token);
    let port =
        |port| GuestCommand::wait_for_port(format!("10.7.0.1:{port}").parse().unwrap(), LIMIT);
    let loader = [
        with_token(
            "tierloom bench --agent --listen 10.7.0.1:7171 --allow-plain-remote >/run/log 2>&1 & echo $! >/run/pid",
        ),
        // Ends with the first connection, by which the other guest says that it is done.
        shell("nc -l -p 7999"),
        shell("kill -INT $(cat /run/pid); cat /run/log"),
    ];
    let coordinator = [
        port(7171),
        with_token("tierloom bench /bench.yaml --allow-plain-remote --jsonl"),
        port(7999),
    ];
    let guests = [
        (
            end(GuestLink::listen(&socket, "10.7.0.1/24")),
            loader.to_vec(),
        ),
        (
            end(GuestLink::connect(&socket, "10.7.0.2/24")),
            coordinator.to_vec(),
        ),
    ];
    let outcomes = run_together(&kit, &guests, &mut |index, line| {
        eprintln!("[{index}] {line}")
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let log = outputs(&outcomes[0]).concat();
    assert!(!log.contains(&token), "the token is in\n{log}");
    let records = records(&outputs(&outcomes[1])[1]);

    assert_eq!(
        runs(&records),
        BTreeMap::from([("elsewhere", 1), ("neighbour", 1)])
    );
    for record in &records {
        two_hosts_worked(record);
    }
    assert_eq!(touched_mib(&device), [8, 9, 32, 33]);
}

/// Checks that both hosts are named with what is known about their clocks, and that each ran its
/// task on its part of the device.
fn two_hosts_worked(record: &BenchRecord) {
    is_sound(record);
    let main_is_here = record.workload == "neighbour";
    let mut names = ["here", "loader"];
    if !main_is_here {
        names.reverse();
    }
    let hosts: Vec<&str> = record.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(hosts, names);
    for host in &record.hosts {
        let clock = (host.clock_offset_ns, host.clock_uncertainty_ns);
        match (host.name.as_str(), clock) {
            ("here", clock) => assert_eq!(clock, (None, None)),
            // Guests take over the host's time in whole seconds when they start, so their clocks
            // are never equal.
            (_, (Some(offset_ns), Some(uncertainty_ns))) => assert!(
                offset_ns != 0.0 && offset_ns.abs() < 240e9 && uncertainty_ns > 0.0,
                "{clock:?}"
            ),
            (name, clock) => panic!("{name}: {clock:?}"),
        }
    }
    let tasks: Vec<_> = record
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), task.role.as_str(), task.host.as_str()))
        .collect();
    let wanted = [
        ("measure", "main", names[0]),
        ("load", "background", names[1]),
    ];
    assert_eq!(tasks, wanted);
    for (task, place) in record.tasks.iter().zip(["from 8 MiB", "from 32 MiB"]) {
        assert!(task.bandwidth_gbps.as_ref().unwrap().min > 0.0, "{task:?}");
        let right = (task.kind != "chase").then_some("every byte is what it has to be");
        assert_eq!(task.data_check.as_deref(), right, "{task:?}");
        assert_eq!(task.regions[0].memory, format!("/dev/dax0.0 {place}"));
    }
}
