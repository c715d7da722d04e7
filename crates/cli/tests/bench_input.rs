//! Wrong workload files and options of `tierloom bench`: exit code 2, the position and the nearest
//! valid word, no file made or changed.

mod common;

use common::{Ended, command, contents, end_of, tierloom};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// A valid file of five runs, which together take half a second.
const RIGHT: &str = "\
scan:
  matrix:
    operation: [read, write]
    threads: [1, 2]
  args:
    memory_region_size: 1M
    access_size: 4K
    run_time: 10ms
    warmup: 0s
    repeat: 2
    simd: scalar
chase:
  args:
    measure: chase
    memory_region_size: 1M
    run_time: 10ms
    warmup: 0s
    repeat: 2
";

/// Runs `args` in `folder` and checks everything that is promised about bad input. Lines after the
/// error are indented: other positions and help.
#[track_caller]
fn rejected(folder: &Path, args: &[&str], says: &[&str]) {
    let before = contents(folder);
    let ended = tierloom(folder, args);
    let command = args.join(" ");
    assert_eq!(ended.code, Some(2), "{command}\n{}", ended.stderr);
    assert_eq!(ended.stdout, "", "{command}: data on stdout");
    ended.one_error();
    for part in says {
        assert!(
            ended.stderr.contains(part),
            "{command}: no {part:?} in\n{}",
            ended.stderr
        );
    }
    assert!(contents(folder) == before, "{command}: files were changed");
}

/// A folder with `text` as `w.yaml`.
fn with_file(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.yaml"), text).unwrap();
    folder
}

/// All output options: none of the files may be created.
const OUTPUTS: [&str; 6] = [
    "--records",
    "r.jsonl",
    "--csv",
    "r.csv",
    "--report",
    "r.html",
];

/// A workload `w` with one key beside the size.
fn one_key(line: &str) -> String {
    format!("w:\n  args:\n    memory_region_size: 1M\n    {line}\n")
}

#[test]
fn wrong_keys_and_values_are_told_with_their_place_and_the_nearest_right_one() {
    for (line, says) in [
        (
            "opration: read",
            &["w.yaml:4:5", "opration", "did you mean `operation`"][..],
        ),
        (
            "operation: raed",
            &["w.yaml:4:16", "raed", "did you mean `read`"],
        ),
        ("run_time: soon", &["w.yaml:4:15", "soon", "500ms"]),
        ("threads: 0", &["w.yaml:4:14", "threads"]),
        ("threads: [1, 2]", &["w.yaml:4:14", "threads"]),
        ("access_size: 3", &["w.yaml:4", "access_size"]),
        ("page_size: 3k", &["w.yaml:4:16", "page_size", "4k"]),
        (
            "memory_region_size: 2M",
            &["w.yaml:4:5", "memory_region_size"],
        ),
        ("operation: [read", &["w.yaml:"]),
    ] {
        let folder = with_file(&one_key(line));
        rejected(
            folder.path(),
            &[&["bench", "w.yaml"][..], &OUTPUTS].concat(),
            says,
        );
        rejected(folder.path(), &["bench", "w.yaml", "--dry-run"], says);
    }
}

#[test]
fn several_mistakes_are_told_at_once_and_in_file_order() {
    let folder = with_file(
        "scan:\n  matrix:\n    acess_size: [64, 256]\n  args:\n    memory_region_size: 64Kb\n    run_time: soon\n",
    );
    let ended = tierloom(folder.path(), &["bench", "w.yaml"]).with_code(2);
    let at = |part: &str| {
        ended
            .stderr
            .find(part)
            .unwrap_or_else(|| panic!("no {part:?} in\n{}", ended.stderr))
    };
    assert!(at("w.yaml:3:5") < at("w.yaml:6:15"), "{}", ended.stderr);
}

#[test]
fn what_this_machine_lacks_is_found_before_anything_runs() {
    for (line, says) in [
        (
            "memory: 900",
            &["w.yaml:1", "node 900", "tierloom topology"][..],
        ),
        ("numa_memory_nodes: [900]", &["w.yaml:1", "node 900"]),
        ("cpus: \"8191\"", &["w.yaml:1", "CPU 8191"]),
        ("numa_task_nodes: [900]", &["w.yaml:1", "node 900"]),
    ] {
        let folder = with_file(&format!("{RIGHT}{}", one_key(line)));
        // The wrong workload is the last one: those before it must not run.
        let place = format!("w.yaml:{}", RIGHT.lines().count() + 1);
        rejected(
            folder.path(),
            &[&["bench", "w.yaml"][..], &OUTPUTS].concat(),
            &[&says[1..], &[place.as_str()]].concat(),
        );
    }
    let device = "w:\n  args:\n    memory_region_size: 2M\n    memory: /dev/dax99.9\n";
    let folder = with_file(device);
    let args = [&["bench", "w.yaml"][..], &OUTPUTS].concat();
    rejected(folder.path(), &args, &["w.yaml:1", "/dev/dax99.9"]);
}

#[test]
fn contents_of_existing_files_are_overwritten_only_if_that_was_allowed() {
    let folder = with_file(&one_key(
        "memory: file:precious\n    run_time: 10ms\n    repeat: 1",
    ));
    let precious = folder.path().join("precious");
    fs::write(&precious, vec![7; 1 << 20]).unwrap();
    rejected(
        folder.path(),
        &["bench", "w.yaml"],
        &["w.yaml:1", "precious", "--overwrite"],
    );
    tierloom(folder.path(), &["bench", "w.yaml", "--overwrite"]).with_code(0);
    assert_ne!(fs::read(&precious).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn hosts_that_the_file_does_not_name_are_told_with_the_nearest() {
    let task = "w:\n  args:\n    memory_region_size: 1M\n  tasks:\n    a:\n      host: lft\n      operation: read\n";
    let folder = with_file(&format!("hosts: {{left: \"127.0.0.1:1\"}}\n{task}"));
    let args = [&["bench", "w.yaml"][..], &OUTPUTS].concat();
    rejected(
        folder.path(),
        &args,
        &["w.yaml:2", "`lft`", "did you mean `left`"],
    );
    let folder = with_file(task);
    rejected(folder.path(), &args, &["w.yaml:1", "`lft`", "hosts:"]);
}

#[test]
fn wrong_options_are_refused_with_what_was_expected() {
    for (args, says) in [
        (&["--set", "memory"][..], &["--set memory", "KEY=VALUE"][..]),
        (
            &["--set", "opration=read"],
            &["--set opration=read", "did you mean `operation`"],
        ),
        (&["--set", "operation=raed"], &["--set", "raed", "`read`"]),
        (
            &["--only", "scn"],
            &["`scn`", "did you mean `scan`", "chase"],
        ),
        (&["--repeat", "0"], &["--repeat 0"]),
        (&["--until-stable", "0%"], &["--until-stable 0%", "2%"]),
        (&["--until-stable", "soon"], &["--until-stable soon", "2%"]),
        (&["--resume"], &["--records"]),
        (
            &["--records", "both", "--csv", "both"],
            &["--records", "--csv", "same file"],
        ),
        (
            &["--csv", "both", "--report", "./both"],
            &["--csv", "--report", "same file"],
        ),
        (&["--records", "./w.yaml"], &["w.yaml", "read from"]),
        (
            &["--records", "none/r.jsonl"],
            &["none/r.jsonl", "folder does not exist"],
        ),
        (
            &["--csv", "none/r.csv"],
            &["none/r.csv", "folder does not exist"],
        ),
        (
            &["--report", "none/r.html"],
            &["none/r.html", "folder does not exist"],
        ),
        (&["--report", "."], &["it is a folder"]),
        (&["--json", "--jsonl"], &["--json", "--jsonl"]),
        (&["--plan", "w.yaml"], &["--plan"]),
    ] {
        let folder = with_file(RIGHT);
        rejected(
            folder.path(),
            &[&["bench", "w.yaml"][..], args].concat(),
            says,
        );
    }
    let folder = with_file(RIGHT);
    rejected(folder.path(), &["bench"], &["FILE.yaml"]);
    rejected(
        folder.path(),
        &["bench", "none.yaml"],
        &["none.yaml", "No such file"],
    );
    rejected(
        folder.path(),
        &["bench", "--plan", "none.jsonl"],
        &["none.jsonl", "No such file"],
    );
    rejected(
        folder.path(),
        &["bench", "--plan", "w.yaml"],
        &["w.yaml:1", "record"],
    );
}

/// Writing to the same file by mistake would lose or mix hours of results.
#[test]
fn files_that_hold_records_or_something_else_are_left_untouched() {
    let folder = with_file(RIGHT);
    let path = folder.path();
    let run = ["bench", "w.yaml", "--only", "chase", "--records", "r.jsonl"];
    tierloom(path, &run).with_code(0);
    rejected(path, &run, &["r.jsonl", "--resume"]);
    fs::write(path.join("notes.md"), "my notes\n").unwrap();
    let onto_notes = ["bench", "w.yaml", "--records", "notes.md"];
    rejected(path, &onto_notes, &["notes.md"]);
    rejected(
        path,
        &[&onto_notes[..], &["--resume"]].concat(),
        &["notes.md:1", "not a record"],
    );
    // A truncated last line that never was a record must not be dropped as the rest of one.
    fs::write(path.join("notes.md"), "my notes").unwrap();
    rejected(path, &onto_notes, &["notes.md"]);
}

#[test]
fn workload_files_found_in_a_folder_are_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("all")).unwrap();
    fs::write(folder.path().join("all/w.yaml"), RIGHT).unwrap();
    for option in ["--csv", "--report", "--records"] {
        let args = ["bench", "all", option, "all/../all/w.yaml"];
        rejected(folder.path(), &args, &["w.yaml", "read from"]);
    }
}

/// The output of a dry run without what differs between machines.
fn settled(ended: Ended) -> String {
    ended
        .with_code(0)
        .stdout
        .lines()
        .map(|line| {
            let line = line.split_inclusive(' ').map(|word| {
                let id = word.trim_end();
                let hash = id.len() == 16 && id.chars().all(|c| c.is_ascii_hexdigit());
                if hash { "0123456789abcdef " } else { word }
            });
            line.collect::<String>() + "\n"
        })
        .collect()
}

#[test]
fn a_dry_run_shows_every_run_with_its_cost_and_touches_nothing() {
    let folder = with_file(RIGHT);
    let before = contents(folder.path());
    let args = [&["bench", "w.yaml", "--dry-run"][..], &OUTPUTS].concat();
    insta::assert_snapshot!("bench_dry_run", settled(tierloom(folder.path(), &args)));
    assert!(contents(folder.path()) == before, "a dry run left files");
}

/// The plans of a dry run, as JSON.
#[track_caller]
fn plans(ended: Ended) -> Vec<serde_json::Value> {
    let ended = ended.with_code(0);
    serde_json::from_str(&ended.stdout).expect("one JSON document and nothing else")
}

#[test]
fn the_plan_of_a_dry_run_is_the_plan_that_runs() {
    let folder = with_file(RIGHT);
    let dry = plans(tierloom(
        folder.path(),
        &["bench", "w.yaml", "--dry-run", "--json"],
    ));
    assert_eq!(dry.len(), 5);
    let done = tierloom(folder.path(), &["bench", "w.yaml", "--jsonl"]).with_code(0);
    let ran: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["plan"].take())
        .collect();
    assert_eq!(ran, dry);
}

#[test]
fn only_set_and_repeat_choose_and_change_runs() {
    let folder = with_file(RIGHT);
    let dry = |more: &[&str]| {
        let args = [&["bench", "w.yaml", "--dry-run", "--json"][..], more].concat();
        plans(tierloom(folder.path(), &args))
    };
    let all = dry(&[]);
    let scans = dry(&["--only", "scan"]);
    assert_eq!(
        scans.as_slice(),
        &all[..4],
        "the same runs with the same ids"
    );
    assert_eq!(dry(&["--only", "chase,scan"]).len(), 5);

    let larger = dry(&["--set", "memory_region_size=2M"]);
    for (plan, before) in larger.iter().zip(&all) {
        assert_eq!(plan["tasks"][0]["regions"][0]["size_bytes"], 2 << 20);
        assert_ne!(plan["id"], before["id"], "another run has another id");
    }
    let fixed = dry(&["--only", "scan", "--set", "threads=1"]);
    assert!(
        fixed
            .iter()
            .all(|plan| plan["tasks"][0]["workers"]["threads"] == 1),
        "{fixed:?}"
    );
    assert_eq!(fixed.len(), 2, "a key that is set varies no more");
    assert!(
        dry(&["--repeat", "7"])
            .iter()
            .all(|plan| plan["repeat"] == 7)
    );
}

#[test]
fn standard_input_is_a_workload_file_whose_mistakes_have_a_place_too() {
    let fed = |text: &str, more: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(folder.path(), &[&["bench", "-"][..], more].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        end_of(child)
    };
    assert_eq!(plans(fed(RIGHT, &["--dry-run", "--json"])).len(), 5);
    let wrong = fed(&one_key("opration: read"), &[]).with_code(2);
    let error = wrong.one_error();
    assert!(
        error.contains(":4:5") && error.contains("`operation`"),
        "{error}"
    );
}

/// Keys, values and units in CXL-Bench's notation: lists of lists, upper-case sizes, seconds as
/// numbers, parallel tasks.
#[test]
fn files_in_the_style_of_cxl_bench_run_unchanged() {
    let folder = with_file(
        "\
bandwidth:
  matrix:
    number_threads: [1, 2]
    operation: [read, write]
    access_size: [64, 4096]
  args:
    memory_region_size: 1M
    numa_memory_nodes: [0]
    numa_task_nodes: [0]
    exec_mode: sequential
    run_time: 1
    min_io_batch_size: 64K
",
    );
    // CXL-Bench has run times in whole seconds only; the option shortens them without changing the
    // file.
    let args = [
        "bench",
        "w.yaml",
        "--set",
        "run_time=10ms",
        "--set",
        "warmup=0s",
        "--repeat",
        "1",
        "--jsonl",
    ];
    let ended = tierloom(folder.path(), &args).with_code(0);
    let lines: Vec<serde_json::Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 8);
    for line in &lines {
        assert_eq!(line["valid"], true, "{}", line["remarks"]);
        let shares = &line["tasks"][0]["regions"][0]["after"]["actual"];
        assert_eq!(shares[0]["node"], 0, "pages are audited: {shares}");
    }
}
