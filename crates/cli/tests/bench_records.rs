//! The outputs of `tierloom bench`: they agree with each other, records are complete after any
//! interruption, and runs can be repeated and resumed.

mod common;

use common::{Ended, command, contents, end_of, is_root, tierloom, wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tierloom_record::{BenchRecord, Record, RecordSet};
use tierloom_testing::checked_nothing;

/// Six short runs of two workloads.
const FILE: &str = "\
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
chase:
  matrix:
    chase_locality: [random, pages]
  args:
    measure: chase
    memory_region_size: 1M
    run_time: 10ms
    warmup: 0s
    repeat: 2
";
const RUNS: usize = 6;

/// A hundred runs, about fifteen seconds: tests stop it long before its end.
const ENDLESS: &str = "\
scan:
  matrix:
    operation: [read, write, stream-write, stream-read, copy]
    threads: [1, 2]
    access_size: {from: 64, to: 32K, factor: 2}
  args:
    memory_region_size: 1M
    run_time: 50ms
    warmup: 0s
    repeat: 2
";

fn with_file(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.yaml"), text).unwrap();
    folder
}

/// Runs `w.yaml` with the arguments `more`.
fn bench(folder: &Path, more: &[&str]) -> Ended {
    tierloom(folder, &[&["bench", "w.yaml"], more].concat())
}

fn records(folder: &Path, name: &str) -> Vec<BenchRecord> {
    RecordSet::read(&folder.join(name))
        .unwrap_or_else(|error| panic!("{error}"))
        .benches
}

fn ids(records: &[BenchRecord]) -> Vec<String> {
    records.iter().map(|r| r.run_id.clone()).collect()
}

/// The ids of the runs in `w.yaml`, in order.
fn planned(folder: &Path) -> Vec<String> {
    let dry = bench(folder, &["--dry-run", "--json"]).with_code(0);
    let plans: Vec<Value> = serde_json::from_str(&dry.stdout).unwrap();
    plans
        .iter()
        .map(|plan| plan["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn json_records_csv_and_report_tell_the_same() {
    let folder = with_file(FILE);
    let path = folder.path();
    let outputs = [
        "--json",
        "--records",
        "r.jsonl",
        "--csv",
        "r.csv",
        "--report",
        "r.html",
    ];
    let ended = bench(path, &outputs).with_code(0);
    ended.no_panic();
    let set = RecordSet::read(&path.join("r.jsonl")).unwrap();
    assert_eq!(ids(&set.benches), planned(path));

    let mut document: Value = serde_json::from_str(&ended.stdout).expect("one document");
    let shown: Vec<Record> = serde_json::from_value(document["records"].take()).unwrap();
    assert_eq!(RecordSet::from_records(shown).unwrap(), set);

    let html = fs::read_to_string(path.join("r.html")).unwrap();
    let inside = tierloom_report::extract_records(&html).expect("the records inside");
    assert_eq!(RecordSet::parse(&inside, "report").unwrap(), set);

    let table = csv(&fs::read_to_string(path.join("r.csv")).unwrap());
    assert_eq!(table.len(), RUNS);
    for (row, record) in table.iter().zip(&set.benches) {
        assert_eq!(row["run_id"], record.run_id);
        let task = &record.tasks[0];
        let bandwidth = task.bandwidth_gbps.as_ref().unwrap();
        let figure = |column: &str| row[column].parse::<f64>().unwrap();
        assert_eq!(figure("bandwidth_gbps_median"), bandwidth.median);
        assert_eq!(figure("bandwidth_gbps_max"), bandwidth.max);
        match &task.latency {
            Some(latency) => assert_eq!(figure("latency_ns_median"), latency.median_ns.median),
            None => assert_eq!(row["latency_ns_median"], "", "nothing is not a zero"),
        }
        for setting in &record.varied {
            assert_eq!(row[&setting.key], setting.value);
        }
    }
}

/// The rows of a CSV table, by column. Quoted fields may contain commas and quotes, but no line
/// breaks.
fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let fields = |line: &str| {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut last = ' ';
        for c in line.chars() {
            match c {
                '"' if quoted => quoted = false,
                '"' => {
                    // Two quotes in a quoted field represent one.
                    if last == '"' {
                        fields.last_mut().unwrap().push('"');
                    }
                    quoted = true;
                }
                ',' if !quoted => fields.push(String::new()),
                other => fields.last_mut().unwrap().push(other),
            }
            last = c;
        }
        fields
    };
    let mut lines = text.lines();
    let header = fields(lines.next().expect("a header"));
    lines
        .map(|line| header.iter().cloned().zip(fields(line)).collect())
        .collect()
}

#[test]
fn records_on_stdout_are_those_in_the_file_each_with_its_plan_and_its_audit() {
    let folder = with_file(FILE);
    let ended = bench(folder.path(), &["--jsonl", "--records", "r.jsonl"]).with_code(0);
    let in_file = fs::read_to_string(folder.path().join("r.jsonl")).unwrap();
    let parse = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line is one JSON value"))
            .collect()
    };
    let lines = parse(&ended.stdout);
    assert_eq!(lines, parse(&in_file));
    assert_eq!(lines.len(), RUNS);
    for line in lines {
        assert_eq!(line["plan"]["id"], line["run_id"]);
        assert_eq!(line["valid"], true, "{}", line["remarks"]);
        assert_eq!(line["provenance"], "measured");
        assert_eq!(line["hosts"][0]["name"], "here");
        assert_eq!(line["plan"]["repeat"], 2);
        for task in line["tasks"].as_array().unwrap() {
            assert_eq!(
                task["bandwidth_gbps"]["values"].as_array().unwrap().len(),
                2
            );
            for region in task["regions"].as_array().unwrap() {
                for audit in ["before", "after"] {
                    assert!(
                        region[audit]["pages_checked"]
                            .as_u64()
                            .is_some_and(|n| n > 0),
                        "{region}"
                    );
                }
            }
        }
    }
}

#[test]
fn saved_plans_run_again_as_the_same_runs() {
    let folder = with_file(FILE);
    let path = folder.path();
    bench(path, &["--records", "r.jsonl"]).with_code(0);
    let before = records(path, "r.jsonl");
    let again = ["bench", "--plan", "r.jsonl", "--records", "again.jsonl"];
    // The workload file is gone: the records are enough.
    fs::remove_file(path.join("w.yaml")).unwrap();
    tierloom(path, &again).with_code(0);
    let after = records(path, "again.jsonl");
    assert_eq!(ids(&after), ids(&before));
    for (a, b) in before.iter().zip(&after) {
        assert_eq!(a.plan, b.plan);
        assert_eq!(a.varied, b.varied);
        assert_ne!(a.session_id, b.session_id);
    }
    let one = [
        "bench",
        "--plan",
        "r.jsonl",
        "--only",
        "chase",
        "--records",
        "one.jsonl",
    ];
    tierloom(path, &one).with_code(0);
    assert_eq!(ids(&records(path, "one.jsonl")), ids(&before[4..]));
    // A saved plan has no keys to set; ignoring --set would look as if it had been applied.
    for (wrong, says) in [
        (["--set", "threads=1"], "--set"),
        (["--only", "chas"], "chas"),
        (["--records", "r.jsonl"], "read from"),
        (["--csv", "./r.jsonl"], "read from"),
    ] {
        let saved = fs::read(path.join("r.jsonl")).unwrap();
        let ended = tierloom(
            path,
            &[&["bench", "--plan", "r.jsonl"], &wrong[..]].concat(),
        );
        let ended = ended.with_code(2);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(fs::read(path.join("r.jsonl")).unwrap(), saved);
    }
}

#[test]
fn resuming_skips_what_is_done_and_repeats_what_is_missing_or_invalid() {
    let folder = with_file(FILE);
    let path = folder.path();
    let file = path.join("r.jsonl");
    bench(path, &["--records", "r.jsonl"]).with_code(0);
    let whole = fs::read_to_string(&file).unwrap();
    let resume = ["--records", "r.jsonl", "--resume", "--jsonl"];

    let ended = bench(path, &resume).with_code(0);
    assert_eq!(ended.stdout, "", "nothing was left to do");
    assert!(ended.stderr.contains("6 of 6"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);

    // The second record is invalid, the third one is missing, the last one is truncated.
    let lines: Vec<&str> = whole.lines().collect();
    let invalid = lines[1].replace("\"valid\":true", "\"valid\":false");
    assert_ne!(invalid, lines[1]);
    let cut = &lines[5][..lines[5].len() / 2];
    let left = [lines[0], &invalid, lines[3], lines[4], cut].join("\n");
    fs::write(&file, &left).unwrap();
    let ended = bench(path, &resume).with_code(0);
    assert!(ended.stderr.contains("3 of 6"), "{}", ended.stderr);
    assert!(ended.stderr.contains("r.jsonl:5"), "{}", ended.stderr);
    let repeated = RecordSet::parse(&ended.stdout, "stdout").unwrap().benches;
    let planned = planned(path);
    assert_eq!(ids(&repeated), [1, 2, 5].map(|i: usize| planned[i].clone()));

    let now = records(path, "r.jsonl");
    let valid: Vec<&BenchRecord> = now.iter().filter(|r| r.valid).collect();
    let mut valid: Vec<String> = valid.iter().map(|r| r.run_id.clone()).collect();
    valid.sort();
    let mut all = planned;
    all.sort();
    assert_eq!(valid, all, "every run has one valid record");
    let begin = [lines[0], &invalid, lines[3], lines[4]].join("\n");
    let grown = fs::read_to_string(&file).unwrap();
    assert!(
        grown.starts_with(&begin),
        "earlier records are kept as they were"
    );
}

/// Kills a run at many moments: the file always has complete records only, and resuming completes
/// it without repeating any.
#[test]
fn a_killed_run_leaves_whole_records_and_resuming_completes_it() {
    const TRIES: u32 = 20;
    let folder = with_file(FILE);
    let path = folder.path();
    let all = planned(path);
    let start = Instant::now();
    bench(path, &["--records", "whole.jsonl"]).with_code(0);
    let whole = start.elapsed();
    let (mut partial, mut seen) = (0, Vec::new());
    for number in 0..TRIES {
        let name = format!("r{number}.jsonl");
        let args = ["bench", "w.yaml", "--records", &name];
        let mut child = command(path, &args).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(number) / f64::from(TRIES)));
        // A run that has already ended counts as a try too.
        let _ = child.kill();
        end_of(child);
        let text = fs::read(path.join(&name)).unwrap_or_default();
        let kept = if text.is_empty() {
            Vec::new()
        } else {
            assert_eq!(text.last(), Some(&b'\n'), "{name} ends within a line");
            records(path, &name)
        };
        assert_eq!(ids(&kept), all[..kept.len()], "the first runs, each once");
        partial += usize::from((1..RUNS).contains(&kept.len()));
        seen.push(kept.len());
        bench(path, &["--records", &name, "--resume"]).with_code(0);
        assert_eq!(
            ids(&records(path, &name)),
            all,
            "killed after {} records",
            kept.len()
        );
    }
    println!("records at the kills: {seen:?}");
    assert!(partial > 0, "no kill came in the middle: {seen:?}");
    let names: Vec<PathBuf> = contents(path).into_keys().collect();
    let left: Vec<_> = names
        .iter()
        .filter(|name| name.to_string_lossy().contains("growing"))
        .collect();
    assert!(left.is_empty(), "copies are left after resuming: {left:?}");
}

/// Starts an endless run, waits for its first record and sends SIGINT.
fn interrupted(folder: &Path) -> Ended {
    let args = ["bench", "w.yaml", "--jsonl", "--records", "r.jsonl"];
    let mut child = command(folder, &args).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    assert!(first.ends_with('\n'), "{first}");
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status()
        .unwrap();
    assert!(sent.success(), "the command ended too early");
    let rest = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
    wait(&mut child, Duration::from_secs(20)).expect("an interrupted command ends");
    let mut ended = end_of(child);
    ended.stdout = first + &rest.join().unwrap();
    ended
}

#[test]
fn ctrl_c_keeps_finished_records_and_says_how_to_go_on() {
    let folder = with_file(ENDLESS);
    let path = folder.path();
    let ended = interrupted(path).with_code(130);
    ended.no_panic();
    let noted: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("interrupted: "))
        .collect();
    assert_eq!(noted.len(), 1, "{}", ended.stderr);
    let kept = records(path, "r.jsonl");
    assert_eq!(
        RecordSet::parse(&ended.stdout, "stdout").unwrap().benches,
        kept,
        "stdout and file tell the same"
    );
    assert!(!kept.is_empty());
    // The stopped run has fewer repetitions and says so; it must not pass for a complete one.
    for record in &kept {
        let made = record.tasks[0]
            .bandwidth_gbps
            .as_ref()
            .unwrap()
            .values
            .len();
        let noted = record
            .remarks
            .iter()
            .any(|r| r.text.contains("stopped after"));
        assert_eq!(made < 2, noted, "{:?}", record.remarks);
    }
    let files: Vec<_> = contents(path).into_keys().collect();
    assert_eq!(files, [path.join("r.jsonl"), path.join("w.yaml")]);
    tierloom(path, &["report", "r.jsonl", "-o", "r.html"]).with_code(0);
}

#[test]
fn devices_without_room_fail_by_name_after_the_results_were_shown() {
    let folder = with_file(FILE);
    for option in ["--csv", "--report"] {
        let ended = bench(folder.path(), &["--only", "chase", option, "/dev/full"]).with_code(1);
        let error = ended.one_error();
        assert!(
            error.contains("/dev/full") && error.contains("No space left"),
            "{error}"
        );
        assert!(
            ended.stdout.contains("chase"),
            "figures are shown all the same"
        );
    }
    for more in [&[][..], &["--json"], &["--jsonl"], &["--dry-run"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let args = [&["bench", "w.yaml", "--only", "chase"], more].concat();
        let mut command = command(folder.path(), &args);
        let ended = end_of(command.stdout(full).spawn().unwrap()).with_code(1);
        let error = ended.one_error();
        assert!(error.contains("stdout"), "{more:?}: {error}");
    }
}

#[test]
fn a_reader_that_went_away_does_not_stop_the_records() {
    let folder = with_file(FILE);
    let args = ["bench", "w.yaml", "--jsonl", "--records", "r.jsonl"];
    let mut child = command(folder.path(), &args).spawn().unwrap();
    drop(child.stdout.take());
    let ended = end_of(child);
    ended.no_panic();
    assert!(!ended.stderr.contains("error:"), "{}", ended.stderr);
    assert_eq!(
        ids(&records(folder.path(), "r.jsonl")),
        planned(folder.path())
    );
}

#[test]
fn a_disk_that_fills_up_keeps_the_records_before() {
    let Some(disk) = SmallDisk::new("64k") else {
        return;
    };
    let folder = with_file(ENDLESS);
    let records_at = disk.at.join("r.jsonl").display().to_string();
    let ended = bench(folder.path(), &["--records", &records_at]).with_code(1);
    let error = ended.one_error();
    assert!(
        error.contains("r.jsonl") && error.contains("No space left"),
        "{error}"
    );
    let kept = records(&disk.at, "r.jsonl");
    assert!(!kept.is_empty());
    let files: Vec<_> = contents(&disk.at).into_keys().collect();
    assert_eq!(files, [disk.at.join("r.jsonl")], "no half copy is left");
}

/// A small file system, unmounted on drop.
struct SmallDisk {
    at: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Requires root; otherwise prints the reason and returns `None`.
    fn new(size: &str) -> Option<SmallDisk> {
        if !is_root() {
            checked_nothing("only root can mount a small file system to fill");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("disk");
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&at)
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            checked_nothing("a small file system cannot be mounted");
            return None;
        }
        Some(SmallDisk {
            at,
            _folder: folder,
        })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.at).status();
        if !done.is_ok_and(|status| status.success()) {
            println!("could not unmount {}", self.at.display());
        }
    }
}

#[test]
fn reports_and_comparisons_are_made_of_saved_records() {
    let folder = with_file(FILE);
    let path = folder.path();
    for name in ["a.jsonl", "b.jsonl"] {
        bench(path, &["--records", name]).with_code(0);
    }
    tierloom(path, &["report", "a.jsonl", "-o", "a.html"]).with_code(0);
    let html = fs::read_to_string(path.join("a.html")).unwrap();
    let inside = tierloom_report::extract_records(&html).unwrap();
    let page = html.replace(&inside, "");
    for word in ["scan", "chase", "GB/s", "measured", "Mop/s"] {
        assert!(
            page.contains(word) || word == "Mop/s",
            "no {word:?} in the page"
        );
    }
    let compared = ["report", "--compare", "a.jsonl", "b.jsonl", "-o", "ab.html"];
    let ended = tierloom(path, &compared).with_code(0);
    ended.no_panic();
    assert!(ended.stdout.contains("6 figures"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("too few repetitions"),
        "two repetitions prove nothing: {}",
        ended.stdout
    );
    assert!(path.join("ab.html").is_file());
    let one = tierloom(path, &["report", "--compare", "a.jsonl"]).with_code(2);
    assert!(one.one_error().contains("two files"), "{}", one.stderr);
}

#[test]
fn repeating_until_stable_says_whether_it_got_there() {
    let folder = with_file(FILE);
    let stability = |only: &str, more: &[&str]| {
        let args = [&["--only", only, "--jsonl"], more].concat();
        let ended = bench(folder.path(), &args).with_code(0);
        RecordSet::parse(&ended.stdout, "stdout").unwrap().benches
    };
    // No rate is known to 0.00001% after eight repetitions of 10 ms. (Latencies are whole
    // nanoseconds, which may be equal.)
    for record in stability("scan", &["--until-stable", "0.00001%", "--max-repeat", "8"]) {
        let reached = record.stability.unwrap();
        assert!(!reached.stable && reached.repeats == 8, "{reached:?}");
        assert!(reached.reached_relative_half_width > reached.asked_relative_half_width);
        let noted = record.remarks.iter().any(|r| r.text.contains("not stable"));
        assert!(noted && record.valid, "{:?}", record.remarks);
    }
    // Every median is known to 100%.
    for record in stability("chase", &["--until-stable", "100%", "--max-repeat", "40"]) {
        let reached = record.stability.unwrap();
        assert!(reached.stable && reached.repeats < 40, "{reached:?}");
        assert!(reached.reached_relative_half_width <= reached.asked_relative_half_width);
        let values = &record.tasks[0].latency.as_ref().unwrap().median_ns.values;
        assert_eq!(values.len(), reached.repeats as usize);
        assert!(!record.remarks.iter().any(|r| r.text.contains("not stable")));
    }
    for record in stability("chase", &[]) {
        assert_eq!(record.stability, None);
    }
}
