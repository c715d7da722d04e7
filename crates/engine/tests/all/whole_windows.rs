//! Windows over whole partitions are joins with groups, and give what a sort gives.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use crate::running_windows::rows;
use arrow::array::{ArrayRef, Int64Array, StringArray};
use std::sync::Arc;

const FUNCTIONS: [&str; 12] = [
    "count(*)",
    "count(n)",
    "sum(n)",
    "sum(d)",
    "avg(n)",
    "avg(g)",
    "min(s)",
    "max(t)",
    "min(g)",
    "sum(n) FILTER (WHERE o % 3 = 1)",
    "max(n + o)",
    "count(DISTINCT s)",
];

const PARTITIONS: [&str; 6] = [
    "",
    "PARTITION BY p",
    "PARTITION BY s",
    "PARTITION BY s, p",
    "PARTITION BY t % 4",
    "PARTITION BY n - n % 10, s",
];

const TABLES: [&str; 4] = [
    "rows",
    "(SELECT * FROM rows WHERE n > 300 OR n IS NULL) AS r",
    "(SELECT id, s AS p, p AS s, n, d, g, t, o FROM rows WHERE id % 7 <> 2) AS r",
    "(SELECT id, p, s, n + 1 AS n, d, g, t, o FROM rows) AS r",
];

#[test]
fn random_windows_over_whole_partitions_give_the_same_values() {
    let mut numbers = Numbers::of_this_run();
    let (mut joined, mut asked) = (0, 0);
    for (count, partitions) in [(0, 3), (900, 4), (40_000, 7), (40_000, 15_000)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for _ in 0..if partitions == 7 { 40 } else { 16 } {
            let of_both = numbers.one_of(&PARTITIONS);
            let differ = numbers.below(2) == 0;
            let functions = ["a", "b"].map(|name| {
                let function = numbers.one_of(&FUNCTIONS);
                let partition = match differ {
                    true => numbers.one_of(&PARTITIONS),
                    false => of_both,
                };
                format!("{function} OVER ({partition}) AS {name}")
            });
            let table = numbers.one_of(&TABLES);
            let window = format!("SELECT id, n, {} FROM {table}", functions.join(", "));
            let sql = match numbers.below(3) {
                0 => {
                    format!("SELECT count(*), min(id) FROM ({window}) AS w WHERE a <= b OR n > 500")
                }
                _ => window,
            };
            let ran = both.same(&sql);
            if let Err(error) = &ran.rows {
                assert!(error.contains("type"), "{sql}: {error}");
                continue;
            }
            // More partitions are sorted.
            let is_joined = count == 40_000 && partitions == 7;
            asked += usize::from(is_joined);
            joined += usize::from(is_joined && !ran.plan.contains("Window"));
        }
    }
    assert!(2 * joined > asked, "{joined} of {asked} have no window");
}

/// Partitions of one row, of some and of more than a batch has, which begin and end anywhere in it.
#[test]
fn windows_over_sorted_partitions_give_the_same_values() {
    const MORE: [&str; 5] = [
        "round(stddev(n) OVER w, 6)",
        "bool_or(n > 990) OVER w",
        "max(s) OVER w",
        "count(DISTINCT t) OVER w",
        "round(corr(n, o) OVER w, 6)",
    ];
    let mut numbers = Numbers::of_this_run();
    let mut replaced = 0;
    for (count, partitions) in [(1, 1), (900, 4), (40_000, 1), (40_000, 3), (40_000, 15_000)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for _ in 0..12 {
            let window = numbers.one_of(&[
                "PARTITION BY p ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                "PARTITION BY g, s",
                "PARTITION BY id",
                "PARTITION BY o / 6000.0",
                "PARTITION BY p, s ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                "ORDER BY id GROUPS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            ]);
            let functions = ["a", "b"].map(|name| {
                let function = match numbers.below(2) {
                    0 => (*numbers.one_of(&MORE)).to_owned(),
                    _ => format!("{} OVER w", numbers.one_of(&FUNCTIONS)),
                };
                format!("{function} AS {name}")
            });
            let table = numbers.one_of(&TABLES);
            let functions = functions.join(", ");
            let sql = format!("SELECT id, {functions} FROM {table} WINDOW w AS ({window})");
            let ran = both.same(&sql);
            if let Err(error) = &ran.rows {
                assert!(error.contains("type"), "{sql}: {error}");
                continue;
            }
            replaced += usize::from(ran.plan.contains("WholeWindowExec"));
        }
    }
    assert!(replaced > 20, "{replaced} of 60 plans have the operator");
}

#[test]
fn windows_whose_rows_are_sorted_anyway_or_differ_each_time_stay() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("rows", &[rows(40_000, 9, &mut numbers)]);
    for (sql, stays) in [
        (
            "SELECT id, sum(n) OVER (PARTITION BY p) AS a FROM rows",
            false,
        ),
        (
            "SELECT id, sum(n) OVER (PARTITION BY p) AS a, row_number() OVER (PARTITION BY p ORDER BY id) \
             AS b FROM rows",
            true,
        ),
        (
            "SELECT id, sum(n) OVER (PARTITION BY p) AS a, min(o) OVER () AS b, count(*) OVER \
             (PARTITION BY s, p) AS c FROM rows",
            false,
        ),
        (
            "SELECT id, sum(n) OVER (PARTITION BY id) AS a FROM rows",
            true,
        ),
        (
            "SELECT id, sum(n) OVER (PARTITION BY g) AS a FROM rows",
            true,
        ),
        (
            "SELECT id, sum(n) OVER (PARTITION BY p ORDER BY id) AS a FROM rows",
            true,
        ),
        (
            "SELECT id, count(*) OVER (PARTITION BY p) AS a FROM (SELECT * FROM rows ORDER BY id LIMIT \
             30000) AS r",
            true,
        ),
        (
            "SELECT id, sum(n) OVER (PARTITION BY p) AS a FROM rows WHERE n > (SELECT min(o) FROM rows)",
            true,
        ),
    ] {
        let ran = both.same(sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        assert_eq!(ran.plan.contains("Window"), stays, "{sql}: {}", ran.plan);
    }
    // Of several windows those are joined that can be, below the others.
    let sql = "SELECT id, row_number() OVER (PARTITION BY s ORDER BY id) AS a, avg(n) OVER (PARTITION BY \
               p) AS b, max(o) OVER (PARTITION BY id) AS c, sum(n) OVER (PARTITION BY s) AS d FROM rows";
    let plan = both.same(sql).plan;
    let count = |name: &str| plan.matches(name).count();
    assert_eq!((count("WindowExec"), count("Join")), (3, 1), "{plan}");
    // Texts of that many values are no codes.
    let numbers = || (0..40_000_i64).map(Some);
    let text = numbers().map(|v| v.map(|v| format!("text {}", v * 7919 % 100_003)));
    let kind: Int64Array = numbers().map(|v| v.map(|v| v % 5)).collect();
    let texts: ArrayRef = Arc::new(text.collect::<StringArray>());
    let both = both.table(
        "texts",
        &[batch(vec![("k", Arc::new(kind)), ("long", texts)])],
    );
    for (condition, stays) in [("long LIKE '%9%'", true), ("k > 1", false)] {
        let sql = format!("SELECT k, count(*) OVER (PARTITION BY k) FROM texts WHERE {condition}");
        let plan = both.same(&sql).plan;
        assert_eq!(plan.contains("Window"), stays, "{sql}: {plan}");
    }
    let volatile = "SELECT count(*) FROM (SELECT sum(n) OVER (PARTITION BY p) AS a FROM rows WHERE \
                    random() < 0.5) AS r";
    let planned = both.ours.plan("volatile", volatile).unwrap();
    assert!(!planned.display().contains("Join"), "{}", planned.display());
}
