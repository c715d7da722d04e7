//! Comparisons of values of different types.

use super::{error, number, run, session, text};

#[test]
fn decimals_equal_the_numbers_that_are_written() {
    let mut session = session();
    let table = "CREATE TABLE d AS SELECT CAST(v AS DECIMAL(12, 2)) AS x FROM (VALUES \
                 ('1234567.89'), ('99999999.99'), ('-0.05'), ('7'), (NULL)) AS t (v)";
    run(&mut session, table).unwrap();
    for (condition, count) in [
        ("x = 1234567.89", 1),
        ("x <> 1234567.89", 3),
        ("x >= 99999999.99", 1),
        ("x > 99999999.99", 0),
        ("1234567.89 < x", 1),
        ("x IN (1234567.89, -0.05, 7.0)", 3),
        ("x NOT IN (1234567.89, -0.05, 7.0)", 1),
        ("x BETWEEN 1234567.89 AND 1234567.89", 1),
        ("x = 1234567.891", 0),
        ("x BETWEEN 1234567.88 + 0.01 AND 2 * 617283.945", 1),
        ("x <= -0.06 + 0.01", 1),
        ("x < 1234567.891", 3),
        ("x >= 1e-20", 3),
        ("x < 1e30", 4),
        ("x IS DISTINCT FROM 1234567.89", 4),
        ("CASE x WHEN 1234567.89 THEN true END", 1),
        ("x = CAST(1234567.891 AS DECIMAL(12, 2))", 1),
        (
            "x = CAST(CAST('1234567.891' AS DOUBLE) AS DECIMAL(12, 2))",
            1,
        ),
    ] {
        let sql = format!("SELECT count(*) FROM d WHERE {condition}");
        assert_eq!(number(&mut session, &sql), count, "{condition}");
    }
}

#[test]
fn values_beyond_the_keys_of_a_dictionary_are_compared_with_its_values() {
    let mut session = session();
    for make in [
        "CREATE TABLE r AS SELECT arrow_cast(value, 'Dictionary(UInt8, Int64)') AS c, \
         arrow_cast(CAST(value AS VARCHAR), 'Dictionary(Int8, Utf8)') AS w FROM range(10)",
        "CREATE TABLE f AS SELECT value % 700 AS m, CAST(value % 700 AS VARCHAR) AS s FROM range(1400)",
    ] {
        run(&mut session, make).unwrap();
    }
    for (query, count) in [
        ("r JOIN f ON r.c = f.m", 20),
        ("r JOIN f ON r.c = f.m + 1", 18),
        ("r JOIN f ON r.w = f.s", 20),
        ("f LEFT JOIN r ON r.c = f.m", 1400),
        ("r, f WHERE r.c < f.m AND f.m < 3", 2 * (1 + 2)),
        ("r, f WHERE r.c IN (f.m, 3)", 20 + 1400 - 2),
        ("r, f WHERE r.c BETWEEN f.m AND f.m + 1", 20 + 18),
        ("r WHERE c = 7", 1),
        ("f WHERE m IN (SELECT c FROM r)", 20),
        ("f WHERE NOT EXISTS (SELECT 1 FROM r WHERE c = m)", 1380),
    ] {
        let sql = format!("SELECT count(*) FROM {query}");
        assert_eq!(number(&mut session, &sql), count, "{query}");
    }
}

#[test]
fn doubles_and_decimals_are_compared_as_doubles() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT CAST(v AS DOUBLE) AS f, CAST(v AS DECIMAL(12, 2)) AS d \
                 FROM (VALUES ('1234567.89'), ('5'), ('0.1')) AS t (v)";
    run(&mut session, table).unwrap();
    for (condition, count) in [
        ("f = d", 3),
        ("f < d", 0),
        ("d IN (f, 3)", 3),
        ("f BETWEEN d AND d", 3),
        ("f * 1e25 > d", 3),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut session, &sql), count, "{condition}");
    }
    for (condition, count) in [
        ("d IN (SELECT f FROM t)", 3),
        ("f IN (SELECT d FROM t)", 3),
        ("d NOT IN (SELECT f FROM t)", 0),
        ("d = ANY (SELECT f FROM t)", 3),
        ("d = (SELECT max(f) FROM t)", 1),
        ("(SELECT max(d) FROM t) = f", 1),
        ("d = (SELECT max(f) FROM t AS u WHERE u.d = t.d)", 3),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut session, &sql), count, "{condition}");
    }
    let joined = "SELECT count(*) FROM t AS a JOIN t AS b ON a.f = b.d";
    assert_eq!(number(&mut session, joined), 3);
}

#[test]
fn timestamps_are_not_cut_to_the_unit_of_the_column() {
    let mut session = session();
    let table = "CREATE TABLE s AS SELECT arrow_cast(x, 'Timestamp(Second, None)') AS t FROM \
                 (VALUES (TIMESTAMP '2020-01-01 00:00:00'), (TIMESTAMP '1969-12-31 23:59:59'), \
                 (NULL)) AS v (x)";
    run(&mut session, table).unwrap();
    for (condition, rows) in [
        ("t = TIMESTAMP '2020-01-01 00:00:00.75'", ""),
        (
            "t = TIMESTAMP '2020-01-01 00:00:00.000'",
            "2020-01-01T00:00:00",
        ),
        (
            "t < TIMESTAMP '2020-01-01 00:00:00.75' AND t > TIMESTAMP '1999-01-01'",
            "2020-01-01T00:00:00",
        ),
        (
            "t <= TIMESTAMP '1969-12-31 23:59:59.5'",
            "1969-12-31T23:59:59",
        ),
        ("t < TIMESTAMP '1969-12-31 23:59:58.5'", ""),
        ("TIMESTAMP '2020-01-01 00:00:00.75' <= t", ""),
        (
            "t NOT IN (TIMESTAMP '2020-01-01 00:00:00.75', TIMESTAMP '2020-01-01')",
            "1969-12-31T23:59:59",
        ),
        ("t IN (TIMESTAMP '2020-01-01 00:00:00.75')", ""),
        (
            "t BETWEEN TIMESTAMP '1969-12-31 23:59:58.1' AND TIMESTAMP '1969-12-31 23:59:59.1'",
            "1969-12-31T23:59:59",
        ),
        (
            "t BETWEEN TIMESTAMP '1969-12-31 23:59:59.1' AND TIMESTAMP '1970-01-01 23:59:59.1'",
            "",
        ),
        (
            "t > TIMESTAMP '2020-01-01' - INTERVAL '1 millisecond'",
            "2020-01-01T00:00:00",
        ),
        ("(t <> TIMESTAMP '2020-01-01 00:00:00.75') IS NULL", ""),
    ] {
        let sql = format!("SELECT t FROM s WHERE {condition}");
        assert_eq!(text(&mut session, &sql), rows, "{condition}");
    }
}

#[test]
fn the_two_zeros_are_one_distinct_value() {
    let mut session = session();
    let table = "CREATE TABLE g AS SELECT * FROM (VALUES (0.0), (-0.0), (1.5)) AS v (x)";
    run(&mut session, table).unwrap();
    for (outputs, row) in [
        ("count(DISTINCT x)", "2"),
        ("count(DISTINCT x), count(x)", "2,3"),
        ("sum(DISTINCT x), count(DISTINCT x) AS n", "1.5,2"),
    ] {
        let sql = format!("SELECT {outputs} FROM g");
        assert_eq!(text(&mut session, &sql), row, "{sql}");
    }
}

#[test]
fn the_two_zeros_are_equal_wherever_values_are_compared() {
    let mut session = session();
    let table = "CREATE TABLE f AS SELECT * FROM \
                 (VALUES (1, CAST(0.0 AS DOUBLE)), (2, CAST(-0.0 AS DOUBLE))) AS v (i, x)";
    run(&mut session, table).unwrap();
    for (condition, rows) in [
        ("x IN (0.0, 1) AND x IN (-0.0, 2)", "1\n2"),
        ("x NOT IN (0.0, 1) AND x IN (-0.0, 2)", ""),
        ("CASE x WHEN -0.0 THEN 1 ELSE 2 END = 1", "1\n2"),
        ("CASE x WHEN 1.0 THEN 1 WHEN 0.0 THEN 2 END = 2", "1\n2"),
        ("nullif(x, 0.0) IS NULL", "1\n2"),
        ("nullif(x, 1.0) = 0.0", "1\n2"),
    ] {
        let sql = format!("SELECT i FROM f WHERE {condition} ORDER BY i");
        assert_eq!(text(&mut session, &sql), rows, "{sql}");
    }
}

#[test]
fn differences_of_timestamps_are_compared_with_days() {
    let mut session = session();
    let table = "CREATE TABLE s AS SELECT * FROM (VALUES \
                 (1, TIMESTAMP '2020-01-31 10:00:00', DATE '2020-01-05'), \
                 (2, TIMESTAMP '2020-02-29 23:59:59.5', DATE '2020-01-06'), \
                 (3, TIMESTAMP '2020-01-01 00:00:10', DATE '2020-01-07')) AS v (id, t, d)";
    run(&mut session, table).unwrap();
    let since = "t - TIMESTAMP '2020-01-01 00:00:00'";
    for (condition, ids) in [
        ("SINCE < INTERVAL '40 days'", "1\n3"),
        ("SINCE >= INTERVAL '1 day'", "1\n2"),
        (
            "SINCE BETWEEN INTERVAL '0 days' AND INTERVAL '1 minute'",
            "3",
        ),
        (
            "CASE WHEN SINCE > INTERVAL '30 days 10 hours' THEN 1 ELSE 0 END = 1",
            "2",
        ),
        ("INTERVAL '1 day' = INTERVAL '24 hours'", "1\n2\n3"),
        (
            "d + INTERVAL '12 hours' = TIMESTAMP '2020-01-05 12:00:00'",
            "1",
        ),
        ("d - INTERVAL '1 second' < DATE '2020-01-05'", "1"),
        ("d + INTERVAL '1 day' = DATE '2020-01-07'", "2"),
    ] {
        let condition = condition.replace("SINCE", since);
        let sql = format!("SELECT id FROM s WHERE {condition} ORDER BY id");
        assert_eq!(text(&mut session, &sql), ids, "{sql}");
    }
    let sum =
        "SELECT CAST(d + INTERVAL '23 hours' + INTERVAL '2 hours' AS VARCHAR) FROM s WHERE id = 1";
    assert_eq!(text(&mut session, sum), "2020-01-06T01:00:00");
    for refused in [
        "INTERVAL '1 month' < INTERVAL '40 days'",
        "SINCE < INTERVAL '1 month'",
    ] {
        let condition = refused.replace("SINCE", since);
        let message = error(&mut session, &format!("SELECT id FROM s WHERE {condition}"));
        assert!(
            message.contains("intervals with months"),
            "{refused}: {message}"
        );
    }
}

#[test]
fn parameters_of_prepared_statements_are_compared_as_what_they_are() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, CAST('2024-05-01' AS DATE)), (2, NULL), (3, NULL)) AS v(n, d); \
         PREPARE equal AS SELECT n FROM t WHERE n = $1; \
         PREPARE less(INT) AS SELECT n FROM t WHERE n < $1 ORDER BY n; \
         PREPARE listed AS SELECT n FROM t WHERE n NOT IN ($1, $2) ORDER BY n; \
         PREPARE dated AS SELECT n FROM t WHERE d < $1; \
         PREPARE added AS SELECT n + $2 AS m FROM t WHERE n * $1 >= 2.5 ORDER BY m LIMIT 2",
    )
    .unwrap();
    for (sql, expected) in [
        ("EXECUTE equal(2)", "2"),
        ("EXECUTE equal(2.5)", ""),
        ("EXECUTE equal(NULL)", ""),
        // A parameter with a type has that type.
        ("EXECUTE less(2.5)", "1"),
        ("EXECUTE listed(2.5, 3)", "1\n2"),
        ("EXECUTE listed(2, NULL)", ""),
        ("EXECUTE dated(TIMESTAMP '2024-05-01 12:00:00')", "1"),
        ("EXECUTE dated(TIMESTAMP '2024-05-01 00:00:00')", ""),
        ("EXECUTE added(1.5, -1)", "1\n2"),
    ] {
        assert_eq!(text(&mut session, sql), expected, "{sql}");
    }
    for (sql, words) in [
        ("EXECUTE equal", "expects 1 parameters"),
        ("EXECUTE nothing(1)", "nothing"),
    ] {
        let message = error(&mut session, sql);
        assert!(message.contains(words), "{sql}: {message}");
    }
}

#[test]
fn the_seconds_between_times_keep_their_fraction() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT n, \
                 TIMESTAMP '2026-01-31 10:00:00.25' + n * INTERVAL '1 minute' AS a, \
                 TIMESTAMP '2026-01-31 10:00:00' AS b FROM (VALUES (0), (1), (-3), (1500)) v (n)";
    run(&mut session, table).unwrap();
    for condition in [
        "extract(epoch FROM a - b) = 60 * n + 0.25",
        "date_part('EPOCH', b - a) = -60 * n - 0.25",
        "extract(epoch FROM a - b) * 4 % 60 BETWEEN -59 AND 1",
        "datepart('epoch', a - b) < 90000.3",
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut session, &sql), 4, "{condition}");
        // For all rows at once, and as a constant.
        let sql = format!("SELECT count(CASE WHEN {condition} THEN 1 END) FROM t");
        assert_eq!(number(&mut session, &sql), 4, "{condition}");
    }
    let constant = "SELECT cast(4 * extract(epoch FROM TIMESTAMP '2026-01-31 10:01:00.25' - \
                    TIMESTAMP '2026-01-31 10:00:00') AS BIGINT)";
    assert_eq!(number(&mut session, constant), 241);
}

#[test]
fn intervals_times_and_divided_by_numbers_move_dates_and_timestamps() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT * FROM (VALUES (0, DATE '2026-01-31'), \
                 (1, DATE '2026-02-28'), (NULL, NULL), (-2, DATE '2025-12-31')) AS t (n, d)";
    run(&mut session, table).unwrap();
    for (condition, count) in [
        ("d + INTERVAL '1 day' * 3 = DATE '2026-02-03'", 1),
        ("d + 1 * INTERVAL '1' MONTH = DATE '2026-02-28'", 1),
        ("d - INTERVAL '1 year' / 4 = DATE '2025-10-31'", 1),
        // A date plus hours is a timestamp, whether the number is a constant or not.
        (
            "d + INTERVAL '1 hour' * 12 = TIMESTAMP '2026-01-31 12:00:00'",
            1,
        ),
        (
            "d + n * INTERVAL '12 hours' = TIMESTAMP '2026-02-28 12:00:00'",
            1,
        ),
        (
            "d + INTERVAL '1 day' * (n / 2.0) = TIMESTAMP '2026-02-28 12:00:00'",
            1,
        ),
        ("d - INTERVAL '1 month' * n = DATE '2026-02-28'", 1),
        (
            "CAST(d AS TIMESTAMP) + -n * INTERVAL '1' DAY < TIMESTAMP '2026-02-01'",
            2,
        ),
        (
            "INTERVAL '36 hours' / 2 < INTERVAL '1 day' * 1.5 AND n = 1",
            1,
        ),
        ("INTERVAL '1 day' * n IS NULL", 1),
        ("NULL * INTERVAL '1 day' IS NULL", 4),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut session, &sql), count, "{condition}");
    }
    for refused in [
        "SELECT INTERVAL '1 day' / 0",
        "SELECT INTERVAL '1 day' / n FROM t",
        "SELECT INTERVAL '1 year' * 1e9",
        "SELECT INTERVAL '1 day' * INTERVAL '1 day'",
        "SELECT 2 / INTERVAL '1 day'",
    ] {
        error(&mut session, refused);
    }
}
