//! Windows that run from the first row of a partition give what DataFusion's operator gives.

use crate::common::Numbers;
use crate::common::both::{Both, batch, run};
use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use std::sync::Arc;

/// Few partitions or many, with NULLs in all columns; `id` tells rows apart.
pub fn rows(count: u64, partitions: u64, numbers: &mut Numbers) -> RecordBatch {
    let mut some = |bound: u64| -> Vec<Option<i64>> {
        let value = |_| (numbers.below(7) != 0).then(|| numbers.below(bound) as i64);
        (0..count).map(value).collect()
    };
    let (p, s, o) = (some(partitions), some(3), some(count / 3 + 2));
    let (n, d, f, t) = (some(1000), some(9000), some(500), some(40));
    let decimals: Decimal128Array = d.iter().map(|v| v.map(i128::from)).collect();
    let floats = f.iter().map(|v| v.map(|v| v as f64 / 7.0));
    // Sums of these are exact.
    let eighths = f.iter().map(|v| v.map(|v| v as f64 / 8.0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..count as i64)),
        ),
        ("p", Arc::new(Int64Array::from(p))),
        (
            "s",
            Arc::new(StringArray::from_iter(
                s.iter().map(|v| v.map(|v| format!("word {v}"))),
            )),
        ),
        ("o", Arc::new(Int64Array::from(o))),
        (
            "n",
            Arc::new(Int32Array::from_iter(n.iter().map(|v| v.map(|v| v as i32)))),
        ),
        (
            "d",
            Arc::new(decimals.with_precision_and_scale(9, 2).unwrap()),
        ),
        ("f", Arc::new(Float64Array::from_iter(floats))),
        ("g", Arc::new(Float64Array::from_iter(eighths))),
        (
            "t",
            Arc::new(Date32Array::from_iter(
                t.iter().map(|v| v.map(|v| v as i32)),
            )),
        ),
    ];
    batch(columns)
}

const FUNCTIONS: [&str; 27] = [
    "row_number()",
    "rank()",
    "dense_rank()",
    "count(*)",
    "count(n)",
    "sum(n)",
    "sum(d)",
    "sum(f)",
    "avg(f)",
    "avg(n)",
    "min(n)",
    "max(d)",
    "min(t)",
    "max(o)",
    "sum(n + o)",
    "lag(n)",
    "lag(s, 3)",
    "lag(d)",
    "lag(f * 2, 700)",
    "lead(n)",
    "lead(s, 3)",
    "lead(d)",
    "lead(f * 2, 700)",
    "first_value(n)",
    "first_value(s)",
    "last_value(d)",
    "last_value(id)",
];

const PARTITIONS: [&str; 5] = [
    "",
    "PARTITION BY p",
    "PARTITION BY s, p",
    "PARTITION BY s",
    "",
];

/// Orders with and without peers; numbers of rows depend on the order of peers.
const ORDERS: [&str; 4] = [
    "ORDER BY id",
    "ORDER BY o, id",
    "ORDER BY o DESC NULLS LAST",
    "ORDER BY t, s",
];

const FRAMES: [&str; 4] = [
    "",
    "ROWS UNBOUNDED PRECEDING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "GROUPS UNBOUNDED PRECEDING",
];

#[test]
fn random_running_windows_give_the_same_values() {
    let mut numbers = Numbers::of_this_run();
    let mut replaced = 0;
    for (count, partitions) in [(0, 3), (1, 1), (900, 4), (40_000, 7), (40_000, 15_000)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for _ in 0..24 {
            let mut windows = Vec::new();
            let partition = numbers.one_of(&PARTITIONS);
            for name in ["a", "b", "c"] {
                let function = *numbers.one_of(&FUNCTIONS);
                let of_rows = ["row_", "lag", "lead", "first_", "last_"];
                let is_number = of_rows.iter().any(|name| function.starts_with(name));
                // Which of the rows with the same keys comes first is not said.
                let order = match is_number || numbers.below(2) == 0 {
                    true => ORDERS[numbers.below(2) as usize],
                    false => ORDERS[2 + numbers.below(2) as usize],
                };
                let has_peers = order == ORDERS[2] || order == ORDERS[3];
                let frame = match *numbers.one_of(&FRAMES) {
                    "ROWS UNBOUNDED PRECEDING" if has_peers => "",
                    frame => frame,
                };
                let over = format!("{function} OVER ({partition} {order} {frame})");
                // Peers may be added up in another order.
                windows.push(match function.contains("(f)") {
                    true => format!("round({over}, 6) AS {name}"),
                    false => format!("{over} AS {name}"),
                });
            }
            let sql = format!("SELECT id, {} FROM rows", windows.join(", "));
            let ran = both.same(&sql);
            assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            replaced += usize::from(ran.plan.contains("RunningWindowExec"));
        }
    }
    assert!(replaced > 90, "{replaced} of 120 plans have the operator");
}

/// Frames of rows before and after the current one, some longer than a batch has rows.
fn frame_of_rows(numbers: &mut Numbers) -> String {
    let most = *numbers.one_of(&[2, 30, 4_000]);
    let mut place = || numbers.below(2 * most + 1) as i64 - most as i64;
    let (a, b) = (place(), place());
    let bound = |place: i64| match place {
        0 => "CURRENT ROW".to_owned(),
        1.. => format!("{place} FOLLOWING"),
        _ => format!("{} PRECEDING", -place),
    };
    format!("ROWS BETWEEN {} AND {}", bound(a.min(b)), bound(a.max(b)))
}

#[test]
fn random_frames_of_rows_give_the_same_values() {
    const FUNCTIONS: [&str; 16] = [
        "count(*)",
        "count(n)",
        "sum(n)",
        "sum(d)",
        "sum(g)",
        "avg(g)",
        "avg(n)",
        "min(n)",
        "max(d)",
        "min(t)",
        "max(o)",
        "min(f)",
        "max(f)",
        "first_value(n)",
        "last_value(s)",
        "first_value(d)",
    ];
    let mut numbers = Numbers::of_this_run();
    for (count, partitions) in [(0, 3), (1, 1), (900, 4), (40_000, 7), (40_000, 15_000)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for _ in 0..16 {
            let partition = numbers.one_of(&PARTITIONS);
            let windows = ["a", "b", "c"].map(|name| {
                let function = *numbers.one_of(&FUNCTIONS);
                let (order, frame) = (
                    ORDERS[numbers.below(2) as usize],
                    frame_of_rows(&mut numbers),
                );
                format!("{function} OVER ({partition} {order} {frame}) AS {name}")
            });
            let sql = format!("SELECT id, {} FROM rows", windows.join(", "));
            let ran = both.same(&sql);
            assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            assert!(
                ran.plan.contains("RunningWindowExec"),
                "{sql}: {}",
                ran.plan
            );
        }
    }
}

/// Frames by the value of the key, some with no row, some with more rows than a batch has.
fn frame_by_value(numbers: &mut Numbers) -> (String, String) {
    let (key, most, unit) = *numbers.one_of(&[
        ("o", 20, ""),
        ("o", 9_000, ""),
        ("n", 3, ""),
        ("d", 60, ""),
        ("g", 5, ".125"),
        ("f", 30, ""),
        ("t", 3, " day"),
        ("to_timestamp(o)", 4_000, " second"),
        ("to_timestamp(n)::timestamp(3)", 10, " minutes"),
    ]);
    let mut place = || numbers.below(2 * most + 1) as i64 - most as i64;
    let (a, b) = (place(), place());
    let bound = |place: i64| {
        let distance = match unit.starts_with(' ') {
            true => format!("INTERVAL '{}{unit}'", place.abs()),
            false => format!("{}{unit}", place.abs()),
        };
        match place {
            0 => "CURRENT ROW".to_owned(),
            1.. => format!("{distance} FOLLOWING"),
            _ => format!("{distance} PRECEDING"),
        }
    };
    let frame = format!("RANGE BETWEEN {} AND {}", bound(a.min(b)), bound(a.max(b)));
    let direction = numbers.one_of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    (format!("ORDER BY {key}{direction}"), frame)
}

#[test]
fn random_frames_by_value_give_the_same_values() {
    const FUNCTIONS: [&str; 11] = [
        "count(*)", "count(n)", "sum(n)", "sum(d)", "sum(g)", "avg(g)", "min(n)", "max(d)",
        "min(t)", "max(o)", "min(f)",
    ];
    let mut numbers = Numbers::of_this_run();
    for (count, partitions) in [(0, 3), (1, 1), (900, 4), (30_000, 7), (30_000, 9_000)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        let ends = both.same(
            "SELECT id, first_value(n) OVER w AS a, last_value(s) OVER w AS b, count(*) OVER w AS c FROM \
             rows WINDOW w AS (PARTITION BY p ORDER BY id RANGE BETWEEN 9 PRECEDING AND 4 FOLLOWING)",
        );
        assert!(ends.rows.is_ok(), "{:?}", ends.rows);
        assert!(ends.plan.contains("RunningWindowExec"), "{}", ends.plan);
        for _ in 0..16 {
            let partition = numbers.one_of(&PARTITIONS);
            let (order, frame) = frame_by_value(&mut numbers);
            let windows = ["a", "b"].map(|name| {
                let function = *numbers.one_of(&FUNCTIONS);
                format!("{function} OVER ({partition} {order} {frame}) AS {name}")
            });
            let sql = format!("SELECT id, {} FROM rows", windows.join(", "));
            let ran = both.same(&sql);
            assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            assert!(
                ran.plan.contains("RunningWindowExec"),
                "{sql}: {}",
                ran.plan
            );
        }
    }
}

#[test]
fn what_has_left_a_frame_does_not_change_its_values() {
    let values = [0.1, 1e300, f64::INFINITY, f64::NAN, 0.2, 0.3, -0.0, 0.4];
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    let both = Both::new().table("rows", &[batch(vec![("id", id), ("x", values)])]);
    let sql = "SELECT id, sum(x) OVER w AS s, max(x) OVER w AS m, min(x) OVER w AS l FROM rows \
               WINDOW w AS (ORDER BY id ROWS 1 PRECEDING)";
    let found = run(&both.ours, sql).rows.unwrap();
    let found: Vec<&str> = found
        .iter()
        .map(|row| row.trim_matches('|').trim())
        .collect();
    let cells = |row: usize| -> Vec<&str> { found[row].split('|').map(str::trim).collect() };
    assert_eq!(cells(2), ["2", "inf", "inf", "1e300"]);
    assert_eq!(cells(3), ["3", "NaN", "NaN", "inf"]);
    assert_eq!(cells(4), ["4", "NaN", "NaN", "0.2"]);
    assert_eq!(cells(5), ["5", "0.5", "0.3", "0.2"]);
    assert_eq!(cells(7)[..2], ["7", "0.4"]);
}

/// Limits on a rank or a number of rows, and what else may be asked of the same rows.
const LIMITS: [&str; 6] = [
    "a <= 3",
    "a < 2",
    "a = 1",
    "2 >= a",
    "a <= 0",
    "a <= 40 AND b > 2",
];

#[test]
fn the_first_rows_of_windows_are_those_of_a_full_sort() {
    let mut numbers = Numbers::of_this_run();
    let mut dropped = 0;
    let sizes = [
        (0, 3),
        (900, 4),
        (40_000, 7),
        (40_000, 15_000),
        (150_000, 120_000),
    ];
    for (count, partitions) in sizes {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for _ in 0..20 {
            let partition = numbers.one_of(&PARTITIONS);
            let function = *numbers.one_of(&["row_number()", "rank()"]);
            let order = *numbers.one_of(&["o", "t DESC", "s", "d NULLS FIRST", "f DESC"]);
            // Which of the rows with the same keys has a number is not said.
            let rest = match function {
                "rank()" => *numbers.one_of(&["", ", n", ", id DESC"]),
                _ => *numbers.one_of(&[", id", ", s, id DESC"]),
            };
            let over = format!("({partition} ORDER BY {order}{rest})");
            let other = *numbers.one_of(&["count(*)", "dense_rank()", "sum(n)", "row_number()"]);
            let other = match other {
                "row_number()" if function == "rank()" => "max(o)",
                other => other,
            };
            let limit = numbers.one_of(&LIMITS);
            let sql = format!(
                "SELECT id, x, a, b FROM (SELECT id, {function} OVER {over} AS a, s AS x, \
                 {other} OVER {over} AS b FROM rows) WHERE {limit}"
            );
            let ran = both.same(&sql);
            assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            dropped += usize::from(ran.plan.contains("WindowTopExec"));
        }
    }
    // Dropping rows is given up where windows have one row, and where each row is better than those
    // before it.
    let both = Both::new().table("rows", &[rows(600_000, 9, &mut numbers)]);
    for over in ["PARTITION BY id ORDER BY o", "ORDER BY id DESC"] {
        let ran = both.same(&format!(
            "SELECT sum(id), count(*), sum(a) FROM (SELECT id, rank() OVER ({over}) AS a FROM rows) WHERE a <= 3"
        ));
        assert!(ran.plan.contains("WindowTopExec"), "{}", ran.plan);
    }
    assert!(dropped > 60, "{dropped} of 80 plans have the operator");
}

#[test]
fn rows_are_not_dropped_below_windows_that_need_all() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("rows", &[rows(3_000, 5, &mut numbers)]);
    for (window, limit) in [
        ("dense_rank() OVER (PARTITION BY p ORDER BY o)", "a <= 3"),
        ("rank() OVER (PARTITION BY p ORDER BY o)", "a >= 3"),
        (
            "rank() OVER (PARTITION BY p ORDER BY o)",
            "a <= 3 OR id < 9",
        ),
        ("rank() OVER (PARTITION BY p ORDER BY o)", "a <= id"),
        ("sum(n) OVER (PARTITION BY p ORDER BY o)", "a <= 3"),
        (
            "rank() OVER (PARTITION BY p ORDER BY o), sum(n) OVER (PARTITION BY p)",
            "a <= 3",
        ),
    ] {
        let (first, rest) = window.split_once("), ").unwrap_or((window, ""));
        let rest = match rest {
            "" => String::new(),
            rest => format!(", {rest} AS b"),
        };
        let first = first.trim_end_matches(')');
        let ran = both.same(&format!(
            "SELECT * FROM (SELECT id, {first}) AS a{rest} FROM rows) WHERE {limit}"
        ));
        assert!(
            !ran.plan.contains("WindowTopExec"),
            "{window}: {}",
            ran.plan
        );
    }
}

#[test]
fn other_windows_are_left_to_datafusion() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("rows", &[rows(3_000, 5, &mut numbers)]);
    for window in [
        "sum(n) OVER (PARTITION BY p ORDER BY id ROWS BETWEEN 5000 PRECEDING AND CURRENT ROW)",
        "sum(n) OVER (PARTITION BY p ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING)",
        "sum(n) OVER (PARTITION BY p ORDER BY t RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW)",
        "sum(n) FILTER (WHERE n > 9) OVER (PARTITION BY p ORDER BY id ROWS 2 PRECEDING)",
        "max(s) OVER (PARTITION BY p ORDER BY id ROWS 2 PRECEDING)",
        "sum(n) FILTER (WHERE n > 9) OVER (PARTITION BY p ORDER BY id)",
        "max(s) OVER (PARTITION BY p ORDER BY id)",
        "lag(n, 1, 5) OVER (PARTITION BY p ORDER BY id)",
        "lag(n, -1) OVER (PARTITION BY p ORDER BY id)",
        "lag(n) IGNORE NULLS OVER (PARTITION BY p ORDER BY id)",
        "lead(n, 1, 5) OVER (PARTITION BY p ORDER BY id)",
        "lead(n, -2) OVER (PARTITION BY p ORDER BY id)",
        "first_value(n) IGNORE NULLS OVER (PARTITION BY p ORDER BY id)",
        "last_value(n) OVER (PARTITION BY p ORDER BY id ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)",
        "count(n) OVER (PARTITION BY p ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
    ] {
        let ran = both.same(&format!("SELECT id, {window} AS w FROM rows"));
        assert!(!ran.plan.contains("RunningWindowExec"), "{}", ran.plan);
    }
}

#[test]
fn a_running_sum_that_leaves_its_type_is_an_error() {
    let large: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX - 1, 1, 1]));
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let both = Both::new().table("rows", &[batch(vec![("id", id), ("n", large)])]);
    // Plain DataFusion returns a sum modulo 2^64.
    let sum = |rows: &str| {
        let sql = format!("SELECT sum(n) OVER (ORDER BY id) FROM {rows}");
        run(&both.ours, &sql)
    };
    assert_eq!(sum("rows WHERE id < 3").rows.unwrap().len(), 2);
    let error = sum("rows").rows.unwrap_err();
    assert!(
        error.contains("leaves the range of its type Int64"),
        "{error}"
    );
}
