//! `tierloom pool blocks` on a recorded tree: what is shown, what is changed, exit codes.

mod common;

use common::tierloom;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A CXL region of two blocks of 128 MiB that is node 1, with block 164 offline.
fn record(root: &Path) {
    let memory = "sys/devices/system/memory";
    let device = "sys/bus/dax/devices/dax0.0";
    for (path, text) in [
        (format!("{memory}/block_size_bytes"), "8000000"),
        (format!("{memory}/memory163/state"), "online"),
        (format!("{memory}/memory163/valid_zones"), "Movable"),
        (format!("{memory}/memory164/state"), "offline"),
        (format!("{memory}/memory164/valid_zones"), "Normal Movable"),
        (format!("{device}/target_node"), "1"),
        (format!("{device}/mapping0/start"), "0x518000000"),
        (format!("{device}/mapping0/end"), "0x527ffffff"),
        (
            "sys/bus/dax/drivers/kmem/dax0.0/size".to_owned(),
            "268435456",
        ),
        (
            "sys/devices/system/node/node1/meminfo".to_owned(),
            "Node 1 MemTotal: 131072 kB\nNode 1 MemFree: 131072 kB",
        ),
        ("proc/sys/kernel/random/boot_id".to_owned(), "boot-1"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

#[test]
fn blocks_are_shown_changed_and_what_fails_is_named_with_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    record(&root);
    let run = |args: &[&str]| {
        let place = ["--sysroot", "root", "--state", "saved.json"];
        tierloom(folder.path(), &[&["pool", "blocks"], args, &place].concat())
    };
    let state = |block: u64| {
        let file = format!("sys/devices/system/memory/memory{block}/state");
        fs::read_to_string(root.join(file)).unwrap()
    };
    let shown = run(&["status", "1"]).with_code(0).stdout;
    assert!(shown.contains("128 MiB online"), "{shown}");
    assert!(
        shown.contains("block 164 of node 1 (dax0.0): offline, zone Normal Movable"),
        "{shown}"
    );
    let json: Value =
        serde_json::from_str(&run(&["status", "dax0.0", "--json"]).with_code(0).stdout).unwrap();
    assert_eq!(json["blocks"][0]["state"], "online");

    let dry = run(&["offline", "1", "--dry-run"]).with_code(0).stdout;
    assert!(
        dry.contains("block 163 of node 1 (dax0.0): online -> offline"),
        "{dry}"
    );
    assert_eq!(state(163), "online\n");
    assert!(!folder.path().join("saved.json").exists());
    let offline = run(&["offline", "1", "--json"]).with_code(0).stdout;
    let timeline: Value = serde_json::from_str(&offline).unwrap();
    assert_eq!(timeline["changes"][0]["block"], 163);
    assert_eq!(timeline["online_bytes_after"], 0);
    assert_eq!(state(163), "offline\n");
    // A recorded tree does not do what the kernel does with this word: the block stays offline.
    let online = run(&["online", "1", "--blocks", "164"]).with_code(1);
    assert!(
        online.one_error().contains("block 164 of node 1 stays"),
        "{}",
        online.stderr
    );
    assert_eq!(state(164), "online_movable\n");
}

#[test]
fn what_is_no_region_or_block_is_refused_with_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("root"));
    for (args, says) in [
        (&["status", "0"][..], "node 0"),
        (&["offline", "dax7.0"], "dax7.0"),
        (&["offline", "1", "--blocks", "1"], "163-164"),
        (&["offline", "1", "--size", "1GiB"], "blocks of 128 MiB can"),
        (&["offline", "memory"], "neither a node"),
        (
            &["offline", "1", "--size", "1MiB", "--blocks", "163"],
            "--blocks",
        ),
    ] {
        let args = [&["pool", "blocks"], args, &["--sysroot", "root"]].concat();
        let stderr = tierloom(folder.path(), &args).with_code(2).stderr;
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
    let restore = [
        "pool",
        "blocks",
        "restore",
        "--sysroot=root",
        "--state=none.json",
    ];
    let nothing = tierloom(folder.path(), &restore).with_code(0).stdout;
    assert!(nothing.contains("nothing to restore"), "{nothing}");
}
