//! `EXISTS`, `IN` and `= ANY` as values.

use super::{run, session, text};
use tierloom_sql::SqlSession;

fn session_with_nulls() -> SqlSession {
    let mut session = session();
    for statement in [
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (NULL, 'z')) AS v (a, b)",
        "CREATE TABLE u AS SELECT * FROM (VALUES (1), (NULL)) AS v (a)",
        "CREATE TABLE w AS SELECT * FROM (VALUES (1), (1)) AS v (a)",
        "CREATE TABLE e AS SELECT * FROM u WHERE a > 5",
    ] {
        run(&mut session, statement).unwrap();
    }
    session
}

/// Each row's outputs end with a letter of `t`, by which they are ordered.
fn of_t(session: &mut SqlSession, outputs: &str) -> String {
    text(session, &format!("SELECT {outputs}, b FROM t ORDER BY b"))
}

#[test]
fn exists_is_a_value_of_every_row() {
    let mut session = session_with_nulls();
    assert_eq!(text(&mut session, "SELECT EXISTS (SELECT 1)"), "true");
    for (outputs, rows) in [
        ("EXISTS (SELECT 1 FROM e)", "false,x\nfalse,y\nfalse,z"),
        (
            "NOT EXISTS (SELECT 1 FROM e) AS n",
            "true,x\ntrue,y\ntrue,z",
        ),
        (
            "EXISTS (SELECT 1 FROM w WHERE w.a = t.a)",
            "true,x\nfalse,y\nfalse,z",
        ),
        (
            "EXISTS (SELECT 1 FROM t AS s WHERE s.a > t.a)",
            "true,x\nfalse,y\nfalse,z",
        ),
        (
            "CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = t.a) THEN a + 10 END",
            "11,x\n,y\n,z",
        ),
        (
            "EXISTS (SELECT 1 FROM u) AND NOT EXISTS (SELECT 1 FROM w WHERE w.a = t.a)",
            "false,x\ntrue,y\ntrue,z",
        ),
    ] {
        assert_eq!(of_t(&mut session, outputs), rows, "{outputs}");
    }
}

#[test]
fn in_is_null_where_a_null_could_be_the_match() {
    let mut session = session_with_nulls();
    for (outputs, rows) in [
        ("a IN (SELECT a FROM u)", "true,x\n,y\n,z"),
        ("a NOT IN (SELECT a FROM u)", "false,x\n,y\n,z"),
        ("a IN (SELECT a FROM w)", "true,x\nfalse,y\n,z"),
        ("a NOT IN (SELECT a FROM w)", "false,x\ntrue,y\n,z"),
        ("a IN (SELECT a FROM e)", "false,x\nfalse,y\nfalse,z"),
        ("a NOT IN (SELECT a FROM e)", "true,x\ntrue,y\ntrue,z"),
        ("a = ANY (SELECT a FROM w)", "true,x\nfalse,y\n,z"),
        ("a <> ALL (SELECT a FROM u)", "false,x\n,y\n,z"),
        ("a + 1 IN (SELECT a + 2 FROM u)", ",x\ntrue,y\n,z"),
        (
            "a IN (SELECT s.a FROM t AS s WHERE s.b = t.b)",
            "true,x\ntrue,y\n,z",
        ),
        (
            "(a IN (SELECT a FROM u)) IS NULL",
            "false,x\ntrue,y\ntrue,z",
        ),
        (
            "NULL IN (SELECT a FROM e) AS i, NULL NOT IN (SELECT a FROM e) AS n",
            "false,true,x\nfalse,true,y\nfalse,true,z",
        ),
        ("3 IN (SELECT a FROM w)", "false,x\nfalse,y\nfalse,z"),
    ] {
        assert_eq!(of_t(&mut session, outputs), rows, "{outputs}");
    }
}

#[test]
fn aggregates_and_keys_take_them() {
    let mut session = session_with_nulls();
    for (query, rows) in [
        (
            "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM w WHERE w.a = t.a)) FROM t",
            "1",
        ),
        (
            "SELECT sum(CASE WHEN a IN (SELECT a FROM w) THEN 1 ELSE 5 END) FROM t",
            "11",
        ),
        (
            "SELECT EXISTS (SELECT 1 FROM w WHERE w.a = t.a) AS k, count(*) FROM t \
             GROUP BY EXISTS (SELECT 1 FROM w WHERE w.a = t.a) ORDER BY k",
            "false,2\ntrue,1",
        ),
        (
            "SELECT a, EXISTS (SELECT 1 FROM e), count(*) FROM w GROUP BY a",
            "1,false,2",
        ),
        ("SELECT (SELECT EXISTS (SELECT 1 FROM u))", "true"),
        (
            "SELECT k, count(*) FROM (SELECT a IN (SELECT a FROM w) AS k FROM t) AS s \
             GROUP BY k ORDER BY k NULLS LAST",
            "false,1\ntrue,1\n,1",
        ),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}
