//! Scans leave out only rows for which the joins above return nothing, in every execution.

use crate::common::{Numbers, both, engine_of};
use arrow::array::{ArrayRef, Int32Array, Int64Array, StringViewArray};
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_engine::answer::to_text;
use tierloom_engine::bigjoin::BigJoinOptions;
use tierloom_engine::load::Encoding;
use tierloom_engine::star::StarExec;
use tierloom_engine::{Engine, EngineOptions, PlacedScanExec, PlacedTable};

fn placed(name: &str, columns: Vec<(&str, ArrayRef)>) -> Arc<PlacedTable> {
    both::placed(name, &[both::batch(columns)], Encoding::Auto)
}

/// Rows with an integer key, a sparse one, one of text, each with NULLs, and a number.
fn keyed(name: &str, rows: u64, values: u64, numbers: &mut Numbers) -> Arc<PlacedTable> {
    let mut keys = || -> Vec<Option<u64>> {
        let key = |_| (numbers.below(9) != 0).then(|| numbers.below(values));
        (0..rows).map(key).collect()
    };
    let (dense, sparse, text) = (keys(), keys(), keys());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        (
            "k",
            Arc::new(Int32Array::from_iter(
                dense.iter().map(|k| k.map(|k| k as i32 - 3)),
            )),
        ),
        (
            "s",
            Arc::new(Int64Array::from_iter(
                sparse.iter().map(|k| k.map(|k| (k * k * 977) as i64)),
            )),
        ),
        (
            "t",
            Arc::new(StringViewArray::from_iter(
                text.iter().map(|k| k.map(|k| format!("key {}", k / 2))),
            )),
        ),
    ];
    placed(name, columns)
}

/// An engine in which joins with `least_big` build rows or more are large, without star joins.
fn engine(tables: &[Arc<PlacedTable>], runtime_filters: bool, least_big: usize) -> Engine {
    engine_with(tables, runtime_filters, least_big, false)
}

fn engine_with(
    tables: &[Arc<PlacedTable>],
    runtime_filters: bool,
    least_big: usize,
    fused: bool,
) -> Engine {
    let options = EngineOptions {
        runtime_filters,
        fused,
        big_joins: BigJoinOptions {
            min_build_rows: least_big,
            ..BigJoinOptions::default()
        },
        ..EngineOptions::tuned(2)
    };
    engine_of(options, tables)
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn answer(engine: &Engine, sql: &str) -> Vec<String> {
    let planned = engine
        .plan(sql, sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let done = engine.execute(sql, &planned, &|| false);
    let done = done.unwrap_or_else(|e| panic!("{sql}: {e}"));
    sorted(&to_text(&done.batches).unwrap())
}

/// Whether the fact table of a star join is filtered.
fn has_filtered_star(plan: &str) -> bool {
    let mut stars = plan.lines().filter(|line| line.contains("StarExec"));
    stars.any(|line| line.contains("filtered by keys of joins"))
}

/// Rows that scans returned, by table.
fn returned(plan: &Arc<dyn ExecutionPlan>, found: &mut BTreeMap<String, usize>) {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        let rows = scan.metrics().and_then(|m| m.output_rows()).unwrap_or(0);
        *found.entry(scan.table().name().to_owned()).or_default() += rows;
    }
    plan.children().into_iter().for_each(|c| returned(c, found));
}

/// A query of joins of all kinds, one in the other, with what may be between a join and a scan.
struct Writer<'n> {
    numbers: &'n mut Numbers,
    names: usize,
}

impl Writer<'_> {
    fn one_of<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.numbers.below(of.len() as u64) as usize]
    }

    /// A relation with the columns id, k, s and t, in parentheses.
    fn relation(&mut self, depth: u64) -> String {
        self.names += 1;
        let (a, b) = (format!("a{}", self.names), format!("b{}", self.names));
        let kind = if depth == 0 { 0 } else { self.numbers.below(9) };
        match kind {
            0 | 1 => {
                let table = self.one_of(&["fact", "fact", "dim", "other"]);
                let filter = match self.numbers.below(5) {
                    0 => format!("k < {}", self.numbers.below(60)),
                    1 => format!("s BETWEEN 1000 AND {}", self.numbers.below(3_000_000)),
                    2 => format!("t LIKE '%{}%'", self.numbers.below(10)),
                    3 => format!("id % 7 = {}", self.numbers.below(7)),
                    _ => "true".to_owned(),
                };
                format!("(SELECT id, k, s, t FROM {table} WHERE {filter})")
            }
            2 => {
                let by = self.relation(depth - 1);
                format!("(SELECT max(id) AS id, k, max(s) AS s, t FROM {by} AS {a} GROUP BY k, t)")
            }
            3 => {
                let (one, two) = (self.relation(depth - 1), self.relation(depth - 1));
                // A column that says where a row is from is constant in each input.
                let [first, second] = match self.numbers.below(3) {
                    0 => ["CAST(7 AS BIGINT) AS id, k, s, t", "id, k, s, t"],
                    1 => ["id, k, s, 'one' AS t", "id, k, s, 'two' AS t"],
                    _ => ["*", "*"],
                };
                format!(
                    "(SELECT {first} FROM {one} AS {a} UNION ALL SELECT {second} FROM {two} AS {b})"
                )
            }
            4 => {
                let of = self.relation(depth - 1);
                let (way, rows) = (self.one_of(&["", "DESC"]), self.numbers.below(3_000));
                format!("(SELECT * FROM {of} AS {a} ORDER BY id {way}, k, s, t LIMIT {rows})")
            }
            5 => {
                let (of, list) = (self.relation(depth - 1), self.relation(depth - 1));
                let (key, not) = (self.one_of(&["k", "s", "t"]), self.one_of(&["", "NOT"]));
                format!(
                    "(SELECT * FROM {of} AS {a} WHERE {not} EXISTS (SELECT 1 FROM {list} AS {b} WHERE {a}.{key} = {b}.{key}))"
                )
            }
            6 => {
                let (of, list) = (self.relation(depth - 1), self.relation(depth - 1));
                let (key, not) = (self.one_of(&["k", "s", "t"]), self.one_of(&["", "NOT"]));
                format!(
                    "(SELECT * FROM {of} AS {a} WHERE {key} {not} IN (SELECT {key} FROM {list} AS {b}))"
                )
            }
            _ => {
                let (one, two) = (self.relation(depth - 1), self.relation(depth - 1));
                let how = self.one_of(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
                let key = self.one_of(&["k", "s", "t", "id"]);
                let more = match self.numbers.below(4) {
                    0 => format!(" AND {a}.t = {b}.t"),
                    1 => format!(" AND {a}.id % 5 < {b}.id % 4"),
                    _ => String::new(),
                };
                let mut side = || if self.numbers.below(2) == 0 { &a } else { &b };
                let (id, k, s, t) = (side(), side(), side(), side());
                format!(
                    "(SELECT {id}.id, {k}.k, {s}.s, {t}.t FROM {one} AS {a} {how} {two} AS {b} ON {a}.{key} = {b}.{key}{more})"
                )
            }
        }
    }
}

/// The tables of [`random_relation`].
pub(crate) fn fact_dim_other(numbers: &mut Numbers) -> [Arc<PlacedTable>; 3] {
    [
        keyed("fact", 20_000, 900, numbers),
        keyed("dim", 150, 100, numbers),
        keyed("other", 2_000, 700, numbers),
    ]
}

/// A relation with the columns id, k, s and t of joins and more over the tables of
/// [`fact_dim_other`]; `depth` is how many operators are one in the other.
pub(crate) fn random_relation(depth: u64, numbers: &mut Numbers) -> String {
    let mut writer = Writer { numbers, names: 0 };
    writer.relation(depth)
}

#[test]
fn answers_are_the_same_without_filters_for_joins_of_all_kinds() {
    let mut numbers = Numbers::of_this_run();
    let tables = fact_dim_other(&mut numbers);
    // Joins by operators of DataFusion, and by those for large tables.
    let plain = [usize::MAX, 50].map(|least| engine(&tables, false, least));
    let filtering = [usize::MAX, 50].map(|least| engine(&tables, true, least));
    let fused = engine_with(&tables, true, usize::MAX, true);
    let (mut filtered, mut stars, mut have_rows) = (0, 0, 0);
    for number in 0..600 {
        let of = random_relation(3, &mut numbers);
        let sql = format!(
            "SELECT k % 10 AS g, count(*), sum(id), sum(s), min(t), count(k) FROM {of} AS q GROUP BY k % 10"
        );
        let with = &filtering[number % 2];
        let plan = with.plan(&sql, &sql).unwrap().display();
        filtered += usize::from(plan.contains("filtered by keys of joins"));
        let expected = answer(&plain[number % 2], &sql);
        // One line names the columns.
        have_rows += usize::from(expected.len() > 1);
        assert_eq!(expected, answer(with, &sql), "{sql}\n{plan}");
        let plan = fused.plan(&sql, &sql).unwrap().display();
        stars += usize::from(has_filtered_star(&plan));
        assert_eq!(expected, answer(&fused, &sql), "{sql}\n{plan}");
    }
    assert!(stars > 8, "{stars} of 600 had star joins with filters");
    assert!(have_rows > 300, "{have_rows} of 600 answers have rows");
    assert!(filtered > 80, "{filtered} of 600 had filters");
}

/// A fact table whose keys are all in a dimension of 1,000 rows, with five rows of each name, and
/// one more table.
fn fact_and_dimension(rows: i64, numbers: &mut Numbers) -> [Arc<PlacedTable>; 3] {
    let fact: Vec<(&str, ArrayRef)> = vec![
        (
            "k",
            Arc::new(Int32Array::from_iter_values(
                (0..rows).map(|r| (r % 1000) as i32),
            )),
        ),
        (
            "w",
            Arc::new(StringViewArray::from_iter_values(
                (0..rows).map(|r| format!("w{}", r % 40)),
            )),
        ),
        ("v", Arc::new(Int64Array::from_iter_values(0..rows))),
    ];
    let dim: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(Int32Array::from_iter_values(0..1000))),
        (
            "w",
            Arc::new(StringViewArray::from_iter_values(
                (0..1000).map(|r| format!("w{r}")),
            )),
        ),
        (
            "name",
            Arc::new(StringViewArray::from_iter_values(
                (0..1000).map(|r| format!("n{}", r / 5)),
            )),
        ),
    ];
    [
        placed("fact", fact),
        placed("dim", dim),
        keyed("other", 3_000, 3_000, numbers),
    ]
}

#[test]
fn a_scan_returns_only_rows_with_the_keys_of_joins_above_it() {
    let mut numbers = Numbers::of_this_run();
    let rows = 200_000;
    let tables = fact_and_dimension(rows, &mut numbers);
    let engine = engine(&tables, true, usize::MAX);
    let group = "name = 'n7'";
    for (sql, most) in [
        // Through a join that keeps all rows of the fact table, which a star join is not.
        (
            format!(
                "SELECT count(*) FROM fact f LEFT JOIN other o ON o.id = f.v JOIN dim d ON d.k = f.k WHERE d.{group}"
            ),
            rows / 200,
        ),
        (
            format!(
                "SELECT count(*) FROM fact f WHERE EXISTS (SELECT 1 FROM dim d WHERE d.k = f.k AND d.{group})"
            ),
            rows / 200,
        ),
        // From one join to the other side of the next one, and by text.
        (
            format!(
                "SELECT count(*) FROM fact f, dim d WHERE d.w = f.w AND d.{group} AND random() < 2"
            ),
            rows / 8,
        ),
        // Through a union with a column that says where a row is from.
        (
            format!(
                "SELECT q.origin, count(*) FROM (SELECT k, 'one' AS origin FROM fact WHERE v % 3 = 1 UNION ALL SELECT k, 'two' FROM fact) q JOIN dim d ON d.k = q.k WHERE d.{group} GROUP BY q.origin"
            ),
            2 * rows / 200,
        ),
        // Through a group-by.
        (
            format!(
                "SELECT d.k, q.v FROM dim d JOIN (SELECT k, sum(v) v FROM fact GROUP BY k) q ON q.k = d.k WHERE d.{group}"
            ),
            rows / 200,
        ),
    ] {
        let planned = engine.plan(&sql, &sql).unwrap();
        let done = engine.execute(&sql, &planned, &|| false).unwrap();
        let mut found = BTreeMap::new();
        returned(&done.plan, &mut found);
        assert!(
            found["fact"] as i64 <= most,
            "{sql}: {found:?}\n{}",
            planned.display()
        );
    }
    // Every value of the key is there, so a filter would keep all.
    let all = "SELECT count(*) FROM fact f LEFT JOIN other o ON o.id = f.v JOIN dim d ON d.k = f.k";
    let plan = engine.plan(all, all).unwrap().display();
    assert!(!plan.contains("filtered by keys"), "{plan}");
}

#[test]
fn a_star_join_reads_only_groups_with_the_keys_of_joins_above_it() {
    let mut numbers = Numbers::of_this_run();
    let tables = fact_dim_other(&mut numbers);
    let [plain, fused] = [false, true].map(|on| engine_with(&tables, on, usize::MAX, on));
    let groups = "SELECT k, s, count(*) AS n, sum(id) AS v FROM fact GROUP BY k, s";
    let few = "(SELECT k, s FROM other WHERE id < 20)";
    for sql in [
        format!("SELECT f.* FROM {few} o JOIN ({groups}) f ON f.k = o.k"),
        format!("SELECT o.k, f.n, f.v FROM {few} o LEFT JOIN ({groups}) f ON f.s = o.s"),
        format!("SELECT f.* FROM {few} o JOIN ({groups}) f ON f.k = o.k AND f.s = o.s"),
        format!("SELECT * FROM ({groups}) f WHERE k IN (SELECT k FROM other WHERE id < 20)"),
        format!(
            "SELECT * FROM {few} o WHERE NOT EXISTS (SELECT 1 FROM ({groups}) f WHERE f.k = o.k)"
        ),
    ] {
        let planned = fused.plan(&sql, &sql).unwrap();
        let plan = planned.display();
        assert!(has_filtered_star(&plan), "{sql}\n{plan}");
        let done = fused.execute(&sql, &planned, &|| false).unwrap();
        let mut passed = None;
        look(&done.plan, &mut |node| {
            let star = node.downcast_ref::<StarExec>();
            passed = passed.or(star.and_then(StarExec::observed).map(|seen| seen.passed));
        });
        assert!(passed.unwrap() < 4_000, "{sql}: {passed:?} of 20,000 rows");
        assert_eq!(
            answer(&plain, &sql),
            sorted(&to_text(&done.batches).unwrap()),
            "{sql}"
        );
    }
    // Rows that have no match are asked for, and groups that another part of the query needs too.
    for sql in [
        format!("SELECT f.* FROM {few} o RIGHT JOIN ({groups}) f ON f.k = o.k"),
        format!(
            "WITH f AS ({groups}) SELECT f.*, g.* FROM {few} o JOIN f ON f.k = o.k JOIN f g ON g.s = o.s"
        ),
    ] {
        let plan = fused.plan(&sql, &sql).unwrap().display();
        assert!(!has_filtered_star(&plan), "{sql}\n{plan}");
        assert_eq!(answer(&plain, &sql), answer(&fused, &sql), "{sql}");
    }
}

/// Calls `with` for every operator.
fn look(plan: &Arc<dyn ExecutionPlan>, with: &mut dyn FnMut(&Arc<dyn ExecutionPlan>)) {
    with(plan);
    plan.children()
        .into_iter()
        .for_each(|child| look(child, with));
}

#[test]
fn executions_of_one_plan_do_not_use_each_others_keys() {
    let mut numbers = Numbers::of_this_run();
    let tables = [
        keyed("fact", 30_000, 300, &mut numbers),
        keyed("dim", 400, 300, &mut numbers),
    ];
    let engine = engine(&tables, true, usize::MAX);
    let counts = "SELECT k, count(*) AS n FROM fact WHERE k IS NOT NULL GROUP BY k";
    let expected = answer(&engine, counts);
    // Other keys in every execution; each that is there has all its rows.
    let sql = "SELECT d.k, count(f.id) AS n FROM \
               (SELECT DISTINCT k FROM dim WHERE random() < 0.3) d JOIN fact f ON f.k = d.k \
               GROUP BY d.k";
    let planned = engine.plan(sql, sql).unwrap();
    assert!(
        planned
            .display()
            .contains("filtered by keys of joins in [k]"),
        "{}",
        planned.display()
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let done = engine.execute(sql, &planned, &|| false).unwrap();
                    let rows = sorted(&to_text(&done.batches).unwrap());
                    assert!(rows.len() > 20, "{} rows", rows.len());
                    for row in rows {
                        assert!(expected.contains(&row), "{row} is not all of that key");
                    }
                }
            });
        }
    });
}

#[test]
fn the_steps_of_a_recursive_query_have_keys_of_their_own() {
    let rows = 5_000_i64;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(Int64Array::from_iter_values(0..rows))),
        (
            "next",
            Arc::new(Int64Array::from_iter_values(
                (0..rows).map(|r| (r * 7 + 1) % rows),
            )),
        ),
    ];
    let tables = [placed("links", columns)];
    let sql = "WITH RECURSIVE walk AS (SELECT CAST(0 AS BIGINT) AS k, 0 AS step UNION ALL \
               SELECT l.next, w.step + 1 FROM walk w JOIN links l ON l.k = w.k WHERE w.step < 40) \
               SELECT * FROM walk";
    let found = answer(&engine(&tables, true, usize::MAX), sql);
    assert_eq!(found, answer(&engine(&tables, false, usize::MAX), sql));
    assert!(found.len() > 40, "{found:?}");
}
