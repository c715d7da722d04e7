//! A cluster of two hosts: two guests with two memory nodes each, linked by a network. All answers
//! of SSB and TPC-H are those of one process, and the rows that tasks pass on are on the node
//! without CPUs, on both hosts.
//!
//! `TIERLOOM_LAB=skip` skips the guests. `TIERLOOM_GUESTS_SF=1` has SSB, TPC-H and TPC-DS at that
//! scale factor, in guests of 6 GiB, and compares numbers to four digits;
//! `TIERLOOM_GUESTS_PROGRAM=target/release/tierloom` runs another build than that of the test.
#![cfg(feature = "cluster")]

mod common;

use common::guests::outputs_of_two;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tierloom_lab::{GuestCommand, GuestFile, GuestKind, GuestLink, GuestOptions};
use tierloom_tpc::Benchmark;
use tierloom_workloads::ssb;

/// For all commands of a guest.
const LIMIT: Duration = Duration::from_secs(1200);
/// For the other guest to get somewhere.
const PATIENCE: Duration = Duration::from_secs(900);

/// Benchmark, backend, and what the client does itself.
type Way = (&'static str, &'static str, &'static str);

/// What is asked, on tables of which size, by which program.
struct Setup {
    sf: f64,
    is_large: bool,
    ways: Vec<Way>,
    program: PathBuf,
}

impl Setup {
    fn of_environment() -> Setup {
        let program = std::env::var_os("TIERLOOM_GUESTS_PROGRAM");
        let sf = std::env::var("TIERLOOM_GUESTS_SF").ok();
        let sf: Option<f64> = sf.map(|sf| sf.parse().expect("TIERLOOM_GUESTS_SF is a number"));
        let mut ways = vec![("ssb", "distributed", "64MiB"), ("tpch", "ballista", "0")];
        if sf.is_some() {
            ways.extend([("tpch", "distributed", "0"), ("tpcds", "distributed", "0")]);
        }
        Setup {
            sf: sf.unwrap_or(0.01),
            is_large: sf.is_some(),
            ways,
            program: program.map_or(env!("CARGO_BIN_EXE_tierloom").into(), PathBuf::from),
        }
    }

    /// Name and text of all queries of a benchmark.
    fn queries(&self, benchmark: &str) -> Vec<(String, String)> {
        let tpc = match benchmark {
            "ssb" => {
                let all = ssb::queries().iter();
                return all.map(|q| (q.id.to_owned(), q.sql.to_owned())).collect();
            }
            "tpch" => Benchmark::TpcH,
            _ => Benchmark::TpcDs,
        };
        let all = tierloom_tpc::queries(tpc).iter();
        all.map(|q| (q.id.to_owned(), q.sql(self.sf).to_string()))
            .collect()
    }

    fn guest(&self, folder: &Path, link: GuestLink) -> GuestOptions {
        let mut options = GuestOptions::new(GuestKind::TwoNodes);
        options.timeout = LIMIT;
        options.link = Some(link);
        if self.is_large {
            (options.dram_bytes, options.slow_bytes) = (6 << 30, 2 << 30);
            options.timeout = 6 * LIMIT;
        }
        let program = GuestFile::new(&self.program, "/bin/tierloom");
        options.files.push(program);
        let benchmarks: BTreeSet<_> = self.ways.iter().map(|way| way.0).collect();
        for benchmark in benchmarks {
            for (name, text) in self.queries(benchmark) {
                let file = folder.join(format!("{benchmark}-{name}"));
                std::fs::write(&file, text).unwrap();
                let inside = format!("/queries/{benchmark}/{name}");
                options.files.push(GuestFile::new(&file, inside));
            }
        }
        if !self.is_large {
            let made = self.make_tpch(&folder.join("tpch"));
            options.files.extend(made);
        }
        options
    }

    /// Makes the tables of TPC-H here: each process that makes them begins with 300 MB of text
    /// from which all comments are cut, which takes emulated processors two minutes.
    fn make_tpch(&self, folder: &Path) -> Vec<GuestFile> {
        // For the other guest they are there.
        if !folder.exists() {
            let generated = Command::new(&self.program)
                .args(["generate", "tpch", "--sf", &self.sf.to_string(), "-o"])
                .arg(folder)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&generated.stderr);
            assert!(generated.status.success(), "{said}");
        }
        let files = std::fs::read_dir(folder).unwrap().map(|file| {
            let file = file.unwrap();
            let inside = format!("/tables/{}", file.file_name().display());
            GuestFile::new(file.path(), inside)
        });
        files.collect()
    }

    /// Commands of the shell that put the tables of a benchmark on the nodes.
    fn load(&self, benchmark: &str) -> String {
        if benchmark == "tpch" && !self.is_large {
            return "load_tpch".into();
        }
        let sf = self.sf;
        format!("tierloom cluster load {benchmark} --scheduler $S --sf {sf} --shards 4")
    }

    fn on_a(&self) -> Vec<GuestCommand> {
        let mut commands = vec![
            shell("start scheduler scheduler --listen 10.7.0.1:50050 --external-host 10.7.0.1"),
            shell("executor a 10.7.0.1"),
            shell("until status | grep -q '\"b\"'; do sleep 1; done"),
        ];
        for (benchmark, backend, direct) in &self.ways {
            let load = self.load(benchmark);
            let answers = format!("answers {benchmark} {backend} {direct}");
            commands.push(shell(&format!("{load}\n{answers}")));
        }
        commands.extend([
            shell("sleep 2; status"),
            // Ends with its first connection, by which the other guest knows that this one is done.
            shell("nc -l -p 7901"),
        ]);
        commands
    }

    fn on_b(&self) -> Vec<GuestCommand> {
        let patience = if self.is_large {
            6 * PATIENCE
        } else {
            PATIENCE
        };
        let port = |port: u16| {
            GuestCommand::wait_for_port(format!("10.7.0.1:{port}").parse().unwrap(), patience)
        };
        vec![port(50050), shell("executor b 10.7.0.2"), port(7901)]
    }

    /// Compares the answers of a cluster with those of one process on this machine.
    fn compare(&self, benchmark: &str, answers: &str) {
        let queries = self.queries(benchmark);
        let script = queries.iter().map(|(name, text)| {
            let text = text.trim().trim_end_matches(';');
            format!("SELECT '{name}' AS {ANSWER_OF};\n{text};\n")
        });
        let mut one = Command::new(&self.program)
            .args(["sql", "--generate", &format!("{benchmark}:{}", self.sf)])
            .args(["--format", "csv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let script: String = script.collect();
        let mut input = one.stdin.take().unwrap();
        let sent = std::thread::spawn(move || input.write_all(script.as_bytes()));
        let one = one.wait_with_output().unwrap();
        sent.join().unwrap().unwrap();
        assert!(one.status.success());
        let one = String::from_utf8(one.stdout).unwrap();
        let (found, one) = (by_query(answers), by_query(&one));
        assert_eq!(found.len(), queries.len(), "{answers}");
        assert_eq!(one.len(), queries.len(), "{one:?}");
        for (name, _) in &queries {
            let of_query = |all: &[(&str, &str)]| {
                let answer = all.iter().find(|(answered, _)| answered == name);
                answer
                    .unwrap_or_else(|| panic!("no answer of {name}: {all:?}"))
                    .1
                    .to_owned()
            };
            let (found, one) = (&of_query(&found), &of_query(&one));
            match self.is_large {
                false => assert_eq!(sorted(found), sorted(one), "{benchmark} {name}"),
                true => assert_eq!(
                    sorted(&rounded(found)),
                    sorted(&rounded(one)),
                    "{benchmark} {name}"
                ),
            }
        }
    }
}

/// Column of the row before each answer, which names the query.
const ANSWER_OF: &str = "answer_of";

/// The answers in what `--format csv` prints, each with the name of its query. Between answers
/// there may be empty lines; rows are none, since NULL and empty text are `""`.
fn by_query(printed: &str) -> Vec<(&str, &str)> {
    let head = format!("{ANSWER_OF}\n");
    let answers = printed.split(&*head).skip(1);
    let named = answers.filter_map(|answer| answer.split_once('\n'));
    named.map(|(name, rows)| (name, rows.trim())).collect()
}

const PRELUDE: &str = r#"
set -e
S=http://10.7.0.1:50050
SHUFFLE=$(awk '/MemTotal/ {print int($4/2048)}' /sys/devices/system/node/node1/meminfo)MiB
start() {
  word=$1; shift
  (exec tierloom cluster "$@") >/tmp/$word 2>&1 </dev/null &
  i=0
  until grep -q "^$word " /tmp/$word; do i=$((i+1)); [ $i -lt 300 ] || { cat /tmp/$word; exit 8; }; sleep 1; done
}
executor() {
  start executor executor --scheduler $S --name $1 --listen $2 --threads 1 --placement 0 --shuffle 1 --shuffle-size $SHUFFLE
}
status() { tierloom cluster status --scheduler $S --json; }
load_tpch() {
  for file in /tables/*; do
    case $file in
      */lineitem.*) by="--by l_orderkey --shards 4";;
      */orders.*) by="--by o_orderkey --shards 4";;
      *) by=--everywhere;;
    esac
    tierloom cluster load --scheduler $S $by $file
  done
}
answers() {
  benchmark=$1; backend=$2; direct=$3; set --
  for q in /queries/$benchmark/*; do set -- "$@" "SELECT '$(basename $q)' AS answer_of" "$(grep -v '^--' $q)"; done
  tierloom cluster sql --scheduler $S --backend $backend --direct $direct --format csv "$@"
}
"#;

fn shell(script: &str) -> GuestCommand {
    GuestCommand::shell(format!("{PRELUDE}\n{script}"))
}

/// Lines in an order of their own, since queries leave that of equal rows open.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// The text with numbers to four digits: sums of many floating-point numbers depend on their order.
fn rounded(text: &str) -> String {
    let value = |value: &str| match value.parse::<f64>() {
        Ok(number) => format!("{number:.3e}"),
        Err(_) => value.to_owned(),
    };
    let line = |line: &str| line.split(',').map(value).collect::<Vec<_>>().join(",");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn two_hosts_answer_as_one_process_and_pass_rows_on_in_memory_of_the_second_node() {
    let setup = Setup::of_environment();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let guest = |link| setup.guest(at, link);
    let Some([a, _]) = outputs_of_two(at, guest, setup.on_a(), setup.on_b()) else {
        return;
    };
    let answers = &a[3..];
    for ((benchmark, ..), answers) in setup.ways.iter().zip(answers) {
        setup.compare(benchmark, answers);
    }
    let status: Value = serde_json::from_str(&answers[setup.ways.len()]).unwrap();
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
