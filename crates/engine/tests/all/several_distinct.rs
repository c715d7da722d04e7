//! Distinct values of several columns are found one after the other, with the same answers.

use crate::common::Numbers;
use crate::common::both::Both;
use crate::running_windows::rows;

/// Aggregates, and how many aggregations they become.
const AGGREGATES: [(&str, usize); 8] = [
    ("count(DISTINCT s), count(DISTINCT n)", 2),
    (
        "count(DISTINCT n), max(n), count(DISTINCT s), sum(n), count(*), min(t)",
        3,
    ),
    ("sum(DISTINCT n), count(DISTINCT n % 5), avg(DISTINCT n)", 3),
    (
        "count(DISTINCT n) FILTER (WHERE o > 3), count(DISTINCT n)",
        2,
    ),
    (
        "count(DISTINCT n) + count(DISTINCT t) - count(*), count(DISTINCT n)",
        3,
    ),
    ("count(DISTINCT n), sum(DISTINCT n)", 2),
    ("count(DISTINCT n), count(*)", 1),
    ("count(DISTINCT n), count(DISTINCT random() > 2)", 1),
];

#[test]
fn random_aggregates_of_distinct_values_are_the_same() {
    let mut numbers = Numbers::of_this_run();
    for count in [0, 1, 3_000] {
        let both = Both::new().table("rows", &[rows(count, 7, &mut numbers)]);
        for (aggregates, parts) in AGGREGATES {
            for (keys, rest, is_cheap) in [
                ("", "FROM rows", true),
                ("", "FROM rows WHERE n < 0", true),
                (
                    "",
                    "FROM (SELECT n, s, o, t + interval '1 day' AS t FROM rows) AS r WHERE o > 2",
                    true,
                ),
                ("", "FROM (SELECT * FROM rows LIMIT 100000) AS r", false),
                (
                    "",
                    "FROM (SELECT r.* FROM rows AS r JOIN (VALUES (2), (4)) AS v (w) ON o = w) AS r",
                    false,
                ),
                ("p, ", "FROM rows GROUP BY p", false),
            ] {
                let sql = format!("SELECT {keys}{aggregates} {rest}");
                let ran = both.same(&sql);
                assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
                let joins = ran.plan.matches("CrossJoinExec").count();
                let joins = joins + ran.plan.matches("NestedLoopJoinExec").count();
                let expected = if is_cheap { parts - 1 } else { 0 };
                assert_eq!(joins, expected, "{sql}\n{}", ran.plan);
            }
        }
    }
}
