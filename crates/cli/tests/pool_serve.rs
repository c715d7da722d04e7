//! `tierloom pool serve`: several processes on one pool, that end in every way.
#![cfg(feature = "sql")]

mod common;

use common::{command, end_of, tierloom, wait};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(120);

/// A program that is killed when the test ends.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut command = command(folder, args);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
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
    let mut server = Running::start(folder, &args);
    let address = server.line("serving ");
    (server, address)
}

/// A session whose last statement runs until it is killed.
fn endless(folder: &Path, before: &str) -> Running {
    let script = format!("{before} select count(*) from generate_series(1, 1000000000000);");
    let args = ["sql", "--format", "csv", "--pool", "a.pool", "-c", &script];
    Running::start(folder, &args)
}

fn answer(folder: &Path, query: &str) -> String {
    let args = ["sql", "--pool", "a.pool", "--format", "csv", "-c", query];
    let rows = tierloom(folder, &args).with_code(0).stdout;
    rows.lines().last().unwrap_or_default().to_owned()
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

/// Bytes of scratch memory.
fn scratch(status: &Value) -> u64 {
    let regions = status["regions"].as_array().unwrap().iter();
    let scratch = regions.filter(|region| region["kind"] == "scratch");
    scratch
        .map(|region| region["bytes"].as_u64().unwrap())
        .sum()
}

const TEMPS: &str = "set tierloom.memory.temp = 'pool'; \
                     create table big as select value as n from generate_series(1, 2000000);";

#[test]
fn sessions_share_a_pool_and_leave_nothing_however_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    pool(at);
    let (mut server, address) = serve(at, &[]);
    assert!(address.starts_with("unix:"), "{address}");
    assert_eq!(status(at)["served_at"], address.as_str());
    let load = ["pool", "load", "a.pool", "-t", "t=t.csv"];
    tierloom(at, &load).with_code(0);
    let empty = status(at)["space"].clone();
    let mut one = endless(at, TEMPS);
    let other = endless(at, TEMPS);
    until("both have scratch memory", || {
        let status = status(at);
        clients(&status) == 2 && scratch(&status) >= 2 * 2_000_000
    });
    assert_eq!(answer(at, "select sum(n) from t"), "6");
    // Replaced while others read it.
    fs::write(at.join("t.csv"), "n\n10\n20\n").unwrap();
    tierloom(at, &load).with_code(0);
    assert_eq!(answer(at, "select sum(n) from t"), "30");
    one.kill();
    until("the dead one is gone", || clients(&status(at)) == 1);
    drop(other);
    until("what they had is free", || {
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
    assert_eq!(status(at)["regions"].as_array().unwrap().len(), 0);
    tierloom(at, &load).with_code(0);
    assert_eq!(status(at)["served_at"], Value::Null);
}

#[test]
fn a_session_outlives_its_server_and_the_next_one_knows_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    pool(at);
    let (mut server, _) = serve(at, &[]);
    tierloom(at, &["pool", "load", "a.pool", "-t", "t=t.csv"]).with_code(0);
    let mut session = endless(at, TEMPS);
    until("it has scratch memory", || scratch(&status(at)) > 0);
    server.kill();
    // Without a server one process at a time has the pool, and leaves the living one its memory.
    assert_eq!(answer(at, "select sum(n) from t"), "6");
    assert!(scratch(&status(at)) > 0);
    assert!(session.child.try_wait().unwrap().is_none());
    let (_server, _) = serve(at, &[]);
    assert_eq!((clients(&status(at)), scratch(&status(at)) > 0), (1, true));
    session.kill();
    until("what it had is free", || {
        let status = status(at);
        (clients(&status), scratch(&status)) == (0, 0)
    });
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
