//! A pool on one CXL device behind two hosts: two guests on one device, one of which manages it.
//! Each loads tables, both answer from all of them, a process is killed in each.
//!
//! What caches of two real hosts do is not shown here, since an emulator has none; the simulation
//! in `crates/pool` plays that. `TIERLOOM_LAB=skip` skips the guests.
#![cfg(feature = "sql")]

mod common;

use common::guests::outputs_of_two;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tierloom_lab::{GuestCommand, GuestFile, GuestKind, GuestLink, GuestOptions};

/// Of the device's memory: small, because the emulated window is slow.
const DEVICE_BYTES: u64 = 256 << 20;
/// For all commands of a guest.
const LIMIT: Duration = Duration::from_secs(1200);
/// For the other guest to get somewhere.
const PATIENCE: Duration = Duration::from_secs(900);

const TOKEN: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

/// What every command of a guest needs. Leases are short, so that silence is soon noticed.
const PRELUDE: &str = r#"
P=/dev/dax0.0
pool() { sub=$1; shift; tierloom pool $sub $P "$@" --host $HOST --token-file /token --allow-plain-remote; }
sql() { tierloom sql --pool $P --pool-host $HOST --pool-token-file /token --pool-allow-plain-remote --format csv "$@"; }
status() { tierloom pool status $P --json; }
until_status() { i=0; until status | grep -q "$1"; do i=$((i+1)); [ $i -lt 300 ] || { status; exit 9; }; sleep 1; done; }
gone() { i=0; while kill -0 $1 2>/dev/null; do i=$((i+1)); [ $i -lt 60 ] || exit 6; sleep 1; done; }
serve() {
  : >/tmp/served
  (exec tierloom pool serve $P --host $HOST --token-file /token --allow-plain-remote --listen 10.7.0.1:7272 --lease 3s) >/tmp/served 2>&1 </dev/null &
  echo $! >/tmp/server
  until grep -q serving /tmp/served; do sleep 1; kill -0 $(cat /tmp/server) || { cat /tmp/served; exit 8; }; done
}
"#;

fn shell(host: &str, script: &str) -> GuestCommand {
    GuestCommand::shell(format!("HOST={host}\n{PRELUDE}\nset -e\n{script}"))
}

fn guest(folder: &Path, link: GuestLink) -> GuestOptions {
    let mut options = GuestOptions::new(GuestKind::CxlDevdax);
    options.slow_bytes = DEVICE_BYTES;
    options.timeout = LIMIT;
    options.cxl_backing = Some(folder.join("device"));
    options.link = Some(link);
    let binary = env!("CARGO_BIN_EXE_tierloom");
    options.files.push(GuestFile::new(binary, "/bin/tierloom"));
    for (name, content) in [
        ("token", TOKEN),
        ("t.csv", "n\n1\n2\n3\n"),
        ("u.csv", "n\n40\n2\n"),
    ] {
        let file = folder.join(name);
        std::fs::write(&file, content).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, private).unwrap();
        options
            .files
            .push(GuestFile::new(&file, format!("/{name}")));
    }
    options
}

fn reached(port: u16) -> GuestCommand {
    GuestCommand::wait_for_port(format!("10.7.0.1:{port}").parse().unwrap(), PATIENCE)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn tables(status: &Value) -> Vec<(&str, u64)> {
    let regions = status["regions"].as_array().unwrap().iter();
    let tables = regions.filter(|region| region["kind"] == "table");
    let mut tables: Vec<(&str, u64)> = tables
        .map(|r| (r["name"].as_str().unwrap(), r["version"].as_u64().unwrap()))
        .collect();
    tables.sort_unstable();
    tables
}

/// What the guest does that manages the pool.
fn on_a() -> Vec<GuestCommand> {
    vec![
        shell("a", "tierloom pool create $P --host a\nserve"),
        shell("a", "pool load -t t=/t.csv\nsql -c 'select sum(n) from t'"),
        // Ends with its first connection, so the other guest has seen the table.
        shell("a", "nc -l -p 7901"),
        // The other guest loads a table. The server is killed and started again meanwhile.
        shell(
            "a",
            "until_status '\"u\"'\nkill -9 $(cat /tmp/server)\ngone $(cat /tmp/server)\nserve",
        ),
        shell("a", "sql -c 'select sum(t.n + u.n) from t, u'"),
        shell("a", "nc -l -p 7902"),
        shell("a", "nc -l -p 7903"),
        shell(
            "a",
            "cat /tmp/served\nstatus >&2\nkill -INT $(cat /tmp/server)\ngone $(cat /tmp/server)",
        ),
        shell("a", "status"),
    ]
}

fn on_b() -> Vec<GuestCommand> {
    vec![
        reached(7901),
        shell("b", "sql -c 'select sum(n) from t'"),
        // Alone it may not change anything, and says who may.
        shell(
            "b",
            "if tierloom pool drop $P t --host b --token-file /t.csv 2>/tmp/e; then exit 7; fi; cat /tmp/e",
        ),
        shell("b", "pool load -t u=/u.csv\nstatus"),
        reached(7902),
        shell("b", "sql -c 'select sum(t.n + u.n) from t, u'"),
        // A process that has scratch memory is killed: the other host cannot know that its caches
        // are clean, so what it wrote is in quarantine until this host says so.
        shell(
            "b",
            r#"(sql -c "set tierloom.memory.temp = 'pool'; create table big as select value as n from generate_series(1, 300000); select count(*) from generate_series(1, 1000000000000)") >/tmp/big 2>&1 </dev/null &
               until_status '"scratch"'
               kill -9 $(pidof tierloom)
               until_status '"fenced"'
               status"#,
        ),
        shell("b", "sql -c 'select count(*) from t'\nstatus >/tmp/after"),
        shell("b", "cat /tmp/after"),
        reached(7903),
    ]
}

#[test]
fn two_hosts_load_read_and_lose_processes_on_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let guest = |link| guest(at, link);
    let Some([a, b]) = outputs_of_two(at, guest, on_a(), on_b()) else {
        return;
    };
    assert!(a[1].ends_with("6\n"), "{}", a[1]);
    assert!(b[1].ends_with("6\n"), "{}", b[1]);
    assert!(b[2].contains("token"), "{}", b[2]);
    let start = b[3].find('{').unwrap();
    assert_eq!(tables(&json(&b[3][start..])), [("t", 1), ("u", 1)]);
    for sums in [&a[4], &b[5]] {
        // 2 times 1 + 2 + 3, and 3 times 40 + 2.
        assert!(sums.ends_with("138\n"), "{sums}");
    }
    let fenced = json(&b[6][b[6].find('{').unwrap()..]);
    let quarantined = |status: &Value| status["space"]["quarantined_bytes"].as_u64().unwrap();
    assert!(quarantined(&fenced) > 0, "{fenced}");
    assert!(a[7].contains("fenced"), "{}", a[7]);
    let cleared = json(&b[8]);
    assert_eq!(quarantined(&cleared), 0, "{cleared}");
    let last = json(&a[8]);
    assert_eq!(tables(&last), [("t", 1), ("u", 1)]);
    assert_eq!(last["served_at"], Value::Null);
    let used: u64 = last["regions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(last["space"]["used_bytes"], used, "only tables are left");
}
