//! One session of statements in a real guest whose second node is forbidden, fills up, goes offline
//! and comes back between statements: answers stay correct and every fallback to the other node is
//! recorded. A memory limit that leaves no space is one error.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` skips the guest.
#![cfg(feature = "sql")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, process};

use tierloom_engine::EngineOptions;
use tierloom_engine::answer::to_text;
use tierloom_lab::{GuestKind, GuestOptions, GuestStep, run_tests_in_guest};
use tierloom_memory::router::{self, Class, TierAllocator};
use tierloom_memory::{
    AnonymousNuma, MIB, MemoryBackend, PageSize, Placement, Region, RegionOptions,
};
use tierloom_sql::{CollectedRows, Generated, Silent, SqlOptions, SqlSession, split};
use tierloom_topology::{NodeId, SysRoot, Topology};
use tierloom_workloads::ssb::SsbConfig;

#[global_allocator]
static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);

/// Limit for the guest on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);
/// Queries with a join build side and a group table, both far above the limit for large ones.
const QUERIES: [&str; 2] = [
    "select count(*), sum(b.lo_revenue) from lineorder a join lineorder b \
     on a.lo_orderkey = b.lo_orderkey and a.lo_linenumber = b.lo_linenumber",
    "select count(*), sum(s) from (select lo_orderkey, lo_linenumber, sum(lo_revenue) as s from lineorder group by 1, 2)",
];
/// Where the guest's control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// Memory that the router keeps free below a small limit.
const MARGIN_BYTES: usize = 16 * MIB;
const MAKE: &str = "as select lo_orderkey, lo_linenumber, lo_revenue from lineorder";

#[test]
fn a_session_goes_on_when_a_node_is_forbidden_fills_or_goes_offline() {
    let mut options = GuestOptions::new(GuestKind::Cxl);
    options.timeout = LIMIT;
    options.kernel_args.push("numa_balancing=disable".into());
    run_tests_in_guest(options, &[GuestStep::Test("faults_of_node_1")]);
}

/// A session in this process with the SSB tables in DRAM.
struct Session {
    sql: SqlSession,
    /// Number of events that were read already.
    seen: usize,
}

impl Session {
    fn open() -> Self {
        let topology = Topology::read(&SysRoot::host()).unwrap();
        let options = SqlOptions {
            engine: EngineOptions::tuned(2),
            topology,
            page_size: PageSize::Base,
            placement: "0".parse().unwrap(),
            backend: Arc::new(AnonymousNuma::new()),
        };
        let mut sql = SqlSession::new(options).unwrap();
        let data = Generated::Ssb(SsbConfig::new(0.01, 1).unwrap());
        sql.generate(&data, &Silent::default()).unwrap();
        Session { sql, seen: 0 }
    }

    fn run(&mut self, text: &str) -> String {
        let mut rows = CollectedRows::default();
        for piece in split(text).unwrap() {
            let ran = self.sql.run(&piece, &mut rows, &Silent::default());
            ran.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        to_text(&rows.batches).unwrap()
    }

    fn error(&mut self, text: &str) -> String {
        let pieces = split(text).unwrap();
        let ran = self.sql.run(
            &pieces[0],
            &mut CollectedRows::default(),
            &Silent::default(),
        );
        ran.unwrap_err().to_string()
    }

    fn answers(&mut self) -> Vec<String> {
        QUERIES.map(|sql| self.run(sql)).to_vec()
    }

    /// Fallbacks since the last call: the class, the placement that was used instead, and the
    /// reason.
    fn falls(&mut self) -> Vec<(Class, Option<String>, String)> {
        let events = router::events();
        let new = events.get(self.seen..).unwrap_or_default();
        let mut falls: Vec<_> = new
            .iter()
            .map(|e| (e.class, e.to.clone(), e.why.clone()))
            .collect();
        self.seen = events.len();
        falls.sort();
        falls.dedup();
        falls
    }

    /// Number of join allocations on node 1 so far.
    fn joins_on_node_1(&mut self) -> u64 {
        let output = self.run(
            "select allocations from tier_memory where class = 'join' and place = '1' and operator is null",
        );
        output.lines().last().unwrap().parse().unwrap()
    }
}

/// Bytes of class `temp` by node, as the kernel reports them now.
fn temp_by_node() -> Vec<(u32, u64)> {
    let audit = router::audit_now();
    let found = audit.classes.iter().find(|c| c.class == Class::TempTable);
    found.map(|c| c.by_node.clone()).unwrap_or_default()
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// Memory blocks of node 1 that are online.
fn blocks_of_node_1() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node/node1") else {
        return Vec::new();
    };
    let links = entries.map(|entry| entry.unwrap().path());
    links
        .filter(|link| link.join("state").exists())
        .map(|link| fs::canonicalize(link).unwrap())
        .collect()
}

fn set_blocks(blocks: &[PathBuf], state: &str) {
    for block in blocks {
        fs::write(block.join("state"), state)
            .unwrap_or_else(|error| panic!("{} {state}: {error}", block.display()));
    }
}

fn fell(class: Class, why: &str) -> (Class, Option<String>, String) {
    (class, Some("dram".to_owned()), why.to_owned())
}

#[test]
#[ignore = "needs two nodes with memory, the second of which can be taken offline"]
fn faults_of_node_1() {
    let mut session = Session::open();
    let expected = session.answers();
    for class in ["join", "aggregation", "temp"] {
        session.run(&format!("set tierloom.memory.{class} = '1'"));
    }
    session.run(&format!("create table t {MAKE}"));
    assert_eq!(session.answers(), expected);
    assert_eq!(session.falls(), []);
    assert!(session.joins_on_node_1() > 0);
    let on = temp_by_node();
    assert!(
        matches!(on.as_slice(), [(1, bytes)] if *bytes > 1 << 18),
        "{on:?}"
    );
    session.run("drop table t");

    forbidden(&mut session, &expected);
    limited(&mut session, &expected);
    full(&mut session, &expected);
    offline_and_back(&mut session, &expected);
}

/// The session enters and leaves a cpuset without node 1 between statements.
fn forbidden(session: &mut Session, expected: &[String]) {
    let own = process::id();
    shell(&format!(
        "mount -t cgroup2 none {GROUPS}; echo '+cpuset +memory' >{GROUPS}/cgroup.subtree_control; \
         mkdir {GROUPS}/near; echo 0 >{GROUPS}/near/cpuset.mems; echo {own} >{GROUPS}/near/cgroup.procs"
    ));
    assert_eq!(session.answers(), expected);
    let why = "node not allowed (cpuset) or offline";
    assert_eq!(
        session.falls(),
        [fell(Class::JoinBuild, why), fell(Class::Aggregation, why)]
    );
    shell(&format!("echo {own} >{GROUPS}/cgroup.procs"));
    let before = session.joins_on_node_1();
    assert_eq!(session.answers(), expected);
    assert_eq!(session.falls(), []);
    assert!(
        session.joins_on_node_1() > before,
        "node 1 is not used again"
    );
}

/// A control group whose limit is smaller than a build side: the kernel would kill the process, so
/// the query must end with an error before that.
fn limited(session: &mut Session, expected: &[String]) {
    let own = process::id();
    shell(&format!(
        "mkdir {GROUPS}/tight; echo {own} >{GROUPS}/tight/cgroup.procs"
    ));
    // Memory kept from earlier queries would be enough for the next ones.
    router::trim();
    let used = fs::read_to_string(format!("{GROUPS}/tight/memory.current")).unwrap();
    let used: usize = used.trim().parse().unwrap();
    let limit = used + MARGIN_BYTES + MIB / 4;
    fs::write(format!("{GROUPS}/tight/memory.max"), limit.to_string()).unwrap();
    let error = session.error(QUERIES[0]);
    assert!(
        error.contains("all places of its memory class (join) are full"),
        "{error}"
    );
    joins_have_returned();
    let why = "memory limit of the control group reached";
    let falls = session.falls();
    let to_system = (
        Class::JoinBuild,
        Some(router::SYSTEM_PLACE.to_owned()),
        why.to_owned(),
    );
    assert!(falls.contains(&to_system), "{falls:?}");
    fs::write(format!("{GROUPS}/tight/memory.max"), "max").unwrap();
    let before = session.joins_on_node_1();
    assert_eq!(session.answers(), expected);
    assert!(
        session.joins_on_node_1() > before,
        "node 1 is not used again"
    );
    // A task of the failed query may have added an event late.
    session.falls();
    shell(&format!("echo {own} >{GROUPS}/cgroup.procs"));
}

/// Waits until the tasks of a failed query have freed their memory, which takes a moment.
fn joins_have_returned() {
    let start = Instant::now();
    let left = || -> u64 {
        let joins = router::place_usage().into_iter();
        let joins = joins.filter(|usage| usage.class == Class::JoinBuild);
        joins.map(|usage| usage.current_bytes).sum()
    };
    while left() > 0 {
        assert!(start.elapsed() < LIMIT / 15, "{:?}", router::place_usage());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Another user takes nearly all of a small node.
fn full(session: &mut Session, expected: &[String]) {
    let blocks = blocks_of_node_1();
    assert!(blocks.len() > 1, "{blocks:?}");
    set_blocks(&blocks[1..], "offline");
    // Memory kept from earlier queries would be enough for the next ones.
    router::trim();
    let topology = Topology::read(&SysRoot::host()).unwrap();
    let backend = Arc::new(AnonymousNuma::new());
    let capacity = backend.capacity(NodeId(1), PageSize::Base).unwrap();
    let left = capacity.unwrap().free_bytes as usize;
    let taken = PageSize::Base.round_up(left - MIB);
    let options = RegionOptions::new("somebody else's", taken, Placement::bind(NodeId(1)));
    let region = Region::create(backend, &topology, options).unwrap();

    assert_eq!(session.answers(), expected);
    session.run(&format!("create table u {MAKE}"));
    assert_eq!(
        session.run("select sum(lo_revenue) as total from u"),
        session.run("select sum(lo_revenue) as total from lineorder")
    );
    let falls = session.falls();
    for class in [Class::JoinBuild, Class::Aggregation, Class::TempTable] {
        assert!(falls.contains(&fell(class, "node full")), "{falls:?}");
    }
    session.run("drop table u");
    drop(region);
    set_blocks(&blocks[1..], "online_movable");
}

/// Node 1 goes offline while a table is stored there, and comes back.
fn offline_and_back(session: &mut Session, expected: &[String]) {
    session.run(&format!("create table t {MAKE}"));
    let sum = session.run("select sum(lo_revenue) as total, count(*) as many from t");
    assert_eq!(session.falls(), []);
    let blocks = blocks_of_node_1();
    set_blocks(&blocks, "offline");

    assert_eq!(session.answers(), expected);
    // The kernel has moved the table's pages.
    assert_eq!(
        session.run("select sum(lo_revenue) as total, count(*) as many from t"),
        sum
    );
    let on = temp_by_node();
    assert!(matches!(on.as_slice(), [(0, _)]), "{on:?}");
    session.run(&format!("create table v {MAKE}"));
    assert_eq!(
        session.run("select sum(lo_revenue) as total, count(*) as many from v"),
        sum
    );
    let why = "node offline";
    assert_eq!(
        session.falls(),
        [
            fell(Class::JoinBuild, why),
            fell(Class::Aggregation, why),
            fell(Class::TempTable, why),
        ]
    );

    set_blocks(&blocks, "online_movable");
    let before = session.joins_on_node_1();
    assert_eq!(session.answers(), expected);
    assert_eq!(session.falls(), []);
    assert!(
        session.joins_on_node_1() > before,
        "node 1 is not used again"
    );
    session.run("drop table t; drop table v");
    assert_eq!(temp_by_node(), []);
}
