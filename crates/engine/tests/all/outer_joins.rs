//! Outer joins become inner ones only where a join above drops the rows with NULL.

use crate::common::Numbers;
use crate::common::both::{Both, keyed};

fn tables(numbers: &mut Numbers) -> Both {
    let mut both = Both::new();
    for (name, rows) in [("a", 400), ("b", 300), ("c", 60), ("d", 20)] {
        both = both.table(name, &[keyed(rows, 50, numbers)]);
    }
    both
}

fn joins_of(plan: &str, kind: &str) -> usize {
    plan.matches(&format!("join_type={kind},")).count()
}

#[test]
fn a_key_that_an_outer_join_fills_makes_it_inner_through_what_passes_rows_on() {
    let both = tables(&mut Numbers::of_this_run());
    let left = "a LEFT JOIN b ON a.k = b.k";
    for (sql, left_joins) in [
        (format!("SELECT a.id, c.id FROM {left}, c WHERE b.s = c.s"), 0),
        (format!("SELECT x.id, c.id FROM (SELECT a.id, b.s AS t FROM {left}) x, c WHERE x.t = c.s"), 0),
        (format!("SELECT a.id FROM {left} WHERE b.s IN (SELECT s FROM c)"), 0),
        (format!("SELECT c.id, x.n FROM c LEFT JOIN (SELECT b.s, a.id AS n FROM {left}) x ON c.s = x.s"), 1),
        // Two of them, one in the other.
        ("SELECT a.id FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN d ON b.s = d.k, c WHERE d.s = c.s".into(), 0),
        // Rows without a match stay: the key is of the other side, or they were counted before.
        (format!("SELECT a.id, c.id FROM {left}, c WHERE a.s = c.s"), 1),
        (format!("SELECT a.id FROM {left} WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.s = b.s)"), 1),
        (format!("SELECT x.t, x.n FROM (SELECT b.s AS t, count(*) AS n FROM {left} GROUP BY b.s) x, c WHERE x.t = c.s"), 1),
        (format!("SELECT x.t FROM (SELECT b.s AS t FROM {left} ORDER BY a.id LIMIT 9) x, c WHERE x.t = c.s"), 1),
        (format!("SELECT a.id FROM {left}, c WHERE b.s IS NOT DISTINCT FROM c.s"), 1),
    ] {
        let plan = both.same(&sql).plan;
        // Sides may be swapped.
        let outer = joins_of(&plan, "Left") + joins_of(&plan, "Right");
        assert_eq!(outer, left_joins, "{sql}\n{plan}");
    }
}

#[test]
fn random_joins_give_what_plain_datafusion_gives() {
    let mut numbers = Numbers::of_this_run();
    let both = tables(&mut numbers);
    let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT JOIN"];
    for _ in 0..200 {
        let mut from = "a".to_owned();
        let mut known = vec!["a"];
        for table in ["b", "c", "d"] {
            let kind = kinds[numbers.below(kinds.len() as u64) as usize];
            let with = known[numbers.below(known.len() as u64) as usize];
            let column = ["k", "s"][numbers.below(2) as usize];
            let more = ["", " AND b.id % 3 <> 1"][numbers.below(2) as usize];
            from = format!("({from}) {kind} {table} ON {with}.{column} = {table}.k{more}");
            // `b` is there from the first join on.
            known.push(table);
        }
        let of = known[numbers.below(4) as usize];
        let by = ["WHERE", "WHERE NOT"][numbers.below(2) as usize];
        let sql = match numbers.below(3) {
            0 => format!(
                "SELECT a.id, b.id, c.id, d.id, e.id FROM {from}, d AS e WHERE {of}.s = e.s"
            ),
            1 => format!(
                "SELECT a.id, b.id, c.id, d.id FROM {from} {by} EXISTS (SELECT 1 FROM d AS e WHERE {of}.s = e.s)"
            ),
            _ => format!(
                "SELECT e.id, x.t FROM d AS e LEFT JOIN (SELECT {of}.s AS t FROM {from}) x ON x.t = e.s"
            ),
        };
        both.same(&sql);
    }
}

#[test]
fn rows_without_a_match_come_from_an_anti_join() {
    let both = tables(&mut Numbers::of_this_run());
    for (sql, anti_joins) in [
        (
            "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL",
            1,
        ),
        (
            "SELECT a.id, b.id, b.s FROM a LEFT JOIN b ON a.k = b.k AND a.s = b.s WHERE b.s IS NULL",
            1,
        ),
        (
            "SELECT a.id, b.id FROM b RIGHT JOIN a ON a.k = b.k AND b.id < 90 WHERE b.k IS NULL AND a.id > 3",
            1,
        ),
        (
            "SELECT a.id, c.id FROM a LEFT JOIN b ON a.k = b.k, c WHERE b.k IS NULL AND a.s = c.s",
            1,
        ),
        (
            "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON a.s = c.k WHERE b.k IS NULL AND c.k IS NULL",
            2,
        ),
        (
            "SELECT count(b.id), count(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL AND coalesce(b.id, a.id) > 9",
            1,
        ),
        // NULL may also be a value here, or the match is not asked for by key.
        (
            "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.s IS NULL",
            0,
        ),
        (
            "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE a.k IS NULL",
            0,
        ),
        (
            "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL OR a.id = 4",
            0,
        ),
        (
            "SELECT a.id FROM a FULL JOIN b ON a.k = b.k WHERE b.k IS NULL",
            0,
        ),
        (
            "SELECT a.id FROM a LEFT JOIN b ON a.k IS NOT DISTINCT FROM b.k WHERE b.k IS NULL",
            0,
        ),
    ] {
        let plan = both.same(sql).plan;
        let found = joins_of(&plan, "LeftAnti") + joins_of(&plan, "RightAnti");
        assert_eq!(found, anti_joins, "{sql}\n{plan}");
    }
}
