//! Runs on several hosts, with real agent processes on this machine's loopback, and what happens
//! when a process dies.

mod common;

use common::agents::{Agent, TOKEN, interrupt};
use common::{Ended, command, end_of, wait};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tierloom_record::{BenchRecord, RecordSet};

/// Limit for a condition to become true; much longer than the leases of agents.
const SLOW: Duration = Duration::from_secs(90);

const OTHER_TOKEN: &str = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A workload file with the tasks `main` and `load` on hosts by name; no name means this host. The
/// main task runs for `run_time`, `repeat` times.
struct File<'a> {
    hosts: &'a [(&'a str, &'a str)],
    main: Option<&'a str>,
    load: Option<&'a str>,
    run_time: &'a str,
    repeat: u32,
}

impl File<'_> {
    fn text(&self) -> String {
        let hosts: String = self
            .hosts
            .iter()
            .map(|(name, address)| format!("  {name}: {{address: \"{address}\"}}\n"))
            .collect();
        let host = |name: Option<&str>| {
            name.map_or_else(String::new, |name| format!("      host: {name}\n"))
        };
        format!(
            "hosts:
{hosts}pair:
  matrix:
    main.access_size: [64, 4K]
  args:
    memory_region_size: 1M
    warmup: 0s
    repeat: {}
  tasks:
    main:
{}      operation: read
      threads: 1
      run_time: {}
    load:
{}      operation: write
      access_size: 4K
      threads: 1
",
            self.repeat,
            host(self.main),
            self.run_time,
            host(self.load)
        )
    }
}

/// A coordinator that runs `w.yaml`.
fn coordinator(folder: &Path, token: &str, more: &[&str]) -> Command {
    let mut command = command(folder, &[&["bench", "w.yaml"], more].concat());
    command.env("TIERLOOM_TOKEN", token);
    command
}

fn run(folder: &Path, file: &File<'_>, token: &str, more: &[&str]) -> Ended {
    fs::write(folder.join("w.yaml"), file.text()).unwrap();
    end_of(coordinator(folder, token, more).spawn().unwrap())
}

#[track_caller]
fn records_of(ended: Ended) -> Vec<BenchRecord> {
    let ended = ended.with_code(0);
    ended.no_panic();
    RecordSet::parse(&ended.stdout, "stdout").unwrap().benches
}

/// Checks a record of both tasks, and the hosts that they ran on.
#[track_caller]
fn check(record: &BenchRecord, main: &str, load: &str) {
    assert!(record.valid, "{:?}", record.remarks);
    let places: Vec<(&str, &str, &str)> = record
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), task.role.as_str(), task.host.as_str()))
        .collect();
    assert_eq!(
        places,
        [("main", "main", main), ("load", "background", load)]
    );
    for task in &record.tasks {
        let rate = task.bandwidth_gbps.as_ref().expect("a bandwidth");
        assert!(rate.median > 0.0, "{}: {rate:?}", task.name);
        let audit = task.regions[0].after.as_ref().expect("an audit");
        assert!(audit.pages_checked > 0, "{}", task.name);
    }
    assert_eq!(
        record.tasks[0]
            .bandwidth_gbps
            .as_ref()
            .unwrap()
            .values
            .len(),
        2,
        "every repetition of the main task"
    );
    let names: Vec<&str> = record.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, [main, load], "the host of the main task comes first");
    for host in &record.hosts {
        let clock = (host.clock_offset_ns, host.clock_uncertainty_ns);
        if host.name == "here" {
            assert_eq!(clock, (None, None), "this clock is the measure");
        } else {
            let (Some(offset), Some(uncertainty)) = clock else {
                panic!("{}: no clock: {clock:?}", host.name);
            };
            // Both processes share one clock: the offset must be within the uncertainty, which is
            // half a round trip.
            assert!(uncertainty > 0.0, "{uncertainty}");
            // Both are rounded to whole ns.
            assert!(
                offset.abs() <= uncertainty + 1.0,
                "{offset} +- {uncertainty} ns"
            );
        }
    }
}

#[test]
fn tasks_run_where_the_file_says_and_one_record_tells_of_both_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (left, right) = (Agent::start(path), Agent::start(path));
    let hosts = [
        ("left", left.address.as_str()),
        ("right", right.address.as_str()),
    ];
    for (main, load) in [
        (None, Some("left")),
        (Some("left"), None),
        (Some("left"), Some("right")),
    ] {
        let file = File {
            hosts: &hosts,
            main,
            load,
            run_time: "20ms",
            repeat: 2,
        };
        let records = records_of(run(path, &file, TOKEN, &["--jsonl"]));
        assert_eq!(records.len(), 2, "both runs of the matrix");
        for record in &records {
            check(record, main.unwrap_or("here"), load.unwrap_or("here"));
        }
    }
}

#[test]
fn a_wrong_token_is_a_failure_that_names_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(folder.path());
    let file = File {
        hosts: &[("left", &agent.address)],
        main: None,
        load: Some("left"),
        run_time: "20ms",
        repeat: 2,
    };
    let ended = run(folder.path(), &file, OTHER_TOKEN, &["--jsonl"]).with_code(1);
    let error = ended.one_error();
    assert!(error.contains("left") && error.contains("token"), "{error}");
    assert!(
        !ended.stderr.contains(TOKEN) && !ended.stderr.contains(OTHER_TOKEN),
        "a token is shown"
    );
    assert_eq!(ended.stdout, "");
    // The agent still works after the failure.
    records_of(run(folder.path(), &file, TOKEN, &["--jsonl"]));
    let malformed = run(folder.path(), &file, "no-token", &["--jsonl"]).with_code(2);
    assert!(
        malformed.one_error().contains("TIERLOOM_TOKEN"),
        "{}",
        malformed.stderr
    );
}

#[test]
fn a_host_without_an_agent_is_a_failure_that_names_it_and_says_what_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let address = {
        let mut gone = Agent::start(folder.path());
        gone.kill();
        gone.address.clone()
    };
    let file = File {
        hosts: &[("left", &address)],
        main: None,
        load: Some("left"),
        run_time: "20ms",
        repeat: 2,
    };
    let ended = run(folder.path(), &file, TOKEN, &[]).with_code(1);
    let error = ended.one_error();
    for part in ["left", &address, "tierloom bench --agent"] {
        assert!(error.contains(part), "no {part:?} in {error}");
    }
}

/// What a host lacks is reported as that host's problem, before anything runs there.
#[test]
fn what_a_host_cannot_do_is_told_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(folder.path());
    let file = File {
        hosts: &[("left", &agent.address)],
        main: None,
        load: Some("left"),
        run_time: "20ms",
        repeat: 2,
    };
    let text = file
        .text()
        .replace("host: left\n", "host: left\n      memory: 900\n");
    fs::write(folder.path().join("w.yaml"), text).unwrap();
    let command = coordinator(folder.path(), TOKEN, &["--jsonl"]).spawn();
    let ended = end_of(command.unwrap()).with_code(1);
    let error = ended.one_error();
    assert!(
        error.contains("left") && error.contains("node 900"),
        "{error}"
    );
    assert_eq!(ended.stdout, "");
    records_of(run(folder.path(), &file, TOKEN, &["--jsonl"]));
}

/// Starts a run that is long enough to be interrupted: the first of its two records comes within a
/// second, the second one never.
fn started(
    folder: &Path,
    file: &File<'_>,
) -> (Child, String, BufReader<std::process::ChildStdout>) {
    let text = file
        .text()
        .replace("main.access_size: [64, 4K]", "main.run_time: [20ms, 600s]");
    let text = text.replace("      run_time: 20ms\n", "");
    fs::write(folder.join("w.yaml"), text).unwrap();
    let args = ["--jsonl", "--records", "r.jsonl"];
    let mut child = coordinator(folder, TOKEN, &args).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    if !first.ends_with('\n') {
        panic!("no first record:\n{}", end_of(child).stderr);
    }
    // Long enough for the second run to have begun. If it has not, losing the host while it
    // prepares must end the same way.
    std::thread::sleep(Duration::from_millis(1500));
    (child, first, stdout)
}

/// Waits for the end of a child of [`started`].
#[track_caller]
fn ended_in_time(mut child: Child) -> Ended {
    let start = Instant::now();
    let status = wait(&mut child, SLOW).expect("losing a host ends the run");
    println!("ended after {:.1} s", start.elapsed().as_secs_f64());
    let ended = end_of(child);
    assert_eq!(status.code(), ended.code);
    ended
}

#[test]
fn a_host_that_dies_ends_the_run_by_name_and_frees_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (main, load, dies) in [
        (None, Some("right"), 1),
        (Some("right"), None, 1),
        (Some("left"), Some("right"), 1),
        (Some("left"), Some("right"), 0),
    ] {
        let mut agents = [Agent::start(path), Agent::start(path)];
        let addresses = [agents[0].address.clone(), agents[1].address.clone()];
        let names = ["left", "right"];
        let hosts = [
            (names[0], addresses[0].as_str()),
            (names[1], addresses[1].as_str()),
        ];
        let mut file = File {
            hosts: &hosts,
            main,
            load,
            run_time: "20ms",
            repeat: 2,
        };
        let _ = fs::remove_file(path.join("r.jsonl"));
        let (child, first, stdout) = started(path, &file);
        agents[dies].kill();
        let ended = ended_in_time(child).with_code(1);
        let error = ended.one_error();
        assert!(
            error.contains(names[dies]) && error.contains("lost"),
            "main {main:?}, load {load:?}, {} died: {error}",
            names[dies]
        );
        let rest = std::io::read_to_string(stdout).unwrap();
        assert_eq!(rest, "", "no record of a run that was not whole");
        let kept = RecordSet::read(&path.join("r.jsonl")).unwrap().benches;
        assert_eq!(RecordSet::parse(&first, "stdout").unwrap().benches, kept);

        // The other agent accepts new work at once.
        file.main = None;
        file.load = Some(names[1 - dies]);
        let records = records_of(run(path, &file, TOKEN, &["--jsonl"]));
        assert_eq!(records.len(), 2);
    }
}

#[test]
fn a_coordinator_that_dies_leaves_agents_that_serve_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let agent = Agent::start(path);
    let hosts = [("left", agent.address.as_str())];
    for (main, load) in [(None, Some("left")), (Some("left"), None)] {
        let file = File {
            hosts: &hosts,
            main,
            load,
            run_time: "20ms",
            repeat: 2,
        };
        let _ = fs::remove_file(path.join("r.jsonl"));
        let (mut child, _, _) = started(path, &file);
        child.kill().unwrap();
        end_of(child);
        // The lease of the dead coordinator must expire first; until then the next one gets an
        // error that says who holds it.
        let start = Instant::now();
        let records = loop {
            let ended = run(path, &file, TOKEN, &["--jsonl"]);
            if ended.code == Some(0) {
                break records_of(ended);
            }
            let error = ended.with_code(1);
            assert!(error.one_error().contains("busy"), "{}", error.stderr);
            assert!(start.elapsed() < SLOW, "the agent is never free again");
            std::thread::sleep(Duration::from_millis(200));
        };
        println!("free after {:.1} s", start.elapsed().as_secs_f64());
        for record in &records {
            check(record, main.unwrap_or("here"), load.unwrap_or("here"));
        }
        let kept = RecordSet::read(&path.join("r.jsonl")).unwrap().benches;
        assert_eq!(kept.len(), 1, "what was done before is in the file");
    }
}

#[test]
fn ctrl_c_at_the_coordinator_frees_the_agents_and_keeps_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let agent = Agent::start(path);
    let hosts = [("left", agent.address.as_str())];
    for (main, load) in [(None, Some("left")), (Some("left"), None)] {
        let file = File {
            hosts: &hosts,
            main,
            load,
            run_time: "20ms",
            repeat: 2,
        };
        let _ = fs::remove_file(path.join("r.jsonl"));
        let (child, _, stdout) = started(path, &file);
        interrupt(child.id());
        let ended = ended_in_time(child).with_code(130);
        assert!(ended.stderr.contains("interrupted: "), "{}", ended.stderr);
        ended.no_panic();
        drop(stdout);
        let kept = RecordSet::read(&path.join("r.jsonl")).unwrap().benches;
        assert!(!kept.is_empty());
        records_of(run(path, &file, TOKEN, &["--jsonl"]));
    }
}

#[test]
fn ctrl_c_ends_an_agent_well_and_its_port_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(folder.path());
    interrupt(agent.id());
    let status = wait(agent.child(), SLOW).expect("an agent ends at Ctrl-C");
    assert_eq!(status.code(), Some(0));
    let next = Agent::at(folder.path(), &agent.address);
    assert_eq!(next.address, agent.address);
    // A port in use is a failure of the machine (exit code 1), and the error says what to do.
    let mut command = command(
        folder.path(),
        &["bench", "--agent", "--listen", &next.address],
    );
    let second = end_of(command.env("TIERLOOM_TOKEN", TOKEN).spawn().unwrap()).with_code(1);
    let error = second.one_error();
    assert!(
        error.contains(&next.address) && error.contains("--listen"),
        "{error}"
    );
}
