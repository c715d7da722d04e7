//! One workload on several hosts: agents as processes, each host alone and all at once, and what
//! happens when one of them cannot take part.
#![cfg(feature = "sql")]

mod common;

use common::agents::{Agent, TOKEN, interrupt};
use common::{Ended, command, end_of, refused, tierloom};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tierloom_record::{HostInCase, InterferenceRecord, RecordSet};

/// Limit for a condition to become true; much longer than the leases of agents.
const SLOW: Duration = Duration::from_secs(90);

const QUERIES: [&str; 2] = ["q01", "q06"];

/// A coordinator of two hosts, `a` and `b`.
fn coordinator(folder: &Path, hosts: [&Agent; 2], more: &[&str]) -> Command {
    let [a, b] = hosts.map(|host| host.address.as_str());
    let (a, b) = (format!("a={a}"), format!("b={b}"));
    let run = [
        "run",
        "tpch",
        "--sf",
        "0.01",
        "--query",
        "q1,q6",
        "--interference",
    ];
    let hosts = ["--threads", "1", "--host", &a, "--host", &b];
    let mut command = command(folder, &[&run[..], &hosts, more].concat());
    command.env("TIERLOOM_TOKEN", TOKEN);
    command
}

fn ended(mut command: Command) -> Ended {
    end_of(command.spawn().expect("the binary starts"))
}

#[track_caller]
fn record_of(ended: Ended) -> InterferenceRecord {
    let ended = ended.with_code(0);
    ended.no_panic();
    let mut set = RecordSet::parse(&ended.stdout, "stdout").unwrap();
    assert_eq!(set.to_records().len(), 1, "one command, one record");
    set.interferences.remove(0)
}

#[track_caller]
fn check(host: &HostInCase, other: &str, repeat: usize) {
    let names: Vec<&str> = host.queries.iter().map(|q| q.query.as_str()).collect();
    assert_eq!(names, QUERIES);
    for query in &host.queries {
        for times in [&query.alone_ms, &query.together_ms] {
            assert_eq!(times.values.len(), repeat, "{}", query.query);
            assert!(times.min > 0.0, "{times:?}");
        }
        assert!(query.answer.checked, "{}", query.answer.check);
        let ratio = query.together_ms.median / query.alone_ms.median;
        assert!((query.ratio.median - ratio).abs() < 1e-9, "{query:?}");
    }
    assert!(host.alone.beside.is_empty());
    let [beside] = &host.together.beside[..] else {
        panic!("{:?}", host.together.beside);
    };
    assert_eq!(beside.host, other);
    assert!(beside.executions > 0, "it had no company");
    for run in [&host.alone, &host.together] {
        // Both processes share one clock.
        let offset = run.clock_offset_ns.unsigned_abs();
        assert!(offset <= run.clock_uncertainty_ns, "{offset} ns");
        for audit in [&run.audit_before, &run.audit_after] {
            assert!(audit.as_ref().expect("an audit").pages_checked > 0);
        }
    }
}

#[test]
fn one_command_times_each_host_alone_and_beside_the_other_in_every_case() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (a, b) = (Agent::start(path), Agent::start(path));
    for pool in ["a.pool", "b.pool"] {
        let create = ["pool", "create", pool, "--size", "256MiB"];
        tierloom(path, &create).with_code(0);
    }
    let own = format!(
        "own pool: a=pool:{0}/a.pool b=pool:{0}/b.pool",
        path.display()
    );
    let more = ["--case", "memory: a=dram b=dram", "--case", &own];
    let outputs = ["--repeat", "4", "--jsonl", "--report", "r.html"];
    let record = record_of(ended(coordinator(
        path,
        [&a, &b],
        &[&more[..], &outputs].concat(),
    )));
    assert!(record.valid, "{:?}", record.remarks);
    assert_eq!(record.interrupted, None);
    let hosts: Vec<&str> = record.hosts.iter().map(|host| &*host.name).collect();
    assert_eq!(hosts, ["a", "b"]);
    for host in &record.hosts {
        assert!(host.column_bytes > 0 && host.threads == 1, "{host:?}");
    }
    let cases: Vec<&str> = record.cases.iter().map(|case| &*case.case).collect();
    assert_eq!(cases, ["memory", "own pool"]);
    for case in &record.cases {
        let hosts: Vec<&str> = case.hosts.iter().map(|host| &*host.host).collect();
        assert_eq!(hosts, ["a", "b"]);
        check(&case.hosts[0], "b", 4);
        check(&case.hosts[1], "a", 4);
    }
    assert_eq!(record.cases[0].hosts[0].pool, None);
    let pools = record.cases[1]
        .hosts
        .iter()
        .map(|host| host.pool.as_deref());
    let pools: Vec<&str> = pools.flatten().collect();
    assert!(
        pools[0].ends_with("a.pool") && pools[1].ends_with("b.pool"),
        "{pools:?}"
    );
    let html = fs::read_to_string(path.join("r.html")).unwrap();
    for part in [
        "Interference of the hosts a and b",
        "own pool",
        "beyond the spread",
    ] {
        assert!(html.contains(part), "no {part:?} in the report");
    }

    // As text: the answer, the tables and the audits; and agents free what they had loaded.
    let text = ended(coordinator(path, [&a, &b], &["--repeat", "1"])).with_code(0);
    for part in [
        "1 repetitions are too few",
        "All answers are right, alone and together.",
        "b: beside a, which finished ",
        "page audit: requested node",
    ] {
        assert!(
            text.stdout.contains(part),
            "no {part:?} in:\n{}",
            text.stdout
        );
    }
    has_no_data(&a);
    has_no_data(&b);
}

/// Whether the thread that keeps loaded data is there.
fn has_data(agent: &Agent) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", agent.id())).expect("the agent runs");
    threads.flatten().any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "host-worker")
    })
}

#[track_caller]
fn has_no_data(agent: &Agent) {
    let start = Instant::now();
    while has_data(agent) {
        assert!(start.elapsed() < SLOW, "the agent keeps its data");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_host_that_cannot_prepare_is_named_and_the_other_keeps_serving() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (a, b) = (Agent::start(path), Agent::start(path));
    for (case, says) in [
        ("x: a=dram b=900", "900"),
        ("x: a=dram b=pool:none.pool", "none.pool"),
    ] {
        let command = coordinator(path, [&a, &b], &["--case", case, "--records", "r.jsonl"]);
        let failed = ended(command).with_code(1);
        let error = failed.one_error();
        for part in ["host b", "preparing", says] {
            assert!(error.contains(part), "no {part:?} in {error}");
        }
        assert_eq!(failed.stdout, "");
        assert!(!path.join("r.jsonl").exists(), "a record of nothing");
        has_no_data(&a);
        has_no_data(&b);
    }
    record_of(ended(coordinator(path, [&a, &b], &["--jsonl"])));
}

/// Starts a coordinator and waits until it says `line`. Its messages are read on, so that it does
/// not block.
fn started(mut command: Command, line: &str) -> (Child, std::thread::JoinHandle<String>) {
    let mut child = command.spawn().expect("the binary starts");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(line) {
        let more = stderr.read_line(&mut said).expect("stderr is text");
        assert!(more > 0, "it ended before it said {line:?}:\n{said}");
    }
    let rest = std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
        }
        said
    });
    (child, rest)
}

#[test]
fn a_host_that_is_lost_ends_the_command_by_name_and_frees_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let a = Agent::start(path);
    for step in [
        "dram: b alone",
        "dram: a with the others",
        "dram: b with the others",
    ] {
        let mut b = Agent::start(path);
        // The step is said before its agreed start, half a second ahead.
        let command = coordinator(path, [&a, &b], &["--repeat", "20"]);
        let (child, rest) = started(command, step);
        b.kill();
        let over = end_of(child).with_code(1);
        assert_eq!(over.stdout, "");
        let said = rest.join().unwrap();
        let errors: Vec<&str> = said.lines().filter(|l| l.starts_with("error:")).collect();
        let [error] = errors[..] else {
            panic!("one error expected:\n{said}");
        };
        assert!(
            error.contains("host b") && error.contains("lost"),
            "{error}"
        );
        has_no_data(&a);
    }
    let again = Agent::start(path);
    record_of(ended(coordinator(path, [&a, &again], &["--jsonl"])));
}

#[test]
fn ctrl_c_keeps_the_cases_that_are_done_and_stops_all_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (a, b) = (Agent::start(path), Agent::start(path));
    let cases: Vec<String> = (0..40).map(|n| format!("c{n}: a=dram b=dram")).collect();
    let mut more = vec!["--repeat", "4", "--records", "r.jsonl"];
    for case in &cases {
        more.extend(["--case", case.as_str()]);
    }
    let (child, rest) = started(coordinator(path, [&a, &b], &more), "c2: a alone");
    interrupt(child.id());
    end_of(child).with_code(130);
    let said = rest.join().unwrap();
    assert!(said.contains("interrupted: "), "{said}");
    let set = RecordSet::read(&path.join("r.jsonl")).unwrap();
    let record = &set.interferences[0];
    assert!(record.cases.len() >= 2, "{} cases", record.cases.len());
    let why = record.interrupted.as_deref().expect("it says so");
    assert!(why.ends_with("of 40 cases were done"), "{why}");
    has_no_data(&a);
    has_no_data(&b);
    record_of(ended(coordinator(path, [&a, &b], &["--jsonl"])));
}

#[test]
fn what_is_wrong_with_hosts_or_cases_is_found_before_any_host_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there, which would be another error.
    let two = [
        "--interference",
        "--host",
        "a=127.0.0.1:1",
        "--host",
        "b=127.0.0.1:1",
    ];
    let one = ["--interference", "--host", "a=127.0.0.1:1"];
    for (args, more, says) in [
        (&one[..], &[][..], &["two or more with --host"][..]),
        (&one, &["--host", "a"], &["--host a", "NAME=HOST:PORT"]),
        (&two, &["--case", "x: a=dram"], &["host b has no place"]),
        (&two, &["--placement", "adaptive"], &["fixed placement"]),
        (&two, &["--placement", "pool"], &["pool:PATH"]),
        (&two, &["--query", "q99"], &["q99"]),
        (&two, &["--repeat", "0"], &["--repeat"]),
        (
            &two,
            &["--operator-memory", "join=pool"],
            &["--operator-memory", "not in a pool"],
        ),
    ] {
        let all = [&["run", "tpch", "--sf", "0.01"][..], args, more].concat();
        refused(folder.path(), &all, says);
    }
    for (args, more, says) in [
        (&two[..], &["--machine", "nus24"][..], "--machine"),
        (&two, &["--streams", "2", "--duration", "1s"], "--streams"),
        (&two, &["--temps", "dram"], "--temps"),
        (&one[1..], &[], "--interference"),
    ] {
        let all = [&["run", "tpch"][..], args, more].concat();
        let ended = tierloom(folder.path(), &all).with_code(2);
        let error = ended.stderr.split("Usage:").next().unwrap_or_default();
        assert!(error.contains(says), "no {says:?} in {error}");
    }
    let plan = [&["run", "tpch", "--dry-run"][..], &two].concat();
    let shown = tierloom(folder.path(), &plan).with_code(0).stdout;
    for part in ["a: agent at 127.0.0.1:1", "dram: a dram, b dram"] {
        assert!(shown.contains(part), "no {part:?} in:\n{shown}");
    }
}
