//! Sessions of statements: what a stopped or failed one leaves behind, and that settings reach
//! tables and plans.

mod answers;
mod changes;
mod comparisons;
mod conditions;
mod correlated;
mod elsewhere;
mod external;
mod followed;
mod known_values;
mod limits;
mod ordered;
mod overflow;
mod shared;
mod value_subqueries;
mod views;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt64Type};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tierloom_engine::EngineOptions;
use tierloom_memory::{FakeBackend, FakeNode, MemoryBackend, PageSize, fake_topology};
use tierloom_sql::{
    CollectedRows, CsvOptions, Outcome, Silent, SqlError, SqlOptions, SqlSession, Watch, split,
};
use tierloom_topology::Topology;

/// The single number of a result.
trait Number {
    fn number(&self) -> i64;
}

impl Number for CollectedRows {
    fn number(&self) -> i64 {
        let all: Vec<i64> = self
            .batches
            .iter()
            .flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(all.len(), 1, "{:?}", self.batches);
        all[0]
    }
}

/// A machine with a DRAM node 0 and a CXL node 1 of 4 GiB each: real bytes, simulated nodes.
fn two_nodes() -> (Arc<dyn MemoryBackend>, Topology) {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: 4 << 30,
    };
    let topology = fake_topology(&[node(0, 2), node(1, 0)]).unwrap();
    let backend = FakeBackend::with_nodes(&[(0, 4 << 30), (1, 4 << 30)]);
    (Arc::new(backend), topology)
}

/// A session on a simulated machine with DRAM on node 0 and CXL on node 1.
pub fn session() -> SqlSession {
    let (backend, topology) = two_nodes();
    SqlSession::new(SqlOptions {
        engine: EngineOptions::tuned(2),
        topology,
        page_size: PageSize::Base,
        placement: "dram".parse().unwrap(),
        backend,
    })
    .unwrap()
}

/// Runs the statements of `text` until one fails or is stopped; returns the outcome of the last
/// one.
pub fn run_watched(
    session: &mut SqlSession,
    text: &str,
    rows: &mut CollectedRows,
    watch: &dyn Watch,
) -> Result<Outcome, SqlError> {
    let mut last = Ok(Outcome::default());
    for piece in split(text)? {
        last = session.run(&piece, rows, watch);
        if last.is_err() {
            break;
        }
    }
    last
}

/// The rows of the last statement of `text`.
pub fn run(session: &mut SqlSession, text: &str) -> Result<CollectedRows, SqlError> {
    let mut rows = CollectedRows::default();
    run_watched(session, text, &mut rows, &Silent::default()).map(|_| rows)
}

/// The single integer that a statement returns.
pub fn number(session: &mut SqlSession, text: &str) -> i64 {
    run(session, text).unwrap().number()
}

/// The message of a statement that is refused or fails.
#[track_caller]
pub fn error(session: &mut SqlSession, text: &str) -> String {
    match run(session, text) {
        Ok(rows) => panic!("{text}: {:?}", rows.batches),
        Err(error) => error.to_string(),
    }
}

/// The rows of a statement as comma-separated text without column names.
#[track_caller]
pub fn text(session: &mut SqlSession, statement: &str) -> String {
    let rows = run(session, statement).unwrap_or_else(|e| panic!("{statement}: {e}"));
    let text = tierloom_engine::answer::to_text(&rows.batches).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    lines.join("\n")
}

/// Stops when another thread sets its flag.
pub struct StopSoon(pub AtomicBool);

impl Watch for StopSoon {
    fn stop(&self) -> &AtomicBool {
        &self.0
    }
}

#[test]
fn a_stopped_statement_leaves_nothing_and_the_next_one_runs() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value from range(10)",
    )
    .unwrap();
    let endless = "create or replace table t as select a.value, sum(b.value) as s \
                   from range(1000000) a, range(100000000) b group by a.value";
    let watch = StopSoon(AtomicBool::new(false));
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            watch.0.store(true, Ordering::Relaxed);
        });
        run_watched(&mut session, endless, &mut CollectedRows::default(), &watch)
    });
    assert_eq!(stopped.unwrap_err(), SqlError::Interrupted);
    assert_eq!(number(&mut session, "select count(*) from t"), 10);
}

#[test]
fn a_failed_statement_leaves_tables_settings_and_views_as_they_were() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value from range(10); create view v as select sum(value) from t",
    )
    .unwrap();
    let before = session.tables();
    for wrong in [
        "create or replace table t as select 1 / (value - 5) as x from t",
        "create table u as select 1 / (value - 5) as x from t",
        "drop table v",
        "create view t as select 1",
        "set tierloom.threads = 0",
        "set tierloom.placement = '4095'",
    ] {
        assert!(run(&mut session, wrong).is_err(), "{wrong}");
        assert_eq!(session.tables(), before, "{wrong}");
    }
    assert_eq!(number(&mut session, "select * from v"), 45);
}

#[test]
fn another_number_of_threads_keeps_tables_views_and_settings_of_datafusion() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value from range(10);
         create view v as select sum(value) from t;
         set datafusion.execution.batch_size = 77;
         set tierloom.threads = 1",
    )
    .unwrap();
    assert_eq!(number(&mut session, "select * from v"), 45);
    let shown = run(&mut session, "show datafusion.execution.batch_size").unwrap();
    assert_eq!(shown.batches[0].column(1).as_string::<i32>().value(0), "77");
    let threads = run(&mut session, "show tierloom.threads").unwrap();
    assert_eq!(
        threads.batches[0].column(1).as_string::<i32>().value(0),
        "1"
    );
}

#[test]
fn columns_of_made_tables_lie_in_regions_that_the_kernel_finds() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a, cast(value as varchar) as b from range(100000)",
    )
    .unwrap();
    let query = "select count(distinct column_name) from tier_columns where table_name = 't' and node_bytes > 0";
    assert_eq!(number(&mut session, query), 2);
    run(&mut session, "analyze t").unwrap();
    let heat = "explain analyze placement select sum(a) from t where b > '1'";
    let rows = run(&mut session, heat).unwrap();
    let shown = &rows.batches[0];
    let of_columns = |row: &usize| shown.column(0).as_string::<i32>().value(*row) == "column";
    let columns: Vec<usize> = (0..shown.num_rows()).filter(of_columns).collect();
    let names: Vec<_> = columns
        .iter()
        .map(|&row| shown.column(1).as_string::<i32>().value(row))
        .collect();
    assert_eq!(names, ["t.a", "t.b"]);
    let reads = shown.column(5).as_primitive::<UInt64Type>();
    assert!(columns.iter().all(|&row| reads.value(row) > 0), "{shown:?}");
    run(&mut session, "drop table t").unwrap();
    let left = "select count(*) from tier_columns";
    assert_eq!(number(&mut session, left), 0);
}

#[test]
fn placements_set_for_all_for_a_table_and_for_a_column_move_pages() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a, value * 3 as b from range(100000);
         create table u as select value as c from range(100000)",
    )
    .unwrap();
    let on = |session: &mut SqlSession, node: u32| {
        let text = format!(
            "select count(distinct column_name) from tier_columns where node = {node} and \
             node_bytes > 0"
        );
        number(session, &text)
    };
    assert_eq!((on(&mut session, 0), on(&mut session, 1)), (3, 0));
    for (set, dram, cxl) in [
        ("tierloom.placement = 'cxl'", 0, 3),
        ("tierloom.placement.t = '0'", 2, 1),
        ("tierloom.placement.t.b = 'dram:1,cxl:1'", 2, 2),
        ("tierloom.placement.u.c = '0'", 3, 1),
    ] {
        run(&mut session, &format!("set {set}")).unwrap();
        assert_eq!(
            (on(&mut session, 0), on(&mut session, 1)),
            (dram, cxl),
            "{set}"
        );
    }
    // The most-read column moves to the fast tier, once something was read.
    run(&mut session, "select sum(b) from t").unwrap();
    run(&mut session, "set tierloom.placement = 'columns:1'").unwrap();
    assert_eq!((on(&mut session, 0), on(&mut session, 1)), (1, 2));
    // A new table is placed as the policy says: nothing has read it yet.
    run(
        &mut session,
        "create table w as select value as d from range(100000)",
    )
    .unwrap();
    assert_eq!((on(&mut session, 0), on(&mut session, 1)), (1, 3));
    assert_eq!(number(&mut session, "select sum(b) from t"), 14_999_850_000);
}

#[test]
fn a_table_that_its_node_has_no_room_for_is_refused_and_nothing_stays() {
    let mut session = session();
    let folder = std::env::temp_dir().join(format!("tierloom-sql-room-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("t.csv");
    std::fs::write(&file, "a\n1\n2\n").unwrap();
    // A hole of five GiB in a file, where node 0 has four.
    let grown = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap();
    grown.set_len(5 << 30).unwrap();
    let csv = CsvOptions {
        infer_rows: 1,
        ..CsvOptions::default()
    };
    let refused = session.load_files("t", &file, csv, &Silent::default());
    std::fs::remove_dir_all(&folder).unwrap();
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("5.0 GiB of node 0"), "{message}");
    assert!(run(&mut session, "select * from t").is_err());
}

#[test]
fn empty_tables_and_tables_of_nulls_can_be_made_and_read() {
    let mut session = session();
    run(
        &mut session,
        "create table e as select value as x, 'a' as y from range(10) where value > 100;
         create table n as select cast(null as int) as x, cast(null as varchar) as y from range(3)",
    )
    .unwrap();
    assert_eq!(number(&mut session, "select count(*) from e"), 0);
    assert_eq!(
        number(
            &mut session,
            "select count(*) from n where x is null and y is null"
        ),
        3
    );
}

#[test]
fn a_file_is_loaded_once_and_its_name_is_taken() {
    let folder = std::env::temp_dir().join(format!("tierloom-sql-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("t.csv");
    std::fs::write(&file, "a,b\n1,x\n2,\n").unwrap();
    let mut session = session();
    let load = |session: &mut SqlSession| {
        session.load_files("t", &file, CsvOptions::default(), &Silent::default())
    };
    let loaded = load(&mut session).unwrap();
    assert_eq!((loaded.name.as_str(), loaded.rows), ("t", 2));
    assert!(
        load(&mut session)
            .unwrap_err()
            .to_string()
            .contains("already")
    );
    std::fs::remove_dir_all(&folder).unwrap();
    // The rows are in memory, so the file is not needed any more.
    assert_eq!(number(&mut session, "select sum(a) from t"), 3);
}

#[test]
fn adaptive_placement_needs_a_profile_tells_its_decisions_and_can_be_left() {
    let mut session = session();
    let fact = "create table t as select value % 100 as a, value % 7 as b from generate_series(1, 300000) as s(value)";
    run(&mut session, fact).unwrap();
    let rows = (1..=300_000_i64).filter(|value| value % 7 < 3);
    let expected: i64 = rows.map(|value| value % 100).sum();
    let refused = run(&mut session, "set tierloom.placement = 'adaptive'").unwrap_err();
    assert!(
        refused.to_string().contains("SET tierloom.machine"),
        "{refused}"
    );
    run(&mut session, "set tierloom.machine = 'nus24'").unwrap();
    run(&mut session, "set tierloom.placement = 'adaptive'").unwrap();
    for _ in 0..3 {
        let sum = run(&mut session, "select sum(a) as s from t where b < 3").unwrap();
        assert_eq!(sum.number(), expected);
    }
    let count = "select count(*) as n from tierloom_decisions where query like '%from t where%'";
    assert!(run(&mut session, count).unwrap().number() >= 3);
    let learned =
        "select cast(max(run) - min(run) as bigint) as n from tierloom_decisions where learned";
    assert!(run(&mut session, learned).unwrap().number() >= 1);
    for (statement, message) in [
        ("set tierloom.placement.t = 'cxl'", "decided by adaptive"),
        ("set tierloom.machine = 'none'", "needs a machine profile"),
        ("set tierloom.dram_bytes = 'much'", "512MiB"),
    ] {
        let refused = run(&mut session, statement).unwrap_err();
        assert!(refused.to_string().contains(message), "{refused}");
    }
    run(&mut session, "set tierloom.threads = 1").unwrap();
    run(&mut session, "set tierloom.dram_bytes = '64KiB'").unwrap();
    let sum = run(&mut session, "select sum(a) as s from t where b < 3").unwrap();
    assert_eq!(sum.number(), expected);
    run(&mut session, "drop table t").unwrap();
    run(&mut session, fact).unwrap();
    run(&mut session, "set tierloom.placement = 'dram'").unwrap();
    let none = run(&mut session, "select count(*) as n from tierloom_decisions").unwrap();
    assert_eq!(none.number(), 0);
}

#[test]
fn a_session_cannot_begin_with_adaptive_placement() {
    let (backend, topology) = two_nodes();
    let refused = SqlSession::new(SqlOptions {
        engine: EngineOptions::tuned(1),
        topology,
        page_size: PageSize::Base,
        placement: "adaptive".parse().unwrap(),
        backend,
    });
    let refused = refused.err().expect("refused").to_string();
    assert!(refused.contains("SET tierloom.machine"), "{refused}");
}
