//! Bad input: exit code 2 and one error that names it, before anything is printed or written.

mod common;

use common::{profile, recorded, refused, tierloom_anywhere};
use std::fs;

/// Bad arguments as one line, and what the error must contain.
type Case = (&'static str, &'static [&'static str]);

/// The words of a line; one in single quotes may have blanks, or be empty.
fn words(line: &str) -> Vec<&str> {
    let quoted = line.split('\'').enumerate();
    let words = quoted.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

#[track_caller]
fn all_refused(cases: &[Case]) {
    for (line, says) in cases {
        let folder = tempfile::tempdir().unwrap();
        refused(folder.path(), &words(line), says);
    }
}

#[test]
fn unknown_names_are_refused_and_the_nearest_is_suggested() {
    all_refused(&[
        (
            "run ssb --queries q1.4",
            &["q1.4", "did you mean 'q1.1'", "q4.3"],
        ),
        ("run ssb --queries q1.1,", &["unknown SSB query ''"]),
        ("run ssb --queries ''", &["unknown SSB query ''", "q1.1"]),
        ("run ssb --machine nus2", &["nus2", "did you mean nus24"]),
        (
            "run ssb --machine zzzzzzzz",
            &["zzzzzzzz", "hpi25-4dev", "YAML"],
        ),
        ("run ssb --machine nus24,nus24", &["nus24", "twice"]),
        (
            "machines epfl25-full-pf-onn",
            &["did you mean epfl25-full-pf-on"],
        ),
    ]);
}

#[test]
fn placements_that_cannot_be_are_refused() {
    all_refused(&[
        ("run ssb --placement drum", &["drum", "dram"]),
        ("run ssb --placement columns", &["columns", "missing"]),
        (
            "run ssb --placement columns:",
            &["columns:", "whole number", "columns:8"],
        ),
        (
            "run ssb --placement columns:101%",
            &["columns:101%", "between 0% and 100%"],
        ),
        ("run ssb --placement 0:0", &["0:0", "no weight is above 0"]),
        (
            "run ssb --placement dram:0,cxl:0",
            &["dram:0,cxl:0", "no weight is above 0"],
        ),
        ("run ssb --placement ''", &["empty placement"]),
        (
            "run ssb --placement dram,,cxl",
            &["empty placement", "dram,,cxl"],
        ),
        ("run ssb --placement [0:3,1:2", &["bracket", "not closed"]),
        ("run ssb --placement 3:-2", &["3:-2"]),
        (
            "run ssb --placement 60000",
            &["node 60000 does not exist", "tierloom topology"],
        ),
        (
            "run ssb --placement 0 --machine nus24",
            &["node 0", "nus24", "dram"],
        ),
        ("run ssb --placement hbm --machine nus24", &["hbm", "nus24"]),
    ]);
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    all_refused(&[
        ("run ssb --sf 0", &["scale factor 0", "from 0.01 to"]),
        ("run ssb --sf 0.001", &["0.001", "from 0.01 to"]),
        ("run ssb --sf nan", &["NaN", "from 0.01 to"]),
        ("run ssb --sf inf", &["inf", "from 0.01 to"]),
        ("run ssb --sf 1e9", &["1000000000", "from 0.01 to"]),
        ("run ssb --sf=-1", &["-1", "from 0.01 to"]),
        ("run ssb --threads 0", &["--threads 0", "at least one"]),
        ("run ssb --threads 1000000", &["--threads 1000000", "CPUs"]),
        ("run ssb --repeat 0", &["--repeat 0", "at least once"]),
        (
            "run ssb --model-workers 0",
            &["--model-workers 0", "at least one"],
        ),
        (
            "run ssb --machine=nus24 --model-sf=1200",
            &["--model-sf 1200", "dram of nus24", "those of 50"],
        ),
        ("run ssb --machine=nus24 --model-sf=0", &["scale factor 0"]),
        ("run ssb --pages 3k", &["3k", "4k, thp, 2m, 1g"]),
        (
            "run ssb --time-per-tuple=-1",
            &["--time-per-tuple -1", "positive"],
        ),
        ("run ssb --time-per-tuple nan", &["NaN", "positive"]),
        (
            "generate ssb --sf 0 -o data",
            &["scale factor 0", "from 0.01 to"],
        ),
    ]);
}

/// The argument parser's own errors may be followed by usage lines.
#[test]
fn more_workers_than_a_machine_has_threads_are_refused() {
    all_refused(&[
        (
            "run ssb --dry-run --machine=hpi25-1dev --model-workers=49",
            &["--model-workers", "49 workers", "at most 48"],
        ),
        (
            "predict --machine epfl25-snc4-pf-on,nus24 --work read --workers=33",
            &[
                "33 workers",
                "nus24",
                "32 cores with 1 hardware thread each",
                "at most 32",
            ],
        ),
        (
            "predict tpch --machine hpi25-1dev --workers=49",
            &[
                "49 workers",
                "24 cores with 2 hardware threads each",
                "at most 48",
            ],
        ),
        (
            "tune probe --machine hpi25-1dev --workers=49",
            &["49 workers", "hpi25-1dev", "at most 48"],
        ),
    ]);
}

#[test]
fn usage_errors_print_no_data() {
    let bad: [&[&str]; 9] = [
        &["nosuch"],
        &["run", "tpcq"],
        &["run", "ssb", "--sf", "x"],
        &["run", "ssb", "--time-per-tuple", "-1"],
        &["run", "ssb", "--json", "--jsonl"],
        &["run", "ssb", "--seed", "-1"],
        &["report"],
        &["generate", "ssb"],
        &["lab", "run"],
    ];
    for args in bad {
        let ended = tierloom_anywhere(args).with_code(2);
        assert_eq!(ended.stdout, "", "{args:?}");
        ended.one_error();
    }
    let bare = tierloom_anywhere(&[]).with_code(2);
    assert_eq!(bare.stdout, "");
    assert!(bare.stderr.contains("Usage:"), "{}", bare.stderr);
}

/// A broken copy of a profile, made by replacing `from` with `to` once; also returns the line that
/// changed.
fn broken_profile(from: &str, to: &str) -> (String, usize) {
    let text = profile("nus24");
    let line = text.lines().position(|l| l.contains(from)).unwrap() + 1;
    (text.replacen(from, to, 1), line)
}

#[test]
fn broken_profiles_are_refused_with_file_line_and_field() {
    let cores = profile("nus24")
        .lines()
        .find(|l| l.starts_with("cores:"))
        .unwrap()
        .to_owned();
    let cases: [(&str, &str, &[&str]); 6] = [
        (
            "read_gbps: { value: 29.667, ",
            "read_gbps: { ",
            &["read_gbps", "missing"],
        ),
        (
            "value: 29.667",
            "value: -29.667",
            &["tiers[0].read_gbps", "is -29.667"],
        ),
        ("value: 96,", "value: .nan,", &["tiers[0].idle_latency_ns"]),
        ("knee: ", "kneee: ", &["kneee", "knee"]),
        (
            "tierloom-machine/1",
            "tierloom-machine/7",
            &["tierloom-machine/7", "tierloom-machine/1"],
        ),
        ("value: 32,", "value: many,", &["cores"]),
    ];
    for (from, to, says) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (text, line) = broken_profile(from, to);
        fs::write(folder.path().join("mine.yaml"), text).unwrap();
        let place = format!("mine.yaml:{line}:");
        let says: Vec<&str> = says.iter().copied().chain([place.as_str()]).collect();
        refused(
            folder.path(),
            &["run", "ssb", "--machine", "mine.yaml"],
            &says,
        );
        refused(folder.path(), &["machines", "mine.yaml"], &says);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("mine.yaml"),
        profile("nus24").replacen(&cores, "", 1),
    )
    .unwrap();
    let args = ["run", "ssb", "--machine", "./mine.yaml"];
    refused(folder.path(), &args, &["mine.yaml:", "`cores` is missing"]);
}

#[test]
fn profiles_that_cannot_be_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    refused(
        path,
        &["run", "ssb", "--machine", "none.yaml"],
        &["none.yaml", "No such file"],
    );
    refused(
        path,
        &["run", "ssb", "--machine", "./"],
        &["./", "Is a directory"],
    );
    fs::write(path.join("open.yaml"), "tiers: [").unwrap();
    refused(
        path,
        &["run", "ssb", "--machine", "open.yaml"],
        &["open.yaml:1"],
    );
    fs::write(path.join("binary.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    refused(path, &["machines", "binary.yaml"], &["binary.yaml"]);
    fs::write(path.join("empty.yaml"), "").unwrap();
    refused(path, &["machines", "empty.yaml"], &["empty.yaml"]);
}

/// `here` represents the machine that measured; a profile of that name would mix modelled figures
/// with measured ones.
#[test]
fn a_profile_cannot_take_the_name_of_measured_figures() {
    let folder = tempfile::tempdir().unwrap();
    let text = profile("nus24").replacen("name: nus24", "name: here", 1);
    fs::write(folder.path().join("mine.yaml"), text).unwrap();
    let args = [
        "run",
        "ssb",
        "--sf",
        "0.01",
        "--repeat",
        "1",
        "--machine",
        "mine.yaml",
    ];
    refused(folder.path(), &args, &["here"]);
}

#[test]
fn output_paths_that_cannot_be_written_are_found_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("file"), "x").unwrap();
    let run = ["run", "ssb", "--sf", "0.01", "--repeat", "1"];
    for (option, to, says) in [
        ("--report", "none/r.html", "folder does not exist"),
        ("--records", "none/r.jsonl", "folder does not exist"),
        ("--report", "file/r.html", "folder does not exist"),
        ("--report", ".", "it is a folder"),
        ("--records", ".", "it is a folder"),
    ] {
        refused(path, &[&run[..], &[option, to]].concat(), &[to, says]);
    }
}

/// The file that is written second would silently replace the first.
#[test]
fn records_and_report_cannot_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "run",
        "ssb",
        "--sf",
        "0.01",
        "--repeat",
        "1",
        "--records",
        "both",
        "--report",
        "both",
    ];
    refused(folder.path(), &args, &["both"]);
}

#[test]
fn tiers_that_do_not_fit_the_machine_are_refused() {
    let server = recorded("server-2s-4cxl");
    let folder = tempfile::tempdir().unwrap();
    for (tiers, says) in [
        ("cxl=9", "node 9 does not exist"),
        ("nvm=0", "`nvm` is no tier"),
        ("dram=0;cxl=0", "node 0 is in dram and in cxl"),
        ("dram", "lacks `=`"),
        ("", "no tier is named"),
    ] {
        let tail = ["--sysroot", &server, "--tiers", tiers];
        for command in [
            &["topology"][..],
            &["topology", "--json"],
            &["doctor"],
            &["run", "ssb", "--dry-run"],
        ] {
            refused(folder.path(), &[command, &tail].concat(), &[says]);
        }
    }
}

#[test]
fn a_folder_that_is_no_system_tree_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    for root in ["empty", "/nonexistent"] {
        for command in [&["topology"][..], &["doctor"], &["run", "ssb", "--dry-run"]] {
            refused(
                folder.path(),
                &[command, &["--sysroot", root]].concat(),
                &[root, "no system tree"],
            );
        }
    }
}

/// The cache folder cannot be created because a file is in its path: a download would fail with
/// another error.
#[test]
fn an_unknown_guest_is_refused_before_anything_is_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let args = [
        "lab",
        "run",
        "--guest",
        "three-nodes",
        "-c",
        "true",
        "--cache",
        "file/cache",
    ];
    refused(folder.path(), &args, &["three-nodes", "two-nodes", "cxl"]);
}

#[test]
fn files_to_take_along_are_checked_before_anything_is_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let args = [
        "lab",
        "run",
        "--file",
        "nocolon",
        "-c",
        "true",
        "--cache",
        "file/cache",
    ];
    refused(
        folder.path(),
        &args,
        &["--file nocolon", "host-path:guest-path"],
    );
}

#[test]
fn values_that_begin_with_a_minus_are_told_how_to_be_written() {
    all_refused(&[
        (
            "sql --max-rows -1",
            &["--max-rows -1", "write --max-rows=-1"],
        ),
        (
            "sql --placement -5%",
            &["--placement -5%", "write --placement=-5%"],
        ),
        ("machines -5", &["-5", "no option"]),
    ]);
}

#[test]
fn an_agent_that_may_not_listen_makes_no_token() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().display().to_string();
    for refused in [
        &["bench", "--agent", "--listen", "0.0.0.0:0"][..],
        &[
            "bench",
            "--agent",
            "--tls-cert",
            "none.pem",
            "--tls-key",
            "none.pem",
        ][..],
    ] {
        let mut agent = common::command(home.path(), refused);
        agent
            .env("HOME", &path)
            .env("XDG_CONFIG_HOME", &path)
            .env_remove("TIERLOOM_TOKEN");
        let ended = common::end_of(agent.spawn().unwrap()).with_code(2);
        ended.one_error();
        assert!(common::contents(home.path()).is_empty(), "a file was made");
    }
}

#[cfg(feature = "sql")]
#[test]
fn tables_that_do_not_grow_by_one_rule_are_not_modelled_larger() {
    let args = ["run", "tpcds", "--machine=nus24", "--model-sf=10"];
    let ended = tierloom_anywhere(&args).with_code(2);
    let message = ended.one_error();
    assert!(
        message.contains("--model-sf 10") && message.contains("use --sf"),
        "{message}"
    );
}
