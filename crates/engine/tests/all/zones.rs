//! Zones without rows that pass are left out, in scans and star joins, and no others.

use crate::common::Numbers;
use crate::common::both::{Both, batch, placed, run};
use arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use std::sync::Arc;
use tierloom_engine::load::Encoding;

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

/// Columns in the order of the rows, or nearly, that have no codes: times of microseconds, floats
/// that are no decimals, integers of 64 bits; some are NULL.
fn plain_facts(numbers: &mut Numbers, rows: u64) -> RecordBatch {
    let mut wide = |nulls: bool| -> Vec<Option<i64>> {
        let mut value = |row: u64| {
            let at = (row << 40) as i64 - (1 << 54) + (numbers.next() >> 22) as i64;
            (!nulls || numbers.below(17) != 0).then_some(at)
        };
        (0..rows).map(&mut value).collect()
    };
    let (t, n, x) = (wide(true), wide(false), wide(true));
    let zero = |at: usize, v: f64| match at % 5_000 {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        _ => v,
    };
    let floats = x.iter().enumerate();
    let floats = floats.map(|(at, v)| v.map(|v| zero(at, v as f64 / 7e13)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("t", Arc::new(TimestampMicrosecondArray::from(t))),
        ("n", Arc::new(Int64Array::from(n))),
        ("x", Arc::new(floats.collect::<Float64Array>())),
        ("i", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
    ];
    batch(columns)
}

#[test]
fn zones_of_columns_without_codes_are_left_out_too() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("facts", &[plain_facts(&mut numbers, ROWS)]);
    let columns = placed("facts", &[plain_facts(&mut numbers, ROWS)], Encoding::Auto);
    for column in ["t", "n", "x"] {
        let mut columns = columns.columns().iter();
        let column = columns.find(|c| c.name() == column).unwrap();
        assert_eq!(column.encoding(), "plain");
    }
    let mut left_out = 0;
    for _ in 0..60 {
        let at = ((numbers.below(ROWS) << 40) as i64) - (1 << 54);
        let op = ["=", "<", "<=", ">", ">="][numbers.below(5) as usize];
        let condition = match numbers.below(5) {
            0 => format!("t {op} to_timestamp_micros({at})"),
            1 => format!("n {op} {at}"),
            2 => format!("x {op} cast({} as double)", at as f64 / 7e13),
            3 => format!(
                "x {op} cast('{}' as double)",
                ["0", "-0", "NaN"][numbers.below(3) as usize]
            ),
            _ => format!("n in ({at}, {}) or n is null", at + 1),
        };
        let also = ["", " and i % 3 = 0", " and i < 30000"][numbers.below(3) as usize];
        let sql = format!("SELECT i, t, n, x FROM facts WHERE {condition}{also}");
        both.same(&sql);
        left_out += usize::from(skipped(&both, &sql) > 0.0);
        let column = ["t", "n", "x", "i"][numbers.below(4) as usize];
        let order = ["", " DESC"][numbers.below(2) as usize];
        let nulls = ["", " NULLS FIRST", " NULLS LAST"][numbers.below(3) as usize];
        let limit = 1 + numbers.below(40);
        // The values alone: rows with the same one may come in any order. So may zeros of both
        // signs where a condition says that all rows are equal, which makes the sort go.
        let value = ["x + cast(0 as double)", column][usize::from(column != "x")];
        both.same(&format!(
            "SELECT {value} FROM facts WHERE {condition}{also} \
             ORDER BY {column}{order}{nulls} LIMIT {limit}"
        ));
        both.same(&format!(
            "SELECT {column} FROM facts ORDER BY {column}{order}{nulls} LIMIT {limit}"
        ));
    }
    assert!(
        left_out > 15,
        "zones were left out in {left_out} of 60 queries"
    );
}

#[test]
fn a_table_without_rows_has_no_first_ones() {
    let mut numbers = Numbers::of_this_run();
    let nothing = plain_facts(&mut numbers, 10).slice(0, 0);
    let both = Both::new().table("facts", &[nothing]);
    for column in ["t", "n", "x", "i"] {
        both.same(&format!(
            "SELECT {column} FROM facts ORDER BY {column} DESC LIMIT 3"
        ));
        both.same(&format!(
            "SELECT {column} FROM (SELECT {column}, row_number() OVER \
             (ORDER BY {column} DESC) AS r FROM facts) s WHERE r <= 2"
        ));
        both.same(&format!(
            "SELECT count(*) FROM facts WHERE {column} IS NOT NULL"
        ));
    }
}

#[test]
fn the_latest_rows_of_a_table_in_the_order_of_time_are_read_from_its_end() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("facts", &[plain_facts(&mut numbers, 10 * ROWS)]);
    for column in ["n", "i"] {
        for order in ["", " DESC"] {
            both.same(&format!(
                "SELECT i, n FROM (SELECT i, n, row_number() OVER \
                 (PARTITION BY i % 7 ORDER BY {column}{order}) AS r FROM facts \
                 WHERE i % 3 <> 1) s WHERE r <= 2"
            ));
            both.same(&format!(
                "SELECT i, n FROM facts WHERE i % 1000 = 5 ORDER BY {column}{order} LIMIT 5"
            ));
            let sql = format!("SELECT i, n FROM facts ORDER BY {column}{order} LIMIT 5");
            both.same(&sql);
            let skipped = skipped(&both, &sql);
            assert!(skipped > 5.0 * ROWS as f64, "{sql}: {skipped}");
        }
    }
}
