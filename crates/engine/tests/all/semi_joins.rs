//! Semi and anti joins are made with the table that they are about, where that is a small one.

use crate::common::Numbers;
use crate::common::both::{Both, keyed};

fn tables(numbers: &mut Numbers) -> Both {
    let mut both = Both::new();
    for (name, rows) in [("f", 900), ("d", 40), ("e", 60), ("l", 20)] {
        both = both.table(name, &[keyed(rows, 50, numbers)]);
    }
    both
}

/// The tables below the first semi or anti join of a plan; `None` if there is none.
fn tables_of_semi_join(plan: &str) -> Option<Vec<String>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = plan.lines();
    let semi = lines.find(|line| line.contains("Semi,") || line.contains("Anti,"))?;
    let below = lines.take_while(|line| indent(line) > indent(semi));
    let tables = below.filter_map(|line| line.split("table=").nth(1));
    let mut tables: Vec<String> = tables
        .map(|t| t.split(',').next().unwrap().into())
        .collect();
    tables.sort();
    Some(tables)
}

#[test]
fn the_join_is_with_the_small_table_alone_unless_it_asks_about_more() {
    let both = tables(&mut Numbers::of_this_run());
    let from = "SELECT f.id, d.id, e.id FROM f, d, e WHERE f.k = d.id AND f.s = e.k";
    for (condition, expected) in [
        ("d.s IN (SELECT s FROM l)", "d l"),
        ("NOT EXISTS (SELECT 1 FROM l WHERE l.k = d.k)", "d l"),
        (
            "EXISTS (SELECT 1 FROM l WHERE l.k = e.s AND l.s > e.id)",
            "e l",
        ),
        // About the largest table, about two, and about all.
        ("f.s IN (SELECT s FROM l)", "d e f l"),
        (
            "EXISTS (SELECT 1 FROM l WHERE l.k = d.k AND l.s = e.s)",
            "d e f l",
        ),
        (
            "EXISTS (SELECT 1 FROM l WHERE l.k = d.k AND l.s > f.id)",
            "d e f l",
        ),
    ] {
        let ran = both.same(&format!("{from} AND {condition}"));
        let tables = tables_of_semi_join(&ran.plan).map(|tables| tables.join(" "));
        assert_eq!(
            tables.as_deref(),
            Some(expected),
            "{condition}\n{}",
            ran.plan
        );
    }
    // Rows of an outer join that it fills with NULL are not asked about before it.
    let outer = "SELECT f.id, d.id FROM f LEFT JOIN d ON f.k = d.id";
    let ran = both.same(&format!(
        "{outer} WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.k = d.k)"
    ));
    let tables = tables_of_semi_join(&ran.plan).unwrap();
    assert_eq!(tables, ["d", "f", "l"], "{}", ran.plan);
}

#[test]
fn random_queries_give_what_plain_datafusion_gives() {
    let mut numbers = Numbers::of_this_run();
    let both = tables(&mut numbers);
    for _ in 0..200 {
        let kind = ["JOIN", "JOIN", "JOIN", "LEFT JOIN"][numbers.below(4) as usize];
        let mut sql = format!("SELECT f.id, d.id, e.id FROM f {kind} d ON f.k = d.k JOIN e ON ");
        sql += ["f.s = e.s", "d.s = e.s", "f.s = e.s AND d.id > e.id"][numbers.below(3) as usize];
        for at in 0..1 + numbers.below(2) {
            sql += if at == 0 { " WHERE " } else { " AND " };
            let not = ["", "NOT "][numbers.below(2) as usize];
            let mut table = || ["f", "d", "e"][numbers.below(3) as usize];
            let (one, other) = (table(), table());
            sql += &match numbers.below(4) {
                0 => format!("{one}.k {not}IN (SELECT s FROM l WHERE s IS NOT NULL)"),
                1 => format!("{one}.k {not}IN (SELECT s FROM l)"),
                2 => {
                    format!("{not}EXISTS (SELECT 1 FROM l WHERE l.k = {one}.s AND l.s = {other}.k)")
                }
                _ => {
                    format!("{not}EXISTS (SELECT 1 FROM l WHERE l.k = {one}.k AND l.s < {other}.s)")
                }
            };
        }
        both.same(&sql);
    }
}
