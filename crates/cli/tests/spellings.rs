//! Every command that takes a size or a placement reads the same text as the same.

mod common;

use common::{Ended, recorded, tierloom, tierloom_anywhere};
use serde_json::Value;
use std::fs;

/// Parts of the errors of text that is no placement, or of a placement that cannot be.
const NO_PLACEMENT: [&str; 4] = [
    "cannot read placement",
    "an empty placement",
    "puts no page anywhere",
    "must add up to 100%",
];

fn bench(key: &str, value: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let size = if key == "memory_region_size" {
        ""
    } else {
        "\n    memory_region_size: 1M"
    };
    let file = format!("w:\n  args:\n    {key}: \"{value}\"{size}\n");
    fs::write(folder.path().join("w.yaml"), file).unwrap();
    tierloom(folder.path(), &["bench", "w.yaml", "--dry-run"])
}

fn bare(text: &str) -> &str {
    text.trim_matches(['[', ']'])
}

fn run(option: &str, value: &str) -> Ended {
    tierloom_anywhere(&["run", "ssb", "--dry-run", &format!("{option}={value}")])
}

fn predict(option: &str, value: &str) -> Ended {
    let mut args = vec!["predict", "--machine", "nus24", "--json"];
    if option != "--work" {
        args.extend(["--work", "probe"]);
    }
    args.extend([option, value]);
    tierloom_anywhere(&args)
}

fn tune(weights: &str) -> Ended {
    let root = recorded("guest-2node-hmat");
    let args = [
        "tune",
        "--sysroot",
        &root,
        "--apply",
        "--json",
        "--weights",
        weights,
    ];
    tierloom_anywhere(&args)
}

/// Each command's end with the placement `text`.
fn with_placement(text: &str) -> [(&'static str, Ended); 5] {
    [
        ("run --placement", run("--placement", text)),
        (
            "run --operator-memory",
            // In brackets, because commas and `=` mean something in this option too.
            run("--operator-memory", &format!("join=[{}]", bare(text))),
        ),
        ("bench", bench("memory", text)),
        ("predict", predict("--placement", text)),
        ("tune", tune(text)),
    ]
}

fn is_read(ended: &Ended) -> bool {
    ended.no_panic();
    !NO_PLACEMENT
        .iter()
        .any(|message| ended.stderr.contains(message))
}

fn document(ended: Ended) -> Value {
    let ended = ended.with_code(0);
    serde_json::from_str(&ended.stdout).expect("one JSON document")
}

#[test]
fn placements_are_read_or_refused_by_all_commands_alike() {
    for text in [
        "3:2",
        " 3 : 2 ",
        "0:1",
        "dram:3,cxl:2",
        "cxl:2,dram:3",
        "DRAM:3, CXL:2",
        "dram 3, cxl 2",
        "[dram:3,cxl:2]",
        "[3:2]",
        "cxl",
    ] {
        for (command, ended) in with_placement(text) {
            assert!(is_read(&ended), "{command} {text}\n{}", ended.stderr);
        }
    }
    for text in [
        "",
        "2:1:1",
        "1:2:3:4",
        "3:x",
        "3:2.5",
        "0:0",
        "dram:0,cxl:0",
        "dram:3.5,cxl:2",
        "dram:60%,cxl:40%",
        "dram:-1,cxl:1",
        "dram:99999,cxl:1",
        "dram=3,cxl=2",
        "dram=0.6,cxl=0.4",
        "dram=60%,cxl=30%",
        "dram=NaN%",
        "[dram:3,,cxl:2]",
    ] {
        for (command, ended) in with_placement(text) {
            assert_eq!(ended.code, Some(2), "{command} {text}\n{}", ended.stderr);
            assert!(!is_read(&ended), "{command} {text}\n{}", ended.stderr);
            ended.one_error();
        }
    }
}

#[test]
fn contiguous_parts_are_never_taken_for_weights() {
    let text = "dram=60%,cxl=40%";
    for (command, ended) in with_placement(text) {
        assert!(is_read(&ended), "{command}\n{}", ended.stderr);
    }
    // The kernel interleaves and cannot do them.
    let ended = tune(text);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.one_error().contains("contiguous parts"),
        "{}",
        ended.stderr
    );
    // The model knows the bytes on each tier and not their order, as docs/model.md says.
    assert_eq!(
        document(predict("--placement", text))["predictions"][0]["result"]["gbps"],
        document(predict("--placement", "3:2"))["predictions"][0]["result"]["gbps"]
    );
}

#[test]
fn spellings_of_the_same_weights_have_the_same_result() {
    let predicted = |text: &str| {
        let all = document(predict("--placement", text));
        all["predictions"][0]["result"]["gbps"].clone()
    };
    let (three_to_two, other) = (predicted("3:2"), predicted("2:3"));
    assert_ne!(three_to_two, other);
    let tuned = |text: &str| tune(text).with_code(0).stdout;
    let nodes = tuned("3:2");
    assert_ne!(nodes, tuned("2:3"));
    for text in [
        "dram:3,cxl:2",
        "cxl:2,dram:3",
        "dram 3, cxl 2",
        "[dram:3,cxl:2]",
        "DRAM:6,CXL:4",
    ] {
        assert_eq!(predicted(text), three_to_two, "{text}");
        assert_eq!(tuned(text), nodes, "{text}");
    }
}

/// Each command's end with the size `text`.
fn with_size(text: &str) -> [(&'static str, Ended); 6] {
    [
        ("run --dram-limit", {
            let text = format!("--dram-limit={text}");
            let limit = ["--placement", "adaptive", "--machine", "nus24", &text];
            tierloom_anywhere(&[&["run", "ssb", "--dry-run"][..], &limit].concat())
        }),
        (
            "run --operator-memory",
            run("--operator-memory", &format!("join=[0]:{text}")),
        ),
        ("run --placement", {
            run("--placement", &format!("adaptive:{text}"))
        }),
        ("bench", bench("memory_region_size", text)),
        ("predict --work", {
            predict("--work", &format!("probe:table_bytes={text}"))
        }),
        (
            "cost --demand",
            tierloom_anywhere(&["cost", "--json", &format!("--demand={text}")]),
        ),
    ]
}

#[test]
fn sizes_are_read_or_refused_by_all_commands_alike() {
    for text in [
        "1073741824",
        "1073741824B",
        "1G",
        "1g",
        "1GiB",
        "1 GiB",
        "1gib",
        "1.0GiB",
        "1024M",
        "1024mib",
        "0.5T",
        "1536MiB",
        "1.5GiB",
        "512kib",
        "1024GB",
        "1024gb",
    ] {
        for (command, ended) in with_size(text) {
            ended.no_panic();
            let refused = ended.stderr.contains("is not a size");
            assert!(!refused, "{command} {text}\n{}", ended.stderr);
        }
    }
    for text in [
        "1Gb",
        "1XB",
        "1.5.5G",
        "-1GiB",
        "NaNGiB",
        "0.3KiB",
        "99999999TiB",
        "1 G B",
    ] {
        for (command, ended) in with_size(text) {
            assert_eq!(ended.code, Some(2), "{command} {text}\n{}", ended.stderr);
            let error = ended.one_error();
            assert!(error.contains("is not a size"), "{command} {text}\n{error}");
        }
    }
}

#[test]
fn spellings_of_the_same_size_have_the_same_result() {
    let demand = |text: &str| {
        let arg = format!("--demand={text}");
        let all = document(tierloom_anywhere(&["cost", "--json", &arg]));
        // Not the whole document, which has the time it was made at.
        all["points"].clone()
    };
    let probe = |text: &str| {
        let all = document(predict("--work", &format!("probe:table_bytes={text}")));
        all["predictions"][0]["result"].clone()
    };
    let plan = |text: &str| bench("memory_region_size", text).with_code(0).stdout;
    let (demanded, probed) = (demand("2GiB"), probe("2GiB"));
    for text in ["2147483648", "2G", "2gib", "2048 MiB", "2.0GiB", "2097152K"] {
        assert_eq!(demand(text), demanded, "{text}");
        assert_eq!(probe(text), probed, "{text}");
    }
    assert_eq!(plan("1.5MiB"), plan("1536K"));
    assert_ne!(probe("2GB"), probed);
}
