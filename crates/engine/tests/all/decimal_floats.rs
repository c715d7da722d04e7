//! Floats that are decimals and times of whole steps are kept as narrow codes; answers must be
//! those of the values.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Float64Type;
use std::sync::Arc;

const ROWS: usize = 20_000;

fn floats(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

/// `few` has some 40 values, `amount` 3,000,000 cents, `other` both signs and NULL, `quarter` sums
/// that are exact in any order, never 0, so that it can divide; `t` whole seconds and `day` whole
/// days.
fn trips(numbers: &mut Numbers) -> RecordBatch {
    let mut cents = |most: u64, less: f64, nulls: u64| {
        floats((0..ROWS).map(|_| {
            let value = (numbers.below(most) as f64 - less) / 100.0;
            (nulls == 0 || numbers.below(nulls) != 0).then_some(value)
        }))
    };
    let (few, amount) = (cents(40, 7.0, 9), cents(3_000_000, 0.0, 0));
    let other = cents(2_000_000, 1_000_000.0, 5);
    let quarter = floats((0..ROWS).map(|_| Some((1 + numbers.below(400_000)) as f64 / 4.0)));
    let mut times = |most: u64, step: i64, nulls: u64| -> ArrayRef {
        let times = (0..ROWS).map(|_| {
            let at = (numbers.below(most) as i64 - most as i64 / 3) * step;
            (nulls == 0 || numbers.below(nulls) != 0).then_some(at)
        });
        Arc::new(times.collect::<TimestampMicrosecondArray>())
    };
    let t = times(40_000_000, 1_000_000, 0);
    let day = times(1_000, 86_400_000_000, 7);
    let k: Int64Array = (0..ROWS).map(|_| numbers.below(5) as i64).collect();
    batch(vec![
        ("few", few),
        ("amount", amount),
        ("other", other),
        ("quarter", quarter),
        ("t", t),
        ("day", day),
        ("k", Arc::new(k)),
    ])
}

fn places() -> RecordBatch {
    let names = StringArray::from(vec!["a", "b", "a", "c"]);
    batch(vec![
        ("id", Arc::new(Int64Array::from(vec![0, 1, 2, 3]))),
        ("name", Arc::new(names)),
        ("share", floats([0.5, 0.25, 0.1, 2.0].into_iter().map(Some))),
    ])
}

fn both() -> Both {
    Both::new()
        .table("f", &[trips(&mut Numbers::of_this_run())])
        .table("d", &[places()])
}

#[test]
fn columns_of_decimals_and_of_coarse_times_take_few_bytes() {
    let table = crate::common::both::placed(
        "f",
        &[trips(&mut Numbers::of_this_run())],
        tierloom_engine::load::Encoding::Auto,
    );
    let of = |name: &str| {
        let mut columns = table.columns().iter();
        columns.find(|c| c.name() == name).unwrap().encoding()
    };
    assert_eq!(of("few"), "1 B decimal");
    assert_eq!(of("amount"), "3 B decimal");
    assert_eq!(of("other"), "3 B decimal");
    assert_eq!(of("t"), "4 B offset");
    assert_eq!(of("day"), "2 B offset");
}

#[test]
fn sums_and_extremes_of_decimals_are_fused_and_right() {
    let both = both();
    // Sums of floats differ in their last digits with the order of the rows.
    // Sums of cents are often halfway between two of the short floats; such products are not.
    let rounded = |value: &str| format!("cast(1.2345678901 * {value} as real)");
    let mut values = vec![
        "count(other)".to_owned(),
        "min(amount)".into(),
        "max(other)".into(),
        "sum(quarter)".into(),
        "avg(quarter)".into(),
        "sum(cast(amount as decimal(12, 2)))".into(),
        "sum(case when few > 0.1 then quarter end)".into(),
        "min(case when k = 1 then amount else 0 end)".into(),
        "sum(cast(k as double))".into(),
        "count(*) filter (where few = 0.1)".into(),
        "max(t - day)".into(),
        "avg(t - day)".into(),
        "sum(quarter) filter (where other < 12 or few is null)".into(),
        "count(few) filter (where few > other)".into(),
        "min(other) filter (where false)".into(),
    ];
    values.extend(
        [
            "sum(amount)",
            "avg(other)",
            "sum(few)",
            "sum(amount * few)",
            "sum(amount - 2 * other)",
            "sum(-few)",
            "sum(case when k = 1 then amount when k = 2 then 0.125 else few end)",
            "stddev(few)",
            "var_pop(other)",
            "corr(few, other)",
            "sum(amount / 3)",
            "avg(other / quarter)",
            "sum(100 * other / nullif(amount, 0))",
            "avg(other * few / quarter * 2)",
            "sum(case when amount > 0.5 then few / amount else 0 end)",
            "avg(other / amount) filter (where amount > 1 and k <> 3)",
            "avg(extract(epoch from t - timestamp '1970-01-01 00:00:00'))",
            "sum(extract(epoch from t - day) / 3600)",
            "avg(extract(epoch from t))",
            "covar_samp(amount, quarter)",
        ]
        .map(rounded),
    );
    for value in &values {
        // Without a condition, statistics answer some.
        both.same_fused(&format!("select {value} from f where k < 4"));
        both.same_fused(&format!("select k, {value} from f group by k"));
        both.same_fused(&format!(
            "select d.name, {value} from f join d on f.k = d.id where f.other < 30 group by d.name"
        ));
    }
    for group in ["few", "floor(few)", "day", "amount", "t"] {
        both.same(&format!(
            "select {group}, count(*), sum(quarter) from f group by {group}"
        ));
    }
    both.same(
        "select k, cast(1.2345678901 * sum(amount * share) as real) \
         from f join d on k = id group by k",
    );
}

#[test]
fn quotients_are_those_of_floats_by_zero_too() {
    let both = both();
    for zero in [
        "sum(quarter / few), avg(quarter / (few - few))",
        "sum(quarter / 0), avg(few / 0.0)",
        "max(other / few), min(-few / other)",
    ] {
        both.same_fused(&format!("select {zero} from f where few = 0 or k = 1"));
        both.same(&format!("select k, {zero} from f group by k"));
    }
    for value in [
        "stddev(other / amount)",
        "corr(few / amount, other)",
        "covar_pop(other, quarter / 7)",
        "var_pop(few / 3)",
        "min(other / amount)",
        "max(sqrt(abs(other)) - ln(amount))",
        "sum(floor(other / 8) + ceil(few) - exp(few))",
        "count(other / amount)",
        "max(case when other / amount > 0.5 then few else -few end)",
        "sum(case when few / 3 > 0.03 then quarter end)",
        "sum(case when few + 0.1 = 0.3 then 1 / amount else few end)",
        "count(*) filter (where other * few < amount / 3 or few <> other - amount)",
    ] {
        both.same_fused(&format!(
            "select k, cast(1.2345678901 * {value} as real) from f where amount > 1 group by k"
        ));
    }
    both.same(
        "select k, sum(cast(other / 8 as decimal(12, 4))) from f where amount > 1 group by k",
    );
}

#[test]
fn conditions_ask_for_the_floats_that_sql_computes() {
    let both = both();
    for column in ["few", "amount", "other"] {
        for op in ["=", "<>", "<", "<=", ">", ">="] {
            for constant in [
                "0.07",
                "0.3",
                "0.30000000000000004",
                "12",
                "-5000.01",
                "1e300",
            ] {
                let sql =
                    format!("select count(*), max(quarter) from f where {column} {op} {constant}");
                both.same_fused(&sql);
                // The scan filters where nothing is aggregated.
                both.same(&format!(
                    "select k, quarter from f where {column} {op} {constant} and k < 2"
                ));
            }
            for odd in ["'NaN'", "'-Infinity'", "'-0.0'"] {
                both.same(&format!(
                    "select count(*) from f where {column} {op} cast({odd} as double)"
                ));
            }
        }
        for rest in [
            "in (0.07, 0.1, 3.5, 0.30000000000000004)",
            "not in (0.07, 12.5)",
            "between 0.05 and 0.2",
            "is null",
            "+ 0.1 = 0.3",
            "+ few > other",
            "* 3 = amount * 3",
            "< few + 0.01",
            "= few",
        ] {
            both.same(&format!(
                "select count(*), sum(quarter) from f where {column} {rest}"
            ));
        }
    }
    both.same("select count(*) from f where few + 0.1 = 0.3 or few * 3 = 0.3");
    both.same("select k, max(few + 0.2), min(few * 3), max(-few) from f group by k");
    both.same("select few + 0.2, count(*) from f group by few + 0.2");
}

#[test]
fn times_of_whole_steps_are_compared_joined_and_sorted_as_they_are() {
    let both = both();
    for column in ["t", "day"] {
        for op in ["=", "<", "<=", ">", ">="] {
            for time in [
                "1970-01-01 00:00:00",
                "1970-02-03 00:00:00.000001",
                "1969-12-31 23:59:59.999999",
                "2100-01-01 00:00:00",
            ] {
                let condition = format!("{column} {op} timestamp '{time}'");
                both.same_fused(&format!(
                    "select count(*), min({column}), max({column}) from f where {condition}"
                ));
                both.same(&format!(
                    "select k, {column} from f where {condition} and k = 3"
                ));
            }
        }
        both.same(&format!(
            "select {column}, quarter, amount from f order by {column}, quarter, amount limit 20"
        ));
        both.same(&format!(
            "select {column}, quarter, amount from f order by {column} desc, quarter, amount limit 20"
        ));
    }
    both.same("select count(*), sum(a.quarter) from f a join f b on a.day = b.day and a.k = b.k");
    both.same("select count(*) from f where day = t or day < t - interval '3 days'");
    both.same("select count(*) from f a join (select max(day) as m from f) b on a.day = b.m");
    for column in ["amount", "other"] {
        both.same(&format!(
            "select {column} from f order by {column} limit 50"
        ));
        both.same(&format!(
            "select {column} from f order by {column} desc limit 50"
        ));
        both.same(&format!("select count(distinct {column}) from f"));
    }
}

#[test]
fn what_is_the_same_for_a_day_or_an_hour_is_looked_up_by_it() {
    let mut numbers = Numbers::of_this_run();
    for nulls in [0, 11] {
        // Seconds around 1970, over a year and a half.
        let times = (0..ROWS).map(|_| {
            let at = (numbers.below(50_000_000) as i64 - 20_000_000) * 1_000_000;
            (nulls == 0 || numbers.below(nulls) != 0).then_some(at)
        });
        let times: ArrayRef = Arc::new(times.collect::<TimestampMicrosecondArray>());
        let k: Int64Array = (0..ROWS).map(|_| numbers.below(5) as i64).collect();
        let columns = vec![("t", times), ("k", Arc::new(k) as ArrayRef)];
        let both = Both::new().table("f", &[batch(columns)]);
        for value in [
            "extract(year from t)",
            "date_part('dow', t)",
            "date_part('hour', t)",
            "date_part('week', t)",
            "date_trunc('month', t)",
            "date_trunc('hour', t)",
            "date_trunc('week', t)",
            "cast(t as date)",
            "to_char(t, '%Y-%m')",
            "extract(month from t) + 12 * extract(year from t)",
            "case when extract(hour from t) < 6 then 'night' when t is not null then 'day' end",
        ] {
            let grouped = format!("select {value}, count(*), sum(k) from f group by {value}");
            assert!(both.same_fused(&grouped).rows.unwrap().len() > 1);
            both.same(&format!(
                "select {value}, k, count(*) from f group by {value}, k"
            ));
            both.same(&format!(
                "select k, min({value}), max({value}) from f group by k"
            ));
        }
        for condition in [
            "extract(year from t) = 1970",
            "extract(month from t) = 3",
            "date_part('hour', t) between 7 and 9",
            "date_part('hour', t) = 25",
            "date_trunc('month', t) = timestamp '1970-03-01 00:00:00'",
            "date_trunc('month', t) <> timestamp '1970-03-01 00:00:00'",
            "cast(t as date) >= date '1970-02-03' and extract(dow from t) in (0, 6)",
            "coalesce(extract(year from t), 1970) = 1970",
            "extract(year from t) is null",
            "not (date_part('dow', t) = 1)",
            "date_part('dow', t) = k",
        ] {
            let fused = "count(*), sum(k), max(t)";
            both.same_fused(&format!("select {fused} from f where {condition}"));
            both.same(&format!("select k, t from f where {condition} and k = 1"));
        }
        both.same("select date_part('second', t), count(*) from f group by date_part('second', t)");
        both.same("select date_part('minute', t), count(*) from f group by date_part('minute', t)");
    }
}

#[test]
fn a_sum_of_decimals_is_the_float_next_to_the_exact_sum() {
    let trips = trips(&mut Numbers::of_this_run());
    let cents = |name: &str| -> i64 {
        let floats = trips
            .column_by_name(name)
            .unwrap()
            .as_primitive::<Float64Type>();
        floats
            .iter()
            .flatten()
            .map(|v| (v * 100.0).round() as i64)
            .sum()
    };
    let both = Both::new().table("f", std::slice::from_ref(&trips));
    for name in ["few", "amount", "other"] {
        let sql = format!("select sum({name}) from f");
        let planned = both.ours.plan("query", &sql).unwrap();
        let done = both.ours.execute("query", &planned, &|| false).unwrap();
        let sum = done.batches[0]
            .column(0)
            .as_primitive::<Float64Type>()
            .value(0);
        assert_eq!(
            sum.to_bits(),
            (cents(name) as f64 / 100.0).to_bits(),
            "{name}"
        );
    }
}
