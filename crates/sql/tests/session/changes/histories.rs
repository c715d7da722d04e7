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

/// One change of the table and of the vector; returns the number of rows that must be reported.
fn change(dice: &mut Dice, rows: &mut Vec<Row>) -> (String, u64) {
    let (from, to) = (dice.throw(50) as i64 - 10, dice.throw(50) as i64 - 10);
    let within = |n: Option<i64>| n.is_some_and(|n| n >= from && n <= to);
    match dice.throw(7) {
        0 => {
            let new: Vec<Row> = (0..1 + dice.throw(3)).map(|_| dice.row()).collect();
            rows.extend(new.iter().cloned());
            let list: Vec<String> = new.iter().map(literal).collect();
            (
                format!("insert into t values {}", list.join(", ")),
                new.len() as u64,
            )
        }
        1 => {
            let new: Vec<Row> = rows.iter().filter(|r| within(r.0)).cloned().collect();
            let new: Vec<Row> = new
                .into_iter()
                .map(|r| (r.0.map(|a| a + 1), r.1, r.2))
                .collect();
            let statement =
                format!("insert into t select a + 1, b, c from t where a between {from} and {to}");
            // Doubling all rows every time would end with too many.
            if rows.len() + new.len() > MOST_ROWS {
                let count = rows.len() as u64;
                rows.clear();
                return ("delete from t".to_owned(), count);
            }
            rows.extend(new.iter().cloned());
            (statement, new.len() as u64)
        }
        2 => {
            let before = rows.len();
            rows.retain(|r| !within(r.1));
            let count = before - rows.len();
            (
                format!("delete from t where b between {from} and {to}"),
                count as u64,
            )
        }
        3 => {
            let before = rows.len();
            rows.retain(|r| r.2.as_deref() != Some("w3") && r.0 != Some(from));
            let count = before - rows.len();
            (
                format!("delete from t where c = 'w3' or a = {from}"),
                count as u64,
            )
        }
        4 => {
            let mut count = 0;
            for row in rows.iter_mut().filter(|r| within(r.0)) {
                (row.0, row.1) = (row.1, row.0);
                count += 1;
            }
            (
                format!("update t set a = b, b = a where a between {from} and {to}"),
                count,
            )
        }
        5 => {
            let mut count = 0;
            for row in rows.iter_mut().filter(|r| within(r.1)) {
                row.2 = row.2.as_ref().map(|c| format!("{c}!"));
                count += 1;
            }
            (
                format!("update t set c = c || '!' where b between {from} and {to}"),
                count,
            )
        }
        _ => {
            let most = rows.iter().filter_map(|r| r.0).max();
            let mut count = 0;
            for row in rows.iter_mut().filter(|r| most.is_some() && r.0 == most) {
                row.0 = Some(0);
                count += 1;
            }
            (
                "update t set a = 0 where a = (select max(a) from t)".to_owned(),
                count,
            )
        }
    }
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
