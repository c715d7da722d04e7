//! Grouping sets made of finer groups give what plain DataFusion gives.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use std::sync::Arc;

/// Rows with keys of numbers and text, each with NULLs, and values.
fn facts(rows: u64, numbers: &mut Numbers) -> RecordBatch {
    let mut keys = |values: u64| -> Vec<Option<i32>> {
        let key = |_| (numbers.below(7) != 0).then(|| numbers.below(values) as i32);
        (0..rows).map(key).collect()
    };
    let (a, b, c, t) = (keys(5), keys(40), keys(300), keys(9));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int32Array::from(a))),
        ("b", Arc::new(Int32Array::from(b))),
        ("c", Arc::new(Int32Array::from(c))),
        (
            "t",
            Arc::new(StringViewArray::from_iter(
                t.iter().map(|t| t.map(|t| format!("text {t}"))),
            )),
        ),
        (
            "v",
            Arc::new(Int64Array::from_iter(
                (0..rows).map(|r| (r % 11 != 0).then_some(r as i64 * 7 % 1000)),
            )),
        ),
    ];
    batch(columns)
}

fn dim() -> RecordBatch {
    let rows = 0..300;
    batch(vec![
        ("k", Arc::new(Int32Array::from_iter_values(rows.clone()))),
        (
            "name",
            Arc::new(StringViewArray::from_iter_values(
                rows.clone().map(|r| format!("name {}", r % 17)),
            )),
        ),
        (
            "area",
            Arc::new(StringViewArray::from_iter_values(
                rows.map(|r| format!("area {}", r % 17 % 4)),
            )),
        ),
    ])
}

fn one_of<'t>(of: &[&'t str], numbers: &mut Numbers) -> &'t str {
    of[numbers.below(of.len() as u64) as usize]
}

#[test]
fn answers_are_those_of_plain_datafusion() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new()
        .table("f", &[facts(30_000, &mut numbers)])
        .table("d", &[dim()]);
    let (mut by_finer, mut with_rows) = (0, 0);
    for _ in 0..150 {
        let keys = one_of(
            &[
                "a, b, t",
                "a, b + 1, t",
                "t, c",
                "name, area, a",
                "area, name",
            ],
            &mut numbers,
        );
        let each: Vec<&str> = keys.split(", ").collect();
        let (first, last) = (each[0], each[each.len() - 1]);
        let sets = match numbers.below(5) {
            0 | 1 => format!("ROLLUP ({keys})"),
            2 => format!("CUBE ({keys})"),
            3 => format!("GROUPING SETS (({first}), ({last}), ({keys}), ())"),
            // One of them twice, which gives its rows twice.
            _ => format!("GROUPING SETS (({first}), ({first}), ({last}, {first}))"),
        };
        let value = one_of(
            &[
                "sum(v), count(*)",
                "avg(v), min(t), max(c)",
                "count(v), sum(v) FILTER (WHERE c > 100)",
                "count(DISTINCT b), max(v)",
                "min(v) + max(v), count(c)",
                "sum(v * a), bool_or(v > 990)",
            ],
            &mut numbers,
        );
        let filter = one_of(
            &["true", "c < 20", "b IS NULL", "v = -1", "name = 'name 3'"],
            &mut numbers,
        );
        let join = one_of(&["JOIN", "JOIN", "LEFT JOIN"], &mut numbers);
        let having = one_of(&["", "", "HAVING count(*) > 3"], &mut numbers);
        let sql = format!(
            "SELECT {keys}, grouping({first}), {value} FROM f {join} d ON f.c = d.k WHERE {filter} GROUP BY {sets} {having}"
        );
        let ran = both.same(&sql);
        by_finer += usize::from(ran.plan.contains("GroupingSetsExec"));
        // Both may refuse it, but hardly ever do.
        with_rows += usize::from(ran.rows.is_ok_and(|rows| rows.len() > 2));
    }
    assert!(by_finer > 80, "{by_finer} of 150 by finer groups");
    assert!(with_rows > 60, "{with_rows} of 150 with rows");
}

#[test]
fn the_finest_groups_of_a_rollup_are_those_of_a_star_join() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new()
        .table("f", &[facts(20_000, &mut numbers)])
        .table("d", &[dim()]);
    let sql = "SELECT area, name, sum(v) FROM f, d WHERE c = k GROUP BY ROLLUP (area, name)";
    let plan = both.same(sql).plan;
    let (sets, star) = (plan.find("GroupingSetsExec"), plan.find("StarExec"));
    assert!(sets.is_some() && sets < star, "{plan}");
}

#[test]
fn a_rollup_of_no_rows_has_its_total() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("f", &[facts(100, &mut numbers)]);
    for (sql, count) in [
        (
            "SELECT a, b, count(*), sum(v) FROM f WHERE v < 0 GROUP BY ROLLUP (a, b)",
            1,
        ),
        (
            "SELECT a, b, count(*) FROM f WHERE v < 0 GROUP BY GROUPING SETS ((a), (b))",
            0,
        ),
        (
            "SELECT a, count(v) FROM f WHERE v < 0 GROUP BY GROUPING SETS ((a), (), ())",
            2,
        ),
    ] {
        let ran = both.same(sql);
        assert!(ran.plan.contains("GroupingSetsExec"), "{}", ran.plan);
        assert_eq!(ran.rows.unwrap().len(), count, "{sql}");
    }
}
