//! A process that is killed at any moment leaves only whole records, and the next one continues
//! after them.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{bench, setting};
use tierloom_record::{Record, RecordFile, RecordSet};

/// Variable with the path of the file, for the process that will be killed.
const TARGET: &str = "TIERLOOM_TEST_APPEND_TO";
const KILLS: u32 = 40;
/// Bytes of text in a record: several pages, so that some kill would truncate one that was written
/// in place.
const PADDING: usize = 300_000;

#[test]
#[ignore = "the process that the next test kills"]
fn child_appends_for_ever() {
    // Does nothing if it is run with all ignored tests.
    let Some(path) = std::env::var_os(TARGET) else {
        return;
    };
    let (mut file, set, tail) = RecordFile::open(Path::new(&path)).expect("opened");
    assert_eq!(tail, None);
    // A file that grows without limit would only slow the kills down.
    if set.benches.len() > 12 {
        drop(file);
        file = RecordFile::begin(Path::new(&path)).expect("begun anew");
    }
    for number in 0u64.. {
        let padding = number
            .to_string()
            .repeat(PADDING / number.to_string().len());
        let varied = vec![setting("padding", &padding)];
        let record = Record::Bench(Box::new(bench(&number.to_string(), varied)));
        file.append(&record).expect("added");
        println!("added {number}");
    }
}

/// Kills a child some time after its first record; returns the number of records that it reported.
fn kill_one(path: &Path, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .args([
            "child_appends_for_ever",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(TARGET, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let is_added = |line: &String| line.contains("added ");
    let first = lines.by_ref().map_while(Result::ok).find(is_added);
    assert!(first.is_some(), "the child added nothing");
    let until = Instant::now() + after;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    1 + lines.map_while(Result::ok).filter(is_added).count() as u64
}

#[test]
fn killed_writers_leave_whole_records_only() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("bench.jsonl");
    for kill in 0..KILLS {
        let added = kill_one(&path, Duration::from_micros(u64::from(kill) * 733));
        let set = RecordSet::read(&path).expect("whole records only");
        // The child's last report may be a record behind the file, never ahead of it.
        let last: u64 = set
            .benches
            .last()
            .expect("one at least")
            .run_id
            .parse()
            .expect("a number");
        assert!(
            last + 1 >= added,
            "kill {kill}: {added} added, {last} is last"
        );
        let names = std::fs::read_dir(folder.path()).expect("read").count();
        assert!(names <= 2, "kill {kill}: copies pile up");
    }
    let (mut file, ..) = RecordFile::open(&path).expect("the next one goes on");
    file.append(&Record::Bench(Box::new(bench("last", vec![]))))
        .expect("added");
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("read").collect();
    assert_eq!(names.len(), 1, "a copy is left over: {names:?}");
}
