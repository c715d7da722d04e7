//! Lists and counts of distinct values are made of groups, with the same answers.

use crate::common::Numbers;
use crate::common::both::{Both, run};
use crate::running_windows::rows;

/// When aggregates come from groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Always,
    /// One by one, without keys.
    Alone,
    Never,
}

/// Aggregates, and whether some of them come from groups.
const AGGREGATES: [(&str, Made); 16] = [
    ("string_agg(DISTINCT s, ',' ORDER BY s)", Made::Always),
    ("string_agg(DISTINCT s, '; ' ORDER BY s DESC)", Made::Always),
    (
        "string_agg(DISTINCT s, ',' ORDER BY s), count(*), count(n), min(d), max(t), count(*)",
        Made::Always,
    ),
    (
        "string_agg(DISTINCT s, ',' ORDER BY s), count(DISTINCT s)",
        Made::Always,
    ),
    (
        "array_agg(DISTINCT t ORDER BY t NULLS FIRST), max(g)",
        Made::Always,
    ),
    (
        "array_agg(DISTINCT p % 3 ORDER BY p % 3), count(o)",
        Made::Always,
    ),
    (
        "string_agg(DISTINCT s, ',' ORDER BY s), sum(n)",
        Made::Never,
    ),
    (
        "string_agg(DISTINCT s, ',' ORDER BY s), array_agg(DISTINCT t ORDER BY t)",
        Made::Alone,
    ),
    (
        "string_agg(DISTINCT s, ',' ORDER BY s) FILTER (WHERE n > 500)",
        Made::Never,
    ),
    (
        "string_agg(DISTINCT s, ',' ORDER BY s), count(DISTINCT t)",
        Made::Alone,
    ),
    ("string_agg(s, ',' ORDER BY s, id)", Made::Never),
    ("count(DISTINCT s), count(*)", Made::Always),
    (
        "count(DISTINCT substr(s, 3)), max(n), count(n), count(DISTINCT substr(s, 3))",
        Made::Always,
    ),
    ("count(DISTINCT s), sum(n)", Made::Never),
    ("count(DISTINCT s)", Made::Never),
    ("count(DISTINCT n), count(*)", Made::Never),
];

#[test]
fn random_lists_of_distinct_values_are_the_same() {
    let mut numbers = Numbers::of_this_run();
    for (count, partitions) in [(0, 3), (1, 1), (3_000, 5), (3_000, 900)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for (aggregates, made) in AGGREGATES {
            for (keys, rest) in [
                ("", "FROM rows"),
                ("", "FROM rows WHERE n < 0"),
                ("p, ", "FROM rows GROUP BY p"),
                ("p, n % 2, ", "FROM rows WHERE n > 300 GROUP BY p, n % 2"),
                ("o, ", "FROM rows GROUP BY o HAVING o > 3 ORDER BY o"),
            ] {
                let ran = both.same(&format!("SELECT {keys}{aggregates} {rest}"));
                assert!(ran.rows.is_ok(), "{aggregates} {rest}: {:?}", ran.rows);
                let is_made = ran.plan.contains("__list_");
                let expected = made == Made::Always || made == Made::Alone && keys.is_empty();
                assert_eq!(is_made, expected, "{aggregates} {rest}\n{}", ran.plan);
            }
        }
    }
}

/// DataFusion refuses these, since it casts the argument and not what it is in the order of.
#[test]
fn lists_of_the_words_of_dictionaries_are_in_their_order() {
    let both = Both::new();
    let rows = |sql: &str| run(&both.ours, sql).rows;
    let words = "(SELECT arrow_cast('w' || (v % 3)::text, 'Dictionary(Int32, Utf8)') AS w, v FROM \
                 generate_series(1, 20) AS t(v)) AS d";
    let sql = format!("SELECT string_agg(DISTINCT w, ',' ORDER BY w DESC), count(*) FROM {words}");
    let found = rows(&sql).unwrap();
    assert!(
        found[0].contains("w2,w1,w0") && found[0].contains("20"),
        "{found:?}"
    );
    let sql = format!("SELECT string_agg(DISTINCT v::text, ',' ORDER BY v) FROM {words}");
    assert!(rows(&sql).is_err());
}
