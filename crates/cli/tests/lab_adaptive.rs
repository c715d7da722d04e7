//! Adaptive placement in a real Linux guest with two memory nodes: pages are where the last
//! decision put them, trials were undone, and the log can be replayed.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` skips the guest. The
//! guest is emulated, so the decisions mean nothing. The profile makes sure that something is
//! decided: in it, DRAM is slower than anything else.
#![cfg(feature = "sql")]

use std::time::Duration;
use tierloom_lab::{GuestCommand, GuestFile, GuestKind, GuestOptions, kit_for_tests, run};
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::{Machine, StructureClass, profiles};
use tierloom_placement::adaptive::{Entry, PhaseDecision};
use tierloom_record::{Record, RecordSet};
use tierloom_topology::NodeId;

/// Limit for the guest on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);

/// A profile with almost no DRAM bandwidth and almost no cache.
fn played() -> Machine {
    let mut machine = profiles::load("nus24").unwrap();
    machine.cache.l2_bytes.value = f64::from(1 << 14);
    machine.cache.llc_bytes.value = f64::from(1 << 15);
    for (tier, gbps) in [("dram", 0.002), ("cxl", 1.0)] {
        let tier = machine.tiers.iter_mut().find(|t| t.name == tier).unwrap();
        let written_past = tier.nt_write_gbps.as_mut();
        let rates = [&mut tier.read_gbps, &mut tier.write_gbps];
        for rate in rates.into_iter().chain(written_past) {
            rate.value = gbps;
            (rate.low, rate.high) = (None, None);
        }
    }
    machine
}

/// What the commands printed to stdout; all must have succeeded.
fn boot(profile: &std::path::Path, commands: &[GuestCommand]) -> Option<Vec<String>> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guest out)"))?;
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    options.timeout = LIMIT;
    // Automatic NUMA balancing would move pages while they are counted.
    options.kernel_args.push("numa_balancing=disable".into());
    let binary = env!("CARGO_BIN_EXE_tierloom");
    options.files.push(GuestFile::new(binary, "/bin/tierloom"));
    options.files.push(GuestFile::new(profile, "/played.yaml"));
    let outcome = run(&kit, &options, commands, &mut |line| {
        eprintln!("[two-nodes] {line}");
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let outputs = outcome.commands.iter().map(|command| {
        let (out, err) = (command.stdout_text(), command.stderr_text());
        assert_eq!(command.exit_code, 0, "{:?}\n{err}\n{out}", command.argv);
        out
    });
    Some(outputs.collect())
}

/// The last decision about the phase that reads the fact table, its columns, and whether any pages
/// moved for a decision.
fn last_decision(log: &str) -> (PhaseDecision, Vec<String>, bool) {
    let mut last = None;
    let mut moved = false;
    for line in log.lines() {
        let Entry::Plan {
            phases, decisions, ..
        } = serde_json::from_str(line).unwrap()
        else {
            continue;
        };
        moved |= decisions.iter().any(|d| d.moved_bytes > 0);
        let pass = phases
            .iter()
            .zip(decisions)
            .find(|(p, _)| p.name == "lineorder");
        if let Some((phase, decision)) = pass {
            let columns = phase.accesses.iter();
            let columns = columns.filter(|a| a.class == StructureClass::Column);
            last = Some((decision, columns.map(|a| a.structure.clone()).collect()));
        }
    }
    let (decision, columns) = last.expect("the fact table was read");
    (decision, columns, moved)
}

/// The share of node 1 in "nodes 0:3,1:2 at the end".
fn on_node_1(text: &str) -> f64 {
    let nodes = text
        .trim_start_matches("nodes ")
        .trim_end_matches(" at the end");
    let node = |target: &Target| match target {
        Target::Node(NodeId(node)) => *node,
        Target::Tier(kind) => panic!("{text}: {kind} is no node"),
    };
    match nodes.parse().unwrap() {
        PlacementSpec::Bind(target) => f64::from(node(&target)),
        PlacementSpec::Weighted(parts) => {
            let sum: u32 = parts.iter().map(|(_, w)| w).sum();
            let up = parts.iter().filter(|(t, _)| node(t) == 1);
            f64::from(up.map(|(_, w)| w).sum::<u32>()) / f64::from(sum)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn columns_are_where_the_last_decision_wants_them_and_the_log_replays() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("played.yaml");
    // JSON is also YAML.
    std::fs::write(&profile, serde_json::to_string(&played()).unwrap()).unwrap();
    let shell = |line: &str| GuestCommand::shell(line).quiet();
    let commands = [
        shell(
            "tierloom run ssb --sf 0.1 --queries q1.1 --repeat 7 --pages 4k --placement adaptive --machine /played.yaml \
             --decisions /run/decisions.jsonl --jsonl",
        ),
        shell("cat /run/decisions.jsonl"),
        shell("tierloom predict replay /run/decisions.jsonl"),
        shell(
            "tierloom run tpch --sf 0.01 --queries q1,q6 --streams 2 --duration 5s --pages 4k --placement adaptive --machine /played.yaml \
             --dram-limit 1MiB --jsonl",
        ),
    ];
    let Some(outputs) = boot(&profile, &commands) else {
        return;
    };
    let records: Vec<Record> = outputs[0]
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let set = RecordSet::from_records(records).unwrap();
    let run = &set.runs[0];
    let adaptive = run.queries.iter().filter(|q| q.placement == "adaptive");
    assert!(adaptive.clone().count() == 1);
    for query in adaptive {
        assert!(
            query.answer.as_ref().is_some_and(|a| a.checked),
            "{query:?}"
        );
    }
    let summary = run.summary.as_ref().unwrap();
    let cards = summary.placements.iter();
    let card = cards.clone().find(|p| p.placement == "adaptive").unwrap();
    let audit = card.audit_after.as_ref().unwrap();
    assert!(
        audit.worst_deviation < 0.01,
        "some page is not where its region says: {audit:?}"
    );
    let (decision, columns, moved) = last_decision(&outputs[1]);
    assert!(
        moved,
        "the profile makes moving worth while:\n{}",
        outputs[1]
    );
    assert!(!columns.is_empty());
    let wanted = decision.layout.columns.share("cxl");
    for name in &columns {
        let column = card.columns.iter().find(|c| c.column == *name).unwrap();
        let found = on_node_1(&column.placement);
        assert!(
            (found - wanted).abs() < 0.03,
            "{name} has {found} of its pages on node 1, {wanted} were decided: {decision:?}"
        );
    }
    assert!(
        outputs[2].contains("decisions of 8 runs follow"),
        "{}",
        outputs[2]
    );
    let capped = outputs[3]
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let streams = capped.filter(|record| {
        matches!(record, Record::Throughput(t) if t.placement == "adaptive" && t.queries > 0)
    });
    assert_eq!(
        streams.count(),
        1,
        "streams go on while columns move by heat"
    );
}
