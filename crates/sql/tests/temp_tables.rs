//! Tables created from queries are placed by class `temp` if it has places: counted, limited,
//! falling back to the next place, and freed with the table.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_engine::EngineOptions;
use tierloom_memory::router::{self, Class, TierAllocator};
use tierloom_memory::{AnonymousNuma, FakeNode, PageSize, fake_topology};
use tierloom_sql::{CollectedRows, Outcome, Silent, SqlError, SqlOptions, SqlSession, split};

#[global_allocator]
static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);

/// 500,000 rows whose two columns need at least four bytes per row.
const MAKE: &str =
    "create table t as select value as k, value * 7919 % 1000003 as v from range(500000)";
const SUM: &str = "select sum(v) + count(*) from t";

/// The router belongs to the process, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session on this machine that uses node 0 only.
fn session() -> SqlSession {
    let node = FakeNode {
        node: 0,
        cpus: 2,
        memory_bytes: 4 << 30,
    };
    SqlSession::new(SqlOptions {
        engine: EngineOptions::tuned(2),
        topology: fake_topology(&[node]).unwrap(),
        page_size: PageSize::Base,
        placement: "0".parse().unwrap(),
        backend: Arc::new(AnonymousNuma::new()),
    })
    .unwrap()
}

fn run_into(
    session: &mut SqlSession,
    text: &str,
    rows: &mut CollectedRows,
) -> Result<Outcome, SqlError> {
    let mut last = Ok(Outcome::default());
    for piece in split(text)? {
        last = session.run(&piece, rows, &Silent::default());
        if last.is_err() {
            break;
        }
    }
    last
}

fn run(session: &mut SqlSession, text: &str) -> Result<Outcome, SqlError> {
    run_into(session, text, &mut CollectedRows::default())
}

/// The numbers of a result's first column.
fn numbers(session: &mut SqlSession, sql: &str) -> Vec<i64> {
    let mut rows = CollectedRows::default();
    run_into(session, sql, &mut rows).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let of = |batch: &RecordBatch| -> Vec<i64> {
        let column = batch.column(0);
        match column.data_type() {
            DataType::UInt64 => {
                let values = column.as_primitive::<UInt64Type>().values();
                values.iter().map(|v| *v as i64).collect()
            }
            _ => column.as_primitive::<Int64Type>().values().to_vec(),
        }
    };
    rows.batches.iter().flat_map(of).collect()
}

/// Bytes in use at the places of class `temp`, from the system table.
fn temp_bytes(session: &mut SqlSession) -> Vec<i64> {
    numbers(
        session,
        "select current_bytes from tier_memory where class = 'temp' and operator is null and place = '0'",
    )
}

fn error_of(session: &mut SqlSession, sql: &str) -> String {
    run(session, sql).unwrap_err().to_string()
}

#[test]
fn a_table_of_a_query_is_counted_for_class_temp_until_it_is_dropped() {
    let _turn = turn();
    let mut session = session();
    run(&mut session, MAKE).unwrap();
    let expected = numbers(&mut session, SUM);
    run(&mut session, "drop table t; set tierloom.memory.temp = '0'").unwrap();
    assert_eq!(temp_bytes(&mut session), [0]);
    run(&mut session, MAKE).unwrap();
    assert_eq!(numbers(&mut session, SUM), expected);
    let held = temp_bytes(&mut session)[0];
    let columns = numbers(
        &mut session,
        "select sum(size_bytes) from tier_columns where table_name = 't' and wanted = 'class temp'",
    )[0];
    // Each column is rounded up to granules of 64 KiB.
    assert!(
        columns > 2 << 20 && (columns..columns + (128 << 10)).contains(&held),
        "{held} for columns of {columns}"
    );
    run(&mut session, "drop table t").unwrap();
    assert_eq!(temp_bytes(&mut session), [0]);
}

#[test]
fn tables_beyond_the_limit_go_to_the_next_place_and_queries_on_them_go_on() {
    let _turn = turn();
    let mut session = session();
    let before = router::events().len();
    run(&mut session, "set tierloom.memory.temp = '0:1MiB,0'").unwrap();
    run(&mut session, MAKE).unwrap();
    run(
        &mut session,
        "create table u as select v % 1000 as g, k from t where v > 10",
    )
    .unwrap();
    let joined = numbers(
        &mut session,
        "select count(*) from t join u on t.k = u.k where u.g < 1000",
    );
    let filtered = numbers(&mut session, "select count(*) from t where v > 10");
    assert_eq!(joined, filtered);
    // More than the limit of the first place is in use, and it is recorded where the rest went.
    let places = temp_bytes(&mut session);
    assert!(places[0] <= 1 << 20 && places[1] > 2 << 20, "{places:?}");
    let events = router::events();
    let event = events[before..]
        .iter()
        .find(|e| e.class == Class::TempTable);
    let event = event.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(
        (event.why.as_str(), event.to.as_deref()),
        ("limit reached", Some("0"))
    );
    run(&mut session, "drop table t; drop table u").unwrap();
    assert_eq!(temp_bytes(&mut session), [0, 0]);
}

#[test]
fn a_table_that_fits_nowhere_is_one_error_and_leaves_nothing() {
    let _turn = turn();
    let mut session = session();
    run(&mut session, "set tierloom.memory.temp = '0:1MiB'").unwrap();
    let error = error_of(&mut session, MAKE);
    assert!(
        error.contains("cannot be had from any place of memory class temp (limit reached)"),
        "{error}"
    );
    assert_eq!(temp_bytes(&mut session), [0]);
    assert!(session.tables().iter().all(|t| t.name != "t"));
    run(
        &mut session,
        "create table t as select value as v from range(10)",
    )
    .unwrap();
    assert_eq!(numbers(&mut session, SUM), [55]);
}

#[test]
fn tables_of_class_temp_stay_when_others_move_and_their_places_cannot_change_under_them() {
    let _turn = turn();
    let mut session = session();
    run(&mut session, "set tierloom.memory.temp = '0'").unwrap();
    run(&mut session, MAKE).unwrap();
    let expected = numbers(&mut session, SUM);
    let error = error_of(&mut session, "set tierloom.placement.t = '0'");
    assert!(
        error.contains("is at the places of memory class temp"),
        "{error}"
    );
    for setting in ["tierloom.memory.temp = 'kernel'", "tierloom.routing = off"] {
        let error = error_of(&mut session, &format!("set {setting}"));
        assert!(error.contains("(t); DROP them first"), "{error}");
    }
    // Other settings create a new engine under the same tables.
    run(
        &mut session,
        "set tierloom.placement = '0'; set tierloom.memory.join = '0'; set tierloom.threads = 1",
    )
    .unwrap();
    assert_eq!(numbers(&mut session, SUM), expected);
    run(
        &mut session,
        "drop table t; set tierloom.memory.temp = 'kernel'",
    )
    .unwrap();
}
