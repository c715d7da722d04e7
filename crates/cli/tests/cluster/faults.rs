//! Faults at random moments of a statement: executors that are killed, executors that are cut off
//! for a while, a scheduler that starts again. A statement gives the answer or one error, in time,
//! and leaves nothing behind.
//!
//! `TIERLOOM_SEED=N` repeats a draw of nodes, queries and moments, `TIERLOOM_FAULTS=N` sets the
//! number of faults of each kind with copies of shards and without.

use crate::processes::{Cluster, HUNG, NOTICED, Process, SF, text_of};
use std::time::{Duration, Instant};
use tierloom_cluster::{
    Answer, Backend, ClientOptions, ClusterClient, ClusterError, DIRECT_BYTES, NodeState,
};
use tierloom_workloads::ssb::{self, SsbConfig};

/// Faults of a kind with copies of shards, and without, unless `TIERLOOM_FAULTS` says otherwise.
const FAULTS: usize = 3;

/// Time in which a statement with copies of its shards has its answer: it may start again twice.
const ANSWERED: Duration = Duration::from_secs(20);

/// Longest time for which a node is cut off. After half of it Ballista gives an executor up.
const LONGEST_CUT: Duration = Duration::from_secs(12);

/// Shortest cut after which Ballista may have given an executor up.
const GIVEN_UP: Duration = Duration::from_secs(4);

/// Time in which a node reports again that can reach its scheduler.
const RECENT_MS: u64 = 900;

const NODES: [&str; 3] = ["a", "b", "c"];

/// What happens to a cluster while a statement runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// An executor is killed.
    Kill,
    /// An executor is cut off from all others for a while.
    Cut,
    /// The scheduler is killed and starts again.
    Restart,
}

/// How statements ended.
#[derive(Debug, Default)]
struct Tally {
    answers: usize,
    errors: usize,
    slowest: Duration,
}

/// Ways of statements: the client asks nodes, the scheduler gives out all work, or nodes pass rows
/// to each other.
const WAYS: [&str; 3] = ["asking nodes", "scheduler", "all nodes"];

/// A client for each of [`WAYS`].
fn clients(cluster: &Cluster) -> [ClusterClient; 3] {
    let ways = [
        (DIRECT_BYTES, Backend::Ballista),
        (0, Backend::Ballista),
        (0, Backend::Distributed),
    ];
    ways.map(|(direct_bytes, backend)| {
        let options = ClientOptions {
            direct_bytes,
            backend,
            ..cluster.options.clone()
        };
        ClusterClient::with_options(&cluster.url, options).expect("a URL")
    })
}

/// What a statement gives, and how long it took.
fn ask(client: &ClusterClient, sql: &str) -> (Result<Answer, ClusterError>, Duration) {
    let begun = Instant::now();
    let answer = client.run(sql, &|| begun.elapsed() > HUNG);
    (answer, begun.elapsed())
}

/// Has `fault` come `count` times while a statement runs.
fn disturb(
    cluster: &mut Cluster,
    random: &mut fastrand::Rng,
    fault: Fault,
    count: usize,
    copies: bool,
) -> Tally {
    let config = SsbConfig::new(SF, 1).unwrap();
    let clients = clients(cluster);
    let mut tally = Tally::default();
    for _ in 0..count {
        let query = &ssb::queries()[random.usize(..13)];
        let way = random.usize(..WAYS.len());
        let client = &clients[way];
        let victim = random.usize(..NODES.len());
        let stored = ssb::golden_answer(&config, query.id).unwrap();
        // The first one makes connections again, which takes longer than the statement.
        let [_, usual] = [(); 2].map(|()| {
            let (answer, time) = ask(client, query.sql);
            assert_eq!(text_of(&answer.unwrap()), stored, "{}", query.id);
            time
        });
        let delay = usual.mul_f64(1.2 * random.f64());
        let process = cluster.map().nodes[NODES[victim]].process;
        let cut = LONGEST_CUT.mul_f64(random.f64());
        let (answer, time) = std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(client, query.sql));
            std::thread::sleep(delay);
            match fault {
                Fault::Kill => cluster.executors[victim].kill(),
                Fault::Cut => {
                    let host = &cluster.hosts[victim];
                    host.set_link(false).expect("cut off");
                    std::thread::sleep(cut);
                    host.set_link(true).expect("connected");
                    if cut > GIVEN_UP {
                        until_known(cluster, victim, process, cut);
                    }
                }
                Fault::Restart => cluster.restart_scheduler(),
            }
            asked.join().expect("no panic")
        });
        eprintln!(
            "{} by {}, {fault:?} of {} after {delay:.3?} (a cut is {cut:.1?}): {time:.3?}",
            query.id, WAYS[way], NODES[victim]
        );
        tally.slowest = tally.slowest.max(time);
        match answer {
            Ok(answer) => {
                assert_eq!(text_of(&answer), stored, "{}", query.id);
                tally.answers += 1;
            }
            Err(ClusterError::Failed(text)) if fault == Fault::Restart => {
                assert!(text.contains("scheduler"), "{}: {text}", query.id);
                tally.errors += 1;
            }
            Err(ClusterError::Failed(text)) if !copies => {
                let node = NODES[victim];
                let named = text.contains("shard ") && text.contains(&format!("{node} ("));
                assert!(named, "{} without {node}: {text}", query.id);
                tally.errors += 1;
            }
            Err(error) => panic!("{}: {error}", query.id),
        }
        let limit = match copies && fault != Fault::Restart {
            true => ANSWERED,
            false => NOTICED,
        };
        assert!(time < limit, "{} after {fault:?}: {time:?}", query.id);
        if fault == Fault::Kill {
            cluster.restart(victim, NODES[victim]);
        }
        until_whole(cluster);
    }
    tally
}

/// Waits until a node that was cut off is there again as another process, or is known to go on as
/// the same one: word that it was given up takes as long as the cut to come, as connections wait
/// longer and longer before they try again.
fn until_known(cluster: &Cluster, victim: usize, process: u64, cut: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < cut + GIVEN_UP && cluster.map().nodes[NODES[victim]].process == process
    {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until all tables are everywhere again.
fn until_whole(cluster: &mut Cluster) {
    cluster.expect_all();
    let is_back = |node: &NodeState| {
        // An older report says nothing of what is now.
        node.alive && node.silent_ms < RECENT_MS && node.tables.len() == 5
    };
    cluster.until(|map| {
        let nodes = &map.nodes;
        nodes.len() == NODES.len() && nodes.values().all(is_back) && map.usable("lineorder").is_ok()
    });
}

/// Open files and threads of a process.
fn uses(process: &Process) -> (usize, usize) {
    let count = |what: &str| {
        let folder = format!("/proc/{}/{what}", process.0.id());
        std::fs::read_dir(folder).unwrap().count()
    };
    (count("fd"), count("task"))
}

/// Has the fault come to clusters with copies of shards and without, and looks at what is left.
fn faults_leave_nothing_behind(fault: Fault) {
    let seed = tierloom_testing::seed();
    let count = tierloom_testing::number("TIERLOOM_FAULTS").map_or(FAULTS, |n| n as usize);
    let mut random = fastrand::Rng::with_seed(seed);
    for copies in [true, false] {
        let mut cluster = match fault {
            Fault::Kill | Fault::Restart => Cluster::start(NODES.len()),
            Fault::Cut => match Cluster::on_hosts(NODES.len()) {
                Ok(cluster) => cluster,
                Err(missing) => return tierloom_testing::checked_nothing(missing),
            },
        };
        let replicas = if copies { "2" } else { "1" };
        let load = ["ssb", "--sf", "0.01", "--shards", "7"];
        cluster.load(&[&load[..], &["--replicas", replicas]].concat());
        // The first ones open what is kept open.
        disturb(&mut cluster, &mut random, fault, 1, copies);
        let (files, threads) = uses(&cluster.scheduler);
        let tally = disturb(&mut cluster, &mut random, fault, count, copies);
        eprintln!("{fault:?}, copies: {copies}, {tally:?}");
        assert_eq!(tally.answers + tally.errors, count);
        cluster.until_idle(NOTICED * 2);
        let after = uses(&cluster.scheduler);
        // Connections to processes that are gone would add one or more per fault.
        assert!(
            after.0 < files + 10 + count / 2,
            "open files: {files}, then {}",
            after.0
        );
        assert!(
            after.1 < threads + 10 + count / 2,
            "threads: {threads}, then {}",
            after.1
        );
    }
}

#[test]
fn kills_at_random_moments_give_the_answer_or_one_error_and_leave_nothing_behind() {
    faults_leave_nothing_behind(Fault::Kill);
}

#[test]
fn cuts_at_random_moments_give_the_answer_or_one_error_and_leave_nothing_behind() {
    faults_leave_nothing_behind(Fault::Cut);
}

#[test]
fn restarts_of_the_scheduler_give_the_answer_or_one_error_and_leave_nothing_behind() {
    faults_leave_nothing_behind(Fault::Restart);
}
