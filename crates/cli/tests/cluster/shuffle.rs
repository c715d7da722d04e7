//! Where the rows lie that tasks pass on: in memory that was asked for, audited, limited, and gone
//! with its executor.

use crate::processes::{Cluster, NOTICED};
use std::process::Command;
use std::time::Instant;
use tierloom_cluster::{Backend, ShuffleReport};
use tierloom_testing::checked_nothing;

/// Joins facts by columns that are not those of their shards: rows of both come to one node.
const SHUFFLED: &str = "SELECT count(*), max(o_comment), max(l_comment) \
                        FROM orders JOIN lineitem ON o_custkey = l_partkey";

/// Two executors whose shuffle is on node 0, and tables; `None`, with a note, if this user may not
/// mount.
fn cluster(size: &'static str) -> Option<Cluster> {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        checked_nothing("this user may not mount (root, or CAP_SYS_ADMIN)");
        return None;
    }
    let mut cluster = Cluster::start(0);
    cluster.of_executors = vec!["--shuffle", "0", "--shuffle-size", size];
    cluster.add("a");
    cluster.add("b");
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "4"]);
    // All work is given out by the scheduler, so that rows are passed on in files.
    cluster.options.direct_bytes = 0;
    cluster.options.backend = Backend::Ballista;
    Some(cluster)
}

/// What nodes have reported of their shuffles when `seen` holds for the bytes of each.
fn reports(cluster: &Cluster, seen: impl Fn(u64, u64) -> bool) -> Vec<ShuffleReport> {
    let of = |map: &tierloom_cluster::ClusterMap| {
        let states = map.nodes.values();
        let shuffles = states.filter_map(|state| state.shuffle.clone());
        shuffles.collect::<Vec<_>>()
    };
    cluster.until(|map| {
        let mut all = of(map).into_iter();
        all.all(|s| seen(s.written_bytes, s.checked_bytes))
    });
    of(&cluster.map())
}

#[test]
fn rows_that_are_passed_on_are_on_the_node_that_was_asked_for_and_go_with_the_executor() {
    let Some(mut cluster) = cluster("64MiB") else {
        return;
    };
    let none = reports(&cluster, |written, _| written == 0);
    assert_eq!(none.len(), 2);
    let here = cluster.text(SHUFFLED);
    let written = reports(&cluster, |written, checked| {
        written > 0 && checked == written
    });
    for report in &written {
        assert_eq!(report.file_system, "tmpfs (bind:0)");
        assert!(report.files > 0, "{report:?}");
        assert_eq!(
            (report.misplaced_bytes, &report.error),
            (0, &None),
            "{report:?}"
        );
        let found: u64 = report.on_nodes.values().sum();
        assert_eq!(
            report.on_nodes.keys().collect::<Vec<_>>(),
            [&0],
            "{report:?}"
        );
        // Rows of both tables, with their comments.
        assert!(
            found > 100_000 && found == report.checked_bytes,
            "{report:?}"
        );
    }
    let status = cluster.run(&["status"]).with_code(0).stdout;
    assert!(
        status.contains("shuffle of b: tmpfs (bind:0), "),
        "{status}"
    );
    // The same rows as where they are passed on through a folder.
    cluster.of_executors = vec!["--work-dir", "passed-on"];
    let before = cluster.executors[1].0.id();
    let mounts = std::fs::read_to_string(format!("/proc/{before}/mounts")).expect("it lives");
    let ours = |mounts: &str| {
        mounts
            .lines()
            .filter(|l| l.contains("tierloom-executor"))
            .count()
    };
    assert_eq!(ours(&mounts), 1, "{mounts}");
    // Nobody else has seen the mount.
    let host = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    assert_eq!(ours(&host), 0, "{host}");
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        cluster.executors[at].kill();
        cluster.restart(at, name);
    }
    cluster.until(|map| {
        let folders = map
            .nodes
            .values()
            .filter_map(|state| state.shuffle.as_ref());
        let changed = folders.filter(|s| !s.file_system.contains("bind")).count();
        changed == 2 && map.usable("orders").is_ok() && map.usable("lineitem").is_ok()
    });
    assert_eq!(cluster.text(SHUFFLED), here);
}

#[test]
fn a_shuffle_without_space_is_one_error_that_names_the_node() {
    let Some(cluster) = cluster("64KiB") else {
        return;
    };
    let start = Instant::now();
    let error = cluster
        .answer(SHUFFLED)
        .expect_err("it does not fit")
        .to_string();
    assert!(start.elapsed() < NOTICED, "{:?}", start.elapsed());
    assert!(
        error.contains("no space left for the shuffle on node "),
        "{error}"
    );
    assert!(error.contains("--shuffle-size"), "{error}");
    // What the statement has left goes, and small ones have space.
    let count = || cluster.answer("SELECT count(*) FROM lineitem");
    let until = Instant::now() + NOTICED;
    while count().is_err() {
        assert!(Instant::now() < until, "{}", count().unwrap_err());
    }
}
