//! Conditions that the planner moves.

use super::{number, run, session, text};
use tierloom_sql::SqlSession;

fn session_with_tables() -> SqlSession {
    let mut session = session();
    for table in [
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (a, h)",
        "CREATE TABLE u AS SELECT * FROM (VALUES (2), (3)) AS v (b)",
    ] {
        run(&mut session, table).unwrap();
    }
    session
}

#[test]
fn conditions_without_columns_are_not_pushed_below_aggregates() {
    let mut session = session_with_tables();
    for (query, rows) in [
        (
            "SELECT count(*) FROM t HAVING (SELECT max(a) FROM t) > 5",
            "",
        ),
        (
            "SELECT count(*) FROM t HAVING (SELECT max(a) FROM t) > 1",
            "2",
        ),
        (
            "SELECT a, count(*) FROM t GROUP BY ROLLUP (a) HAVING (SELECT max(a) FROM t) > 5",
            "",
        ),
        (
            "SELECT n FROM (SELECT count(*) AS n FROM t) AS r WHERE (SELECT max(a) FROM t) > 5",
            "",
        ),
        (
            "SELECT n FROM (SELECT a, count(*) AS n FROM t GROUP BY CUBE (a)) AS r \
             WHERE random() > 5 AND n > 0",
            "",
        ),
        (
            "SELECT a, count(*) FROM t GROUP BY a \
             HAVING (SELECT max(a) FROM t) = 2 AND a > 1 AND count(*) = 1",
            "2,1",
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM t WHERE false) AS q \
             RIGHT JOIN (SELECT max(a) AS a FROM t) AS r ON q.a = r.a WHERE q.h = 'a'",
            "0",
        ),
        (
            "SELECT count(*) FROM (SELECT max(a) AS a FROM t) AS r \
             LEFT JOIN (SELECT * FROM t WHERE false) AS q ON q.a = r.a WHERE q.h IS NOT NULL",
            "0",
        ),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}

#[test]
fn expressions_that_may_be_null_are_not_in_any_list() {
    let mut session = session_with_tables();
    for value in ["nullif(a, 1)", "CASE WHEN a = 1 THEN NULL ELSE a END + 5"] {
        let sql = format!("SELECT count(*) FROM t WHERE {value} NOT IN (SELECT b FROM u)");
        let expected = i64::from(value.contains('5'));
        assert_eq!(number(&mut session, &sql), expected, "{sql}");
    }
    run(
        &mut session,
        "CREATE TABLE n AS SELECT * FROM (VALUES (2), (NULL)) AS v (b)",
    )
    .unwrap();
    for condition in [
        "5 NOT IN (SELECT b FROM n)",
        "NOT (abs(-5) IN (SELECT b FROM n))",
        "CAST(NULL AS BIGINT) NOT IN (SELECT b FROM u)",
        "(SELECT max(a) FROM t) + 3 NOT IN (SELECT b FROM n)",
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut session, &sql), 0, "{sql}");
    }
    let known = "SELECT count(*) FROM t WHERE 5 NOT IN (SELECT b FROM u)";
    assert_eq!(number(&mut session, known), 2);
}

#[test]
fn not_in_a_correlated_subquery_regards_the_rows_that_belong_together() {
    let mut session = session();
    for table in [
        "CREATE TABLE s AS SELECT * FROM (VALUES (1, 5, NULL), (2, 5, 7), (3, 1, 7), (4, 2, 8)) \
         AS v (id, k, f)",
        "CREATE TABLE u AS SELECT * FROM (VALUES (3, NULL), (2, 7)) AS v (k, f)",
    ] {
        run(&mut session, table).unwrap();
    }
    for (query, rows) in [
        (
            "SELECT id FROM s WHERE f NOT IN (SELECT f FROM u WHERE s.k < u.k) ORDER BY id",
            "1\n2",
        ),
        (
            "SELECT id FROM s WHERE NOT f IN (SELECT f FROM u WHERE s.k < u.k) ORDER BY id",
            "1\n2",
        ),
        (
            "SELECT id FROM s WHERE f NOT IN (SELECT f FROM u WHERE s.k = u.k) ORDER BY id",
            "1\n2\n3\n4",
        ),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}

#[test]
fn distinct_from_is_read_like_other_comparisons() {
    let mut session = session_with_tables();
    run(
        &mut session,
        "CREATE VIEW v AS SELECT a FROM t WHERE h IS DISTINCT FROM 'c' AND a < 2",
    )
    .unwrap();
    for (query, rows) in [
        ("SELECT true IS DISTINCT FROM false AND false", "false"),
        ("SELECT a FROM v", "1"),
        (
            "SELECT a FROM t WHERE a IS NOT DISTINCT FROM 1 OR h = 'b' ORDER BY a",
            "1\n2",
        ),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}

#[test]
fn casts_may_be_keys_of_grouping_sets() {
    let mut session = session_with_tables();
    let query = "SELECT CAST(a AS VARCHAR) AS c, count(*) FROM t \
                 GROUP BY ROLLUP (CAST(a AS VARCHAR)) ORDER BY c";
    assert_eq!(text(&mut session, query), "1,1\n2,1\n,2");
}

#[test]
fn lists_on_one_value_are_merged_with_null_as_the_third_value() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1, 1), (2, 3, 4), (3, 3, 3), \
                 (NULL, 1, 2)) AS v (a, b, c)";
    run(&mut session, table).unwrap();
    for (condition, rows) in [
        ("a NOT IN (1, NULL) AND a IN (2, NULL)", ""),
        ("NOT (a IN (1, 2, NULL) AND a IN (3))", "1\n2"),
        ("NOT (a IN (1, 2) AND a IN (3, 4))", "1\n2\n3"),
        ("NOT (a IN (1, 2)) OR NOT (a IN (3, 4))", "1\n2\n3"),
        ("(a IN (1, 2) AND a IN (3, 4)) IS NULL", ""),
        ("(a IN (1, 2) AND a NOT IN (1, 2)) IS NULL", ""),
        ("(a IN (1, 2, NULL) AND a NOT IN (2, 3)) IS FALSE", "2\n3"),
        ("a IN (b, 7) AND a IN (c, 8)", "1\n3"),
        ("a IN (1, 2, 3) AND a IN (2, 3, 4) AND a NOT IN (3, 9)", "2"),
        ("a NOT IN (1) AND a NOT IN (2)", "3"),
        ("a IN (1) OR a IN (3)", "1\n3"),
        ("a IN (NULL) IS NULL AND a = 1", "1"),
    ] {
        // A NULL prints as an empty line, which would hide.
        let null = "CASE WHEN a IS NULL THEN 'null' ELSE CAST(a AS VARCHAR) END";
        let sql = format!("SELECT {null} AS x FROM t WHERE {condition} ORDER BY x");
        let rows = match condition.contains("IS NULL") && rows.is_empty() {
            true => "null",
            false => rows,
        };
        assert_eq!(text(&mut session, &sql), rows, "{condition}");
    }
}

#[test]
fn nulls_that_are_not_distinct_meet_beside_cross_joins() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (NULL)) AS v (a)",
    )
    .unwrap();
    for (joined, count) in [
        ("", 3),
        ("CROSS JOIN t AS z", 9),
        ("JOIN t AS z ON true", 9),
        ("JOIN t AS z ON y.a > 0 OR z.a > 0", 8),
        ("JOIN t AS z ON z.a = 1", 3),
        ("WHERE x.a = y.a", 2),
    ] {
        let sql = format!(
            "SELECT count(*) FROM t AS x JOIN t AS y ON x.a IS NOT DISTINCT FROM y.a {joined}"
        );
        assert_eq!(number(&mut session, &sql), count, "{sql}");
    }
}

#[test]
fn a_case_of_conditions_evaluates_only_the_branches_that_it_takes() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (0, 9223372036854775807, 'x'), (4, 5, '7')) \
         AS v(n, m, w)",
    )
    .unwrap();
    for (condition, expected) in [
        ("CASE WHEN n = 0 THEN false ELSE 8 / n > 1 END", "4"),
        (
            "CASE WHEN n = 0 THEN true WHEN 8 / n > 1 THEN false END",
            "0",
        ),
        ("CASE WHEN n > 0 THEN m * 2 = 10 END", "4"),
        (
            "CASE WHEN w <> 'x' THEN CAST(w AS INT) = 7 ELSE NULL END",
            "4",
        ),
        ("NOT CASE WHEN n = 0 THEN false ELSE -m > 0 END", "0\n4"),
        ("CASE WHEN n = 0 THEN NULL ELSE 8 % n = 0 END IS NULL", "0"),
    ] {
        let filtered = format!("SELECT n FROM t WHERE {condition} ORDER BY n");
        assert_eq!(text(&mut session, &filtered), expected, "{filtered}");
        let counted =
            format!("SELECT n FROM (SELECT n, {condition} AS c FROM t) WHERE c ORDER BY n");
        assert_eq!(text(&mut session, &counted), expected, "{counted}");
    }
}
