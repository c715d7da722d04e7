//! `ORDER BY` inside aggregates, and joins that sort.

use super::{number, run, session, text};

#[test]
fn distinct_values_come_in_the_order_that_is_written() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value AS id, value % 3 AS k, \
                 chr(CAST(97 + value % 4 AS BIGINT)) AS s FROM generate_series(1, 40)";
    run(&mut session, table).unwrap();
    let up = "string_agg(DISTINCT s, ',' ORDER BY s)";
    let down = "string_agg(DISTINCT s, ',' ORDER BY s DESC)";
    for (query, row) in [
        (
            format!("SELECT {up}, {down} FROM t"),
            "\"a,b,c,d\",\"d,c,b,a\"",
        ),
        (
            format!("SELECT {down}, {up} FROM t"),
            "\"d,c,b,a\",\"a,b,c,d\"",
        ),
        (
            format!("SELECT string_agg(s, '' ORDER BY s DESC, id), {up} FROM t WHERE id < 5"),
            "dcba,\"a,b,c,d\"",
        ),
        (
            format!("SELECT {down}, max(k) FROM (SELECT * FROM t ORDER BY s LIMIT 100) AS q"),
            "\"d,c,b,a\",2",
        ),
        (
            format!(
                "SELECT {down}, string_agg(s, '' ORDER BY s, id) FROM t WHERE k = 0 AND id < 13"
            ),
            "\"d,c,b,a\",abcd",
        ),
    ] {
        assert_eq!(text(&mut session, &query), row, "{query}");
    }
}

#[test]
fn distinct_texts_of_any_type_are_listed_in_their_order() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT s, arrow_cast(s, 'Dictionary(Int32, Utf8)') AS d, \
                 arrow_cast(s, 'LargeUtf8') AS l, arrow_cast(s, 'Utf8View') AS v, NULL AS n, k \
                 FROM (VALUES ('b', 1), ('a', 2), (NULL, 3), ('c', 3), ('b', 4)) AS t (s, k)";
    run(&mut session, table).unwrap();
    for column in ["s", "d", "l", "v", "upper(d)"] {
        for (order, rows) in [("", "a,b,c"), (" DESC", "c,b,a")] {
            let list = format!("string_agg(DISTINCT {column}, ',' ORDER BY {column}{order})");
            // Beside a sum it is not the list of the groups by the column.
            let sql = format!("SELECT lower({list}), sum(CAST(k AS DOUBLE)) FROM t");
            assert_eq!(
                text(&mut session, &sql),
                format!("\"{rows}\",13.0"),
                "{sql}"
            );
        }
    }
    let sql = "SELECT string_agg(DISTINCT n, ',' ORDER BY n), sum(CAST(k AS DOUBLE)) FROM t";
    assert_eq!(text(&mut session, sql), ",13.0");
}

#[test]
fn a_column_may_be_twice_in_the_order_of_an_aggregate() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value AS id, value % 2 AS k FROM generate_series(1, 6)";
    run(&mut session, table).unwrap();
    for (aggregate, rows) in [
        ("first_value(id ORDER BY id DESC, id ASC)", "0,6\n1,5"),
        ("last_value(id ORDER BY id, k, id DESC)", "0,6\n1,5"),
        (
            "string_agg(CAST(id AS VARCHAR), '' ORDER BY id DESC, id ASC)",
            "0,642\n1,531",
        ),
    ] {
        let sql = format!("SELECT k, {aggregate} FROM t GROUP BY k ORDER BY k");
        assert_eq!(text(&mut session, &sql), rows, "{sql}");
    }
}

#[test]
fn sort_merge_joins_test_the_columns_of_their_condition() {
    let mut session = session();
    for statement in [
        "SET datafusion.optimizer.prefer_hash_join = false",
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 10, 100, 7), (NULL, 20, 200, 8), \
         (5, 40, 400, 1), (1, 50, 500, 2), (1, 60, 600, 3)) AS v (n, x, y, z)",
        "CREATE TABLE u AS SELECT n AS m, x AS p, y AS q, z AS r FROM t",
    ] {
        run(&mut session, statement).unwrap();
    }
    for (query, rows) in [
        (
            "SELECT n, y, q, m FROM t JOIN u ON n = m AND p > x ORDER BY y, q",
            "1,100,500,1\n1,100,600,1\n1,500,600,1",
        ),
        (
            "SELECT n, z, m, r FROM t LEFT JOIN u ON n = m AND p > x ORDER BY n, z, r",
            "1,2,1,3\n1,3,,\n1,7,1,2\n1,7,1,3\n5,1,,\n,8,,",
        ),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}

#[test]
fn groups_may_mix_keys_that_are_never_null_with_others() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', true), (2, 'b', NULL)) \
                 AS v (id, s, b)";
    run(&mut session, table).unwrap();
    let sql = "SELECT k, s, count(*) FROM (SELECT b IS NOT FALSE AS k, s FROM t) AS q \
               GROUP BY GROUPING SETS ((s), (k, s)) ORDER BY k, s";
    assert_eq!(text(&mut session, sql), "true,a,1\ntrue,b,1\n,a,1\n,b,1");
}

#[test]
fn a_column_may_be_twice_in_the_order_of_distinct_on() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value AS id, value % 2 AS k FROM generate_series(1, 6)";
    run(&mut session, table).unwrap();
    let sql = "SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, id DESC, k DESC, id";
    assert_eq!(text(&mut session, sql), "0,6\n1,5");
}

#[test]
fn zeros_of_either_sign_are_one_value_of_a_key() {
    let mut session = session();
    let table = "CREATE TABLE z AS SELECT CAST(x AS DOUBLE) AS x, CAST(x AS REAL) AS y, i FROM \
                 (VALUES ('0.0', 1), ('-0.0', 2), ('0.0', 3), ('1.0', 4), (NULL, 5)) AS v (x, i)";
    run(&mut session, table).unwrap();
    for x in ["x", "y"] {
        for (query, rows) in [
            (
                "SELECT count(*) OVER (PARTITION BY x) FROM z ORDER BY i",
                "3\n3\n3\n1\n1",
            ),
            (
                "SELECT rank() OVER (ORDER BY x), sum(i) OVER (ORDER BY x) FROM z ORDER BY i",
                "1,6\n1,6\n1,6\n4,10\n5,15",
            ),
            (
                "SELECT sum(i) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) \
                 FROM z ORDER BY i",
                "6\n6\n6\n10\n5",
            ),
            ("SELECT i FROM z ORDER BY x, i", "1\n2\n3\n4\n5"),
            (
                "SELECT DISTINCT ON (x) i FROM z ORDER BY x, i DESC",
                "3\n4\n5",
            ),
            (
                "SELECT string_agg(CAST(i AS VARCHAR), '' ORDER BY x, i) FROM z",
                "12345",
            ),
        ] {
            let query = query
                .replace(" x", &format!(" {x}"))
                .replace("(x)", &format!("({x})"));
            assert_eq!(text(&mut session, &query), rows, "{query}");
        }
    }
}

#[test]
fn the_first_groups_of_groups_are_made_of_all_groups_below() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT value AS k, value % 10 AS v FROM range(40)",
    )
    .unwrap();
    // Each value is the largest of four groups.
    let inner = "SELECT k, max(v) AS m FROM t GROUP BY k";
    for (query, rows) in [
        (
            format!("SELECT m FROM ({inner}) AS q GROUP BY m ORDER BY m DESC LIMIT 8"),
            8,
        ),
        (
            format!("SELECT DISTINCT m FROM ({inner}) AS q ORDER BY m DESC LIMIT 20"),
            10,
        ),
        // Names that change places on the way.
        (
            format!(
                "SELECT DISTINCT k FROM (SELECT m AS k, k AS m FROM ({inner}) AS q) AS p \
                 ORDER BY k DESC LIMIT 9"
            ),
            9,
        ),
        (format!("{inner} ORDER BY m DESC LIMIT 8"), 8),
    ] {
        let count = format!("SELECT count(*) FROM ({query}) AS all_rows");
        assert_eq!(number(&mut session, &count), rows, "{query}");
    }
    let largest = format!("SELECT min(m) FROM ({inner} ORDER BY m DESC LIMIT 8) AS q");
    assert_eq!(number(&mut session, &largest), 8);
}

#[test]
fn a_second_run_has_no_filters_of_the_first() {
    let mut session = session();
    for make in [
        "CREATE TABLE t AS SELECT value AS k, value % 10 AS v FROM range(40)",
        "CREATE VIEW first AS SELECT v AS c FROM t ORDER BY v LIMIT 18",
        "SET tierloom.threads = 4",
    ] {
        run(&mut session, make).unwrap();
    }
    let least = "SELECT min(c) FROM (SELECT DISTINCT c FROM first) AS q WHERE c % -3 <= 93";
    let top = "SELECT sum(v) FROM (SELECT v FROM t ORDER BY v DESC LIMIT 3) AS q";
    let join = "SELECT count(*) FROM t JOIN (SELECT * FROM t WHERE v > 8) AS u ON t.k = u.k";
    let on = "SET datafusion.optimizer.enable_dynamic_filter_pushdown = true";
    for setting in ["", on] {
        if !setting.is_empty() {
            run(&mut session, setting).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(number(&mut session, least), 0, "{setting}");
            assert_eq!(number(&mut session, top), 27, "{setting}");
            assert_eq!(number(&mut session, join), 4, "{setting}");
        }
    }
}

#[test]
fn keys_of_order_by_are_columns_of_the_result_before_those_of_the_table() {
    let mut session = session();
    // Few rows of k 0, so the order by the count is not the one by k.
    let table = "CREATE TABLE t AS SELECT value AS id, CASE WHEN value < 3 THEN 0 ELSE 7 - value % \
                 2 END AS k FROM generate_series(1, 10)";
    run(&mut session, table).unwrap();
    let counts = "SELECT k AS n, count(*) AS k FROM t GROUP BY k";
    let by_count = "0,2\n6,4\n7,4";
    for (query, rows) in [
        (format!("{counts} ORDER BY 2, 1"), by_count),
        (format!("{counts} ORDER BY k, n"), by_count),
        (format!("{counts} ORDER BY K, \"n\""), by_count),
        (format!("({counts}) ORDER BY 2, 1"), by_count),
        (
            format!("{counts} ORDER BY 2 DESC, 1 DESC LIMIT 2"),
            "7,4\n6,4",
        ),
        (format!("{counts} ORDER BY count(*), t.k"), by_count),
        (
            format!("SELECT n FROM ({counts} ORDER BY 2 DESC, 1 LIMIT 1) AS q"),
            "6",
        ),
        (
            "SELECT DISTINCT k AS id, id % 2 AS k FROM t ORDER BY 2, 1".to_owned(),
            "0,0\n7,0\n0,1\n6,1",
        ),
        (
            "SELECT -k AS k FROM t GROUP BY k ORDER BY k".to_owned(),
            "-7\n-6\n0",
        ),
        (
            "SELECT t.k AS k, max(t.k - 1) AS n FROM t GROUP BY t.k ORDER BY k DESC LIMIT 1"
                .to_owned(),
            "7,6",
        ),
        (
            "SELECT -id AS k, sum(k) OVER () AS s FROM t ORDER BY 1 LIMIT 1".to_owned(),
            "-10,52",
        ),
    ] {
        assert_eq!(text(&mut session, &query), rows, "{query}");
    }
    let error = run(&mut session, &format!("{counts} ORDER BY 3")).unwrap_err();
    assert!(error.to_string().contains("no such column"), "{error}");
}

#[test]
fn places_in_the_order_may_be_expressions_of_several_aggregates() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value AS id, value % 3 AS k FROM generate_series(1, 10)";
    run(&mut session, table).unwrap();
    for (query, rows) in [
        (
            "SELECT k, max(id) - count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1",
            "0,6\n1,6\n2,5",
        ),
        (
            "SELECT k, max(id) - count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 DESC LIMIT 1",
            "1,6",
        ),
        (
            "SELECT DISTINCT max(id) - count(*) FROM t GROUP BY k ORDER BY 1",
            "5\n6",
        ),
        (
            "SELECT k AS n, sum(id) / count(*), k + 1 FROM t GROUP BY k ORDER BY 3 DESC, 2 LIMIT 1",
            "2,5,3",
        ),
        (
            "SELECT *, id * id - id FROM t ORDER BY 3 DESC, 1 LIMIT 1",
            "10,1,90",
        ),
        (
            "SELECT k, sum(id) - rank() OVER (ORDER BY k) FROM t GROUP BY k ORDER BY 2 LIMIT 1",
            "2,12",
        ),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}

#[test]
fn a_window_may_be_ordered_by_what_it_is_partitioned_by() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value AS id, value % 2 AS a, value % 3 AS b \
                 FROM generate_series(1, 6)";
    run(&mut session, table).unwrap();
    let first = "row_number() OVER (PARTITION BY a ORDER BY a DESC NULLS LAST, b, id)";
    let second = "sum(id) OVER (PARTITION BY a ORDER BY b, a)";
    let third =
        "sum(id) OVER (PARTITION BY a ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)";
    let query = format!("SELECT id, {first}, {second}, {third} FROM t ORDER BY id");
    let equal = "SELECT rank() OVER (PARTITION BY a, 1 ORDER BY 1) AS x, \
                 rank() OVER (PARTITION BY a, 1 ORDER BY a, 1) AS y FROM t WHERE id < 3";
    assert_eq!(text(&mut session, equal), "1,1\n1,1");
    let rows = "1,2,4,9\n2,3,12,12\n3,1,3,9\n4,2,10,12\n5,3,9,9\n6,1,6,12";
    assert_eq!(text(&mut session, &query), rows, "{query}");
}

#[test]
fn results_of_frames_that_become_empty_are_sorted_like_others() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value AS id, arrow_cast(value, 'UInt64') AS u, 0 AS k \
                 FROM generate_series(1, 3)";
    run(&mut session, table).unwrap();
    let window =
        "OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING)";
    for aggregate in ["min(id)", "max(id)", "sum(u)"] {
        for (order, rows) in [
            ("NULLS FIRST", "0,\n0,\n0,3"),
            ("NULLS LAST", "0,3\n0,\n0,"),
        ] {
            for way in ["ASC", "DESC"] {
                let sql =
                    format!("SELECT k, {aggregate} {window} FROM t ORDER BY 1, 2 {way} {order}");
                assert_eq!(text(&mut session, &sql), rows, "{sql}");
            }
        }
    }
}

/// DataFusion took all values of a dictionary for equal, and unsigned differences below 0 for 0.
#[test]
fn a_frame_of_values_has_those_of_any_integer_type() {
    let mut session = session();
    for data_type in [
        "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64",
    ] {
        for of in [
            data_type.to_owned(),
            format!("Dictionary(Int32, {data_type})"),
        ] {
            let table = format!(
                "CREATE OR REPLACE TABLE t AS SELECT arrow_cast(value * value, '{of}') AS a \
                 FROM generate_series(0, 4)"
            );
            run(&mut session, &table).unwrap();
            for (order, frame, rows) in [
                (
                    "ASC",
                    "1 PRECEDING AND 3 FOLLOWING",
                    "0,2\n1,3\n4,1\n9,1\n16,1",
                ),
                (
                    "ASC",
                    "UNBOUNDED PRECEDING AND 3 PRECEDING",
                    "0,0\n1,0\n4,2\n9,3\n16,4",
                ),
                (
                    "DESC",
                    "5 FOLLOWING AND UNBOUNDED FOLLOWING",
                    "0,0\n1,0\n4,0\n9,3\n16,4",
                ),
            ] {
                let sql = format!(
                    "SELECT a, count(*) OVER (ORDER BY a {order} RANGE BETWEEN {frame}) \
                     FROM t ORDER BY 1"
                );
                assert_eq!(text(&mut session, &sql), rows, "{of}: {sql}");
            }
        }
    }
}
