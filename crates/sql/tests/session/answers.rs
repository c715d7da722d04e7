//! Results that depend on what the planner is told, and tables created in other ways than from
//! files.

use super::{error, number, run, session, text};
use arrow::array::{ArrayRef, Int32Array, Int64Array, ListArray, NullArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::ipc::writer::FileWriter;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tierloom_sql::{CsvOptions, Silent, SqlSession};

/// A folder for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("tierloom-answers-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// The columns as an Arrow file whose schema declares them NOT NULL.
    fn arrow(&self, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
        let field = |(name, array): &(&str, ArrayRef)| {
            let null = *array.data_type() == DataType::Null;
            Field::new(*name, array.data_type().clone(), null)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        let path = self.0.join("t.arrow");
        let mut writer = FileWriter::try_new(fs::File::create(&path).unwrap(), &schema).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn load(session: &mut SqlSession, name: &str, path: &std::path::Path) {
    session
        .load_files(name, path, CsvOptions::default(), &Silent::default())
        .unwrap();
}

/// Tables of one row from CSV, from an Arrow file that declares NOT NULL, and from a query.
fn one_row_tables(session: &mut SqlSession, folder: &Folder) {
    let csv = folder.0.join("n.csv");
    fs::write(&csv, "v\n1\n").unwrap();
    load(session, "c", &csv);
    load(
        session,
        "a",
        &folder.arrow(vec![("v", Arc::new(Int64Array::from(vec![1])))]),
    );
    run(session, "create table m as select 1 as v").unwrap();
}

#[test]
fn a_scalar_subquery_that_finds_no_row_is_null_whatever_its_column_is_declared() {
    let folder = Folder::new("subquery");
    let mut session = session();
    one_row_tables(&mut session, &folder);
    for n in ["c", "a", "m"] {
        for value in ["v", "1", "v is null", "v + 1", "count(*)", "coalesce(v, 0)"] {
            let none = format!("(select {value} from {n} where v > 5 group by v)");
            let shown = |session: &mut SqlSession, sql: String| text(session, &sql);
            let of = |sql: &str| sql.replace("NONE", &none).replace("TABLE", n);
            for (sql, answer) in [
                ("select NONE is null", "true"),
                ("select NONE is not null", "false"),
                ("select count(*) from TABLE where NONE is null", "1"),
                (
                    "select count(*) from TABLE t where (NONE is null) is true",
                    "1",
                ),
                (
                    "select case when NONE is null then 'no' else 'yes' end",
                    "no",
                ),
            ] {
                assert_eq!(shown(&mut session, of(sql)), answer, "{}", of(sql));
            }
        }
        for value in ["v", "7"] {
            let sql = format!("select coalesce((select {value} from {n} where v > 5), 7)");
            assert_eq!(text(&mut session, &sql), "7", "{sql}");
            // DataFusion supports a correlated scalar subquery only with an aggregate.
            let sql = format!(
                "select (select max({value}) from {n} b where b.v = a.v + 5) is null from {n} a"
            );
            assert_eq!(text(&mut session, &sql), "true", "{sql}");
        }
    }
}

#[test]
fn an_outer_join_by_sorting_gives_null_for_rows_without_a_partner() {
    let mut session = session();
    run(
        &mut session,
        "create table l as select value as k from range(5);
         create table r as select value as k, 2 * value as w from range(3);
         set datafusion.optimizer.prefer_hash_join = false",
    )
    .unwrap();
    let sql = "select l.k, r.w from l left join r on l.k = r.k and l.k + r.w > 1 order by 1";
    assert_eq!(text(&mut session, sql), "0,\n1,2\n2,4\n3,\n4,");
}

#[test]
fn rows_are_sorted_by_all_that_is_asked_for_though_a_join_repeats_a_key() {
    let mut session = session();
    run(
        &mut session,
        "create table d as select value as k from range(2);
         create table f as select (value * 7919) % 5000 as id, value % 2 as k from range(5000)",
    )
    .unwrap();
    let sql = "select d.k, f.id from f join (select k from d group by k) d on f.k = d.k \
               group by f.id, d.k order by 1 desc, 2";
    let sorted: Vec<String> = (0..2)
        .rev()
        .flat_map(|k| {
            let mut ids: Vec<i64> = (0..5000)
                .filter(|value| value % 2 == k)
                .map(|value| (value * 7919) % 5000)
                .collect();
            ids.sort_unstable();
            ids.into_iter().map(move |id| format!("{k},{id}"))
        })
        .collect();
    assert_eq!(text(&mut session, sql), sorted.join("\n"));
}

#[test]
fn not_in_over_columns_without_nulls_runs_as_a_plain_join_and_with_nulls_it_is_unknown() {
    let mut session = session();
    run(
        &mut session,
        "create table l as select value as k from range(10);
         create table r as select value * 2 as k from range(3);
         create table s as select nullif(value, 1) as k from range(3)",
    )
    .unwrap();
    let explain = |session: &mut SqlSession, other: &str| {
        text(
            session,
            &format!("explain select count(*) from l where k not in (select k from {other})"),
        )
    };
    let count = |session: &mut SqlSession, other: &str| {
        number(
            session,
            &format!("select count(*) from l where k not in (select k from {other})"),
        )
    };
    assert!(!explain(&mut session, "r").contains("null_aware"));
    assert_eq!(count(&mut session, "r"), 7);
    assert!(explain(&mut session, "s").contains("null_aware"));
    assert_eq!(count(&mut session, "s"), 0);
}

#[test]
fn select_into_makes_a_placed_table_that_can_be_dropped() {
    let mut session = session();
    run(&mut session, "select value as a into u from range(4)").unwrap();
    assert_eq!(number(&mut session, "select sum(a) from u"), 6);
    let listed = "select count(*) from tier_columns where table_name = 'u'";
    assert_eq!(number(&mut session, listed), 1);
    run(&mut session, "drop table u").unwrap();
    assert!(error(&mut session, "select * from u").contains("no table u"));
}

#[test]
fn what_is_no_query_cannot_hide_where_a_query_is_expected() {
    let mut session = session();
    run(&mut session, "create table t as select 1 as a").unwrap();
    let to = std::env::temp_dir().join("tierloom-never-written.csv");
    for wrong in [
        format!("copy (drop table t) to '{}'", to.display()),
        format!("copy (create view v as select 1) to '{}'", to.display()),
        "explain placement drop table t".into(),
        "explain placement create table u as select 1 as a".into(),
        "explain placement set datafusion.execution.batch_size = 7".into(),
        "explain analyze placement select 1 as a into u".into(),
    ] {
        error(&mut session, &wrong);
        assert!(!to.exists(), "{wrong}");
    }
    let names: Vec<String> = session.tables().into_iter().map(|t| t.name).collect();
    assert!(names.contains(&"t".to_owned()), "{names:?}");
    assert!(!names.iter().any(|n| n == "u" || n == "v"), "{names:?}");
}

#[test]
fn tables_that_cannot_be_as_they_are_asked_for_are_refused() {
    let mut session = session();
    run(&mut session, "create table t as select 1 as a").unwrap();
    for (wrong, says) in [
        (
            "create table u as select 1 as x, 2 as x",
            "unique expression names",
        ),
        (
            "create table u as select * from t x, t y",
            "two columns are named a",
        ),
        ("select 1 as x, 2 as x into u", "unique expression names"),
        (
            "create or replace table if not exists t as select 2 as a",
            "exclude each other",
        ),
        ("create temporary table u as select 1 as a", "TEMPORARY"),
        ("create temporary view u as select 1 as a", "TEMPORARY"),
        (
            "set datafusion.execution.parquet.coerce_int96 = 'us'",
            "no effect",
        ),
    ] {
        let shown = error(&mut session, wrong).to_lowercase();
        assert!(shown.contains(&says.to_lowercase()), "{wrong}: {shown}");
    }
    assert_eq!(number(&mut session, "select a from t"), 1);
    assert!(error(&mut session, "select * from u").contains("no table u"));
}

#[test]
fn a_list_is_never_cast_to_the_values_of_its_neighbour() {
    let folder = Folder::new("lists");
    let mut session = session();
    let lists = (0..20_000).map(|i| Some(vec![Some(i), Some(-i)]));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..20_000));
    let path = folder.arrow(vec![("id", ids), ("l", Arc::new(lists))]);
    load(&mut session, "t", &path);
    let shown = error(
        &mut session,
        "select id, arrow_cast(l, 'FixedSizeList(2, Int64)') from t",
    );
    assert!(shown.contains("cast of a list"), "{shown}");
    assert_eq!(
        number(&mut session, "select count(*) from t where l is not null"),
        20_000
    );
}

#[test]
fn a_file_with_a_column_of_no_type_is_loaded() {
    let folder = Folder::new("null-type");
    let mut session = session();
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let path = folder.arrow(vec![("id", ids), ("none", Arc::new(NullArray::new(2)))]);
    load(&mut session, "t", &path);
    let sql = "select count(*) from t where none is null and id > 0";
    assert_eq!(number(&mut session, sql), 2);
}

/// Statements whose sums leave their types, in every way that a sum is computed: over all rows, by
/// groups, distinct, in windows, in partial and final steps.
#[test]
fn a_sum_that_leaves_its_type_is_an_error_and_never_wraps_around() {
    let mut session = session();
    let bigints = "(VALUES (1, 9223372036854775807), (1, 5), (2, 7)) AS t(g, x)";
    let decimals = "(SELECT g, CAST(x AS DECIMAL(38, 0)) AS x FROM (VALUES \
                    (1, '99999999999999999999999999999999999999'), \
                    (1, '99999999999999999999999999999999999998'), (2, '7')) AS t(g, x)) AS t";
    run(
        &mut session,
        &format!(
            "CREATE TABLE b AS SELECT * FROM {bigints}; CREATE TABLE d AS SELECT * FROM {decimals}"
        ),
    )
    .unwrap();
    for table in ["b", "d"] {
        for query in [
            "SELECT sum(x) FROM t",
            "SELECT g, sum(x) FROM t GROUP BY g",
            "SELECT sum(DISTINCT x), count(DISTINCT g) FROM t",
            "SELECT g, sum(DISTINCT x), count(DISTINCT x % 10) FROM t GROUP BY g",
            "SELECT sum(x) OVER (PARTITION BY g) FROM t",
            "SELECT sum(x) OVER (PARTITION BY g ORDER BY x ROWS BETWEEN 1 PRECEDING AND 1 \
             FOLLOWING) FROM t",
        ] {
            // A third part takes 128 bits beyond their end, and with it back into 38 digits.
            let query = query.replace(
                "FROM t",
                &format!(
                    "FROM (SELECT * FROM {table} UNION ALL \
                SELECT 1, x - 1 FROM {table} WHERE g = 1)"
                ),
            );
            let message = error(&mut session, &query);
            assert!(
                message.contains("a sum leaves the range of its type"),
                "{query}: {message}"
            );
        }
        // What does not leave it is what it was.
        let rows = text(
            &mut session,
            &format!("SELECT g, sum(x) FROM {table} WHERE g = 2 GROUP BY g"),
        );
        assert!(rows.contains('7'), "{rows}");
        let wide = format!("SELECT sum(CAST(x AS DECIMAL(76, 0))) FROM {table} WHERE g = 1");
        assert!(!text(&mut session, &wide).is_empty());
    }
    // A frame that fits is right after one that does not matter any more.
    let frames = "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND CURRENT ROW) AS s \
                  FROM b ORDER BY s DESC LIMIT 1";
    assert!(text(&mut session, frames).contains("9223372036854775807"));
}

/// A filter that keeps about one row has no exact count of distinct values, and neither has a join.
#[test]
fn what_is_counted_above_filters_and_joins_is_counted_and_not_estimated() {
    let mut session = session();
    let tables = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 7), (3, 9), (5, 11)) AS t(a, b); \
                  CREATE TABLE e AS SELECT * FROM t WHERE a > 9";
    run(&mut session, tables).unwrap();
    for (query, right) in [
        (
            "SELECT count(DISTINCT a), count(DISTINCT b) FROM t WHERE a = 2 AND b = 9",
            "0,0",
        ),
        (
            "SELECT count(DISTINCT t.a), count(DISTINCT u.a) FROM t LEFT JOIN \
             (SELECT * FROM t WHERE a = 3) AS u ON t.b = u.b + 100 WHERE t.a = 5",
            "1,0",
        ),
        (
            "SELECT count(DISTINCT t3.a), count(DISTINCT t2.a) FROM e AS t1 \
             FULL JOIN t AS t2 ON t1.a = t2.a \
             RIGHT JOIN t AS t3 ON t2.b = t3.b AND t1.a = t3.a AND t2.b > 7 WHERE t3.a = 3",
            "1,0",
        ),
        ("SELECT count(*), min(a), max(b) FROM t", "3,1,11"),
        (
            "SELECT count(*), min(a), count(DISTINCT a) FROM \
             (SELECT a FROM t GROUP BY a HAVING a = 4)",
            "0,,0",
        ),
    ] {
        assert_eq!(text(&mut session, query), right, "{query}");
    }
}

#[test]
fn set_operations_with_all_count_repetitions_and_those_without_do_not() {
    let mut session = session();
    let tables = "CREATE TABLE l AS SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, NULL), \
                  (2, NULL), (3, 'c')) AS t(a, b); \
                  CREATE TABLE r AS SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (2, NULL), (4, 'd')) \
                  AS t(a, b)";
    run(&mut session, tables).unwrap();
    for (operation, right) in [
        ("INTERSECT ALL", "1,a 1,a 2,"),
        ("EXCEPT ALL", "1,a 2, 3,c"),
        ("INTERSECT", "1,a 2,"),
        ("EXCEPT", "3,c"),
    ] {
        let query = format!("(SELECT * FROM l) {operation} (SELECT * FROM r) ORDER BY a, b");
        let rows = text(&mut session, &query).replace('\n', " ");
        assert_eq!(rows, right, "{operation}");
        let within = format!(
            "SELECT count(*) FROM l WHERE a IN (SELECT a FROM ((SELECT a FROM l) {operation} \
             (SELECT a FROM l)) AS s)"
        );
        let same = if operation.starts_with('I') { 6 } else { 0 };
        assert_eq!(number(&mut session, &within), same, "{within}");
    }
    // Keys that are equal, and constant by a filter above.
    let constant = "SELECT count(*) FROM ((SELECT a, a AS c, b FROM l) EXCEPT ALL \
                    (SELECT a, a AS c, b FROM r)) AS s WHERE c IN (1, 1)";
    assert_eq!(number(&mut session, constant), 1);
}

#[test]
fn in_over_a_subquery_is_null_where_sql_says_so_in_every_place_of_a_condition() {
    let mut session = session();
    let tables = "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (NULL)) AS v(a); \
                  CREATE TABLE u AS SELECT * FROM (VALUES (1), (NULL)) AS v(b); \
                  CREATE TABLE n AS SELECT * FROM (VALUES (1), (7)) AS v(b); \
                  CREATE TABLE e AS SELECT * FROM u WHERE b > 9";
    run(&mut session, tables).unwrap();
    for (condition, right) in [
        // u: 1 is found; 2 and NULL are unknown.
        ("NOT (a IN (SELECT b FROM u)) OR a = 1", 1),
        ("(a IN (SELECT b FROM u)) IS NULL", 2),
        ("(a NOT IN (SELECT b FROM u)) IS NULL", 2),
        ("a NOT IN (SELECT b FROM u) OR a = 2", 1),
        ("a IN (SELECT b FROM u) OR a = 2", 2),
        ("(a IN (SELECT b FROM u)) IS NOT TRUE", 2),
        (
            "CASE WHEN a IN (SELECT b FROM u) THEN 1 WHEN NOT a IN (SELECT b FROM u) THEN 2 \
          ELSE 3 END = 3",
            2,
        ),
        // n: NULL alone is unknown.
        ("NOT (a IN (SELECT b FROM n)) OR a = 1", 2),
        ("(a IN (SELECT b FROM n)) IS NULL", 1),
        ("(a NOT IN (SELECT b FROM n)) IS NOT FALSE", 2),
        // Nothing is in no rows, NULL neither.
        ("(a IN (SELECT b FROM e)) IS NULL", 0),
        ("a NOT IN (SELECT b FROM e) OR a = 9", 3),
        // NULL for every row, though there is a column.
        ("CASE WHEN 0 = 1 THEN a END NOT IN (SELECT b FROM n)", 0),
        ("CASE WHEN 0 = 1 THEN a END NOT IN (SELECT b FROM e)", 3),
        ("nullif(a, a) NOT IN (SELECT b FROM u)", 0),
        // Correlated.
        (
            "(a IN (SELECT b FROM u WHERE b = t.a OR b IS NULL)) IS NULL",
            2,
        ),
        ("(a IN (SELECT b FROM u WHERE b = t.a)) IS NULL", 0),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(number(&mut session, &query), right, "{condition}");
    }
}

/// Tables that share the names of columns, whose sides the planner swaps.
#[test]
fn a_condition_over_both_sides_of_an_outer_join_tests_the_columns_that_it_names() {
    let mut session = session();
    let tables = "CREATE TABLE l AS SELECT * FROM (VALUES (1, 10), (2, 20)) AS v(k, i); \
                  CREATE TABLE r AS SELECT * FROM (VALUES (1, 5), (7, 0)) AS v(k, i); \
                  CREATE TABLE s AS SELECT * FROM (VALUES (1, true, 1), (NULL, true, 2)) AS v(d, b, k)";
    run(&mut session, tables).unwrap();
    for (query, right) in [
        (
            "SELECT l.k, l.i, r.k, r.i FROM l RIGHT JOIN r ON l.k = r.k \
             WHERE r.i > 100 OR r.i <> 3 AND l.i > 6",
            "1,10,1,5",
        ),
        (
            "SELECT l.k, l.i, r.k, r.i FROM r LEFT JOIN l ON l.k = r.k \
             WHERE r.i > 100 OR r.i <> 3 AND l.i > 6",
            "1,10,1,5",
        ),
        (
            "SELECT l.k, l.i, r.k, r.i FROM l FULL JOIN r ON l.k = r.k \
             WHERE r.i > 100 OR coalesce(r.i, 4) <> 3 AND l.i < 15",
            "1,10,1,5",
        ),
        (
            "SELECT l.i, r.k, r.i FROM l RIGHT JOIN r ON l.k = r.k WHERE l.i IS NULL",
            ",7,0",
        ),
        (
            "SELECT l.i, r.k FROM l RIGHT JOIN r ON l.k = r.k WHERE coalesce(l.i, 0) = 0",
            ",7",
        ),
        (
            "SELECT l.i, r.k FROM l FULL JOIN r ON l.k = r.k WHERE r.k IS NOT NULL AND l.i IS NULL",
            ",7",
        ),
        (
            "SELECT a0.b, a1.b FROM s a0 RIGHT JOIN s a1 ON a0.d = a1.d \
             WHERE a1.k <> 9 AND a0.b IS TRUE OR a1.k IS NULL",
            "true,true",
        ),
    ] {
        assert_eq!(text(&mut session, query), right, "{query}");
    }
}

#[test]
fn groups_of_rollups_over_constant_columns_are_there_once() {
    let mut session = session();
    let table = "CREATE TABLE t AS SELECT value % 300 AS a, value % 7 AS b, value AS c, \
                 2020 + value % 2 AS y FROM range(20000)";
    run(&mut session, table).unwrap();
    for sets in [
        "ROLLUP (a, b, y)",
        "CUBE (a, b, y)",
        "GROUPING SETS ((a, y), (b), (y), ())",
        "ROLLUP (a, b, 'const')",
        "ROLLUP (a + 1, b, y)",
    ] {
        let groups = format!(
            "SELECT {} AS k, b, y, count(*) AS n, grouping(b) AS g FROM t WHERE y = 2020 \
             GROUP BY {sets}",
            if sets.contains("a + 1") { "a + 1" } else { "a" }
        );
        let groups = groups.replace(
            ", y, count",
            if sets.contains("const") {
                ", count"
            } else {
                ", y, count"
            },
        );
        let all = format!("SELECT count(*) FROM ({groups}) AS q");
        // Each row is in as many groups as there are sets.
        let rows = format!("SELECT sum(n) FROM ({groups}) AS q");
        let of_sets = match &sets[..4] {
            "CUBE" => 8,
            _ => 4,
        };
        assert_eq!(number(&mut session, &rows), of_sets * 10_000, "{sets}");
        // The constant itself is not among the columns, so two sets look alike.
        if sets.contains("const") {
            continue;
        }
        let distinct =
            format!("SELECT count(*) FROM (SELECT DISTINCT * FROM ({groups}) AS p) AS q");
        assert_eq!(
            number(&mut session, &all),
            number(&mut session, &distinct),
            "{sets}"
        );
    }
}

#[test]
fn outer_joins_that_would_lose_values_of_shared_columns_are_refused() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE a AS SELECT 1 AS id; CREATE TABLE b AS SELECT 2 AS id",
    )
    .unwrap();
    for join in [
        "RIGHT JOIN b USING (id)",
        "FULL JOIN b USING (id)",
        "NATURAL FULL JOIN b",
    ] {
        let message = error(&mut session, &format!("SELECT id FROM a {join}"));
        assert!(message.contains("coalesce"), "{join}: {message}");
    }
    assert_eq!(
        text(&mut session, "SELECT id FROM a LEFT JOIN b USING (id)"),
        "1"
    );
}

#[test]
fn the_extremes_of_floats_are_the_same_with_groups_as_without_and_in_any_order() {
    let mut session = session();
    let rows = [
        "(1, 1.5)",
        "(1, 'Infinity')",
        "(1, 'NaN')",
        "(1, -1.5)",
        "(2, '-Infinity')",
    ];
    for turn in 0..rows.len() {
        let mut rows = rows.to_vec();
        rows.rotate_left(turn);
        let table = format!(
            "CREATE OR REPLACE TABLE t AS SELECT g, CAST(x AS DOUBLE) AS x FROM \
             (SELECT column1 AS g, CAST(column2 AS VARCHAR) AS x FROM (VALUES {}))",
            rows.join(", ")
                .replace("1.5", "'1.5'")
                .replace("-'1.5'", "'-1.5'")
        );
        run(&mut session, &table).unwrap();
        let groups = "SELECT g, max(x), min(x) FROM t GROUP BY g ORDER BY g";
        assert_eq!(
            text(&mut session, groups),
            "1,NaN,-1.5\n2,-inf,-inf",
            "{turn}"
        );
        let all = "SELECT max(x), min(x) FROM t";
        assert_eq!(text(&mut session, all), "NaN,-inf", "{turn}");
    }
}

#[test]
fn a_window_over_a_constant_key_of_a_fused_aggregation_finds_its_input_sorted() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE f AS SELECT * FROM (VALUES (12, 1), (12, 2), (3, 3)) AS v(m, z)",
    )
    .unwrap();
    for (query, right) in [
        (
            "SELECT dense_rank() OVER (PARTITION BY c ORDER BY c) FROM \
             (SELECT DISTINCT m AS c FROM f) AS t WHERE c = 12",
            "1",
        ),
        (
            "SELECT sum(n) OVER (PARTITION BY m, z ORDER BY z) FROM \
             (SELECT m, z, count(*) AS n FROM f GROUP BY m, z) AS t WHERE m = 12 AND z = 2",
            "1",
        ),
    ] {
        assert_eq!(text(&mut session, query), right, "{query}");
    }
}

#[test]
fn sums_of_decimals_keep_their_type_beside_distinct_values() {
    let mut session = session();
    run(
        &mut session,
        "CREATE TABLE f AS SELECT CAST(value AS DECIMAL(10, 2)) AS m, value % 3 AS k FROM range(10)",
    )
    .unwrap();
    for (having, rows) in [
        ("= 45", 1),
        ("<> 45.00", 0),
        ("> CAST('44.99' AS DECIMAL(38, 2))", 1),
    ] {
        let query = format!("SELECT count(DISTINCT k) AS n FROM f HAVING sum(m) {having}");
        let count = format!("SELECT count(*) FROM ({query}) AS q");
        assert_eq!(number(&mut session, &count), rows, "{query}");
    }
    let types = "SELECT arrow_typeof(s) FROM (SELECT sum(m) AS s, count(DISTINCT k) FROM f) AS q";
    assert_eq!(text(&mut session, types), "\"Decimal128(20, 2)\"");
}

#[test]
fn floats_of_structs_and_lists_are_keys_and_conditions_of_joins() {
    let mut session = session();
    for table in ["t", "u"] {
        // -(inf - inf) is NaN, on x86 with another sign than 'NaN'.
        let sql = format!(
            "CREATE TABLE {table} AS SELECT named_struct('r', r, 'c', c) AS s, [0.0, c] AS l FROM \
             (SELECT column1 AS r, CAST(column2 AS DOUBLE) AS c FROM \
              (VALUES ('a', '1'), ('b', '2.5'), ('n', 'NaN')) \
              UNION ALL SELECT 'm', CAST('inf' AS DOUBLE) - CAST('inf' AS DOUBLE))"
        );
        run(&mut session, &sql).unwrap();
    }
    let both = "a,a\nb,b\nm,m\nm,n\nn,m\nn,n";
    for (condition, right) in [
        ("t.s['c'] = u.s['c']", both),
        ("t.l[2] = u.l[2]", both),
        ("t.s['c'] / 2 = u.s['c'] / 2", both),
        ("abs(t.s['c']) = abs(u.s['c'])", both),
        ("upper(t.s['r']) = upper(u.s['r'])", "a,a\nb,b\nm,m\nn,n"),
        ("sqrt(t.s['c']) = sqrt(u.s['c'])", both),
        (
            "t.s['r'] = u.s['r'] AND t.s['c'] = u.s['c']",
            "a,a\nb,b\nm,m\nn,n",
        ),
        (
            "t.s['r'] = u.s['r'] AND sqrt(u.s['c']) > 1",
            "b,b\nm,m\nn,n",
        ),
    ] {
        for query in [
            format!("SELECT t.s['r'], u.s['r'] FROM t JOIN u ON {condition} ORDER BY 1, 2"),
            format!("SELECT t.s['r'], u.s['r'] FROM t, u WHERE {condition} ORDER BY 1, 2"),
            format!(
                "SELECT t.s['r'], u.s['r'] FROM u AS t JOIN t AS u ON {condition} ORDER BY 1, 2"
            ),
        ] {
            assert_eq!(text(&mut session, &query), right, "{query}");
        }
    }
}
