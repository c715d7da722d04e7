//! Statements that are too deep, too large or too much for DataFusion: they give a result or one
//! error, and the session continues.

use super::{StopSoon, error, number, run, run_watched, session, text};
use datafusion::common::ScalarValue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tierloom_sql::{CollectedRows, Silent, SqlError, SqlSession, split};

/// The result or one error; then the session still works.
#[track_caller]
fn survives(session: &mut SqlSession, what: &str, sql: &str) {
    if let Err(message) = run(session, sql) {
        let message = message.to_string();
        assert!(!message.contains("broke down"), "{what}: {message}");
        eprintln!("{what}: {}", message.chars().take(200).collect::<String>());
    }
    assert_eq!(
        number(session, "select count(*) from range(3)"),
        3,
        "{what}"
    );
}

#[test]
fn long_chains_of_operators_are_answered() {
    let mut session = session();
    let ands = format!(
        "select count(*) from range(3) where 1=1{}",
        " and 1=1".repeat(3_000)
    );
    assert_eq!(number(&mut session, &ands), 3);
    let ands = format!(
        "select count(*) from range(3) where value >= 0{}",
        (0..1_500)
            .map(|i| format!(" and value <> {}", i + 10))
            .collect::<String>()
    );
    assert_eq!(number(&mut session, &ands), 3);
}

#[test]
fn deep_statements_get_an_answer_or_one_error() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(3)",
    )
    .unwrap();
    let nested = |open: &str, inner: &str, close: &str, n: usize| {
        format!("select {}{inner}{} from t", open.repeat(n), close.repeat(n))
    };
    // DataFusion names a sum by its text at each of its levels, so planning time grows with the
    // square of the levels.
    for (what, sql) in [
        ("brackets", nested("(", "a", ")", 20_000)),
        ("functions", nested("abs(", "a", ")", 1_000)),
        (
            "cases",
            nested("case when a > 1 then 1 else ", "a", " end", 1_000),
        ),
        ("minus", nested("- ", "a", "", 5_000)),
        ("not", nested("not ", "a > 1", "", 5_000)),
        (
            "sum of terms",
            format!("select a{} from t", " + a".repeat(800)),
        ),
        (
            "or",
            format!("select a from t where a = 0{}", " or a = 1".repeat(1_200)),
        ),
        (
            "unbounded",
            format!("select a from t where {}", "not ".repeat(1_000_000)),
        ),
    ] {
        survives(&mut session, what, &sql);
    }
}

#[test]
fn deep_statements_with_parameters_get_an_answer_or_one_error() {
    let mut session = session();
    run(&mut session, "create table t (a int)").unwrap();
    let nested = format!("{}$1{}", "(".repeat(20_000), ")".repeat(20_000));
    for statement in [
        format!("select {nested}"),
        format!("insert into t values ({nested}) returning a"),
        format!("delete from t where a = {nested}"),
    ] {
        let piece = split(&statement).unwrap().remove(0);
        let (value, mut rows) = (ScalarValue::Int64(Some(7)), CollectedRows::default());
        let ran = session.run_with(&piece, vec![value], &mut rows, &Silent::default());
        if let Err(message) = ran {
            let message = message.to_string();
            assert!(!message.contains("broke down"), "{message}");
        }
    }
    assert_eq!(number(&mut session, "select count(*) from range(3)"), 3);
}

#[test]
fn many_queries_in_one_get_an_answer_or_one_error() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(3)",
    )
    .unwrap();
    let unions = format!("select 1{}", " union all select 1".repeat(1_000));
    survives(&mut session, "union all", &unions);
    let list: String = (1..100_000).map(|i| format!(", {i}")).collect();
    let sql = format!("select count(*) from t where a in (0{list})");
    assert_eq!(number(&mut session, &sql), 3);
}

#[test]
fn views_on_views_get_an_answer_or_one_error() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(3); create view v0 as select a from t",
    )
    .unwrap();
    for i in 1..300 {
        let sql = format!("create view v{i} as select a from v{}", i - 1);
        if let Err(message) = run(&mut session, &sql) {
            assert!(message.to_string().contains("levels deep"), "{message}");
            break;
        }
    }
    survives(&mut session, "views", "select sum(a) from v299");
    survives(
        &mut session,
        "table below",
        "create or replace table t as select 5 as a",
    );
}

#[test]
fn a_function_that_makes_gigabytes_can_be_stopped() {
    let mut session = session();
    run(&mut session, "create table t as select 2147483647 as n").unwrap();
    for sql in [
        "select length(lpad('x', 2147483647, 'y'))",
        "select length(lpad('x', n, 'y')) from t",
        "explain select lpad('x', 2147483647, 'y')",
        "create table u as select lpad('x', 2147483647, 'y') as a",
    ] {
        let watch = StopSoon(AtomicBool::new(false));
        let stopped = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                watch.0.store(true, Ordering::Relaxed);
            });
            run_watched(&mut session, sql, &mut CollectedRows::default(), &watch)
        });
        assert_eq!(stopped.unwrap_err(), SqlError::Interrupted, "{sql}");
        assert_eq!(number(&mut session, "select count(*) from t"), 1, "{sql}");
    }
}

#[test]
fn a_panic_of_the_engine_is_one_error_of_its_statement() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(3)",
    )
    .unwrap();
    let panics = "select avg(arrow_cast(a * 100, 'Decimal128(10, -2)')) from t";
    for _ in 0..2 {
        let message = error(&mut session, panics);
        assert!(message.contains("broke down"), "{message}");
        assert_eq!(number(&mut session, "select sum(a) from t"), 3);
    }
}

#[test]
fn decimals_beyond_their_digits_are_an_error_and_those_within_are_whole() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select cast('99999999999999999999999999999999999999' as decimal(38,0)) as d
         from range(3)",
    )
    .unwrap();
    assert_eq!(
        text(&mut session, "select max(d) from t"),
        "99999999999999999999999999999999999999"
    );
    for sql in [
        "select d + d from t",
        "select sum(d) from (select d from t limit 1)",
    ] {
        match run(&mut session, sql) {
            Err(SqlError::Failed(_) | SqlError::Input { .. }) => {}
            Ok(_) if sql.contains("limit 1") => {}
            other => panic!("{sql}: {other:?}"),
        }
    }
    // A number this long is a DOUBLE unless it is cast.
    let less = "cast('30000000000000000000000000000000000000' as decimal(38,0))";
    for query in [
        format!("select sum(d - {less}) as s from t"),
        format!("select s from (select sum(d - {less}) as s from t) limit 2"),
    ] {
        for sql in [query.clone(), format!("create table u as {query}")] {
            let message = error(&mut session, &sql);
            let clear = message.contains("digits") || message.contains("leaves the range");
            assert!(clear, "{sql}: {message}");
        }
    }
    assert!(error(&mut session, "select * from u").contains("no table u"));
}

#[test]
fn a_function_that_does_not_take_a_column_says_which_and_what_to_do() {
    let mut session = session();
    run(&mut session, "create table t as select 'x' as word, 1 as n").unwrap();
    for sql in [
        "select sum(word) from t",
        "select sum(n), avg(t.word) from t",
    ] {
        let message = error(&mut session, sql);
        for part in ["word", "text", "CAST"] {
            assert!(message.contains(part), "{sql}: no {part} in {message}");
        }
        assert!(!message.contains("Internal error"), "{message}");
    }
}
