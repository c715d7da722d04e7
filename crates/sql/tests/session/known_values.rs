//! Queries over columns of which the planner knows the values or their bounds.

use super::{error, number, run, session, text};
use arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int32Array, RecordBatch,
    StringArray,
};
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use std::sync::Arc;
use tierloom_sql::{CsvOptions, Silent, SqlSession};

#[test]
fn constants_below_an_outer_join_are_not_constant_above_it() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE f AS SELECT value AS id FROM range(1, 7)",
    )
    .unwrap();
    run(
        &mut session,
        "CREATE TABLE d AS SELECT value AS id, 4 + value % 2 AS kind FROM range(1, 7)",
    )
    .unwrap();
    let by_condition = "f LEFT JOIN d ON f.id = d.id AND d.kind = 5";
    let by_filter = "f LEFT JOIN (SELECT * FROM d WHERE kind = 5) AS d ON f.id = d.id";
    let by_literal = "f LEFT JOIN (SELECT id, 5 AS kind FROM d WHERE id % 2 = 1) AS d \
                      ON f.id = d.id";
    let full = "f FULL JOIN (SELECT id, kind FROM d WHERE kind = 5) AS d ON f.id = d.id";
    for threads in [1, 3] {
        run(&mut session, &format!("SET tierloom.threads = {threads}")).unwrap();
        for joined in [by_condition, by_filter, by_literal, full] {
            let ordered = format!("SELECT d.kind, f.id FROM {joined} ORDER BY d.kind, f.id");
            assert_eq!(
                text(&mut session, &ordered),
                "5,1\n5,3\n5,5\n,2\n,4\n,6",
                "{ordered}"
            );
            let numbered = format!(
                "SELECT f.id, row_number() OVER (PARTITION BY d.kind ORDER BY f.id) FROM {joined} \
                 ORDER BY f.id"
            );
            assert_eq!(
                text(&mut session, &numbered),
                "1,1\n2,1\n3,2\n4,2\n5,3\n6,3",
                "{numbered}"
            );
        }
    }
}

#[test]
fn groups_over_outer_joins_with_constants_are_there_once() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE f AS SELECT value AS id FROM range(0, 50000)",
    )
    .unwrap();
    run(&mut session, "SET tierloom.batch_rows = 100").unwrap();
    for threads in [1, 3] {
        run(&mut session, &format!("SET tierloom.threads = {threads}")).unwrap();
        let groups = "SELECT d.flag, count(*) FROM f LEFT JOIN (SELECT id, 1 AS flag FROM f \
                      WHERE id % 2 = 0) AS d ON f.id = d.id GROUP BY d.flag ORDER BY d.flag";
        assert_eq!(text(&mut session, groups), "1,25000\n,25000");
    }
}

#[test]
fn negated_columns_with_the_smallest_value_of_their_type_can_be_filtered() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (CAST(-2147483648 AS INT)), (CAST(-7 AS INT))) AS v (x)",
    )
    .unwrap();
    assert_eq!(text(&mut session, "SELECT x FROM t WHERE -x = 7"), "-7");
}

#[test]
fn a_null_among_the_words_of_a_dictionary_is_no_value() {
    let mut session = session();
    let keys = Int32Array::from(vec![Some(0), Some(1), None]);
    let words: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
    let column: ArrayRef = Arc::new(DictionaryArray::new(keys, words));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.arrow");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    session
        .load_files("t", &path, CsvOptions::default(), &Silent::default())
        .unwrap();
    assert_eq!(number(&mut session, "SELECT count(x) FROM t"), 1);
    let unknown = "SELECT count(*) FROM t WHERE x NOT IN (SELECT x FROM t WHERE x IS NULL)";
    assert_eq!(number(&mut session, unknown), 0);
}

#[test]
fn a_column_of_nearly_all_integers_keeps_its_values_beside_null() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT * FROM (VALUES (-9223372036854775807), \
                 (9223372036854775807), (5), (NULL)) AS v (x)";
    run(&mut session, table).unwrap();
    assert_eq!(
        text(&mut session, "SELECT x FROM t ORDER BY x"),
        "-9223372036854775807\n5\n9223372036854775807\n"
    );
}

#[test]
fn constants_of_the_parts_of_a_union_are_not_constant_in_all_of_it() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT * FROM (VALUES (0, 1), (7, 2), (6, 3), (3, 4), (1, 5)) \
                 AS v (id, k)";
    run(&mut session, table).unwrap();
    for threads in [1, 2, 3] {
        run(&mut session, &format!("SET tierloom.threads = {threads}")).unwrap();
        let first = "SELECT * FROM (SELECT id AS y, 3.5 AS x FROM t UNION ALL SELECT 1, 1.25 \
                     FROM t) AS r ORDER BY x, y LIMIT 1";
        assert_eq!(text(&mut session, first), "1,1.25", "{threads} threads");
        let all = "SELECT 2 AS part, id FROM t UNION ALL SELECT 1, id FROM t WHERE id > 5 \
                   ORDER BY part, id LIMIT 4";
        assert_eq!(text(&mut session, all), "1,6\n1,7\n2,0\n2,1");
        let twice = "SELECT id AS k, id AS x FROM t WHERE id < 2 \
                     UNION ALL SELECT id, k FROM t WHERE id = 7 ORDER BY k, x";
        assert_eq!(text(&mut session, twice), "0,0\n1,1\n7,2");
    }
}

#[test]
fn equal_keys_are_not_equal_in_grouping_sets_without_one_of_them() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value % 3 AS a, value % 3 AS b, value AS c \
                 FROM range(30)";
    run(&mut session, table).unwrap();
    for threads in [1, 3] {
        run(&mut session, &format!("SET tierloom.threads = {threads}")).unwrap();
        let sets = "SELECT a AS g, b AS h, min(c) AS m FROM t WHERE a = b \
                    GROUP BY GROUPING SETS ((a), (b), (a, b)) ORDER BY g, h, m";
        assert_eq!(
            text(&mut session, sets),
            "0,0,0\n0,,0\n1,1,1\n1,,1\n2,2,2\n2,,2\n,0,0\n,1,1\n,2,2"
        );
    }
}

#[test]
fn dictionaries_in_parquet_files_are_read_whatever_their_keys_and_words() {
    let mut session = session();
    // More words in a batch of the reader than one-byte keys count, in several row groups.
    let words = |start: i32| -> ArrayRef {
        let words: Vec<String> = (start..start + 100)
            .map(|word| format!("w{word}"))
            .collect();
        let keys = Int8Array::from_iter_values(0..100);
        let words: ArrayRef = Arc::new(StringArray::from(words));
        Arc::new(DictionaryArray::new(keys, words))
    };
    let decimals = || -> ArrayRef {
        let keys = Int32Array::from_iter_values((0..100).map(|row| row % 2));
        let words = Decimal128Array::from(vec![150, 250]).with_precision_and_scale(9, 2);
        Arc::new(DictionaryArray::new(keys, Arc::new(words.unwrap())))
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let batch =
        |start: i32| RecordBatch::try_from_iter([("x", words(start)), ("d", decimals())]).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), None).unwrap();
    for start in [0, 100, 200, 300] {
        writer.write(&batch(start)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    session
        .load_files("t", &path, CsvOptions::default(), &Silent::default())
        .unwrap();
    let counts = "SELECT count(DISTINCT x), min(x), sum(d) FROM t";
    assert_eq!(text(&mut session, counts), "400,w0,800.00");
}

#[test]
fn frames_of_null_rows_have_the_null_rows_of_later_batches() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT * FROM (VALUES (3, 1, NULL), (4, 1, NULL), (5, 1, NULL), \
                 (6, 1, NULL), (1, 1, 1), (2, 1, 2), (7, 1, 5)) AS v (id, p, k)";
    run(&mut session, table).unwrap();
    run(&mut session, "SET tierloom.batch_rows = 2").unwrap();
    for threads in [1, 3] {
        run(&mut session, &format!("SET tierloom.threads = {threads}")).unwrap();
        for partition in ["PARTITION BY p", ""] {
            let frame = "RANGE BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING";
            let sums = format!(
                "SELECT id, sum(id) OVER ({partition} ORDER BY k {frame}) FROM t ORDER BY id"
            );
            assert_eq!(
                text(&mut session, &sums),
                "1,\n2,\n3,28\n4,28\n5,28\n6,28\n7,3",
                "{sums}"
            );
        }
    }
}

#[test]
fn sums_with_a_constant_do_not_wrap_around_and_wide_cubes_are_refused() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE z AS SELECT * FROM (VALUES (0), (0), (0)) AS v (n)",
    )
    .unwrap();
    for sum in [
        "sum(n + 4611686018427387904)",
        "sum(n - 4611686018427387904)",
    ] {
        let message = error(&mut session, &format!("SELECT {sum} FROM z"));
        assert!(message.contains("range"), "{sum}: {message}");
    }
    assert_eq!(text(&mut session, "SELECT sum(n + 7) FROM z"), "21");
    let keys: Vec<String> = (0..13).map(|key| format!("n + {key}")).collect();
    let cube = format!("SELECT count(*) FROM z GROUP BY CUBE ({})", keys.join(", "));
    let message = error(&mut session, &cube);
    assert!(message.contains("CUBE of 13 columns"), "{message}");
}

#[test]
fn unions_of_equal_columns_can_be_ordered_by_both() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT value % 5 AS a FROM range(0, 20)",
    )
    .unwrap();
    run(
        &mut session,
        "CREATE VIEW v AS SELECT a AS x, a AS y FROM t WHERE a > 2",
    )
    .unwrap();
    let both = "SELECT x, y FROM v UNION ALL SELECT x, y FROM v";
    for sql in [
        format!(
            "SELECT DISTINCT sum(y) OVER (PARTITION BY x ORDER BY y NULLS FIRST) FROM ({both}) ORDER BY 1"
        ),
        format!("SELECT DISTINCT sum(y) OVER (PARTITION BY y ORDER BY x) FROM ({both}) ORDER BY 1"),
    ] {
        assert_eq!(text(&mut session, &sql), "24\n32", "{sql}");
    }
    let ordered = format!("SELECT x, y FROM ({both}) ORDER BY x, y DESC LIMIT 3");
    assert_eq!(text(&mut session, &ordered), "3,3\n3,3\n3,3");
}

/// A cast has the name of what it casts.
#[test]
fn a_key_and_its_cast_can_be_grouped_by_together() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT 1.5 AS x UNION ALL SELECT 1.25 UNION ALL SELECT 1.5",
    )
    .unwrap();
    for (keys, select) in [
        ("CAST(x AS INT), x", "CAST(x AS INT) AS whole, x AS part"),
        ("x, CAST(x AS INT)", "CAST(x AS INT) AS whole, x AS part"),
        ("1, 2", "CAST(x AS INT) AS whole, x AS part"),
    ] {
        let counted =
            format!("SELECT {select}, count(*) AS n FROM t GROUP BY {keys} ORDER BY part");
        assert_eq!(
            text(&mut session, &counted),
            "1,1.25,1\n1,1.5,2",
            "{counted}"
        );
    }
}

/// A table `t` with a quotient `a / b` that is NaN, and `q` with the quotients.
fn quotients() -> SqlSession {
    let mut session = session();
    // The processor makes a NaN of another sign of 0/0 than a cast makes of the text.
    run(
        &mut session,
        "CREATE TABLE t AS SELECT CAST(a AS DOUBLE) AS a, CAST(b AS DOUBLE) AS b, n FROM (VALUES \
         ('0', '0', 1), ('NaN', '1', 2), ('-0', '0', 3), ('6', '1', 4), ('-7', '1', 5), \
         ('1', '0', 6), ('-1', '0', 7)) AS v(a, b, n)",
    )
    .unwrap();
    run(
        &mut session,
        "CREATE TABLE q AS SELECT a / b AS q, n FROM t",
    )
    .unwrap();
    session
}

#[test]
fn every_nan_is_the_same_value_and_the_largest() {
    let mut session = quotients();
    for (sql, expected) in [
        ("SELECT n FROM t ORDER BY a / b, n", "7\n5\n4\n6\n1\n2\n3"),
        ("SELECT n FROM q ORDER BY q DESC, n", "1\n2\n3\n6\n4\n5\n7"),
        ("SELECT count(*) FROM t WHERE a / b > 5", "5"),
        ("SELECT count(*) FROM q WHERE q > 5", "5"),
        ("SELECT count(*) FROM t WHERE -(a / b) > -6", "5"),
        ("SELECT count(*) FROM t WHERE a / b = 'NaN'", "3"),
        ("SELECT count(*) FROM t WHERE a / b IN (-7, 'NaN')", "4"),
        (
            "SELECT count(*) FROM t WHERE a / b BETWEEN 6 AND 'NaN'",
            "5",
        ),
        (
            "SELECT count(*) FROM t WHERE nullif(a / b, 'NaN') IS NULL",
            "3",
        ),
        ("SELECT count(*) FROM (SELECT DISTINCT a / b FROM t)", "5"),
        (
            "SELECT count(DISTINCT a / b), count(DISTINCT n) FROM t",
            "5,7",
        ),
        (
            "SELECT count(*) FROM t GROUP BY a / b ORDER BY 1",
            "1\n1\n1\n1\n3",
        ),
        ("SELECT count(*) FROM t JOIN q ON a / b = q", "13"),
        (
            "SELECT count(*) FROM t x JOIN t y ON x.a / x.b = y.a / y.b",
            "13",
        ),
        (
            "SELECT count(*) FROM (SELECT a / b FROM t INTERSECT SELECT CAST('NaN' AS DOUBLE))",
            "1",
        ),
        (
            "SELECT max(a / b) = 'NaN', min(a / b) FROM t WHERE n < 6",
            "true,-7.0",
        ),
        (
            "SELECT max(rank) FROM (SELECT rank() OVER (ORDER BY a / b) AS rank FROM t)",
            "5",
        ),
    ] {
        assert_eq!(text(&mut session, sql), expected, "{sql}");
    }
}

#[test]
fn sums_of_nan_and_of_both_infinities_are_the_same_nan() {
    let mut session = quotients();
    for (sql, expected) in [
        (
            "SELECT sum(a / b) > 5, avg(q) = 'NaN' FROM t JOIN q USING (n)",
            "true,true",
        ),
        ("SELECT sum(q) = 'NaN' FROM q WHERE n > 5", "true"),
        (
            "SELECT count(*) FROM (SELECT sum(q) AS s FROM q WHERE n > 5) WHERE s > 1e300",
            "1",
        ),
        (
            "SELECT g FROM (SELECT n % 2 AS g, sum(q) AS s FROM q WHERE n > 3 GROUP BY g \
             UNION ALL SELECT 9, sum(q) FROM q WHERE n > 5) ORDER BY s, g",
            "1\n0\n9",
        ),
        (
            "SELECT n % 3 FROM q GROUP BY n % 3 HAVING sum(q) > 100 ORDER BY 1",
            "0\n1\n2",
        ),
        (
            "SELECT count(*) FROM (SELECT sum(q) OVER (ORDER BY n DESC) AS s FROM q) \
             WHERE s > 1",
            "6",
        ),
    ] {
        assert_eq!(text(&mut session, sql), expected, "{sql}");
    }
}

#[test]
fn a_column_can_be_selected_twice_and_beside_its_cast() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t AS SELECT 2.5 AS x, 1 AS y").unwrap();
    for (sql, expected) in [
        ("SELECT x, x, CAST(x AS INT) FROM t", "2.5,2.5,2"),
        ("SELECT NULL, x, NULL, CAST(NULL AS INT) FROM t", ",2.5,,"),
        (
            "SELECT CAST(x AS INT), X, x::text FROM t ORDER BY x",
            "2,2.5,2.5",
        ),
        (
            "SELECT count(*), count(*), abs(y), abs(CAST(y AS INT)) FROM t GROUP BY y",
            "1,1,1,1",
        ),
        (
            "SELECT y, y FROM t GROUP BY y HAVING count(*) = 1 ORDER BY y",
            "1,1",
        ),
        (
            "SELECT sum(y_1 + y) FROM (SELECT y, y AS y_1 FROM t UNION ALL SELECT y, y FROM t)",
            "4",
        ),
        (
            "SELECT \"CAST(x AS INT)\" + x FROM (SELECT x, CAST(x AS INT) FROM t)",
            "4.5",
        ),
    ] {
        assert_eq!(text(&mut session, sql), expected, "{sql}");
    }
}

#[test]
fn calls_that_differ_in_casts_alone_are_several() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 2.5), (2, 3.5), (2, 4.5)) AS v(x, y)",
    )
    .unwrap();
    for (sql, expected) in [
        ("SELECT sum(y), sum(CAST(y AS INT)) FROM t", "10.5,9"),
        ("SELECT sum(y::int), sum(t.y), sum(x) FROM t", "9,10.5,5"),
        (
            "SELECT sum(CAST(y AS INT)), sum(y), sum(CAST(y AS INT)), 1 + sum(y::bigint) FROM t",
            "9,10.5,9,10",
        ),
        (
            "SELECT x, sum(y) FROM t GROUP BY x HAVING sum(CAST(y AS INT)) < 7",
            "1,2.5",
        ),
        (
            "SELECT x, sum(y) AS s FROM t GROUP BY x ORDER BY sum(CAST(y AS INT)) DESC",
            "2,8.0\n1,2.5",
        ),
        (
            "SELECT count(DISTINCT CAST(y AS INT)), count(DISTINCT y), \
             count(DISTINCT CAST(y / 9 AS INT)), count(DISTINCT y / 9) FROM t",
            "3,3,1,3",
        ),
        (
            "SELECT sum(y) OVER (), sum(CAST(y AS INT)) OVER () FROM t LIMIT 1",
            "10.5,9",
        ),
        (
            "SELECT sum(sum(y)) OVER (), sum(sum(CAST(y AS INT))) OVER () FROM t GROUP BY x \
             LIMIT 1",
            "10.5,9",
        ),
        (
            "SELECT sum(y) + sum(CAST(y AS INT)) AS s FROM t UNION ALL \
             SELECT sum(x) + sum(CAST(x AS DOUBLE)) FROM t ORDER BY s",
            "10.0\n19.5",
        ),
        (
            "SELECT (SELECT sum(CAST(y AS INT)) FROM t), sum(y) FROM t",
            "9,10.5",
        ),
        (
            "SELECT (SELECT max(x) AS m FROM t), (SELECT max(x) AS m FROM t WHERE x < 2), \
             max(x) AS m FROM t",
            "2,1,2",
        ),
        (
            "SELECT \"sum(CAST(y AS INT))\" FROM (SELECT sum(y), sum(CAST(y AS INT)) FROM t)",
            "9",
        ),
    ] {
        assert_eq!(text(&mut session, sql), expected, "{sql}");
    }
}

#[test]
fn zeros_of_both_signs_are_in_lists_that_have_one_of_them() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT x * y AS z, CAST(x * y AS REAL) AS r FROM (VALUES \
         (0.0, -1.0), (0.0, 1.0), (1.0, 2.0), (NULL, 1.0)) AS v(x, y)",
    )
    .unwrap();
    for column in ["z", "r", "z + z", "-r"] {
        for list in [
            "0.0",
            "0.0, 0.0",
            "7.0, 0.0, 0.0",
            "0.0, 1.0, 3.0, 5.0",
            "'-0.0', 1.0, 3.0, 5.0, 6.0",
            "0, 1, 3, 5, 6",
            "NULL, 0.0, 1.0, 3.0, 5.0, z * 9 + 1",
        ] {
            let inside = format!("SELECT count(*) FROM t WHERE {column} IN ({list})");
            assert_eq!(number(&mut session, &inside), 2, "{inside}");
            let outside = format!(
                "SELECT count(*) FROM t WHERE {column} NOT IN ({})",
                list.replace("NULL, ", "")
            );
            assert_eq!(number(&mut session, &outside), 1, "{outside}");
        }
        let either = format!(
            "SELECT count(*) FROM t WHERE {column} = 0.0 OR {column} IN (1.0, 3.0, 5.0, 7.0) \
             OR {column} = 9.0"
        );
        assert_eq!(number(&mut session, &either), 2, "{either}");
    }
}

#[test]
fn outer_joins_find_all_rows_of_a_key_that_was_unique_before_another_join() {
    let mut session = session();
    for table in [
        "CREATE TABLE d1 AS SELECT * FROM (VALUES (1, 0.5)) v(k, a)",
        "CREATE TABLE d2 AS SELECT * FROM (VALUES (9, 'x'), (10, 'y')) v(k, a)",
        "CREATE TABLE f AS SELECT * FROM (VALUES (1, 9), (1, 10)) v(a, b)",
        "CREATE TABLE g AS SELECT * FROM (VALUES (1, 0), (5, 0)) v(k, m)",
    ] {
        run(&mut session, table).unwrap();
    }
    let unique = "(SELECT k, min(a) AS a FROM d1 GROUP BY k) AS t2";
    let joined = format!("d2 AS t4, f AS t1, {unique} WHERE t2.k = t1.a AND t4.k = t1.b");
    for grouped in [
        format!("SELECT t2.k AS c FROM {joined} GROUP BY t4.a, t2.k"),
        format!("SELECT t2.k AS c FROM {joined}"),
        format!("SELECT DISTINCT t2.k AS c, t4.a FROM {joined}"),
    ] {
        for outer in [
            format!("({grouped}) AS t5 RIGHT JOIN g ON t5.c = g.k"),
            format!("g LEFT JOIN ({grouped}) AS t5 ON t5.c = g.k"),
        ] {
            let sql = format!("SELECT count(*) FROM {outer} GROUP BY g.m");
            assert_eq!(number(&mut session, &sql), 3, "{sql}");
        }
        let sql = format!("SELECT count(*) FROM ({grouped}) AS t5");
        assert_eq!(number(&mut session, &sql), 2, "{sql}");
    }
    let sql = format!("SELECT t2.k, count(*) FROM {joined} GROUP BY t4.a, t2.k");
    assert_eq!(text(&mut session, &sql), "1,1\n1,1");
}

#[test]
fn groups_over_joins_keep_all_of_their_keys() {
    let mut session = session();
    for table in [
        "CREATE TABLE d AS SELECT * FROM (VALUES ('a'), ('a'), ('b')) v(k)",
        "CREATE TABLE f AS SELECT * FROM (VALUES ('a', 1), ('a', 2), ('a', 2), ('b', 1)) v(k, m)",
        "CREATE VIEW u AS SELECT k, count(*) AS n FROM d GROUP BY k",
    ] {
        run(&mut session, table).unwrap();
    }
    let unique = "(SELECT k, count(*) AS n FROM d GROUP BY k)";
    for unique in [unique, "u", "(SELECT DISTINCT k FROM d)"] {
        let pairs = format!(
            "(SELECT u.k AS c, f.m AS m FROM {unique} AS u, f WHERE u.k = f.k GROUP BY u.k, f.m)"
        );
        for (sql, expected) in [
            (
                format!("SELECT c, count(*) FROM {pairs} GROUP BY c, m ORDER BY c"),
                "a,1\na,1\nb,1",
            ),
            (
                format!("SELECT DISTINCT c FROM {pairs} AS p ORDER BY c"),
                "a\nb",
            ),
            (
                format!("SELECT c, count(*), count(DISTINCT m) FROM {pairs} GROUP BY c ORDER BY c"),
                "a,2,2\nb,1,1",
            ),
            (
                format!(
                    "WITH p AS {pairs} SELECT c, min(n) FROM (SELECT c, m, count(*) AS n, \
                 count(DISTINCT m) FROM p GROUP BY c, m) GROUP BY c ORDER BY c"
                ),
                "a,1\nb,1",
            ),
            (
                format!(
                    "SELECT c, min(n) FROM (SELECT u.k AS c, f.m, count(DISTINCT f.m) AS n \
                 FROM {unique} AS u JOIN f ON u.k = f.k GROUP BY u.k, f.m) GROUP BY c ORDER BY c"
                ),
                "a,1\nb,1",
            ),
        ] {
            assert_eq!(text(&mut session, &sql), expected, "{sql}");
        }
    }
}

#[test]
fn the_first_of_distinct_floats_have_nan_once() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE t AS SELECT CAST(x AS DOUBLE) AS x, CAST(x AS REAL) AS r FROM \
         (VALUES ('NaN'), ('1'), ('NaN'), ('-NaN'), ('2')) v(x)",
    )
    .unwrap();
    for column in ["x", "r"] {
        for sql in [
            format!("SELECT DISTINCT {column} FROM t ORDER BY 1 LIMIT 9"),
            format!("SELECT {column} FROM t UNION SELECT {column} FROM t ORDER BY 1 LIMIT 9"),
            format!("SELECT {column} FROM t GROUP BY {column} ORDER BY {column} LIMIT 9"),
        ] {
            assert_eq!(text(&mut session, &sql), "1.0\n2.0\nNaN", "{sql}");
        }
    }
}

#[test]
fn a_union_of_doubles_and_decimals_keeps_the_doubles() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT CAST(1e20 AS DOUBLE) AS d, CAST(2.50 AS DECIMAL(5, 2)) \
                 AS n, arrow_cast(0.5, 'Float32') AS r";
    run(&mut session, table).unwrap();
    for (query, rows) in [
        (
            "SELECT d FROM t UNION ALL SELECT n FROM t ORDER BY 1",
            "2.5\n1e20",
        ),
        (
            "SELECT n FROM t UNION ALL SELECT d FROM t ORDER BY 1",
            "2.5\n1e20",
        ),
        (
            "SELECT n FROM t UNION ALL SELECT r FROM t ORDER BY 1",
            "0.5\n2.5",
        ),
        ("SELECT n FROM t UNION SELECT d / 8e19 * 2 FROM t", "2.5"),
        (
            "SELECT sum(x) FROM (SELECT n AS x FROM t UNION ALL SELECT 1 UNION ALL SELECT r FROM t)",
            "4.0",
        ),
        ("SELECT n FROM t INTERSECT SELECT d / 4e19 FROM t", "2.50"),
    ] {
        assert_eq!(text(&mut session, query), rows, "{query}");
    }
}

#[test]
fn computed_keys_of_grouping_sets_may_be_simplified() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value % 2 AS k, CAST(value AS DECIMAL(9, 2)) AS d \
                 FROM generate_series(1, 6)";
    run(&mut session, table).unwrap();
    for (keys, rows) in [
        ("ROLLUP ((d > 3.5))", "false,0,3\ntrue,0,3\n,1,6"),
        ("CUBE ((d > 3.5))", "false,0,3\ntrue,0,3\n,1,6"),
        (
            "GROUPING SETS (((d > 3.5)), ((d > 3.5), (k NOT IN (1, 1, 2, NULL))), ())",
            "false,0,1\nfalse,0,2\nfalse,0,3\ntrue,0,1\ntrue,0,2\ntrue,0,3\n,1,6",
        ),
    ] {
        let sql = format!(
            "SELECT d > 3.5 AS x, grouping(d > 3.5) AS g, count(*) AS n FROM t GROUP BY {keys} \
             ORDER BY x NULLS LAST, g, n"
        );
        assert_eq!(text(&mut session, &sql), rows, "{sql}");
    }
}

#[test]
fn a_column_and_its_cast_may_be_keys_of_a_count_of_distinct_values() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value > 2 AS b, value % 2 AS k, value AS v \
                 FROM generate_series(1, 5)";
    run(&mut session, table).unwrap();
    let query = "SELECT CAST(b AS INT) AS i, b, count(DISTINCT k) AS n FROM t \
                 GROUP BY CAST(b AS INT), b ORDER BY i";
    assert_eq!(text(&mut session, query), "0,false,2\n1,true,2");
}

#[test]
fn a_constant_of_one_side_of_a_cross_join_is_null_for_the_total() {
    let mut session = session();
    for table in [
        "CREATE TABLE one AS SELECT 1 AS a, 2 AS b",
        "CREATE TABLE many AS SELECT value AS v FROM generate_series(1, 9)",
    ] {
        run(&mut session, table).unwrap();
    }
    for from in [
        "one, many",
        "many, one",
        "many CROSS JOIN (SELECT * FROM one ORDER BY b LIMIT 5) x",
    ] {
        for (count, expected) in [("count(DISTINCT v)", 9), ("count(*)", 9), ("max(v)", 9)] {
            let query = |order: &str| {
                format!(
                    "SELECT a, {count} AS n FROM {from} WHERE a = 1 GROUP BY ROLLUP (a) \
                     ORDER BY a {order}, n"
                )
            };
            let (value, total) = (format!("1,{expected}"), format!(",{expected}"));
            let first = text(&mut session, &query("NULLS FIRST"));
            assert_eq!(first, format!("{total}\n{value}"), "{from} {count}");
            let last = text(&mut session, &query("DESC NULLS LAST"));
            assert_eq!(last, format!("{value}\n{total}"), "{from} {count}");
        }
        let outer = format!(
            "SELECT x.a, m.v FROM many m LEFT JOIN (SELECT a, v FROM {from} WHERE a = 1 AND v < 2) \
             x ON m.v = x.v WHERE m.v < 4 ORDER BY x.a NULLS FIRST, m.v"
        );
        assert_eq!(text(&mut session, &outer), ",2\n,3\n1,1", "{from}");
    }
}
