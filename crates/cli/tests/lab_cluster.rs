//! A cluster of two hosts: two guests with two memory nodes each, linked by a network. All answers
//! of SSB and TPC-H are those of one process, and the rows that tasks pass on are on the node
//! without CPUs, on both hosts.
//!
//! `TIERLOOM_LAB=skip` skips the guests.
#![cfg(feature = "cluster")]

mod common;

use common::guests::outputs_of_two;
use common::tierloom;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tierloom_lab::{GuestCommand, GuestFile, GuestKind, GuestLink, GuestOptions};
use tierloom_tpc::Benchmark;
use tierloom_workloads::ssb;

/// For all commands of a guest.
const LIMIT: Duration = Duration::from_secs(1200);
/// For the other guest to get somewhere.
const PATIENCE: Duration = Duration::from_secs(900);

/// Scale factor of the tables.
const SF: f64 = 0.01;

/// What comes before each answer.
const MARK: &str = "== ";

const PRELUDE: &str = r#"
set -e
S=http://10.7.0.1:50050
start() {
  word=$1; shift
  (exec tierloom cluster "$@") >/tmp/$word 2>&1 </dev/null &
  i=0
  until grep -q "^$word " /tmp/$word; do i=$((i+1)); [ $i -lt 300 ] || { cat /tmp/$word; exit 8; }; sleep 1; done
}
executor() {
  start executor executor --scheduler $S --name $1 --listen $2 --threads 1 --placement 0 --shuffle 1 --shuffle-size 64MiB
}
status() { tierloom cluster status --scheduler $S --json; }
answers() {
  for q in /queries/$1/*; do echo "== $(basename $q)"; tierloom cluster sql --scheduler $S --backend ballista --direct $2 --format csv "$(cat $q)"; done
}
"#;

fn shell(script: &str) -> GuestCommand {
    GuestCommand::shell(format!("{PRELUDE}\n{script}"))
}

/// Name, and text at the scale factor of this test, of all queries.
fn queries(benchmark: &str) -> Vec<(String, String)> {
    if benchmark == "ssb" {
        let all = ssb::queries().iter();
        return all.map(|q| (q.id.to_owned(), q.sql.to_owned())).collect();
    }
    let all = tierloom_tpc::queries(Benchmark::TpcH).iter();
    all.map(|q| (q.id.to_owned(), q.sql(SF).to_string()))
        .collect()
}

fn guest(folder: &Path, link: GuestLink) -> GuestOptions {
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    options.timeout = LIMIT;
    options.link = Some(link);
    let binary = env!("CARGO_BIN_EXE_tierloom");
    options.files.push(GuestFile::new(binary, "/bin/tierloom"));
    for benchmark in ["ssb", "tpch"] {
        for (name, text) in queries(benchmark) {
            let file = folder.join(format!("{benchmark}-{name}"));
            std::fs::write(&file, text).unwrap();
            let inside = format!("/queries/{benchmark}/{name}");
            options.files.push(GuestFile::new(&file, inside));
        }
    }
    options
}

fn on_a() -> Vec<GuestCommand> {
    vec![
        shell("start scheduler scheduler --listen 10.7.0.1:50050 --external-host 10.7.0.1"),
        shell("executor a 10.7.0.1"),
        shell("until status | grep -q '\"b\"'; do sleep 1; done"),
        shell("tierloom cluster load ssb --scheduler $S --sf 0.01 --shards 4"),
        shell("answers ssb 64MiB"),
        shell("tierloom cluster load tpch --scheduler $S --sf 0.01 --shards 4"),
        shell("answers tpch 0"),
        shell("sleep 2; status"),
        // Ends with its first connection, by which the other guest knows that this one is done.
        shell("nc -l -p 7901"),
    ]
}

fn on_b() -> Vec<GuestCommand> {
    let port = |port: u16| {
        GuestCommand::wait_for_port(format!("10.7.0.1:{port}").parse().unwrap(), PATIENCE)
    };
    vec![port(50050), shell("executor b 10.7.0.2"), port(7901)]
}

/// Lines in an order of their own, since queries leave that of equal rows open.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Compares the answers of a cluster with those of one process on this machine.
fn compare(benchmark: &str, answers: &str) {
    let folder = tempfile::tempdir().unwrap();
    let generate = format!("{benchmark}:{SF}");
    let queries = queries(benchmark);
    let found: Vec<_> = answers.split(MARK).skip(1).collect();
    assert_eq!(found.len(), queries.len(), "{answers}");
    for (name, text) in queries {
        let head = format!("{name}\n");
        let found = found.iter().find_map(|answer| answer.strip_prefix(&head));
        let found = found.unwrap_or_else(|| panic!("no answer of {name}: {answers}"));
        let one = [
            "sql",
            "--generate",
            &generate,
            "--format",
            "csv",
            "-c",
            &text,
        ];
        let one = tierloom(folder.path(), &one).with_code(0).stdout;
        assert_eq!(sorted(found), sorted(&one), "{benchmark} {name}");
    }
}

#[test]
fn two_hosts_answer_as_one_process_and_pass_rows_on_in_memory_of_the_second_node() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let guest = |link| guest(at, link);
    let Some([a, _]) = outputs_of_two(at, guest, on_a(), on_b()) else {
        return;
    };
    compare("ssb", &a[4]);
    compare("tpch", &a[6]);
    let status: Value = serde_json::from_str(&a[7]).unwrap();
    for node in ["a", "b"] {
        let node = &status["nodes"][node];
        assert_eq!(node["alive"], true, "{status:#}");
        let shuffle = &node["shuffle"];
        let number = |name: &str| shuffle[name].as_u64().unwrap();
        assert_eq!(shuffle["file_system"], "tmpfs (bind:1)", "{shuffle:#}");
        assert!(number("written_bytes") > 100_000, "{shuffle:#}");
        assert_eq!(
            number("written_bytes"),
            number("checked_bytes"),
            "{shuffle:#}"
        );
        assert_eq!(number("misplaced_bytes"), 0, "{shuffle:#}");
        // All of it is on node 1, which has no CPUs.
        let on_nodes = shuffle["on_nodes"].as_object().unwrap();
        assert_eq!(on_nodes.keys().collect::<Vec<_>>(), ["1"], "{shuffle:#}");
        assert_eq!(on_nodes["1"], shuffle["checked_bytes"], "{shuffle:#}");
        // Tables are on node 0.
        let pages = &node["tables"]["lineitem"]["pages"];
        assert!(pages.as_str().unwrap().starts_with("node 0"), "{pages}");
    }
}
