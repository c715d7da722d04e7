//! Random histories of changes, compared with rows in a vector.

use super::changed;
use crate::{session, text};
use tierloom_sql::SqlSession;

/// A row of the table: two numbers and a text, each of which may be NULL.
type Row = (Option<i64>, Option<i64>, Option<String>);

/// More rows than that are not doubled.
const MOST_ROWS: usize = 40_000;

/// A generator of small numbers; always the same ones for a seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn row(&mut self) -> Row {
        let number = |dice: &mut Self| (dice.throw(8) > 0).then(|| dice.throw(50) as i64 - 10);
        let (a, b) = (number(self), number(self));
        let long = self.throw(2) as usize * 20;
        let word = format!("w{}{}", self.throw(30), "x".repeat(long));
        (a, b, (self.throw(8) > 0).then_some(word))
    }
}

fn literal(row: &Row) -> String {
    let number = |n: Option<i64>| n.map_or("null".to_owned(), |n| n.to_string());
    let word = row
        .2
        .as_ref()
        .map_or("null".to_owned(), |w| format!("'{w}'"));
    format!("({}, {}, {word})", number(row.0), number(row.1))
}

/// A statement that changes the table, and the number of rows that it must report.
type Change = (String, u64);

/// One change of the table and of the vector.
fn change(dice: &mut Dice, rows: &mut Vec<Row>) -> Change {
    let (from, to) = (dice.throw(50) as i64 - 10, dice.throw(50) as i64 - 10);
    match dice.throw(7) {
        0 => insert_values(dice, rows),
        1 => insert_query(rows, from, to),
        2 => {
            let statement = format!("delete from t where b between {from} and {to}");
            delete(rows, statement, |r| within(r.1, from, to))
        }
        3 => {
            let statement = format!("delete from t where c = 'w3' or a = {from}");
            delete(rows, statement, |r| {
                r.2.as_deref() == Some("w3") || r.0 == Some(from)
            })
        }
        4 => {
            let statement = format!("update t set a = b, b = a where a between {from} and {to}");
            let swapped = |r: &mut Row| (r.0, r.1) = (r.1, r.0);
            update(rows, statement, |r| within(r.0, from, to), swapped)
        }
        5 => {
            let statement = format!("update t set c = c || '!' where b between {from} and {to}");
            let longer = |r: &mut Row| r.2 = r.2.as_ref().map(|c| format!("{c}!"));
            update(rows, statement, |r| within(r.1, from, to), longer)
        }
        _ => {
            let most = rows.iter().filter_map(|r| r.0).max();
            let statement = "update t set a = 0 where a = (select max(a) from t)".to_owned();
            let is_most = |r: &Row| most.is_some() && r.0 == most;
            update(rows, statement, is_most, |r| r.0 = Some(0))
        }
    }
}

fn within(number: Option<i64>, from: i64, to: i64) -> bool {
    number.is_some_and(|n| n >= from && n <= to)
}

fn insert_values(dice: &mut Dice, rows: &mut Vec<Row>) -> Change {
    let new: Vec<Row> = (0..1 + dice.throw(3)).map(|_| dice.row()).collect();
    rows.extend(new.iter().cloned());
    let list: Vec<String> = new.iter().map(literal).collect();
    let statement = format!("insert into t values {}", list.join(", "));
    (statement, new.len() as u64)
}

fn insert_query(rows: &mut Vec<Row>, from: i64, to: i64) -> Change {
    let found = rows.iter().filter(|r| within(r.0, from, to));
    let new: Vec<Row> = found
        .map(|r| (r.0.map(|a| a + 1), r.1, r.2.clone()))
        .collect();
    // Doubling all rows every time would end with too many.
    if rows.len() + new.len() > MOST_ROWS {
        let count = rows.len() as u64;
        rows.clear();
        return ("delete from t".to_owned(), count);
    }
    let count = new.len() as u64;
    rows.extend(new);
    let statement =
        format!("insert into t select a + 1, b, c from t where a between {from} and {to}");
    (statement, count)
}

fn delete(rows: &mut Vec<Row>, statement: String, gone: impl Fn(&Row) -> bool) -> Change {
    let before = rows.len();
    rows.retain(|row| !gone(row));
    (statement, (before - rows.len()) as u64)
}

fn update(
    rows: &mut [Row],
    statement: String,
    meant: impl Fn(&Row) -> bool,
    set: impl Fn(&mut Row),
) -> Change {
    let mut count = 0;
    for row in rows.iter_mut().filter(|row| meant(row)) {
        set(row);
        count += 1;
    }
    (statement, count)
}

/// The rows of the table in the order of their texts.
fn rows_of(session: &mut SqlSession) -> Vec<String> {
    let shown = text(
        session,
        "select coalesce(cast(a as varchar), '-') || ' ' || \
        coalesce(cast(b as varchar), '-') || ' ' || coalesce(c, '-') as r from t",
    );
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn rows_of_vector(rows: &[Row]) -> Vec<String> {
    let number = |n: Option<i64>| n.map_or("-".to_owned(), |n| n.to_string());
    let mut lines: Vec<String> = rows
        .iter()
        .map(|(a, b, c)| {
            let c = c.clone().unwrap_or("-".to_owned());
            format!("{} {} {c}", number(*a), number(*b))
        })
        .collect();
    lines.sort();
    lines
}

/// Fills the table with rows in two groups.
fn grown(session: &mut SqlSession) -> Vec<Row> {
    let mut rows = Vec::new();
    for (from, to) in [(0, 20_000), (20_000, 29_000)] {
        let statement = format!(
            "insert into t select value % 60 - 10, value % 41 - 10, 'w' || (value % 30) \
             from range({from}, {to})"
        );
        assert_eq!(changed(session, &statement), to - from);
        rows.extend((from as i64..to as i64).map(|n| {
            let word = format!("w{}", n % 30);
            (Some(n % 60 - 10), Some(n % 41 - 10), Some(word))
        }));
    }
    rows
}

#[test]
fn random_histories_leave_the_rows_that_they_leave_in_a_vector() {
    for seed in 0..6 {
        let mut dice = Dice(seed);
        let mut rows: Vec<Row> = Vec::new();
        let mut session = session();
        let first = "create table t (a bigint, b bigint, c varchar)";
        crate::run(&mut session, first).unwrap();
        let mut history = String::new();
        if seed % 2 == 1 {
            rows = grown(&mut session);
        }
        for step in 0..60 {
            let (statement, count) = change(&mut dice, &mut rows);
            history.push_str(&statement);
            history.push('\n');
            assert_eq!(
                changed(&mut session, &statement),
                count,
                "{seed}/{step}: {history}"
            );
            if step % 5 == 4 {
                assert_eq!(
                    rows_of(&mut session),
                    rows_of_vector(&rows),
                    "{seed}/{step}: {history}"
                );
            }
        }
        assert!(!history.is_empty());
    }
}
