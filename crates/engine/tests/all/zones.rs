//! Zones without rows that pass are left out, in scans and star joins, and no others.

use crate::common::Numbers;
use crate::common::both::{Both, batch, run};
use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringViewArray};
use std::sync::Arc;

const ROWS: u64 = 50_000;

/// Rows in the order of a day, roughly, some without one; and columns in no order.
fn facts(numbers: &mut Numbers) -> RecordBatch {
    let mut days = Vec::new();
    let mut weeks = Vec::new();
    for row in 0..ROWS {
        let day = (row / 100 + numbers.below(30)) as i32;
        days.push((numbers.below(20) != 0).then_some(day));
        weeks.push((numbers.below(20) != 0).then(|| format!("week {:03}", day / 7)));
    }
    // A stretch of rows that are all NULL, longer than a zone.
    let nothing = 20_000..30_000;
    days[nothing.clone()].fill(None);
    weeks[nothing].fill(None);
    let mut random =
        |below: u64| Int64Array::from_iter_values((0..ROWS).map(|_| numbers.below(below) as i64));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "f_id",
            Arc::new(Int64Array::from_iter_values(0..ROWS as i64)),
        ),
        ("f_day", Arc::new(Date32Array::from(days))),
        ("f_week", Arc::new(StringViewArray::from_iter(weeks))),
        ("f_item", Arc::new(random(500))),
        ("f_price", Arc::new(random(10_000))),
    ];
    batch(columns)
}

/// A row per day, as dimensions of dates have.
fn days() -> RecordBatch {
    let days = 0..540;
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "d_day",
            Arc::new(Date32Array::from_iter_values(days.clone())),
        ),
        (
            "d_month",
            Arc::new(Int64Array::from_iter_values(
                days.map(|d| i64::from(d) / 30 % 12),
            )),
        ),
    ];
    batch(columns)
}

fn items() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i_item", Arc::new(Int64Array::from_iter_values(0..500))),
        (
            "i_brand",
            Arc::new(StringViewArray::from_iter_values(
                (0..500).map(|i| format!("brand {}", i % 9)),
            )),
        ),
    ];
    batch(columns)
}

/// Rows that operators left out by zones.
fn skipped(both: &Both, sql: &str) -> f64 {
    let plan = run(&both.ours, &format!("EXPLAIN ANALYZE {sql}"));
    let plan = plan.rows.unwrap().concat();
    let counts = plan.split("rows_skipped=").skip(1);
    let counts = counts.map(|rest| {
        let number: String = rest
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let unit = if rest[number.len()..].starts_with(" K") {
            1e3
        } else {
            1.0
        };
        number.parse::<f64>().unwrap() * unit
    });
    counts.sum()
}

fn condition(numbers: &mut Numbers) -> String {
    let from = numbers.below(560);
    match numbers.below(7) {
        0 => format!("f_day = DATE '1970-01-01' + {from}"),
        1 => format!(
            "f_day BETWEEN DATE '1970-01-01' + {from} AND DATE '1970-01-01' + {}",
            from + numbers.below(90)
        ),
        2 => format!(
            "f_week IN ('week {:03}', 'week {:03}')",
            from / 7,
            numbers.below(80)
        ),
        3 => "f_day IS NULL".to_owned(),
        4 => format!("(f_week = 'week {:03}' OR f_week IS NULL)", from / 7),
        5 => format!(
            "f_id BETWEEN {} AND {}",
            from * 90,
            from * 90 + numbers.below(9_000)
        ),
        _ => format!("f_week LIKE 'week 0{}%'", numbers.below(10)),
    }
}

#[test]
fn answers_are_those_of_plain_datafusion_whatever_zones_are_left_out() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new()
        .table("facts", &[facts(&mut numbers)])
        .table("days", &[days()])
        .table("items", &[items()]);
    let mut left_out = 0;
    for _ in 0..60 {
        let mut filters = vec![condition(&mut numbers)];
        if numbers.below(2) == 0 {
            filters.push(condition(&mut numbers));
        }
        let mut from = "facts".to_owned();
        let mut keys = "f_item % 3".to_owned();
        if numbers.below(2) == 0 {
            from += ", days";
            filters.push("f_day = d_day".to_owned());
            filters.push(format!("d_month = {}", numbers.below(12)));
            keys = "d_month".to_owned();
        }
        if numbers.below(2) == 0 {
            from += ", items";
            filters.push("f_item = i_item".to_owned());
            keys += ", i_brand";
        }
        let filters = filters.join(" AND ");
        let sql = match numbers.below(3) {
            0 => format!("SELECT f_id, f_day, f_price FROM {from} WHERE {filters}"),
            1 => format!("SELECT count(*), sum(f_price), min(f_day) FROM {from} WHERE {filters}"),
            _ => format!(
                "SELECT {keys}, count(*), sum(f_price) FROM {from} WHERE {filters} GROUP BY {keys}"
            ),
        };
        let ran = both.same(&sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        left_out += usize::from(skipped(&both, &sql) > 0.0);
    }
    assert!(
        left_out > 20,
        "zones were left out in {left_out} of 60 queries"
    );
}

#[test]
fn a_narrow_filter_reads_few_zones_and_null_is_found() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new()
        .table("facts", &[facts(&mut numbers)])
        .table("days", &[days()]);
    // By a filter and by the keys of a join, in a scan and in a star join.
    for (sql, star) in [
        (
            "SELECT f_id FROM facts WHERE f_day = DATE '1970-06-01'",
            false,
        ),
        (
            "SELECT f_id FROM facts, days WHERE f_day = d_day AND d_day = DATE '1970-06-01'",
            false,
        ),
        (
            "SELECT sum(f_price) FROM facts WHERE f_week = 'week 021'",
            true,
        ),
        (
            "SELECT d_month, sum(f_price) FROM facts, days WHERE f_day = d_day AND d_day = DATE '1970-06-01' GROUP BY d_month",
            true,
        ),
    ] {
        let ran = both.same(sql);
        assert_eq!(ran.plan.contains("StarExec"), star, "{sql}\n{}", ran.plan);
        assert!(
            skipped(&both, sql) > 0.5 * ROWS as f64,
            "{sql}\n{}",
            ran.plan
        );
    }
    let sql = "SELECT count(*), sum(f_price) FROM facts WHERE f_day IS NULL";
    both.same(sql);
    assert_eq!(skipped(&both, sql), 0.0);
}
