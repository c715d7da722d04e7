//! `tierloom pool`: commands on a pool in a file, dry runs, and what is refused with which code.

mod common;

use common::tierloom;
use serde_json::Value;
use std::fs;

#[test]
fn a_pool_is_made_shown_grown_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tierloom(folder.path(), args);
    let json = |args: &[&str]| -> Value {
        serde_json::from_str(&run(args).with_code(0).stdout).expect("JSON")
    };
    let dry = ["pool", "create", "a.pool", "--size", "32MiB", "--dry-run"];
    let plan = run(&dry).with_code(0).stdout;
    assert!(
        plan.contains("28 MiB for regions in extents of 2 MiB"),
        "{plan}"
    );
    assert!(!folder.path().join("a.pool").exists());
    let shown = run(&dry[..5]).with_code(0).stdout;
    assert!(shown.contains("28 MiB free of 28 MiB"), "{shown}");
    let status = json(&["pool", "status", "a.pool", "--json"]);
    assert_eq!(status["space"]["capacity_bytes"], 28 << 20);
    assert_eq!(status["hosts"][0]["state"], "left");
    let grow = [
        "pool",
        "grow",
        "a.pool",
        "--size",
        "64MiB",
        "--json",
        "--dry-run",
    ];
    run(&grow).with_code(0);
    assert_eq!(
        json(&["pool", "status", "a.pool", "--json"])["space"],
        status["space"]
    );
    assert_eq!(json(&grow[..6])["space"]["capacity_bytes"], 60 << 20);
    let add = [
        "pool", "grow", "a.pool", "--member", "b.pool", "--size", "16MiB", "--json",
    ];
    assert_eq!(json(&add)["space"]["capacity_bytes"], 74 << 20);
    let shrink = ["pool", "shrink", "a.pool", "--size=48MiB", "--json"];
    let dry = run(&[&shrink[..], &["--dry-run"]].concat()).with_code(0);
    assert!(dry.stdout.contains("would make member 0"), "{}", dry.stdout);
    let length = || fs::metadata(folder.path().join("a.pool")).unwrap().len();
    assert_eq!(length(), 64 << 20);
    assert_eq!(json(&shrink)["space"]["capacity_bytes"], 58 << 20);
    assert_eq!(length(), 48 << 20);
    run(&["pool", "check", "a.pool", "--data"]).with_code(0);
    // A byte of the newest state, wherever it is: all payloads are hit.
    let mut bytes = fs::read(folder.path().join("a.pool")).unwrap();
    (2 << 20..4 << 20)
        .step_by(64 << 10)
        .for_each(|slot: usize| bytes[slot + 9] ^= 1);
    fs::write(folder.path().join("a.pool"), bytes).unwrap();
    let damaged = run(&["pool", "check", "a.pool"]).with_code(1);
    assert!(damaged.stderr.contains("no state"), "{}", damaged.stderr);
}

#[test]
fn what_cannot_be_is_refused_as_bad_input_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| tierloom(folder.path(), args).with_code(2).stderr;
    fs::write(folder.path().join("data.parquet"), "PAR1 and more").unwrap();
    for (args, says) in [
        (&["create", "a.pool"][..], "--size says how large"),
        (&["create", "a.pool", "--size", "1MiB"], "the least is"),
        (
            &["create", "data.parquet", "--size", "16MiB"],
            "a Parquet file",
        ),
        (&["create", "no/a.pool", "--size", "16MiB"], "no/a.pool"),
        (&["status", "data.parquet"], "is no pool"),
        (&["status", "missing"], "cannot find missing"),
        (&["check", "."], "a directory"),
    ] {
        let text = refused(&[&["pool"], args].concat());
        assert!(text.contains(says), "{args:?}: {text}");
    }
    let create = ["pool", "create", "a.pool", "--size", "16MiB"];
    tierloom(folder.path(), &create).with_code(0);
    for (args, says) in [
        (&create[1..], "already holds a pool"),
        (&["drop", "a.pool", "orders"], "no table `orders`"),
        (
            &["drop", "a.pool", "orders", "--dry-run"],
            "no table `orders`",
        ),
        (&["fence", "a.pool", "db7"], "no host `db7`"),
        (&["grow", "a.pool"], "--size"),
        (&["grow", "a.pool", "--size", "1TiB"], "128 GiB at most"),
        (
            &["grow", "a.pool", "--index", "1", "--size", "1GiB"],
            "no member 1",
        ),
        (&["shrink", "a.pool", "--size", "3MiB"], "the least is"),
        (
            &["shrink", "a.pool", "--index", "1", "--size", "8MiB"],
            "no member 1",
        ),
    ] {
        let text = refused(&[&["pool"], args].concat());
        assert!(text.contains(says), "{args:?}: {text}");
    }
    assert_eq!(
        fs::metadata(folder.path().join("a.pool")).unwrap().len(),
        16 << 20
    );
    assert_eq!(
        fs::read(folder.path().join("data.parquet")).unwrap(),
        b"PAR1 and more"
    );
}

#[test]
fn a_whole_member_is_given_back_with_a_time_line() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        tierloom(folder.path(), &[&["pool"], &args[..]].concat())
    };
    let json = |args: &str| -> Value {
        serde_json::from_str(&run(args).with_code(0).stdout).expect("JSON")
    };
    run("create a.pool --size 16MiB").with_code(0);
    let before = json("status a.pool --json");
    run("grow a.pool --member b.pool --size 16MiB").with_code(0);
    let bad = [
        ("shrink a.pool --index 1", "--size"),
        ("shrink a.pool --remove", "--index"),
        ("shrink a.pool --index 1 --remove --to 4MiB", "--remove"),
        (
            "shrink a.pool --index 0 --remove",
            "member 0 has the pool's own data",
        ),
        (
            "shrink a.pool --index 2 --remove --dry-run",
            "it has members 0, 1",
        ),
    ];
    for (args, says) in bad {
        let text = run(args).with_code(2).stderr;
        assert!(text.contains(says), "{args}: {text}");
    }
    let dry = run("shrink a.pool --index 1 --remove --dry-run").with_code(0);
    assert_eq!(dry.stdout, "would remove member 1\n");
    assert_eq!(json("status a.pool --json")["members"][1]["index"], 1);
    let removed = json("shrink a.pool --member 1 --remove --json");
    let steps = removed["removal"]["steps"].as_array().unwrap();
    let steps: Vec<_> = steps
        .iter()
        .map(|step| step["what"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["committed", "cleared"]);
    assert_eq!(removed["status"]["space"], before["space"]);
    assert_eq!(removed["status"]["members"], before["members"]);
    assert_eq!(fs::metadata(folder.path().join("b.pool")).unwrap().len(), 0);
    // Nobody misses it, and the number is free.
    fs::remove_file(folder.path().join("b.pool")).unwrap();
    run("check a.pool --data").with_code(0);
    let gone = run("shrink a.pool --index 1 --remove").with_code(2).stderr;
    assert!(gone.contains("only member 0"), "{gone}");
    let shown = run("grow a.pool --member c.pool --size 16MiB")
        .with_code(0)
        .stdout;
    assert!(shown.contains("c.pool"), "{shown}");
    let shown = run("shrink a.pool --index 1 --remove").with_code(0).stdout;
    assert!(
        shown.starts_with("removed member 1 with 14 MiB: "),
        "{shown}"
    );
}

#[test]
fn a_pool_of_several_hosts_is_taken_over_and_the_former_host_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tierloom(folder.path(), args);
    let create = [
        "pool",
        "create",
        "a.pool",
        "--size=16MiB",
        "--coherence=none",
        "--host=a",
    ];
    run(&create).with_code(0);
    let grow = ["pool", "grow", "a.pool", "--size=32MiB", "--host=b"];
    let other = run(&grow).with_code(2);
    assert!(
        other.stderr.contains("belongs to host a"),
        "{}",
        other.stderr
    );
    let takeover = ["pool", "takeover", "a.pool", "--host=b", "--dry-run"];
    let dry = run(&takeover).with_code(0).stdout;
    assert!(dry.contains("from a"), "{dry}");
    run(&takeover[..4]).with_code(0);
    run(&grow).with_code(0);
    let fence = [
        "pool",
        "fence",
        "a.pool",
        "a",
        "--confirmed-down",
        "--host=b",
        "--json",
    ];
    let status: Value = serde_json::from_str(&run(&fence).with_code(0).stdout).unwrap();
    let hosts = status["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["name"]), (1, &Value::from("b")));
}
