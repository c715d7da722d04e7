//! Keys that a filter makes constant are not looked up.

use crate::common::Numbers;
use crate::common::both::{Both, keyed};

fn tables(numbers: &mut Numbers) -> Both {
    let mut both = Both::new();
    for (name, rows) in [("a", 400), ("b", 300), ("c", 60)] {
        both = both.table(name, &[keyed(rows, 9, numbers)]);
    }
    both
}

#[test]
fn constant_group_columns_are_left_out() {
    let both = tables(&mut Numbers::of_this_run());
    for (sql, group) in [
        (
            "SELECT s, k, count(*) FROM a WHERE k = 3 GROUP BY k, s",
            "groups=[s]",
        ),
        (
            "SELECT x.t, b.k, sum(b.id) FROM (SELECT k AS t, id FROM a WHERE 3 = k) x \
             JOIN b ON x.id = b.id GROUP BY x.t, b.k",
            "groups=[k]",
        ),
        (
            "SELECT DISTINCT k, s FROM a WHERE s = 2 AND id < 200",
            "groups=[k]",
        ),
        // One is kept, so that there is no group where there are no rows.
        (
            "SELECT k, s, count(*) FROM a WHERE k = 3 AND s = 99 GROUP BY k, s",
            "groups=[k]",
        ),
        // The other table's rows may be missing, or have other values.
        (
            "SELECT b.k, a.s, count(*) FROM a LEFT JOIN (SELECT * FROM b WHERE k = 3) b \
             ON a.id = b.id GROUP BY b.k, a.s",
            "k@",
        ),
        (
            "SELECT k, s, count(*) FROM a WHERE k = 3 OR k = 4 GROUP BY k, s",
            "groups=[k, s]",
        ),
        (
            "SELECT k, s, count(*) FROM a WHERE k >= 3 GROUP BY k, s",
            "groups=[k, s]",
        ),
        (
            "SELECT k, s, count(*) FROM a WHERE k = 3 GROUP BY ROLLUP (k, s)",
            "sets=[(), (k), (k, s)]",
        ),
    ] {
        let ran = both.same(sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        assert!(ran.plan.contains(group), "{sql}\n{}", ran.plan);
    }
}

#[test]
fn group_columns_that_are_computed_from_others_are_left_out() {
    let both = tables(&mut Numbers::of_this_run());
    for (by, group) in [
        ("k, k - 1, s", "groups=[k, s]"),
        ("k + s, s, k", "groups=[s, k]"),
        ("abs(k), k", "groups=[k]"),
        // Nothing that is the same in all rows of a group.
        ("k + s, s", "s]"),
        ("k - 1, s", "s]"),
        ("k, k - 1 + random() * 0", "random"),
    ] {
        let sql = format!("SELECT {by}, count(*) FROM a GROUP BY {by}");
        let ran = both.same(&sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        assert!(ran.plan.contains(group), "{sql}\n{}", ran.plan);
    }
    // Both zeros are one group, with a reciprocal of one of them.
    let zeros = "SELECT count(*) FROM (SELECT z, 1 / z FROM \
                 (SELECT CASE id % 2 WHEN 0 THEN 0e0 ELSE -0e0 END AS z FROM a) GROUP BY z, 1 / z)";
    let ran = both.same(zeros);
    assert!(ran.rows.is_ok(), "{:?}", ran.rows);
}

#[test]
fn pairs_of_keys_with_one_value_are_left_out() {
    let both = tables(&mut Numbers::of_this_run());
    let side = |table: &str, of: &str| {
        format!("(SELECT k, s, max(id) AS id FROM {table} WHERE {of} GROUP BY k, s) {table}")
    };
    for kind in [
        "JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
    ] {
        for (left, right) in [
            ("k = 3", "k = 3"),
            ("k = 3", "k = 4"),
            ("k = 3", "s = 3"),
            ("k = 3", "k > 2"),
        ] {
            let select = if kind.contains("LEFT S") || kind.contains("ANTI") {
                "a.k, a.s, a.id"
            } else {
                "a.k, a.s, a.id, b.k, b.s, b.id"
            };
            let sql = format!(
                "SELECT {select} FROM {} {kind} {} ON a.k = b.k AND a.s = b.s",
                side("a", left),
                side("b", right),
            );
            let ran = both.same(&sql);
            assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            let pairs = ran.plan.contains("(k@");
            let same = left == right;
            assert!(!(same && pairs), "{sql}\n{}", ran.plan);
        }
    }
}

#[test]
fn random_constants_do_not_change_answers() {
    let mut numbers = Numbers::of_this_run();
    let both = tables(&mut numbers);
    let conditions = [
        "k = 3",
        "s = 3",
        "k = 2 AND s = 1",
        "id > 50",
        "k = s AND s = 4",
        "true",
    ];
    for _ in 0..80 {
        let mut one = || *numbers.one_of(&conditions);
        let (a, b) = (one(), one());
        let kind = *numbers.one_of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let on = *numbers.one_of(&[
            "a.k = b.k",
            "a.k = b.k AND a.s = b.s",
            "a.s = b.k AND a.k = b.s",
        ]);
        let by = *numbers.one_of(&[
            "a.k, b.s",
            "a.k, a.s, b.k",
            "b.k, b.s",
            "a.s, b.k, b.s",
            "a.k, b.s, a.k * 2 + b.s",
            "a.k % 3, a.k, b.s",
        ]);
        both.same(&format!(
            "SELECT {by}, count(*), sum(a.id) FROM (SELECT * FROM a WHERE {a}) a {kind} \
             (SELECT * FROM b WHERE {b}) b ON {on} GROUP BY {by}"
        ));
    }
}
