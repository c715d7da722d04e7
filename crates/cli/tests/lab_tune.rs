//! `tierloom tune` in a real Linux guest with two nodes: weights are searched on its memory, set in
//! its kernel, and restored.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` skips the guest. The
//! guest is emulated: rates mean nothing, but pages must be where each set of weights puts them,
//! and settings must be restored.

use std::collections::BTreeMap;
use std::time::Duration;

use tierloom_lab::{GuestCommand, GuestFile, GuestKind, GuestOptions, kit_for_tests, run};
use tierloom_record::{BenchRecord, Provenance, Record, TuneRecord};

/// Limit for the guest on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

fn shell(script: impl Into<String>) -> GuestCommand {
    GuestCommand::shell(script).quiet()
}

/// What each command printed to stdout; all must have succeeded.
fn boot(commands: &[GuestCommand]) -> Option<Vec<String>> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guest out)"))?;
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    options.timeout = LIMIT;
    // Automatic NUMA balancing would move pages while they are counted.
    options.kernel_args.push("numa_balancing=disable".into());
    options.files.push(GuestFile::new(
        env!("CARGO_BIN_EXE_tierloom"),
        "/bin/tierloom",
    ));
    let outcome = run(&kit, &options, commands, &mut |line| {
        eprintln!("[two-nodes] {line}")
    })
    .unwrap_or_else(|error| panic!("{error}"));
    for command in &outcome.commands {
        assert_eq!(
            command.exit_code,
            0,
            "{:?}\nstderr:\n{}\nstdout:\n{}",
            command.argv,
            command.stderr_text(),
            command.stdout_text()
        );
    }
    Some(
        outcome
            .commands
            .iter()
            .map(|command| command.stdout_text())
            .collect(),
    )
}

fn records(lines: &str) -> (Vec<BenchRecord>, Vec<TuneRecord>) {
    let (mut runs, mut tunes) = (Vec::new(), Vec::new());
    for line in lines.lines() {
        match serde_json::from_str(line) {
            Ok(Record::Bench(record)) => runs.push(*record),
            Ok(Record::Tune(record)) => tunes.push(*record),
            other => panic!("neither a run nor weights: {other:?} in {line}"),
        }
    }
    (runs, tunes)
}

/// The share of node 1 that the weights of a run request.
fn wanted(run: &BenchRecord) -> f64 {
    let text = run
        .varied
        .iter()
        .find(|setting| setting.key == "weights")
        .unwrap();
    let weights: tierloom_model::search::Weights = text.value.parse().unwrap();
    weights.share("cxl")
}

#[test]
fn weights_are_measured_set_and_put_back_on_two_real_nodes() {
    let tune = "tierloom tune read --measure --points 4 --workers 1 --region 8 --pages 4k --seconds 0.2 --repeat 2";
    let queries =
        "tierloom tune ssb --measure --points 3 --workers 1 --region 4 --pages 4k --repeat 2";
    let commands = [
        shell(format!("{tune} --records /out.jsonl --curve")),
        shell("cat /out.jsonl"),
        shell(format!("grep -H . {WEIGHTS}/*")),
        shell("tierloom tune --apply --weights 5:3"),
        shell(format!("grep -H . {WEIGHTS}/*")),
        shell("tierloom tune --apply --weights 5:3 --yes"),
        shell(format!("grep -H . {WEIGHTS}/*")),
        shell("tierloom tune --apply --weights 7:2 --yes"),
        shell("tierloom tune --restore --yes"),
        shell(format!("grep -H . {WEIGHTS}/*")),
        shell("tierloom tune --restore --yes"),
        shell(format!("{queries} --records /queries.jsonl")),
        shell("cat /queries.jsonl"),
    ];
    let Some(out) = boot(&commands) else { return };

    assert!(out[0].starts_with("measured on this machine"), "{}", out[0]);
    let (runs, tunes) = records(&out[1]);
    let [record] = tunes.as_slice() else {
        panic!("{} records of weights", tunes.len())
    };
    assert_eq!(
        (record.phase.as_str(), record.provenance),
        ("read", Provenance::Measured)
    );
    assert!(
        (2..=4).contains(&record.points.len()),
        "{:?}",
        record.points
    );
    for point in &record.points {
        let ends = point.low.zip(point.high).unwrap();
        assert!(
            0.0 < ends.0 && ends.0 <= point.rate && point.rate <= ends.1,
            "{point:?}"
        );
    }
    assert!(
        runs.len() >= record.points.len(),
        "a run of no use is repeated"
    );
    for run in &runs {
        let region = &run.tasks[0].regions[0];
        assert!(run.valid, "{:?}", run.remarks);
        for audit in [&region.before, &region.after] {
            let audit = audit.as_ref().unwrap();
            let found = audit
                .actual
                .iter()
                .find(|share| share.node == 1)
                .map_or(0.0, |s| s.share);
            // An incomplete last round of the weights deviates by less than one round of pages.
            let tolerance = 200.0 * 4096.0 / region.size_bytes as f64;
            assert!(
                (found - wanted(run)).abs() <= tolerance,
                "{:?}: {audit:?}",
                run.varied
            );
            assert_eq!(
                (audit.pages_absent, audit.bytes_checked),
                (0, region.size_bytes)
            );
        }
    }

    assert_eq!(out[2], out[4], "a dry run changes nothing: {}", out[3]);
    let set = format!("{WEIGHTS}/node0:5\n{WEIGHTS}/node1:3\n");
    assert!(out[6].contains(&set), "{}\nafter\n{}", out[6], out[5]);
    assert!(out[7].contains("first old weights are kept"), "{}", out[7]);
    assert_eq!(out[2], out[9], "everything is back: {}", out[8]);
    assert!(out[10].starts_with("nothing to restore"), "{}", out[10]);
    queries_are_measured_under_each_set_of_weights(&out[11], &out[12]);
}

fn queries_are_measured_under_each_set_of_weights(shown: &str, lines: &str) {
    assert!(shown.starts_with("measured on this machine"), "{shown}");
    let records = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let (mut placements, mut tunes) = (BTreeMap::new(), Vec::new());
    for record in records {
        match record {
            Record::Tune(record) => tunes.push(*record),
            Record::Summary(summary) => {
                for card in summary.placements {
                    let shares = card.audit_after.iter().flat_map(|audit| &audit.actual);
                    let second = shares
                        .filter(|share| share.node == 1)
                        .map(|share| share.share);
                    placements.insert(card.placement, second.sum::<f64>());
                }
            }
            Record::Query(query) => assert_eq!(query.query, "q1.1"),
            _ => {}
        }
    }
    let [record] = tunes.as_slice() else {
        panic!("{} records of weights", tunes.len())
    };
    assert_eq!(record.phase, "ssb");
    assert!(
        record.what.contains("scale factor 0.016"),
        "{}",
        record.what
    );
    assert!(record.points.len() >= 2, "{:?}", record.points);
    // The pages were where the weights put them, on both ends and in between.
    assert!(placements["dram"] < 0.01, "{placements:?}");
    let mixed = placements
        .values()
        .filter(|share| (0.2..0.8).contains(*share));
    assert!(mixed.count() >= 1, "{placements:?}");
}
