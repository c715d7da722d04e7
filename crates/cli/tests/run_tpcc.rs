//! `run tpcc` and `run ycsb`: bad input, streams of queries beside, a run with a log and its
//! recovery, a full disk.

mod common;

use common::{command, end_of, profile, refused, tierloom};
use std::path::Path;
use tierloom_record::{HERE, Provenance, RecordSet, TransactionsRecord};

fn arguments(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn bad_input_is_one_error_before_anything_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("old.log"), "something").unwrap();
    std::fs::write(folder.path().join("parted.log.3"), "something").unwrap();
    let cases = [
        (
            "run tpcc --warehouses 0",
            "--warehouses 0: expected a number from 1",
        ),
        ("run tpcc --clients 0", "--clients 0"),
        (
            "run tpcc --log new.log --model-clients 0",
            "--model-clients 0",
        ),
        ("run tpcc --seconds 0", "--seconds 0"),
        ("run tpcc --seconds NaN", "--seconds NaN"),
        ("run tpcc --room 0", "--room 0"),
        ("run tpcc --placement main=hbmx", "hbmx"),
        ("run tpcc --placement table=dram", "table"),
        (
            "run tpcc --placement main=dram+main=dram",
            "main is placed twice",
        ),
        ("run tpcc --placement hbm", "hbm"),
        ("run tpcc --placement hbm --machine sap26-pool", "hbm"),
        ("run tpcc --machine sap26-pol", "did you mean sap26-pool"),
        (
            "run tpcc --machine sap26-pool --model-workers 97",
            "at most 96",
        ),
        ("run tpcc --pages 3m", "3m"),
        ("run tpcc --log old.log", "old.log: the file exists"),
        ("run tpcc --log nowhere/new.log", "nowhere/new.log"),
        ("run tpcc --log parted.log", "its part parted.log.3 exists"),
        (
            "run tpcc --log new.log --checkpoint old.log",
            "--checkpoint old.log: the file exists",
        ),
        (
            "run tpcc --log new.log --checkpoint new.log",
            "name the same file",
        ),
        (
            "run tpcc --log new.log --checkpoint nowhere/pool",
            "nowhere/pool",
        ),
        (
            "run tpcc --log new.log --checkpoint pool --checkpoint-every 0",
            "--checkpoint-every 0",
        ),
        (
            "run tpcc --log new.log --checkpoint new.log.2",
            "a part of the log will have this name",
        ),
        ("run ycsb --workload g", "--workload g: expected a letter"),
        ("run ycsb --rows 10", "--rows 10"),
        ("run ycsb --records nowhere/r.jsonl", "nowhere"),
    ];
    for (line, says) in cases {
        refused(folder.path(), &arguments(line), &[says]);
    }
}

#[test]
fn bad_input_about_streams_is_one_error_before_anything_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (
            "run tpcc --beside ssc",
            "workload \"ssc\": there are ssb, tpch",
        ),
        (
            "run tpcc --beside ssb:x",
            "--beside ssb:x: expected ssb, tpch",
        ),
        ("run tpcc --beside ssb:0.001", "--beside ssb:0.001"),
        ("run tpcc --beside ssb --rounds 0", "--rounds 0"),
        (
            "run tpcc --beside ssb --beside-streams 0",
            "--beside-streams 0",
        ),
        (
            "run tpcc --beside ssb --beside-placement adaptive",
            "--beside-placement adaptive",
        ),
        (
            "run tpcc --beside ssb --machine sap26-pool --model-workers 90",
            "90 workers of the transactions and 24 of the streams",
        ),
    ];
    for (line, says) in cases {
        refused(folder.path(), &arguments(line), &[says]);
    }
}

/// NUS24's profile with so little CXL bandwidth that streams fill it, however slow they are here.
fn narrow_cxl() -> String {
    let text = profile("nus24");
    let (others, cxl) = text.split_at(text.find("- name: cxl").unwrap());
    let mut cxl = cxl.to_owned();
    for name in ["read_gbps:", "write_gbps:"] {
        let is_peak = |line: &&str| line.trim_start().starts_with(name);
        let peak = cxl.lines().find(is_peak).unwrap().to_owned();
        let narrow = format!("    {name} {{ value: 2, kind: assumed, source: narrow }}");
        cxl = cxl.replacen(&peak, &narrow, 1);
    }
    format!("{others}{cxl}")
}

#[test]
fn streams_beside_transactions_take_from_each_other_here_and_on_a_full_tier() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("narrow.yaml"), narrow_cxl()).unwrap();
    let line = "run tpcc --warehouses 3 --clients 1 --seconds 0.5 --pages 4k --placement default,cxl --beside ssb:0.01 --beside-threads 1 --beside-placement cxl --rounds 2 --machine ./narrow.yaml --records run.jsonl --report run.html";
    let ended = tierloom(folder.path(), &arguments(line)).with_code(0);
    let says = "tpcc beside 1 stream of ssb (SF 0.01, 1 thread) in dram, measured here, 2 rounds";
    assert!(ended.stdout.contains(says), "{}", ended.stdout);
    let html = std::fs::read_to_string(folder.path().join("run.html")).unwrap();
    assert!(html.contains("beside 1 stream of ssb"));
    let records = records(folder.path());
    let (here, modelled) = records.split_first().unwrap();
    assert_eq!((&here.invalid, here.machine.as_str()), (&None, HERE));
    let beside = here.beside.as_ref().unwrap();
    assert_eq!(beside.transactions_ratio.values.len(), 2);
    assert!(beside.queries_alone_per_hour.min > 0.0 && beside.queries_beside_per_hour.min > 0.0);
    assert!(beside.audit_before.is_some() && beside.audit_after == beside.audit_before);
    assert!(beside.kinds.iter().all(|kind| kind.commits > 0));
    // Of two runs alone; those beside the streams are apart.
    assert!(here.duration_s >= 1.0 && here.merging.is_some_and(|merging| merging.rows > 0));
    // Transactions in dram hardly meet streams in cxl; in cxl both wait for the same tier.
    let ratio = |record: &TransactionsRecord| {
        let beside = record.beside.as_ref().unwrap();
        assert!(
            beside
                .tiers
                .iter()
                .all(|tier| tier.utilisation.unwrap() <= 1.0 + 1e-9)
        );
        (
            beside.transactions_ratio.median,
            beside.queries_ratio.median,
        )
    };
    let (apart, shared) = (ratio(&modelled[0]), ratio(&modelled[1]));
    assert!(apart.0 > 0.97 && apart.0 <= 1.0, "{apart:?}");
    assert!(shared.0 < 0.9 && shared.1 < apart.1, "{shared:?} {apart:?}");
    // Merging, too, is slowed by streams on its tier and not by others.
    let slowed = |record: &TransactionsRecord| {
        let beside = record.beside.as_ref().unwrap().merging.unwrap();
        beside.ns_per_row / record.merging.unwrap().ns_per_row
    };
    let (apart, shared) = (slowed(&modelled[0]), slowed(&modelled[1]));
    assert!(apart < 1.1 && shared > 1.5, "{shared} {apart}");
}

#[test]
fn a_plan_is_printed_without_loading_anything() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run tpcc --warehouses 9999 --clients 384 --room 7 --placement dram,main=remote --machine sap26-pool --dry-run";
    let ended = tierloom(folder.path(), &arguments(line)).with_code(0);
    for says in [
        "9999 warehouses, room for 7 new orders",
        "384 clients",
        "main remote, heap dram",
    ] {
        assert!(ended.stdout.contains(says), "{says}\n{}", ended.stdout);
    }
    // Tables of streams are where they are asked for if the machine has it.
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../topology/tests/fixtures/server-2s-4cxl"
    );
    let line =
        format!("run tpcc --beside ssb --beside-placement cxl --sysroot {fixture} --dry-run");
    let ended = tierloom(folder.path(), &arguments(&line)).with_code(0);
    assert!(ended.stdout.contains("tables in cxl\n"), "{}", ended.stdout);
}

fn records(folder: &Path) -> Vec<TransactionsRecord> {
    let set = RecordSet::read(&folder.join("run.jsonl")).expect("records");
    set.transactions
}

#[test]
fn a_run_is_consistent_recovers_and_is_modelled_where_this_machine_lacks_a_tier() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run tpcc --warehouses 1 --clients 2 --seconds 2 --room 5000 --pages 4k --log redo.log --recover --placement default,cxl --machine nus24 --records run.jsonl --report run.html";
    let ended = tierloom(folder.path(), &arguments(line)).with_code(0);
    assert!(
        ended.stdout.contains("No figure of tpcc is a TPC result"),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("recovered"), "{}", ended.stderr);
    let html = std::fs::read_to_string(folder.path().join("run.html")).unwrap();
    assert!(html.contains("stock-level") && html.contains("No figure of tpcc is a TPC result"));
    let records = records(folder.path());
    let here: Vec<_> = records
        .iter()
        .filter(|record| record.machine == HERE)
        .collect();
    let first = here[0];
    assert_eq!(
        (first.provenance, &first.invalid),
        (Provenance::Measured, &None)
    );
    assert_eq!(first.kinds.len(), 5);
    assert!(first.transactions_per_s > 0.0 && first.log.is_some_and(|log| log.writes > 0));
    assert!(first.kinds[0].log_share > 0.0 && first.kinds[0].p99_us >= first.kinds[0].p50_us);
    assert!(
        first
            .parts
            .iter()
            .all(|part| part.audit_before.is_some() && part.accessed_bytes > 0)
    );
    let modelled: Vec<_> = records
        .iter()
        .filter(|record| record.machine != HERE)
        .collect();
    assert_eq!(modelled.len(), 2);
    assert!(
        modelled
            .iter()
            .all(|record| record.log_wait_ns.is_some_and(|ns| ns > 0.0))
    );
    let on = |record: &TransactionsRecord, tier: &str| {
        let found = record.tiers.iter().find(|found| found.tier == tier);
        found.map_or(0.0, |found| found.bandwidth_gbps)
    };
    assert_eq!(
        (on(modelled[0], "cxl"), on(modelled[1], "dram")),
        (0.0, 0.0)
    );
    assert!(on(modelled[0], "dram") > 0.0 && on(modelled[1], "cxl") > 0.0);
    assert!(modelled[1].transactions_per_s < modelled[0].transactions_per_s);
}

#[test]
fn a_run_with_checkpoints_recovers_from_the_newest_and_drops_the_log_before() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run tpcc --warehouses 1 --clients 2 --seconds 3 --room 5000 --pages 4k --log redo.log --checkpoint ckpt.pool --checkpoint-every 0.5 --recover --placement default --records run.jsonl";
    let ended = tierloom(folder.path(), &arguments(line)).with_code(0);
    for says in ["recovering from the newest checkpoint", "recovered"] {
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
    assert!(ended.stdout.contains("checkpoints: "), "{}", ended.stdout);
    let taken = records(folder.path())[0].checkpoints.expect("checkpoints");
    assert!(taken.taken > 0 && taken.mean_s > 0.0 && taken.size_bytes > 1 << 20);
    assert!(!folder.path().join("redo.log").exists());
    let last = format!("redo.log.{}", taken.taken);
    assert!(folder.path().join(last).exists());
}

#[test]
fn a_full_log_disk_is_one_error_that_names_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run tpcc --warehouses 1 --clients 2 --seconds 60 --room 5000 --pages 4k --log redo.log --placement default";
    let tool = command(folder.path(), &arguments(line));
    // A limit on the size of files stands for a full disk: 64 blocks of 1 KiB.
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "ulimit -f 64; exec \"$0\" \"$@\""]);
    limited.arg(tool.get_program()).args(tool.get_args());
    limited
        .current_dir(folder.path())
        .env_remove("RUST_BACKTRACE");
    limited
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let ended = end_of(limited.spawn().expect("bash starts")).with_code(1);
    let error = ended.one_error();
    assert!(error.contains("redo.log: cannot write"), "{error}");
    let contents = std::fs::metadata(folder.path().join("redo.log")).unwrap();
    assert!(contents.len() <= 64 << 10);
}

#[test]
fn point_reads_lose_more_on_slow_memory_than_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run ycsb --workload c --rows 20000 --clients 1 --seconds 1 --pages 4k --placement default,cxl --machine sap26-pool --jsonl --records run.jsonl";
    let ended = tierloom(folder.path(), &arguments(line)).with_code(0);
    assert!(
        ended.stdout.lines().all(|line| line.starts_with('{')),
        "{}",
        ended.stdout
    );
    let records = records(folder.path());
    assert!(
        records
            .iter()
            .all(|record| record.workload == "ycsb-c" && record.invalid.is_none())
    );
}
