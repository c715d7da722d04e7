//! `--placement adaptive`: checks of its options, pages where the records say they are, and
//! decisions that can be replayed.
#![cfg(feature = "sql")]

mod common;

use common::runs::{SMALL, from_json};
use common::tierloom_anywhere;
use std::fs;

/// Runs a small adaptive run with the arguments `more`.
fn adaptive(more: &[&str]) -> common::Ended {
    let asked = ["--placement", "adaptive", "--machine", "nus24"];
    tierloom_anywhere(&[&SMALL[..], &asked, more].concat())
}

#[test]
fn decisions_are_written_whole_and_follow_from_their_log_and_a_changed_log_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("decisions.jsonl");
    let file = log.to_str().unwrap();
    let ended = adaptive(&["--queries", "q1.1,q2.1", "--decisions", file, "--json"]).with_code(0);
    ended.no_panic();
    let run = from_json(&ended.stdout);
    let card = run.summary.as_ref().unwrap();
    let card = card.placements.iter().find(|p| p.placement == "adaptive");
    let audit = card.unwrap().audit_after.as_ref().unwrap();
    assert!(audit.worst_deviation < 0.01, "pages are where regions say");
    assert!(
        run.queries
            .iter()
            .filter(|q| q.placement == "adaptive")
            .all(|q| q.answer.as_ref().is_some_and(|a| a.checked)),
        "measured only, and checked"
    );
    let text = fs::read_to_string(&log).unwrap();
    // The start, then per query one untimed and two timed runs, each of them planned, run and
    // learned from.
    assert_eq!(text.lines().count(), 1 + 2 * 3 * 3);
    let replayed = tierloom_anywhere(&["predict", "replay", file]).with_code(0);
    assert!(
        replayed.stdout.contains("of 6 runs follow"),
        "{}",
        replayed.stdout
    );

    fs::write(
        &log,
        text.replace("\"action\":\"keep\"", "\"action\":\"return\""),
    )
    .unwrap();
    let changed = tierloom_anywhere(&["predict", "replay", file]).with_code(1);
    assert!(changed.one_error().contains("do not follow"));
    assert!(
        changed.stdout.contains("line 2, phase"),
        "{}",
        changed.stdout
    );

    fs::write(&log, &text[..text.len() - 20]).unwrap();
    let cut = tierloom_anywhere(&["predict", "replay", file]).with_code(2);
    assert!(cut.one_error().contains("line 19"), "{}", cut.stderr);
    fs::write(&log, "").unwrap();
    let empty = tierloom_anywhere(&["predict", "replay", file]).with_code(2);
    assert!(empty.one_error().contains("is empty"));
}

#[test]
fn where_there_is_nothing_to_move_to_it_says_so_and_runs() {
    // A machine without CXL, whether or not this one has it.
    let ended = adaptive(&["--queries", "q1.1", "--tiers", "dram=0"]);
    let ended = ended.with_code(0);
    assert!(
        ended.stderr.contains("nothing can be moved here, because"),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.contains("Adaptive: nothing was moved"));
}

#[test]
fn what_cannot_adapt_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/file.jsonl");
    let missing = missing.to_str().unwrap();
    let ssb = |more: &[&'static str]| [&SMALL[..], more].concat();
    let tpch = |more: &[&'static str]| {
        let asked = [
            "run",
            "tpch",
            "--sf",
            "0.01",
            "--placement",
            "adaptive",
            "--machine",
            "nus24",
        ];
        [&asked[..], more].concat()
    };
    let on_dram = ["--tiers", "dram=0"];
    let cases = [
        (
            ssb(&["--placement", "adaptive"]),
            "needs a profile of this machine",
        ),
        (
            ssb(&["--placement", "adaptive", "--machine", "nus24,hpi25-1dev"]),
            "names 2",
        ),
        (
            ssb(&["--placement", "dram", "--dram-limit", "1MiB"]),
            "add --placement adaptive",
        ),
        (
            ssb(&[
                "--placement",
                "adaptive,adaptive:1MiB",
                "--machine",
                "nus24",
            ]),
            "named twice",
        ),
        (
            [tpch(&["--dram-limit", "1MiB"]), on_dram.to_vec()].concat(),
            "no cxl tier",
        ),
        (tpch(&["--dram-limit", "lots"]), "as in 512MiB"),
        (
            tpch(&["--streams", "2", "--duration", "1s"]),
            "disturb one another",
        ),
    ];
    for (args, expected) in cases {
        let ended = tierloom_anywhere(&args).with_code(2);
        assert!(ended.one_error().contains(expected), "{}", ended.stderr);
    }
    let nowhere = adaptive(&["--decisions", missing]).with_code(2);
    assert!(nowhere.one_error().contains("its folder does not exist"));
    let nothing = tierloom_anywhere(&["predict", "replay", missing]).with_code(2);
    assert!(nothing.one_error().contains("cannot read"));
}

#[test]
fn prefetchers_that_cannot_be_switched_are_named_and_the_run_goes_on_without() {
    let alone = [&SMALL[..], &["--prefetch-off", "epfl25-full-pf-off"]].concat();
    let ended = tierloom_anywhere(&alone).with_code(2);
    assert!(
        ended
            .one_error()
            .contains("--prefetch-off belongs to adaptive placement"),
        "{}",
        ended.stderr
    );
    // Where the registers can be read they can be written too: a test must not switch this
    // machine's prefetchers.
    if tierloom_anywhere(&["tune", "--prefetchers", "show"]).code == Some(0) {
        return tierloom_testing::checked_nothing("prefetchers can be switched here");
    }
    let off = [
        "--queries",
        "q1.1",
        "--prefetch-off",
        "epfl25-full-pf-off",
        "--json",
    ];
    let ended = adaptive(&off).with_code(0);
    assert!(
        ended.stderr.contains("prefetchers stay as they are"),
        "{}",
        ended.stderr
    );
    let run = from_json(&ended.stdout);
    let adaptive = run.queries.iter().find(|q| q.placement == "adaptive");
    assert!(
        adaptive.is_some_and(|q| q.answer.as_ref().is_some_and(|a| a.checked)),
        "{}",
        ended.stdout
    );
}
