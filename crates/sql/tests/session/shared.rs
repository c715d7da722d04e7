//! Several sessions on one engine: what they share, what each has for itself, and what happens when
//! they change the same table.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::common::ScalarValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tierloom_engine::EngineOptions;
use tierloom_memory::{FakeBackend, FakeNode, PageSize, fake_topology};
use tierloom_sql::{
    AdmissionOptions, CollectedRows, Flow, Outcome, SharedEngine, Silent, Sink, SqlError,
    SqlOptions, SqlSession, Watch, split,
};

fn engine(admission: AdmissionOptions) -> SharedEngine {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: 4 << 30,
    };
    let topology = fake_topology(&[node(0, 2), node(1, 0)]).unwrap();
    let session = SqlSession::new(SqlOptions {
        engine: EngineOptions::tuned(2),
        topology,
        page_size: PageSize::Base,
        placement: "dram".parse().unwrap(),
        backend: Arc::new(FakeBackend::with_nodes(&[(0, 4 << 30), (1, 4 << 30)])),
    });
    SharedEngine::new(session.unwrap(), admission)
}

fn run(session: &mut SqlSession, text: &str) -> Result<(Outcome, CollectedRows), SqlError> {
    let mut rows = CollectedRows::default();
    let mut last = Outcome::default();
    for piece in split(text)? {
        last = session.run(&piece, &mut rows, &Silent::default())?;
    }
    Ok((last, rows))
}

fn number(session: &mut SqlSession, text: &str) -> i64 {
    let (_, rows) = run(session, text).unwrap();
    let batch = rows
        .batches
        .iter()
        .find(|batch| batch.num_rows() > 0)
        .unwrap();
    batch.column(0).as_primitive::<Int64Type>().value(0)
}

const MADE: &str = "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (3)) AS v(a)";

#[test]
fn tables_and_views_of_one_session_are_those_of_all_and_settings_are_its_own() {
    let engine = engine(AdmissionOptions::default());
    let (mut one, mut two) = (engine.session(), engine.session());
    run(&mut one, MADE).unwrap();
    run(&mut one, "CREATE VIEW v AS SELECT sum(a) AS s FROM t").unwrap();
    assert_eq!(number(&mut two, "SELECT s FROM v"), 6);
    run(&mut one, "SET datafusion.execution.time_zone = '+05:00'").unwrap();
    run(&mut one, "SET tierloom.batch_rows = 77").unwrap();
    for (session, zone, rows) in [(&mut one, "+05:00", "77"), (&mut two, "", "16384")] {
        let (_, shown) = run(session, "SHOW tierloom.batch_rows").unwrap();
        assert_eq!(shown.batches[0].column(1).as_string::<i32>().value(0), rows);
        let (_, shown) = run(session, "SHOW datafusion.execution.time_zone").unwrap();
        let value = shown.batches[0].column(1).as_string::<i32>();
        assert_eq!(value.iter().flatten().next().unwrap_or(""), zone);
    }
    let tables = two.tables();
    assert!(
        tables.iter().any(|t| t.name == "v" && t.kind == "view"),
        "{tables:?}"
    );
}

#[test]
fn a_session_finds_a_table_that_another_has_replaced_and_prepared_statements_follow() {
    let engine = engine(AdmissionOptions::default());
    let (mut one, mut two) = (engine.session(), engine.session());
    run(&mut one, MADE).unwrap();
    run(&mut two, "PREPARE p AS SELECT sum(a) FROM t").unwrap();
    assert_eq!(number(&mut two, "EXECUTE p"), 6);
    assert_eq!(number(&mut two, "SELECT sum(a) FROM t"), 6);
    run(&mut one, "CREATE OR REPLACE TABLE t AS SELECT 40 AS a").unwrap();
    assert_eq!(number(&mut two, "EXECUTE p"), 40);
    assert_eq!(number(&mut two, "SELECT sum(a) FROM t"), 40);
    assert!(run(&mut one, "EXECUTE p").is_err());
    run(&mut one, "DROP TABLE t").unwrap();
    assert!(run(&mut two, "SELECT sum(a) FROM t").is_err());
}

#[test]
fn readers_find_either_the_old_or_the_new_table_while_it_is_replaced() {
    let engine = engine(AdmissionOptions::default());
    let mut writer = engine.session();
    run(
        &mut writer,
        "CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT a FROM t",
    )
    .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut reader = engine.session();
                let mut seen = 0;
                while !done.load(Ordering::SeqCst) {
                    for text in ["SELECT max(a) FROM t", "SELECT max(a) FROM v"] {
                        let now = number(&mut reader, text);
                        assert!(now == 1 || now >= 100, "{now}");
                        seen += 1;
                    }
                }
                assert!(seen > 0);
            });
        }
        let stop = StopAtEnd(&done);
        for n in 100..140 {
            let text = format!("CREATE OR REPLACE TABLE t AS SELECT {n} AS a");
            run(&mut writer, &text).unwrap();
        }
        drop(stop);
    });
    assert_eq!(number(&mut engine.session(), "SELECT max(a) FROM v"), 139);
}

/// Lets readers end, also if the writer fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn readers_find_the_rows_before_or_after_a_change_and_writers_take_turns() {
    let engine = engine(AdmissionOptions::default());
    let setup = "CREATE TABLE t AS SELECT value AS a, 0 AS b FROM range(20000);
                 CREATE VIEW v AS SELECT a, b FROM t";
    run(&mut engine.session(), setup).unwrap();
    let done = AtomicBool::new(false);
    let rounds = 12;
    std::thread::scope(|scope| {
        let stop = StopAtEnd(&done);
        for reader in 0..2 {
            let (engine, done) = (&engine, &done);
            scope.spawn(move || {
                let mut session = engine.session();
                let from = ["t", "v"][reader];
                // Every statement of the writers keeps all of these sums.
                let sum = format!("SELECT CAST(sum(b) AS BIGINT) FROM {from}");
                let odd = format!("SELECT count(*) % 2 FROM {from}");
                while !done.load(Ordering::SeqCst) {
                    assert_eq!(number(&mut session, &sum), 0);
                    assert_eq!(number(&mut session, &odd), 0);
                }
            });
        }
        let writers: Vec<_> = (1..=2_i64)
            .map(|writer| {
                let engine = &engine;
                scope.spawn(move || {
                    let mut session = engine.session();
                    for round in 1..=rounds {
                        let key = -writer * 1000 - round;
                        for (statement, rows) in [
                            (
                                format!("INSERT INTO t VALUES ({key}, {round}), ({key}, -{round})"),
                                2,
                            ),
                            (format!("UPDATE t SET b = b * 3 WHERE a = {key}"), 2),
                            (
                                format!("DELETE FROM t WHERE a = {key} AND {round} % 3 = 0"),
                                if round % 3 == 0 { 2 } else { 0 },
                            ),
                        ] {
                            let (outcome, _) = run(&mut session, &statement).unwrap();
                            assert_eq!(outcome.rows, Some(rows), "{statement}");
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        drop(stop);
    });
    let count = number(&mut engine.session(), "SELECT count(*) FROM t");
    assert_eq!(count, 20_000 + 2 * 2 * (rounds - rounds / 3));
}

#[test]
fn a_query_that_runs_keeps_the_version_that_it_began_with() {
    struct Slow<'a> {
        engine: &'a SharedEngine,
        rows: usize,
    }
    impl Sink for Slow<'_> {
        fn begin(&mut self, _: &SchemaRef) -> Result<(), SqlError> {
            Ok(())
        }
        fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
            if self.rows == 0 {
                // While rows are still to come.
                run(&mut self.engine.session(), "DELETE FROM t WHERE a % 2 = 0")?;
                run(&mut self.engine.session(), "TRUNCATE t")?;
            }
            self.rows += batch.num_rows();
            Ok(Flow::More)
        }
        fn end(&mut self) -> Result<(), SqlError> {
            Ok(())
        }
    }
    let engine = engine(AdmissionOptions::default());
    let mut session = engine.session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT value AS a FROM range(500000)",
    )
    .unwrap();
    let mut sink = Slow {
        engine: &engine,
        rows: 0,
    };
    let piece = &split("SELECT a FROM t").unwrap()[0];
    session.run(piece, &mut sink, &Silent::default()).unwrap();
    assert_eq!(sink.rows, 500_000);
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), 0);
}

#[test]
fn of_sessions_that_make_the_same_table_at_once_one_makes_it() {
    let engine = engine(AdmissionOptions::default());
    let made: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| run(&mut engine.session(), MADE).is_ok()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
    assert_eq!(number(&mut engine.session(), "SELECT count(*) FROM t"), 3);
}

#[test]
fn placements_are_those_of_the_machine_and_other_sessions_see_them() {
    let engine = engine(AdmissionOptions::default());
    let (mut one, mut two) = (engine.session(), engine.session());
    run(&mut one, MADE).unwrap();
    run(&mut one, "SET tierloom.placement = 'cxl'").unwrap();
    let (_, shown) = run(&mut two, "SHOW tierloom.placement").unwrap();
    let values = shown.batches[0].column(1).as_string::<i32>();
    assert!(
        values.iter().flatten().any(|value| value == "cxl"),
        "{values:?}"
    );
    run(&mut two, "CREATE TABLE u AS SELECT 1 AS a").unwrap();
    let wanted = "SELECT count(*) FROM tier_columns WHERE wanted <> 'cxl' AND table_name = 'u'";
    // What the table wants is written with the node, so it is compared with that of the first.
    let same = "SELECT count(DISTINCT wanted) FROM tier_columns";
    assert_eq!(number(&mut two, same), 1, "{wanted}");
    let error = run(&mut two, "SET tierloom.routing = off").unwrap_err();
    assert!(error.to_string().contains("share the engine"), "{error}");
}

#[test]
fn what_needs_an_operator_is_told_before_it_runs() {
    let engine = engine(AdmissionOptions::default());
    let session = engine.session();
    let needs = |text: &str| session.needs_operator(&split(text).unwrap()[0]);
    for text in [
        "SET tierloom.placement = 'cxl'",
        "SET tierloom.memory.join = 'cxl'",
        "COPY (SELECT 1) TO 'x.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
    ] {
        assert!(needs(text).is_some(), "{text}");
    }
    for text in [
        "SET tierloom.threads = 1",
        "SELECT 1",
        "CREATE TABLE x AS SELECT 1 AS a",
    ] {
        assert_eq!(needs(text), None, "{text}");
    }
}

#[test]
fn parameters_have_types_before_they_have_values() {
    let engine = engine(AdmissionOptions::default());
    let mut session = engine.session();
    run(&mut session, MADE).unwrap();
    let text = "SELECT a, $2 AS b FROM t WHERE a > $1";
    let piece = &split(text).unwrap()[0];
    let watch = Silent::default();
    let described = session.describe(piece, &[], &watch).unwrap();
    assert_eq!(described.parameters, [DataType::Int64, DataType::Utf8]);
    let columns = described.columns.unwrap();
    assert_eq!(columns.field(0).data_type(), &DataType::Int64);
    let mut rows = CollectedRows::default();
    let values = vec![ScalarValue::from(1_i64), ScalarValue::from("it's")];
    let outcome = session.run_with(piece, values, &mut rows, &watch).unwrap();
    assert_eq!(outcome.rows, Some(2));
    assert_eq!(
        rows.batches[0].schema().field(0).data_type(),
        columns.field(0).data_type()
    );
    let make = &split("CREATE TABLE u AS SELECT $1 AS a").unwrap()[0];
    for value in ["it's", "a''b", "\\'", "\\''; DROP TABLE t; --", "ö\n$1"] {
        let values = vec![ScalarValue::from(value)];
        session.run_with(make, values, &mut rows, &watch).unwrap();
        let (_, kept) = run(&mut session, "SELECT a FROM u").unwrap();
        let kept = arrow::compute::cast(kept.batches[0].column(0), &DataType::Utf8).unwrap();
        assert_eq!(kept.as_string::<i32>().value(0), value);
        run(&mut session, "DROP TABLE u").unwrap();
    }
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), 3);
}

#[test]
fn parameters_of_changes_have_the_types_of_their_columns() {
    let engine = engine(AdmissionOptions::default());
    let mut session = engine.session();
    let made = "CREATE TABLE t (a INT, b VARCHAR, c DECIMAL(10, 2), d DATE, u BIGINT UNSIGNED)";
    run(&mut session, made).unwrap();
    let watch = Silent::default();
    let piece = |text: &str| split(text).unwrap().remove(0);
    let insert = piece("INSERT INTO t VALUES ($1, $2, $3, $4, $5)");
    let described = session.describe(&insert, &[], &watch).unwrap();
    assert_eq!(described.columns, None);
    assert_eq!(
        described.parameters,
        [
            DataType::Int32,
            DataType::Utf8View,
            DataType::Decimal128(10, 2),
            DataType::Date32,
            DataType::UInt64
        ]
    );
    let values = vec![
        ScalarValue::from(7_i32),
        ScalarValue::Utf8View(Some("it's $1".into())),
        ScalarValue::Decimal128(Some(-1250), 10, 2),
        ScalarValue::Date32(Some(19_782)),
        ScalarValue::from(u64::MAX),
    ];
    let mut rows = CollectedRows::default();
    let outcome = session
        .run_with(&insert, values, &mut rows, &watch)
        .unwrap();
    assert_eq!(outcome.rows, Some(1));
    let update = piece("UPDATE t SET b = $2 WHERE a = $1");
    let described = session.describe(&update, &[], &watch).unwrap();
    assert_eq!(described.parameters[0], DataType::Int32);
    let values = vec![ScalarValue::from(7_i32), ScalarValue::from("new")];
    let outcome = session
        .run_with(&update, values, &mut rows, &watch)
        .unwrap();
    assert_eq!(outcome.rows, Some(1));
    let same = "SELECT count(*) FROM t WHERE a = 7 AND b = 'new' AND c = -12.5 AND \
                d = DATE '2024-02-29' AND u = 18446744073709551615";
    assert_eq!(number(&mut session, same), 1);
}

#[test]
fn a_statement_that_waits_for_others_too_long_fails_and_the_others_do_not() {
    let engine = engine(AdmissionOptions {
        statements: 1,
        operator_bytes: None,
        patience: Duration::from_millis(50),
    });
    let mut setup = engine.session();
    run(
        &mut setup,
        "CREATE TABLE n AS SELECT * FROM generate_series(1, 3000) AS g(a)",
    )
    .unwrap();
    let slow = "SELECT count(*) FROM n x, n y, n z WHERE x.a + y.a + z.a = 7";
    let stop = Silent::default();
    std::thread::scope(|scope| {
        let mut session = engine.session();
        let piece = split(slow).unwrap().remove(0);
        let stop = &stop;
        let running = scope.spawn(move || session.run(&piece, &mut CollectedRows::default(), stop));
        while engine.load().0 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let error = run(&mut engine.session(), "SELECT count(*) FROM n").unwrap_err();
        assert!(matches!(error, SqlError::Busy(_)), "{error}");
        stop.stop().store(true, Ordering::SeqCst);
        assert_eq!(running.join().unwrap().unwrap_err(), SqlError::Interrupted);
    });
    assert_eq!(
        number(&mut engine.session(), "SELECT count(*) FROM n"),
        3000
    );
}

#[test]
fn temporary_tables_end_with_their_session_and_what_was_made_in_their_place_stays() {
    let engine = engine(AdmissionOptions::default());
    let (mut one, mut two) = (engine.session(), engine.session());
    run(&mut one, MADE).unwrap();
    run(&mut one, "CREATE SCHEMA s").unwrap();
    assert!(!one.has_temporary_tables());
    for made in [
        "CREATE TEMPORARY TABLE a AS SELECT a FROM t",
        "CREATE TEMP TABLE s.b (a BIGINT PRIMARY KEY)",
        "CREATE TEMP TABLE renamed AS SELECT 1 AS a",
        "CREATE TEMP TABLE dropped AS SELECT 1 AS a",
        "CREATE TEMP TABLE IF NOT EXISTS t AS SELECT 1 AS a",
    ] {
        run(&mut one, made).unwrap();
    }
    run(&mut one, "INSERT INTO a SELECT * FROM t").unwrap();
    run(&mut one, "INSERT INTO s.b VALUES (1); VACUUM a").unwrap();
    run(&mut one, "ALTER TABLE renamed RENAME TO other").unwrap();
    assert_eq!(number(&mut two, "SELECT sum(a) FROM a"), 12);
    // Another session drops one and makes a table of that name, and one of its own.
    run(&mut two, "DROP TABLE dropped").unwrap();
    run(&mut two, "CREATE TABLE dropped AS SELECT 5 AS a").unwrap();
    run(&mut two, "CREATE TEMP TABLE of_two AS SELECT 6 AS a").unwrap();
    run(&mut two, "CREATE VIEW v AS SELECT a FROM a").unwrap();
    one.fork()
        .drop_temporary_tables(&Silent::default())
        .unwrap();
    assert!(!one.has_temporary_tables() && two.has_temporary_tables());
    let left: Vec<String> = two.tables().into_iter().map(|t| t.name).collect();
    for (name, there) in [
        ("a", false),
        ("s.b", false),
        ("renamed", false),
        ("other", false),
        ("t", true),
        ("dropped", true),
        ("of_two", true),
    ] {
        assert_eq!(left.iter().any(|t| t == name), there, "{name}: {left:?}");
    }
    let told = run(&mut two, "SELECT * FROM v").unwrap_err().to_string();
    assert!(told.contains("cannot be read any more"), "{told}");
    let replaced = "CREATE OR REPLACE TEMP TABLE t AS SELECT 1 AS a";
    let told = run(&mut two, replaced).unwrap_err().to_string();
    assert!(told.contains("OR REPLACE"), "{told}");
}
