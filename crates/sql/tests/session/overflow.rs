//! Integer arithmetic whose result leaves its type is an error, wherever it is written.

use super::{error, number, run, session, text};
use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch};
use arrow::ipc::writer::FileWriter;
use std::sync::Arc;
use tierloom_sql::{CsvOptions, Silent, SqlSession};

const LARGEST: i64 = i64::MAX;

/// A table with the largest and the smallest value of types, and small values in group 2.
fn extremes() -> SqlSession {
    let mut session = session();
    let rows = format!(
        "CREATE TABLE t AS SELECT * FROM (VALUES \
         (1, {LARGEST}, CAST(2147483647 AS INT), CAST(255 AS TINYINT UNSIGNED)), \
         (1, {LARGEST}, CAST(-2147483648 AS INT), CAST(0 AS TINYINT UNSIGNED)), \
         (2, 7, CAST(5 AS INT), CAST(3 AS TINYINT UNSIGNED))) AS v(g, n, i, u)"
    );
    run(&mut session, &rows).unwrap();
    run(
        &mut session,
        "CREATE TABLE d AS SELECT value AS g FROM range(1, 3)",
    )
    .unwrap();
    session
}

#[test]
fn a_result_that_leaves_its_type_is_an_error_in_every_clause() {
    let mut session = extremes();
    for sql in [
        "SELECT n + 1 FROM t",
        "SELECT -2 - n FROM t",
        "SELECT n * 2 FROM t",
        "SELECT -(-n - 1) FROM t",
        "SELECT g FROM t WHERE n + 1 > 0",
        "SELECT n + 1, count(*) FROM t GROUP BY n + 1",
        "SELECT max(n + 1) FROM t",
        "SELECT g, max(n + 1) FROM t GROUP BY g",
        "SELECT count(*) FILTER (WHERE n + 1 > 0) FROM t",
        "SELECT array_agg(g ORDER BY n + 1) FROM t",
        "SELECT g FROM t ORDER BY n + 1",
        "SELECT g FROM t GROUP BY g HAVING max(n) + 1 > 0",
        "SELECT t.g FROM t JOIN d ON t.n + 1 = d.g",
        "SELECT t.g FROM t JOIN d ON t.g = d.g AND t.n + d.g > 0",
        "SELECT t.g FROM t LEFT JOIN d ON t.n + d.g > 0",
        "SELECT t.g FROM t WHERE EXISTS (SELECT 1 FROM d WHERE d.g = t.n + 1)",
        "SELECT sum(n + 1) OVER (PARTITION BY g) FROM t",
        "SELECT max(n) OVER (ORDER BY n + 1) FROM t",
        "SELECT max(n) OVER (PARTITION BY n * 2) FROM t",
        "SELECT CASE WHEN g = 1 THEN n + 1 END FROM t",
        "SELECT abs(n + 1) FROM t",
    ] {
        let message = error(&mut session, sql);
        assert!(
            message.to_lowercase().contains("overflow"),
            "{sql}: {message}"
        );
    }
}

#[test]
fn results_within_their_type_stay_what_they_are() {
    let mut session = extremes();
    for (sql, expected) in [
        ("SELECT n + 1 FROM t WHERE g = 2", "8"),
        (
            "SELECT n - 1 FROM t WHERE g = 1 LIMIT 1",
            "9223372036854775806",
        ),
        // The smallest value has no positive counterpart, but is one itself.
        (
            "SELECT -n - 1 FROM t WHERE g = 1 LIMIT 1",
            "-9223372036854775808",
        ),
        ("SELECT min(-n) FROM t", "-9223372036854775807"),
        ("SELECT count(*) FROM t WHERE -i < 0", "2"),
        ("SELECT i FROM t WHERE -i >= 7", "-2147483648"),
        (
            "SELECT i FROM t WHERE -i IS DISTINCT FROM -5 AND i > 0",
            "2147483647",
        ),
        (
            "SELECT CAST(i AS BIGINT) * i FROM t ORDER BY 1",
            "25\n4611686014132420609\n4611686018427387904",
        ),
        (
            "SELECT CAST(u AS BIGINT) - 256 FROM t ORDER BY 1",
            "-256\n-253\n-1",
        ),
        (
            "SELECT CASE WHEN g = 2 THEN n + 1 ELSE 0 END FROM t ORDER BY 1",
            "0\n0\n8",
        ),
        (
            "SELECT g, sum(n + 1) OVER (ORDER BY g) AS s FROM t WHERE g = 2",
            "2,8",
        ),
        (
            "SELECT * FROM (SELECT g, max(g + 1) OVER () AS m FROM t) ORDER BY g LIMIT 1",
            "1,3",
        ),
    ] {
        assert_eq!(text(&mut session, sql), expected, "{sql}");
    }
}

/// The planner computes constants, also those that only become constant while it plans.
#[test]
fn a_constant_that_leaves_its_type_is_an_error_only_if_it_is_asked_for() {
    let mut session = extremes();
    for sql in [
        format!("SELECT {LARGEST} + 1"),
        format!("SELECT -{LARGEST} - 2"),
        format!("SELECT {LARGEST} * 2"),
        format!("SELECT -(-{LARGEST} - 1)"),
        format!("SELECT g + ({LARGEST} + 1) FROM t"),
        format!("SELECT x + 1 FROM (SELECT {LARGEST} AS x)"),
        format!("WITH c AS (SELECT {LARGEST} AS x) SELECT g FROM t, c WHERE g < x + 1"),
        format!("SELECT abs({LARGEST}) + 1"),
    ] {
        let message = error(&mut session, &sql);
        assert!(
            message.to_lowercase().contains("overflow"),
            "{sql}: {message}"
        );
    }
    for (sql, expected) in [
        (
            format!("SELECT CASE WHEN g < 5 THEN g ELSE {LARGEST} + 1 END FROM d"),
            "1\n2",
        ),
        (format!("SELECT {LARGEST} + 1 FROM t WHERE g > 5"), ""),
        (format!("SELECT {LARGEST} - 1 + 1"), "9223372036854775807"),
    ] {
        assert_eq!(text(&mut session, &sql), expected, "{sql}");
    }
}

/// Predicates are judged once for each word of a dictionary, also for words that no row has.
#[test]
fn a_word_that_no_row_has_is_not_computed_with() {
    let keys = Int32Array::from(vec![1, 1, 2]);
    let words: ArrayRef = Arc::new(Int64Array::from(vec![LARGEST, 5, 6]));
    let column: ArrayRef = Arc::new(DictionaryArray::new(keys, words));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.arrow");
    let mut writer =
        FileWriter::try_new(std::fs::File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let mut session = session();
    session
        .load_files("t", &path, CsvOptions::default(), &Silent::default())
        .unwrap();
    for (sql, expected) in [
        ("SELECT count(*) FROM t WHERE x + 1 = 6", 2),
        ("SELECT sum(x + 1) FROM t", 19),
        (
            "SELECT count(*) FROM t AS f JOIN t AS d ON f.x = d.x WHERE d.x * 2 > 10",
            1,
        ),
    ] {
        assert_eq!(number(&mut session, sql), expected, "{sql}");
    }
}
