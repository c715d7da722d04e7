//! `tierloom pool serve`: several processes on one pool, that end in every way.
#![cfg(feature = "sql")]

mod common;

use common::{command, end_of, tierloom, wait};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(120);

/// A program that is killed when the test ends.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> (Self, ChildStdin) {
        let mut command = command(folder, args);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (Self { child, out }, input)
    }

    /// The next line that begins with `start`; what is after that.
    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(folder: &Path, more: &[&str]) -> (Running, String) {
    let args = [&["pool", "serve", "a.pool"], more].concat();
    let mut server = Running::start(folder, &args).0;
    let address = server.line("serving ");
    (server, address)
}

/// A session of SQL that answers statements while the test goes on.
struct Session {
    running: Running,
    input: ChildStdin,
}

impl Session {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let args = [&["sql", "--format", "csv", "--pool", "a.pool"], more].concat();
        let (running, input) = Running::start(folder, &args);
        Self { running, input }
    }

    /// The value of a statement that returns one column `v`.
    fn ask(&mut self, statement: &str) -> String {
        writeln!(self.input, "{statement};").unwrap();
        self.running.line("v\n".trim_end());
        let mut value = String::new();
        self.running.out.read_line(&mut value).unwrap();
        value.trim().to_owned()
    }

    fn say(&mut self, statement: &str) {
        writeln!(self.input, "{statement};").unwrap();
    }
}

fn status(folder: &Path) -> Value {
    let ended = tierloom(folder, &["pool", "status", "a.pool", "--json"]).with_code(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn clients(status: &Value) -> usize {
    let hosts = status["hosts"].as_array().unwrap().iter();
    hosts.filter(|host| host["client"] == true).count()
}

fn pool(folder: &Path) {
    fs::write(folder.join("t.csv"), "n\n1\n2\n3\n").unwrap();
    tierloom(folder, &["pool", "create", "a.pool", "--size", "256MiB"]).with_code(0);
}

#[test]
fn sessions_share_a_pool_and_leave_nothing_however_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    pool(at);
    let (mut server, address) = serve(at, &[]);
    assert!(address.starts_with("unix:"), "{address}");
    assert_eq!(status(at)["served_at"], address.as_str());
    tierloom(at, &["pool", "load", "a.pool", "-t", "t=t.csv"]).with_code(0);
    let empty = status(at)["space"].clone();
    let mut one = Session::start(at, &[]);
    let mut other = Session::start(at, &[]);
    assert_eq!(one.ask("select sum(n) v from t"), "6");
    assert_eq!(other.ask("select max(n) v from t"), "3");
    assert_eq!(clients(&status(at)), 2);
    one.say("set tierloom.memory.temp = 'pool'");
    one.say("create table big as select value as n from generate_series(1, 2000000)");
    assert_eq!(one.ask("select sum(n) v from big"), "2000001000000");
    assert_ne!(status(at)["space"], empty);
    // Replaced while others read it.
    fs::write(at.join("t.csv"), "n\n10\n20\n").unwrap();
    tierloom(at, &["pool", "load", "a.pool", "-t", "t=t.csv"]).with_code(0);
    assert_eq!(other.ask("select sum(n) v from t"), "6");
    let new = tierloom(
        at,
        &[
            "sql",
            "--pool",
            "a.pool",
            "--format",
            "csv",
            "-c",
            "select sum(n) from t",
        ],
    );
    assert!(new.with_code(0).stdout.ends_with("30\n"));
    // One is killed, the other ends.
    one.running.kill();
    drop(other.input);
    assert!(wait(&mut other.running.child, SOON).unwrap().success());
    until("what the dead one had is free", || {
        let status = status(at);
        clients(&status) == 0 && status["space"] == empty
    });
    let grown = tierloom(at, &["pool", "grow", "a.pool", "--size", "512MiB"]).with_code(0);
    assert!(grown.stdout.contains("508 MiB"), "{}", grown.stdout);
    let small = tierloom(
        at,
        &["pool", "shrink", "a.pool", "--size", "8MiB", "--dry-run"],
    );
    assert!(small.with_code(0).stdout.contains("would make"));
    tierloom(at, &["pool", "drop", "a.pool", "t"]).with_code(0);
    server.kill();
    // A dead server's socket and address stand in nobody's way.
    let alone = status(at);
    assert_eq!(alone["regions"].as_array().unwrap().len(), 0);
    tierloom(at, &["pool", "load", "a.pool", "-t", "t=t.csv"]).with_code(0);
    assert_eq!(status(at)["served_at"], Value::Null);
}

#[test]
fn a_session_goes_on_when_its_server_is_killed_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    pool(at);
    let (mut server, _) = serve(at, &[]);
    tierloom(at, &["pool", "load", "a.pool", "-t", "t=t.csv"]).with_code(0);
    let mut session = Session::start(at, &[]);
    session.say("set tierloom.memory.temp = 'pool'");
    assert_eq!(session.ask("select sum(n) v from t"), "6");
    server.kill();
    assert_eq!(session.ask("select sum(n) v from t"), "6");
    let (_server, _) = serve(at, &[]);
    session.say("create table big as select value as n from generate_series(1, 2000000)");
    assert_eq!(session.ask("select sum(n) v from big"), "2000001000000");
    let regions = status(at)["regions"].clone();
    let kinds: Vec<&Value> = regions
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["kind"])
        .collect();
    assert!(kinds.iter().any(|kind| *kind == "scratch"), "{regions}");
}

#[test]
fn a_server_on_tcp_asks_for_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    pool(at);
    let hex = |digit: &str| format!("{}\n", digit.repeat(64));
    for (file, digit) in [("right", "5"), ("wrong", "6")] {
        fs::write(at.join(file), hex(digit)).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(at.join(file), private).unwrap();
    }
    let listen = ["--listen", "127.0.0.1:0", "--token-file", "right"];
    let (_server, address) = serve(at, &listen);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let load = |token: &str| {
        let args = [
            "pool",
            "load",
            "a.pool",
            "-t",
            "t=t.csv",
            "--token-file",
            token,
        ];
        tierloom(at, &args)
    };
    let refused = load("wrong").with_code(1);
    assert!(refused.one_error().contains("token"), "{}", refused.stderr);
    load("right").with_code(0);
    let query = [
        "sql",
        "--pool",
        "a.pool",
        "--pool-token-file",
        "right",
        "-c",
    ];
    let sum = [&query[..], &["select sum(n) from t", "--format", "csv"]].concat();
    assert!(tierloom(at, &sum).with_code(0).stdout.ends_with("6\n"));
}

#[test]
fn addresses_of_no_use_and_a_second_server_are_one_error_each() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    pool(at);
    let refused = |args: &[&str], code: i32| {
        let ended = tierloom(at, &[&["pool", "serve"], args].concat()).with_code(code);
        ended.one_error().to_owned()
    };
    for (listen, says) in [
        ("nonsense", "expected unix:PATH or ADDR:PORT"),
        ("0.0.0.0:0", "--tls-cert"),
        ("unix:t.csv", "something else is there"),
        ("unix:no/such/folder/s", "cannot listen on"),
    ] {
        let error = refused(&["a.pool", "--listen", listen], 2);
        assert!(error.contains(says), "{listen}: {error}");
    }
    assert!(refused(&["missing"], 2).contains("cannot find"));
    assert_eq!(
        fs::read_to_string(at.join("t.csv")).unwrap(),
        "n\n1\n2\n3\n"
    );
    let (mut server, _) = serve(at, &[]);
    let second = refused(&["a.pool", "--listen", "unix:other"], 1);
    assert!(second.contains("open in another process"), "{second}");
    // Ctrl-C ends it with code 0 and without its socket.
    let interrupt = std::process::Command::new("kill")
        .args(["-INT", &server.child.id().to_string()])
        .spawn();
    let _ = end_of(interrupt.unwrap());
    let code = wait(&mut server.child, SOON).unwrap().code();
    assert_eq!(code, Some(0));
    assert!(!at.join("a.pool.sock").exists());
    assert_eq!(status(at)["served_at"], Value::Null);
}
