//! The rows that the scan drops by their codes are only such as the filter above it would drop.

use crate::common::{self, both};
use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray,
};
use std::sync::Arc;
use tierloom_engine::answer::to_text;
use tierloom_engine::load::Encoding;
use tierloom_engine::{Engine, PlacedTable};

const ROWS: i64 = 60_000;

/// Columns of every kind: few values, many values, NULLs, not encoded.
fn table(encoding: Encoding) -> Arc<PlacedTable> {
    let word = |row: i64| (row % 11 != 0).then(|| format!("a ship mode no. {}", row % 23));
    let percent = (0..ROWS).map(|row| (row % 17 != 0).then_some(i128::from(row % 100)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        (
            "percent",
            Arc::new(
                Decimal128Array::from_iter(percent)
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter_values(
                (0..ROWS).map(|row| 8_000 + (row / 25) as i32),
            )),
        ),
        (
            "mode",
            Arc::new(StringViewArray::from_iter((0..ROWS).map(word))),
        ),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(
                (0..ROWS).map(|row| row as f64 / 7.0),
            )),
        ),
        (
            "divisor",
            Arc::new(Int64Array::from_iter_values(
                (0..ROWS).map(|row| row % 9 + i64::from(row % 9 >= 4)),
            )),
        ),
    ];
    both::placed("t", &[both::batch(columns)], encoding)
}

fn answer(engine: &Engine, filter: &str) -> (String, String) {
    let sql = format!(
        "select count(*), sum(id), sum(percent), min(mode), max(mode), min(day), sum(divisor), max(price) from t where {filter}"
    );
    let planned = engine.plan(filter, &sql).unwrap();
    let done = engine.execute(filter, &planned, &|| false).unwrap();
    (to_text(&done.batches).unwrap(), planned.display())
}

#[test]
fn answers_equal_those_on_plain_columns_for_filters_of_every_kind() {
    let plain = common::engine(&[table(Encoding::Plain)]);
    let coded = common::engine(&[table(Encoding::Auto)]);
    for (filter, by_codes) in [
        ("percent = 0.07", true),
        (
            "percent between 0.05 and 0.07 and day < date '1992-03-01'",
            true,
        ),
        ("percent <> 0.07", true),
        ("percent is null", true),
        ("percent is not null and mode = 'a ship mode no. 3'", true),
        ("mode like '%no. 1%' and id > 1000", true),
        (
            "mode in ('a ship mode no. 2', 'a ship mode no. 22', 'nothing')",
            true,
        ),
        ("mode = 'no such mode'", true),
        ("mode > 'a ship mode no. 5' or mode is null", true),
        ("day = date '1991-11-27' and price > 3", true),
        (
            "coalesce(mode, 'a ship mode no. 7') = 'a ship mode no. 7'",
            true,
        ),
        // Two columns in one conjunct, or a column that is not encoded, cannot be tested by codes.
        ("percent = 0.07 or mode = 'a ship mode no. 3'", false),
        ("price < 10", false),
        // The domain contains a 4 that no row has. Evaluating the predicate on it fails, so the
        // predicate is left to the filter, which never sees a 4.
        ("10 / (divisor - 4) > 4", false),
        ("random() < 2", false),
    ] {
        let (expected, _) = answer(&plain, filter);
        let (found, plan) = answer(&coded, filter);
        assert_eq!(found, expected, "{filter}");
        assert_eq!(
            plan.contains("filtered by codes"),
            by_codes,
            "{filter}:\n{plan}"
        );
    }
}

#[test]
fn a_limit_below_a_filter_counts_rows_before_the_filter() {
    let sql = "select count(*) from (select * from t limit 100) where percent = 0.07";
    let answers = [Encoding::Plain, Encoding::Auto].map(|encoding| {
        let engine = common::engine(&[table(encoding)]);
        let planned = engine.plan("limit", sql).unwrap();
        to_text(
            &engine
                .execute("limit", &planned, &|| false)
                .unwrap()
                .batches,
        )
        .unwrap()
    });
    assert_eq!(answers[0], answers[1]);
}
