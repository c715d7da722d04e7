//! Executors that are killed at random moments: a statement gives the answer or one error, and
//! leaves nothing behind.
//!
//! `TIERLOOM_SEED=N` repeats a draw of nodes, queries and moments, `TIERLOOM_KILLS=N` sets the
//! number of kills with copies of shards and without.
#![cfg(feature = "cluster")]

mod common;
#[path = "common/cluster.rs"]
mod processes;

use processes::{Cluster, HUNG, NOTICED, Process, SF, text_of};
use std::time::{Duration, Instant};
use tierloom_cluster::{ClientOptions, ClusterClient, ClusterError, DIRECT_BYTES};
use tierloom_workloads::ssb::{self, SsbConfig};

/// Kills with copies of shards, and without, unless `TIERLOOM_KILLS` says otherwise.
const KILLS: usize = 3;

/// Time in which a statement with copies of its shards has its answer: it may start again twice.
const ANSWERED: Duration = Duration::from_secs(20);

const NODES: [&str; 3] = ["a", "b", "c"];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}

/// How statements ended.
#[derive(Debug, Default)]
struct Tally {
    answers: usize,
    errors: usize,
    slowest: Duration,
}

/// Clients that ask nodes themselves, and that have the scheduler give out all work.
fn clients(cluster: &Cluster) -> [ClusterClient; 2] {
    [DIRECT_BYTES, 0].map(|direct_bytes| {
        let options = ClientOptions {
            direct_bytes,
            ..cluster.options.clone()
        };
        ClusterClient::with_options(&cluster.url, options).expect("a URL")
    })
}

fn kill_often(
    cluster: &mut Cluster,
    random: &mut fastrand::Rng,
    kills: usize,
    copies: bool,
) -> Tally {
    let config = SsbConfig::new(SF, 1).unwrap();
    let clients = clients(cluster);
    let mut tally = Tally::default();
    for _ in 0..kills {
        let query = &ssb::queries()[random.usize(..13)];
        let client = &clients[random.usize(..2)];
        let victim = random.usize(..NODES.len());
        let stored = ssb::golden_answer(&config, query.id).unwrap();
        let run = || {
            let begun = Instant::now();
            let answer = client.run(query.sql, &|| begun.elapsed() > HUNG);
            (answer, begun.elapsed())
        };
        let (answer, usual) = run();
        assert_eq!(text_of(&answer.unwrap()), stored, "{}", query.id);
        let delay = usual.mul_f64(1.2 * random.f64());
        let executor = &mut cluster.executors[victim];
        let (answer, time) = std::thread::scope(|scope| {
            let asked = scope.spawn(run);
            std::thread::sleep(delay);
            executor.kill();
            asked.join().expect("no panic")
        });
        tally.slowest = tally.slowest.max(time);
        match answer {
            Ok(answer) => {
                assert_eq!(text_of(&answer), stored, "{}", query.id);
                tally.answers += 1;
            }
            Err(ClusterError::Failed(text)) if !copies => {
                let node = NODES[victim];
                let named = text.contains("shard ") && text.contains(&format!("{node} ("));
                assert!(named, "{} without {node}: {text}", query.id);
                tally.errors += 1;
            }
            Err(error) => panic!("{}: {error}", query.id),
        }
        assert!(time < if copies { ANSWERED } else { NOTICED }, "{time:?}");
        cluster.add(NODES[victim]);
        let next = cluster.executors.pop().expect("it was added");
        cluster.executors[victim] = next;
        cluster.until(|map| {
            map.usable("lineorder").is_ok() && map.nodes.values().all(|n| n.tables.len() == 5)
        });
    }
    tally
}

/// Open files and threads of a process, and processor time that it has used.
fn uses(process: &Process) -> (usize, usize, Duration) {
    let of = |what: &str| format!("/proc/{}/{what}", process.0.id());
    let count = |what: &str| std::fs::read_dir(of(what)).unwrap().count();
    let stat = std::fs::read_to_string(of("stat")).unwrap();
    // Fields behind the name, which may have spaces.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // Linux counts hundredths of a second.
    (
        count("fd"),
        count("task"),
        Duration::from_millis(10 * ticks),
    )
}

/// Waits until no process does anything for a statement any more.
fn until_idle(cluster: &Cluster) {
    let begun = Instant::now();
    let used = || {
        let all = cluster.executors.iter().chain([&cluster.scheduler]);
        all.map(|process| uses(process).2).sum::<Duration>()
    };
    loop {
        let before = used();
        std::thread::sleep(Duration::from_secs(1));
        let more = used() - before;
        // They report to the scheduler, and have timers.
        if more < Duration::from_millis(150) {
            return;
        }
        assert!(begun.elapsed() < NOTICED * 2, "{more:?} in a second");
    }
}

#[test]
fn kills_at_random_moments_give_the_answer_or_one_error_and_leave_nothing_behind() {
    let seed = number("TIERLOOM_SEED").unwrap_or_else(|| fastrand::u64(..));
    let kills = number("TIERLOOM_KILLS").map_or(KILLS, |n| n as usize);
    eprintln!("TIERLOOM_SEED={seed} repeats these kills");
    let mut random = fastrand::Rng::with_seed(seed);
    for copies in [true, false] {
        let mut cluster = Cluster::start(NODES.len());
        let replicas = if copies { "2" } else { "1" };
        cluster.load(&[
            "ssb",
            "--sf",
            "0.01",
            "--shards",
            "7",
            "--replicas",
            replicas,
        ]);
        // The first ones open what is kept open.
        kill_often(&mut cluster, &mut random, 1, copies);
        let (files, threads, _) = uses(&cluster.scheduler);
        let tally = kill_often(&mut cluster, &mut random, kills, copies);
        eprintln!("copies: {copies}, {tally:?}");
        assert_eq!(tally.answers + tally.errors, kills);
        until_idle(&cluster);
        let after = uses(&cluster.scheduler);
        // Connections to processes that are gone would add one or more per kill.
        assert!(
            after.0 < files + 10 + kills / 2,
            "open files: {files}, then {}",
            after.0
        );
        assert!(
            after.1 < threads + 10 + kills / 2,
            "threads: {threads}, then {}",
            after.1
        );
    }
}
