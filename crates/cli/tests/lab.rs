//! The whole product in real Linux guests: one with two memory nodes, one with a CXL device online
//! as node 1. Both tiers exist there, so all placements are measured, every page is audited, and
//! answers are compared with those of an independent engine.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` skips the guests.
//! Times in an emulated guest mean nothing and are not checked.
#![cfg(feature = "sql")]

use std::collections::{BTreeMap, BTreeSet};

use tierloom_lab::{
    CommandOutcome, GuestCommand, GuestFile, GuestKind, GuestOptions, GuestOutcome, kit_for_tests,
    run,
};
use tierloom_record::{
    AuditRecord, EngineKind, HERE, NodeShare, PlacementCard, Provenance, Record, RecordSet, RunSet,
};

/// The placements that are audited; all except the first need both tiers.
const PLACEMENTS: [&str; 5] = ["dram", "cxl", "3:2", "tier", "columns:8"];

/// Placements that are repeated with data large enough for huge pages.
const LARGE: [&str; 3] = ["dram", "cxl", "3:2"];

/// Largest accepted difference between the requested and the actual share of a node.
const TOLERANCE: f64 = 0.01;

/// A script that prints every kernel setting that concerns memory, and the contents of the folders
/// of temporary files. Counters are left out, and settings that the kernel changes by itself.
const STATE: &str = r"
for d in /proc/sys/kernel /proc/sys/vm /sys/kernel/mm /sys/devices/system/node /sys/devices/system/memory; do find $d -type f; done >/run/names
for d in /sys/bus/cxl/devices/*/ /sys/bus/dax/devices/*/; do [ -d $d ] && find $d -maxdepth 1 -type f; done >>/run/names
grep -vE '/random/|/ns_last_pid$|/meminfo$|/numastat$|/vmstat$|/stats/|/perf_|/bitmap$|/full_scans$|/pages_[a-z]*$' /run/names | sort | xargs grep -Hs ''
ls -A /tmp /dev/shm /dev/hugepages /root
rm /run/names
";

/// Boots a guest of `kind` with the built binary in it; `None` where guests are skipped.
fn boot(kind: GuestKind, commands: &[GuestCommand]) -> Option<GuestOutcome> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))?;
    let mut options = GuestOptions::new(kind);
    // Automatic NUMA balancing would move pages while they are counted.
    options.kernel_args.push("numa_balancing=disable".into());
    let binary = env!("CARGO_BIN_EXE_tierloom");
    options.files.push(GuestFile::new(binary, "/bin/tierloom"));
    let outcome = run(&kit, &options, commands, &mut |line| {
        eprintln!("[{kind}] {line}");
    })
    .unwrap_or_else(|error| panic!("{kind}: {error}"));
    let failed: String = outcome.commands.iter().filter_map(complaint).collect();
    assert!(failed.is_empty(), "in the guest {kind}:\n{failed}");
    Some(outcome)
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

fn tierloom(args: &[&str]) -> GuestCommand {
    GuestCommand::new(["tierloom"].iter().chain(args).copied()).quiet()
}

fn ssb(placements: &[&str], more: &[&str]) -> GuestCommand {
    let placements = placements.join(",");
    let mut args = vec!["run", "ssb", "--repeat", "1", "--json"];
    args.extend(["--placement", placements.as_str()]);
    args.extend(more);
    tierloom(&args)
}

fn shell(script: &str) -> GuestCommand {
    GuestCommand::shell(script).quiet()
}

/// The only run in a JSON document.
fn run_in(document: &str) -> RunSet {
    let mut document: serde_json::Value = serde_json::from_str(document).unwrap();
    let records: Vec<Record> = serde_json::from_value(document["records"].take()).unwrap();
    let mut runs = RecordSet::from_records(records).unwrap().runs;
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn share_of(shares: &[NodeShare], node: u32) -> f64 {
    shares
        .iter()
        .filter(|share| share.node == node)
        .map(|share| share.share)
        .sum()
}

/// The share of node 0 that the placement of `card` requests.
fn wanted_on_node_0(card: &PlacementCard, audit: &AuditRecord) -> f64 {
    match card.placement.as_str() {
        "dram" => 1.0,
        "cxl" | "tier" => 0.0,
        "3:2" => 0.6,
        "columns:8" => {
            let hot: Vec<u64> = card
                .columns
                .iter()
                .filter(|column| column.placement == "dram")
                .map(|column| column.bytes)
                .collect();
            assert_eq!(hot.len(), 8, "{card:?}");
            hot.iter().sum::<u64>() as f64 / audit.bytes_checked as f64
        }
        other => panic!("no wish is known for {other}"),
    }
}

/// Checks that every page is present, on its planned node, in the requested shares.
fn pages_are_where_they_were_asked_for(run: &RunSet, placements: &[&str]) {
    let cards = &run.summary.as_ref().unwrap().placements;
    let placed: Vec<&str> = cards.iter().map(|card| card.placement.as_str()).collect();
    assert_eq!(placed, placements);
    for card in cards {
        assert!(card.placed_here, "{card:?}");
        for (when, audit) in [("before", &card.audit_before), ("after", &card.audit_after)] {
            let what = format!("{} {when}: {audit:?}", card.placement);
            let audit = audit.as_ref().expect(&what);
            assert_eq!(audit.pages_absent, 0, "{what}");
            assert_eq!(audit.bytes_checked, run.run.data.region_bytes, "{what}");
            assert_eq!(audit.effective, audit.actual, "{what}");
            assert!(audit.worst_deviation <= TOLERANCE, "{what}");
            let wanted = wanted_on_node_0(card, audit);
            for (node, wanted) in [(0, wanted), (1, 1.0 - wanted)] {
                let found = share_of(&audit.actual, node);
                assert!((found - wanted).abs() <= TOLERANCE, "{wanted} of {what}");
            }
        }
    }
}

/// Checks that all 13 queries were measured under each placement, with the stored answers.
fn answers_are_golden_under_every_placement(run: &RunSet) {
    assert!(run.run.machines.is_empty(), "{:?}", run.run.machines);
    let mut digests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in &run.queries {
        assert_eq!(
            (record.provenance, record.engine, record.machine.as_str()),
            (Provenance::Measured, EngineKind::Tierloom, HERE),
            "{record:?}"
        );
        let answer = record.answer.as_ref().unwrap();
        assert!(answer.checked, "{} {answer:?}", record.query);
        digests
            .entry(&record.query)
            .or_default()
            .insert(&answer.digest);
    }
    assert_eq!(digests.len(), 13, "{digests:?}");
    assert!(digests.values().all(|seen| seen.len() == 1), "{digests:?}");
    for placement in PLACEMENTS {
        let times = run.queries.iter().filter(|r| r.placement == placement);
        assert_eq!(times.count(), 13, "{placement}");
    }
    let summary = run.summary.as_ref().unwrap();
    assert_eq!(
        (summary.finished, summary.planned, summary.interrupted),
        (65, 65, false)
    );
}

/// What the doctor says about an ability.
fn verdict<'a>(doctor: &'a str, ability: &str) -> &'a str {
    let of = |line: &'a str| {
        let (word, rest) = line.split_once(' ')?;
        rest.trim_start().starts_with(ability).then_some(word)
    };
    doctor
        .lines()
        .find_map(of)
        .unwrap_or_else(|| panic!("nothing about {ability} in\n{doctor}"))
}

fn doctor_is_content(doctor: &str) {
    for ability in [
        "NUMA memory policies",
        "kernel weighted interleave",
        "page queries",
        "page migration",
        "NUMA balancing off",
        "whole machine allowed",
    ] {
        assert_eq!(verdict(doctor, ability), "yes", "{ability}:\n{doctor}");
    }
    let missing = doctor.lines().filter(|line| line.starts_with("no "));
    let fixes = doctor.lines().filter(|line| line.contains(" fix: "));
    assert!(fixes.count() >= missing.count(), "{doctor}");
}

/// The line of a tree that contains `part`.
fn line<'a>(tree: &'a str, part: &str) -> &'a str {
    tree.lines()
        .find(|line| line.contains(part))
        .unwrap_or_else(|| panic!("no line with {part:?} in\n{tree}"))
}

fn nothing_was_changed(before: &str, after: &str) {
    // The list is useful only if it contains the settings that Tierloom could write.
    for setting in [
        "/proc/sys/kernel/numa_balancing:0",
        "/sys/kernel/mm/mempolicy/weighted_interleave/node1:1",
        "/sys/kernel/mm/transparent_hugepage/enabled:",
        "/hugepages-2048kB/nr_hugepages:0",
        "/sys/devices/system/memory/auto_online_blocks:online_movable",
    ] {
        assert!(before.contains(setting), "no {setting} in\n{before}");
    }
    let (before, after): (BTreeSet<_>, BTreeSet<_>) =
        (before.lines().collect(), after.lines().collect());
    let changed: Vec<_> = before.symmetric_difference(&after).collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

#[test]
fn in_a_guest_with_two_nodes_pages_answers_and_settings_are_right() {
    let commands = [
        shell(STATE),
        tierloom(&["topology"]),
        tierloom(&["doctor"]),
        ssb(&PLACEMENTS, &["--sf", "0.01"]),
        shell("grep -E '^thp_(fault_alloc|migration_success) ' /proc/vmstat"),
        // Columns that take six huge pages each.
        ssb(&LARGE, &["--sf", "0.5", "--queries", "q1.1"]),
        shell("grep -E '^thp_(fault_alloc|migration_success) ' /proc/vmstat"),
        shell(STATE),
    ];
    let Some(outcome) = boot(GuestKind::TwoNodes, &commands) else {
        return;
    };
    let out: Vec<String> = outcome.commands.iter().map(|c| c.stdout_text()).collect();

    assert!(line(&out[1], "─ dram:").contains("on socket 0"));
    assert!(line(&out[1], "─ cxl:").contains("HMAT read latency 250 ns against 100 ns"));
    assert!(line(&out[1], "node 1:").ends_with("no cpus"));
    doctor_is_content(&out[2]);

    let small = run_in(&out[3]);
    pages_are_where_they_were_asked_for(&small, &PLACEMENTS);
    answers_are_golden_under_every_placement(&small);

    pages_are_where_they_were_asked_for(&run_in(&out[5]), &LARGE);
    assert!(
        more_of_each(&out[4], &out[6]),
        "no huge pages were used and moved: {} then {}",
        out[4],
        out[6]
    );
    nothing_was_changed(&out[0], &out[7]);
}

/// Whether each of two counters is larger than before.
fn more_of_each(before: &str, after: &str) -> bool {
    let counts = |text: &str| -> Vec<u64> {
        let value = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
        text.lines().filter_map(value).collect()
    };
    let (before, after) = (counts(before), counts(after));
    before.len() == 2 && after.len() == 2 && before.iter().zip(&after).all(|(b, a)| a > b)
}

#[test]
fn in_a_guest_with_a_cxl_device_pages_answers_and_settings_are_right() {
    let commands = [
        shell(STATE),
        tierloom(&["topology"]),
        tierloom(&["doctor"]),
        ssb(&PLACEMENTS, &["--sf", "0.01"]),
        shell(STATE),
    ];
    let Some(outcome) = boot(GuestKind::Cxl, &commands) else {
        return;
    };
    let out: Vec<String> = outcome.commands.iter().map(|c| c.stdout_text()).collect();

    assert!(line(&out[1], "─ cxl:").contains("no CPUs; backed by region0 on mem"));
    assert!(line(&out[1], "node 1:").contains("512 MiB"));
    assert!(line(&out[1], "─ dax0.0:").ends_with("512 MiB, system-ram, node 1"));
    doctor_is_content(&out[2]);
    assert_eq!(verdict(&out[2], "CXL memory devices"), "yes");

    let small = run_in(&out[3]);
    pages_are_where_they_were_asked_for(&small, &PLACEMENTS);
    answers_are_golden_under_every_placement(&small);
    nothing_was_changed(&out[0], &out[4]);
}
