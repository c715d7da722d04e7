//! Parts of timestamps are those of plain DataFusion, wherever a statement has them.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use arrow::array::{ArrayRef, Int32Array, TimestampMicrosecondArray, TimestampSecondArray};
use std::sync::Arc;

/// Timestamps of two units around 1970 with NULLs, one with a time zone, and a key.
fn table() -> Both {
    let mut numbers = Numbers::of_this_run();
    let mut seconds = || {
        let value = |_| {
            let second = numbers.below(400 * 365 * 86_400) as i64 - 200 * 365 * 86_400;
            (numbers.below(7) != 0).then_some(second)
        };
        (0..3_000).map(value).collect::<Vec<Option<i64>>>()
    };
    let micros = seconds().into_iter().map(|s| s.map(|s| s * 1_000_000 + 1));
    let micros: ArrayRef = Arc::new(micros.collect::<TimestampMicrosecondArray>());
    let whole: ArrayRef = Arc::new(TimestampSecondArray::from(seconds()));
    let zoned = TimestampSecondArray::from(seconds()).with_timezone("+02:00");
    let key: ArrayRef = Arc::new(Int32Array::from_iter_values((0..3_000).map(|row| row % 5)));
    let columns = vec![
        ("us", micros),
        ("s", whole),
        ("z", Arc::new(zoned) as ArrayRef),
        ("k", key),
    ];
    Both::new().table("t", &[batch(columns)])
}

#[test]
fn outputs_keys_and_arguments_are_those_of_datafusion() {
    let both = table();
    for time in ["us", "s", "z", "(us + interval '5 hours')"] {
        for value in [
            format!("extract(year from {time})"),
            format!("extract(dow from {time})"),
            format!("date_part('hour', {time})"),
            format!("extract(week from {time})"),
            format!("date_trunc('month', {time})"),
            format!("date_trunc('day', {time})"),
            format!("{time}::date"),
            format!("CASE WHEN k = 1 THEN extract(doy from {time}) END"),
        ] {
            for sql in [
                format!("SELECT k, {value} FROM t"),
                format!("SELECT {value}, count(*), min(k) FROM t GROUP BY {value}"),
                format!("SELECT {value} AS v, count(*) FROM t GROUP BY v HAVING count(*) > 3"),
                format!("SELECT k, max({value}), count(DISTINCT {value}) FROM t GROUP BY k"),
                format!("SELECT k, {value} FROM t WHERE {value} IS NOT NULL ORDER BY {value}, k"),
                format!(
                    "SELECT count(*) FROM t a JOIN (SELECT DISTINCT {value} AS v FROM t) b \
                         ON b.v = (SELECT max({value}) FROM t)"
                ),
            ] {
                let ran = both.same(&sql);
                assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            }
        }
    }
}

#[test]
fn tables_are_looked_up_in_a_calendar_and_not_the_other_way_round() {
    let mut numbers = Numbers::of_this_run();
    let seconds = (0..20_000).map(|_| numbers.below(50 * 86_400) as i64);
    let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(seconds));
    let both = Both::new().table("t", &[batch(vec![("s", times)])]);
    let sql = "SELECT day, count(s) FROM generate_series(timestamp '1970-01-01', timestamp \
               '1970-02-05', interval '1 day') AS days(day) LEFT JOIN t ON s::date = day::date \
               GROUP BY day";
    let ran = both.same(sql);
    assert_eq!(ran.rows.as_ref().map(Vec::len), Ok(36), "{:?}", ran.rows);
    let join = ran.plan.lines().find(|line| line.contains("Join")).unwrap();
    assert!(join.contains("join_type=Left"), "{}", ran.plan);
}

#[test]
fn mod_is_the_operator() {
    let both = table();
    let rows = |sql: &str| {
        let ran = both.same(sql);
        ran.rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    for (call, operator) in [("mod(k, 3)", "k % 3"), ("mod(-k, 2.5)", "-k % 2.5")] {
        let of = |value: &str| rows(&format!("SELECT {value} AS v, count(*) FROM t GROUP BY 1"));
        assert_eq!(of(call), of(operator));
    }
    assert!(both.same("SELECT mod(k) FROM t").rows.is_err());
    assert!(both.same("SELECT mod(k, 0) FROM t").rows.is_err());
}

#[test]
fn times_shifted_by_intervals_are_those_of_datafusion() {
    let both = table();
    for (sql, quick) in [
        (
            "SELECT k, us + interval '90 minutes', s - interval '3 days' FROM t",
            2,
        ),
        (
            "SELECT us - interval '1 day' + interval '1 microsecond' AS v, count(*) FROM t GROUP BY v",
            2,
        ),
        (
            "SELECT count(*), min(a.k) FROM t a JOIN t b ON a.us = b.us + interval '0 days' AND a.k = b.k",
            1,
        ),
        (
            "SELECT count(*) FROM t a LEFT JOIN t b ON a.s + interval '1 hour' = b.s - interval '1 hour' \
             AND a.k < b.k",
            2,
        ),
        (
            "SELECT us + interval '1 month', interval '1 day' + us, z + interval '1 day' FROM t",
            0,
        ),
        (
            "SELECT us::date + interval '1 day', us + NULL::interval FROM t",
            0,
        ),
        ("SELECT k FROM t WHERE us + interval '1 day' > s", 0),
    ] {
        let ran = both.same(sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        let found =
            ["tierloom_later", "tierloom_earlier"].map(|name| ran.plan.matches(name).count());
        assert!(found[0] + found[1] >= quick, "{sql}\n{}", ran.plan);
        assert!(quick > 0 || found == [0, 0], "{sql}\n{}", ran.plan);
    }
    let ran = both.same(
        "SELECT a.us::date, count(b.k) FROM t a LEFT JOIN t b ON a.us::date = (b.s + interval '1 day')::date \
         GROUP BY 1",
    );
    assert!(ran.rows.is_ok(), "{:?}", ran.rows);
    let ran = both.same("SELECT max(us + interval '1 week'), min(s - interval '1 second') FROM t");
    assert!(ran.rows.is_ok(), "{:?}", ran.rows);
}

#[test]
fn only_timestamps_without_a_time_zone_are_computed_by_arithmetic() {
    let both = table();
    for (value, is_quick) in [
        ("extract(month from us)", true),
        ("date_trunc('year', s)", true),
        ("us::date", true),
        ("extract(month from z)", false),
        ("z::date", false),
        ("extract(month from us::date)", true),
        ("extract(year from date '2024-05-06' + k)", true),
        ("extract(month from interval '3 months')", false),
        ("k", false),
    ] {
        let ran = both.same(&format!("SELECT {value}, count(*) FROM t GROUP BY 1"));
        assert!(ran.rows.is_ok(), "{value}: {:?}", ran.rows);
        assert_eq!(
            ran.plan.contains("tierloom_date"),
            is_quick,
            "{value}\n{}",
            ran.plan
        );
    }
}
