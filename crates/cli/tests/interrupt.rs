//! Ctrl-C: a run stops soon, keeps what was finished and says so; no partial file is left under a
//! final name.
#![cfg(feature = "sql")]

mod common;

use common::{Ended, command, contents, tierloom, wait};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tierloom_record::{HERE, Provenance, Record, RecordSet};

/// Time after which a stopped command counts as hung; it should need less than a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// Limit for a condition to become true.
const SLOW: Duration = Duration::from_secs(200);

/// A running command whose output lines can be awaited.
struct Watched {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

/// The lines of a stream as they arrive; all of them are kept.
struct Lines {
    coming: Receiver<String>,
    reader: JoinHandle<String>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Lines {
        let (send, coming) = channel();
        let reader = std::thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(stream).lines() {
                let line = line.expect("a line");
                all.push_str(&line);
                all.push('\n');
                // The receiver may be gone already.
                let _ = send.send(line);
            }
            all
        });
        Lines { coming, reader }
    }

    #[track_caller]
    fn wait_for(&self, part: &str) {
        let start = Instant::now();
        loop {
            let left = SLOW.saturating_sub(start.elapsed());
            let line = self
                .coming
                .recv_timeout(left)
                .unwrap_or_else(|e| panic!("no {part:?} came: {e}"));
            if line.contains(part) {
                return;
            }
        }
    }
}

impl Watched {
    fn start(folder: &Path, args: &[&str]) -> Watched {
        let mut child = command(folder, args).spawn().expect("the binary starts");
        let stdout = Lines::of(child.stdout.take().expect("piped"));
        let stderr = Lines::of(child.stderr.take().expect("piped"));
        Watched {
            child,
            stdout,
            stderr,
        }
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for the end.
    #[track_caller]
    fn interrupt(mut self) -> Ended {
        let pid = self.child.id();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -INT {pid}")])
            .status()
            .expect("sh");
        assert!(
            sent.success(),
            "the command ended too early to be interrupted"
        );
        let status = wait(&mut self.child, PATIENCE).expect("an interrupted command ends");
        let text = |lines: Lines| lines.reader.join().expect("read to the end");
        Ended {
            code: status.code(),
            stdout: text(self.stdout),
            stderr: text(self.stderr),
        }
    }
}

/// Interrupts a run of many minutes as soon as its first figure is there.
fn interrupted_run(folder: &Path) -> Ended {
    let args = [
        "run",
        "ssb",
        "--sf",
        "0.1",
        "--repeat",
        "500",
        "--placement",
        "dram,0,0=100%",
        "--records",
        "kept.jsonl",
        "--jsonl",
    ];
    let run = Watched::start(folder, &args);
    run.stdout.wait_for("\"type\":\"query\"");
    run.interrupt().with_code(130)
}

#[test]
fn a_stopped_run_keeps_its_finished_records_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ended = interrupted_run(folder.path());
    let messages = ended
        .stderr
        .lines()
        .filter(|l| l.starts_with("interrupted: "))
        .count();
    assert_eq!(messages, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("records are kept"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("error:"), "{}", ended.stderr);
    ended.no_panic();

    let set = RecordSet::read(&folder.path().join("kept.jsonl")).expect("a whole file");
    let summary = set.runs[0]
        .summary
        .as_ref()
        .expect("an interrupted run has a summary");
    assert!(summary.interrupted);
    assert_eq!(summary.finished as usize, set.runs[0].queries.len());
    assert!(
        (1..summary.planned).contains(&summary.finished),
        "{} of {}",
        summary.finished,
        summary.planned
    );
    // Only the query that was running may have fewer repeats than requested; those it has are kept.
    for (index, query) in set.runs[0].queries.iter().enumerate() {
        let repeats = query.time_ms.values.len();
        let was_running = index + 1 == set.runs[0].queries.len();
        assert!(
            repeats == 500 || (was_running && (1..500).contains(&repeats)),
            "{}: {repeats} repeats",
            query.query
        );
        assert!(query.answer.as_ref().unwrap().checked, "{}", query.query);
    }
    let said = format!("{} of {} figures", summary.finished, summary.planned);
    assert!(ended.stderr.contains(&said), "{said}: {}", ended.stderr);

    assert_eq!(
        RecordSet::parse(&ended.stdout, "stdout").unwrap(),
        set,
        "stdout and file tell the same"
    );
    let left: Vec<_> = contents(folder.path()).into_keys().collect();
    assert_eq!(
        left,
        [folder.path().join("kept.jsonl")],
        "no temporary file is left"
    );
}

#[test]
fn a_report_can_be_made_of_a_stopped_run() {
    let folder = tempfile::tempdir().unwrap();
    interrupted_run(folder.path());
    tierloom(folder.path(), &["report", "kept.jsonl", "-o", "kept.html"]).with_code(0);
    let html = fs::read_to_string(folder.path().join("kept.html")).unwrap();
    let inside = tierloom_report::extract_records(&html).expect("the records inside");
    let set = RecordSet::parse(&inside, "report").unwrap();
    assert!(set.runs[0].summary.as_ref().unwrap().interrupted);
    let page = html.replace(&inside, "");
    assert!(
        !page.contains("\"type\":\"summary\""),
        "the records are cut out"
    );
    assert!(
        page.contains("interrupted"),
        "the page itself says that the run is not whole"
    );
}

/// Without the audit of where its pages were, a measured figure has no provenance.
#[test]
fn figures_of_a_stopped_run_have_their_page_audit() {
    let folder = tempfile::tempdir().unwrap();
    interrupted_run(folder.path());
    let set = RecordSet::read(&folder.path().join("kept.jsonl")).unwrap();
    let cards = &set.runs[0].summary.as_ref().unwrap().placements;
    for query in set.runs[0]
        .queries
        .iter()
        .filter(|q| q.provenance == Provenance::Measured)
    {
        assert_eq!(query.machine, HERE);
        let card = cards.iter().find(|c| c.placement == query.placement);
        let audited = card.is_some_and(|c| c.audit_before.is_some() || c.audit_after.is_some());
        assert!(
            audited,
            "{} under {} has no audit",
            query.query, query.placement
        );
    }
}

#[test]
fn stopping_while_data_is_generated_leaves_no_records() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "run",
        "ssb",
        "--sf",
        "1",
        "--records",
        "none.jsonl",
        "--report",
        "none.html",
        "--jsonl",
    ];
    let run = Watched::start(folder.path(), &args);
    run.stderr.wait_for("generating Star Schema Benchmark");
    let ended = run.interrupt().with_code(130);
    assert!(ended.stderr.contains("interrupted: "), "{}", ended.stderr);
    assert_eq!(ended.stdout, "", "nothing was measured");
    ended.no_panic();
    assert!(contents(folder.path()).is_empty());
}

#[test]
fn stopping_while_files_are_written_leaves_only_whole_ones() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = Watched::start(
        folder.path(),
        &["generate", "ssb", "--sf", "1", "-o", "data"],
    );
    let under_way = |name: &str| name != "lineorder.csv" && name.contains("lineorder.csv");
    let start = Instant::now();
    while !names(&data).iter().any(|n| under_way(n)) {
        assert!(start.elapsed() < SLOW, "the largest table is never begun");
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = run.interrupt().with_code(130);
    assert!(ended.stderr.contains("interrupted: "), "{}", ended.stderr);
    assert_eq!(
        names(&data),
        ["customer.csv", "date.csv", "part.csv", "supplier.csv"]
    );
    let rows = fs::read_to_string(data.join("customer.csv"))
        .unwrap()
        .lines()
        .count();
    assert_eq!(rows, 30_001, "a file under its final name is whole");
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The records on stdout are complete lines at every moment.
#[test]
fn every_line_on_stdout_of_a_stopped_run_is_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let ended = interrupted_run(folder.path());
    let records: Vec<Record> = ended
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(matches!(records.first(), Some(Record::Run(_))));
    assert!(matches!(records.last(), Some(Record::Summary(_))));
}
