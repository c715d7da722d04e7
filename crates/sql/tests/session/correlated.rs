//! Correlated subqueries.

use super::{error, run, session, text};
use tierloom_sql::SqlSession;

/// `l` has keys with two, three and no rows in `e`, and one that is NULL.
fn session_with_tables() -> SqlSession {
    let mut session = session();
    for table in [
        "CREATE TABLE l AS SELECT * FROM (VALUES (1, 10), (2, 20), (3, NULL), (NULL, 10)) AS v (k, i)",
        "CREATE TABLE e AS SELECT * FROM (VALUES (1, 10), (1, 11), (2, 10), (2, 20), (2, 30), \
         (NULL, 4), (4, NULL)) AS v (k, i)",
        "CREATE TABLE d AS SELECT * FROM (VALUES (1.2), (1.4)) AS v (x)",
    ] {
        run(&mut session, table).unwrap();
    }
    session
}

/// `FROM e WHERE e.k = l.k` in the place of `...`.
fn with_inner(sql: &str) -> String {
    sql.replace("...", "FROM e WHERE e.k = l.k")
}

#[test]
fn a_correlated_aggregate_has_a_row_for_rows_without_partner() {
    let mut session = session_with_tables();
    for (condition, keys) in [
        ("EXISTS (SELECT count(*) ...)", "1\n2\n3\n"),
        ("NOT EXISTS (SELECT max(i) ...)", ""),
        ("0 IN (SELECT count(*) ...)", "3\n"),
        ("0 NOT IN (SELECT count(*) ...)", "1\n2"),
        ("0 = ANY (SELECT count(*) ...)", "3\n"),
        ("(SELECT coalesce(max(i), -1) ...) = -1", "3\n"),
        (
            "(SELECT coalesce(max(i), -1) ... HAVING count(*) < 3) = -1",
            "3\n",
        ),
        (
            "(SELECT coalesce(max(i), -1) ... HAVING count(*) < 2) = -1",
            "3\n",
        ),
        (
            "(SELECT max(i) ... HAVING count(*) < 2) IS NULL",
            "1\n2\n3\n",
        ),
        ("(SELECT max(i) ... HAVING count(*) = 2) = 11", "1"),
        ("(SELECT count(*) IS NOT NULL ...)", "1\n2\n3\n"),
        ("(SELECT 0 * count(*) ...) = 0", "1\n2\n3\n"),
        ("(SELECT coalesce(7, max(i)) ...) = 7", "1\n2\n3\n"),
        ("(SELECT 7 ... HAVING count(*) = 0) = 7", "3\n"),
        ("1 IN (SELECT CAST(e.k AS DOUBLE) ...)", "1"),
    ] {
        let sql = with_inner(&format!("SELECT l.k FROM l WHERE {condition} ORDER BY l.k"));
        assert_eq!(text(&mut session, &sql), keys, "{sql}");
    }
    let filled = "SELECT l.k, count(coalesce(w, 7)) FROM (SELECT k, (SELECT coalesce(min(i), 0) \
                  FROM e WHERE e.k = l.k HAVING count(*) > 5) AS w FROM l) AS l \
                  GROUP BY l.k ORDER BY l.k";
    assert_eq!(text(&mut session, filled), "1,1\n2,1\n3,1\n,1");
}

#[test]
fn shapes_that_can_be_joined_are_answered() {
    let mut session = session_with_tables();
    for (query, rows) in [
        (
            "SELECT l.k, (SELECT sum(i) ...) FROM l ORDER BY l.k",
            "1,21\n2,60\n3,\n,",
        ),
        (
            "SELECT l.k FROM l WHERE EXISTS (SELECT DISTINCT i ... LIMIT 1) ORDER BY l.k",
            "1\n2",
        ),
        (
            "SELECT l.k FROM l WHERE l.i IN (SELECT i ... AND e.i > 15) ORDER BY l.k",
            "2",
        ),
        (
            "SELECT l.k FROM l WHERE l.i NOT IN (SELECT i ...) ORDER BY l.k",
            "3\n",
        ),
        (
            "SELECT l.k, m.n FROM l CROSS JOIN LATERAL (SELECT i, count(*) AS n ... GROUP BY i) \
             AS m WHERE m.i = 30 ORDER BY l.k",
            "2,1",
        ),
        (
            "SELECT l.k FROM l WHERE EXISTS (SELECT 1 FROM e JOIN l AS m ON e.i = m.i \
             WHERE e.k = l.k AND m.k <> l.k) ORDER BY l.k",
            "2",
        ),
        (
            "SELECT l.k FROM l WHERE l.k IN (SELECT m.k FROM l AS m JOIN e ON e.i = m.i \
             WHERE e.k = l.k) ORDER BY l.k",
            "1\n2",
        ),
        (
            "SELECT l.k FROM l WHERE EXISTS (SELECT m.k FROM l AS m JOIN e ON e.i = m.i \
             WHERE e.k = l.k AND m.k IS NULL) ORDER BY l.k",
            "1\n2",
        ),
        (
            "SELECT l.k, (SELECT max(m.k) FROM l AS m JOIN e ON e.i = m.i \
             WHERE e.k = l.k AND m.k <= 2) FROM l WHERE l.k > 0 ORDER BY l.k",
            "1,1\n2,2\n3,",
        ),
        (
            "SELECT l.k, q.k FROM l CROSS JOIN LATERAL (SELECT m.k FROM l AS m JOIN e ON e.i = m.i \
             WHERE e.k = l.k AND m.k > 0) AS q ORDER BY 1, 2",
            "1,1\n2,1\n2,2",
        ),
        (
            "SELECT l.k FROM l WHERE EXISTS (SELECT 1 FROM e WHERE e.k < l.k) ORDER BY l.k",
            "2\n3",
        ),
    ] {
        let sql = with_inner(query);
        assert_eq!(text(&mut session, &sql), rows, "{sql}");
    }
}

#[test]
fn a_correlated_not_in_without_nulls_may_have_keys_with_nulls() {
    let mut session = session();
    let table =
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1, 10), (2, NULL, 20)) AS v (id, n, x)";
    run(&mut session, table).unwrap();
    let sql = "SELECT a.id FROM t AS a WHERE a.x NOT IN (SELECT b.id FROM t AS b WHERE a.n = b.n) \
               ORDER BY a.id";
    assert_eq!(text(&mut session, sql), "1\n2");
}

/// Statements, and what of them the error names.
const REFUSED: [(&str, &str); 17] = [
    (
        "SELECT l.k, m.r FROM l CROSS JOIN LATERAL \
             (SELECT row_number() OVER (ORDER BY i) AS r ...) AS m",
        "window",
    ),
    (
        "SELECT k FROM l WHERE 3 IN (SELECT count(*) OVER () ...)",
        "window",
    ),
    (
        "SELECT (SELECT max(m.i) FROM e LEFT JOIN l AS m ON e.i = m.i AND m.k = l.k) FROM l",
        "outer join",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT 1 FROM l AS m LEFT JOIN \
             (SELECT * FROM e WHERE e.k = l.k) AS e ON e.i = m.i WHERE e.i IS NULL)",
        "outer join",
    ),
    (
        "SELECT (SELECT n + 1 FROM (SELECT count(*) AS n ...) AS q) FROM l",
        "without GROUP BY",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT count(*) ... LIMIT 1)",
        "without GROUP BY",
    ),
    (
        "SELECT k FROM l WHERE 0 IN (SELECT DISTINCT count(*) ...)",
        "without GROUP BY",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT 1 ... HAVING count(*) = 0)",
        "without GROUP BY",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT count(*) ... UNION ALL SELECT 1 WHERE false)",
        "UNION",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT i ... INTERSECT SELECT i FROM e)",
        "outer join",
    ),
    (
        "SELECT k FROM l WHERE 0 IN (SELECT count(*) ... GROUP BY GROUPING SETS ((), (e.k)))",
        "GROUPING SETS",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT 1 ... OFFSET 1)",
        "OFFSET",
    ),
    (
        "SELECT k FROM l WHERE EXISTS \
             (SELECT DISTINCT * FROM (SELECT i ... OFFSET 1) AS q)",
        "OFFSET",
    ),
    (
        "SELECT k FROM l WHERE EXISTS (SELECT * FROM (SELECT i ... LIMIT 1) AS q WHERE i > 10)",
        "LIMIT",
    ),
    (
        "SELECT k, (SELECT count(*) FROM d WHERE CAST(d.x AS INT) = l.k) FROM l",
        "equality",
    ),
    (
        "SELECT k, m.* FROM l CROSS JOIN LATERAL (SELECT DISTINCT i FROM e WHERE e.k < l.k) AS m",
        "equality",
    ),
    (
        "SELECT l.k FROM l CROSS JOIN LATERAL (SELECT 7, sum(i) ...) AS m",
        "without an aggregate",
    ),
];

#[test]
fn other_shapes_are_refused_instead_of_answered_wrongly() {
    let mut session = session_with_tables();
    for (query, named) in REFUSED {
        let sql = with_inner(query);
        let message = error(&mut session, &sql);
        assert!(message.contains("correlated"), "{sql}: {message}");
        assert!(message.contains(named), "{sql}: {message}");
    }
}

#[test]
fn a_column_that_the_outer_query_widens_is_compared_as_what_it_is() {
    let mut session = session();
    let tables = "CREATE TABLE g AS SELECT value AS id, arrow_cast(value % 5, 'Int16') AS s \
                  FROM generate_series(1, 9);
                  CREATE TABLE d AS SELECT arrow_cast(value % 5, 'Int16') AS s, \
                  arrow_cast(value, 'Int32') AS i FROM generate_series(1, 9);";
    run(&mut session, tables).unwrap();
    let case = "SELECT CASE WHEN id > 2 THEN s ELSE 70000 END AS c FROM g";
    let union = "SELECT s AS c FROM g UNION SELECT 70000 UNION SELECT 3.5";
    for (query, rows) in [
        (
            format!(
                "SELECT DISTINCT c FROM ({case}) AS q WHERE c < (SELECT max(i) FROM d WHERE d.s = c)"
            ),
            "0\n1\n2\n3\n4",
        ),
        (
            format!(
                "SELECT c FROM ({union}) AS q WHERE EXISTS (SELECT 1 FROM d WHERE d.s <= c AND d.i = c)"
            ),
            "1.0\n2.0\n3.0\n4.0",
        ),
        (
            format!("SELECT c FROM ({union}) AS q WHERE c NOT IN (SELECT s FROM d WHERE d.s <= c)"),
            "3.5\n70000.0",
        ),
    ] {
        let sql = format!("{query} ORDER BY c");
        assert_eq!(text(&mut session, &sql), rows, "{sql}");
    }
}
