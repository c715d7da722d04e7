//! Star joins over columns that have no codes: random floats, integers of 64 bits, times of
//! microseconds. Answers must be those of plain DataFusion.

use crate::common::Numbers;
use crate::common::both::{Both, batch, placed};
use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use std::sync::Arc;
use tierloom_engine::load::Encoding;

const ROWS: usize = 30_000;

/// A float between 1 and 2 with all of its bits, or a multiple of it.
fn random(numbers: &mut Numbers) -> f64 {
    1.0 + (numbers.next() >> 12) as f64 / (1_u64 << 52) as f64
}

/// `x` of both signs with NULLs, `y` from 1 to 1,000, `odd` with zeros of both signs, NaN and
/// infinities, `eighth` with sums that are exact in any order, wide integers `n`, times `t` in the
/// order of the rows and `u` after them or NULL, a key `k`, few values `g`, and whether a row is
/// `late`, which may be NULL, and `even`; `volt` has floats of 32 bits.
fn readings(numbers: &mut Numbers) -> RecordBatch {
    let mut floats = |value: &dyn Fn(&mut Numbers, usize) -> Option<f64>| -> ArrayRef {
        let values = (0..ROWS).map(|row| value(numbers, row));
        Arc::new(values.collect::<Float64Array>())
    };
    let x = floats(&|n, _| {
        let value = random(n) * 1e4 - 1.5e4;
        (n.below(8) != 0).then_some(value)
    });
    let y = floats(&|n, _| Some(random(n) * 999.0 - 998.0));
    let odd = floats(&|n, row| {
        Some(match row % 97 {
            0 => -0.0,
            1 => 0.0,
            2 if row > ROWS / 2 => f64::NAN,
            3 => f64::INFINITY,
            4 => f64::NEG_INFINITY,
            _ => random(n) * 8.0 - 12.0,
        })
    });
    let eighth = floats(&|n, row| {
        // One value keeps the column from being taken as decimals.
        let value = ((n.next() >> 30) as f64 - 8e9) / 8.0;
        Some(if row == 7 { value + 1e-9 * 0.5 } else { value })
    });
    let whole =
        |numbers: &mut Numbers, row: usize| (row << 32) as i64 + (numbers.next() >> 33) as i64;
    let n: Int64Array = (0..ROWS)
        .map(|_| Some((numbers.next() >> 8) as i64 - (1 << 55)))
        .collect();
    let t: Vec<i64> = (0..ROWS).map(|row| whole(numbers, row)).collect();
    let u = t.iter().map(|t| {
        let later = t + (numbers.next() >> 30) as i64;
        (numbers.below(6) != 0).then_some(later)
    });
    let u: TimestampMicrosecondArray = u.collect();
    let k: Int64Array = (0..ROWS).map(|_| numbers.below(60) as i64).collect();
    let volt: Float32Array = (0..ROWS)
        .map(|row| match (row % 89, numbers.below(7)) {
            (0, _) => Some(-0.0),
            (1, _) => Some(f32::NAN),
            (_, 0) => None,
            _ => Some(random(numbers) as f32 * 3.0 - 4.0),
        })
        .collect();
    let late: BooleanArray = (0..ROWS)
        .map(|_| (numbers.below(9) != 0).then_some(numbers.below(3) == 0))
        .collect();
    let even: BooleanArray = (0..ROWS).map(|row| Some(row % 2 == 0)).collect();
    let g: StringArray = (0..ROWS)
        .map(|_| Some(["a", "b", "c"][numbers.below(3) as usize]))
        .collect();
    batch(vec![
        ("x", x),
        ("y", y),
        ("odd", odd),
        ("eighth", eighth),
        ("n", Arc::new(n)),
        ("t", Arc::new(TimestampMicrosecondArray::from(t))),
        ("u", Arc::new(u)),
        ("k", Arc::new(k)),
        ("g", Arc::new(g)),
        ("volt", Arc::new(volt)),
        ("late", Arc::new(late)),
        ("even", Arc::new(even)),
    ])
}

/// `scale` and `shift` are floats with all of their bits, some NULL; `name` repeats.
fn devices(numbers: &mut Numbers) -> RecordBatch {
    let mut floats = |nulls: bool| -> ArrayRef {
        let values = (0..50).map(|_| {
            let value = random(numbers) * 3.0 - 2.0;
            (!nulls || numbers.below(5) != 0).then_some(value)
        });
        Arc::new(values.collect::<Float64Array>())
    };
    let (scale, shift) = (floats(false), floats(true));
    let names: StringArray = (0..50).map(|id| Some(format!("d{}", id % 7))).collect();
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..50))),
        ("scale", scale),
        ("shift", shift),
        ("name", Arc::new(names)),
    ])
}

fn both() -> Both {
    let mut numbers = Numbers::of_this_run();
    Both::new()
        .table("f", &[readings(&mut numbers)])
        .table("d", &[devices(&mut numbers)])
}

/// Sums of floats differ in their last digits with the order of the rows.
fn rounded(value: &str) -> String {
    format!("cast(1.2345678901 * {value} as real)")
}

#[test]
fn the_columns_are_not_kept_as_codes() {
    let batch = readings(&mut Numbers::of_this_run());
    let table = placed("f", &[batch], Encoding::Auto);
    for name in ["x", "y", "odd", "eighth", "n", "t", "u", "late", "even"] {
        let column = table.columns().iter().find(|c| c.name() == name).unwrap();
        assert_eq!(column.encoding(), "plain", "{name}");
    }
}

#[test]
fn aggregates_of_words_are_fused_and_right() {
    let both = both();
    let mut values: Vec<String> = [
        "count(x)",
        "count(u)",
        "count(late)",
        "min(volt)",
        "max(volt)",
        "count(volt)",
        "max(volt * y)",
        "count(*) filter (where volt > 0.1 and volt <> 2)",
        "count(*) filter (where late and not even)",
        "sum(case when late then 1 when not late then k else 0 end)",
        "sum(cast(even as int))",
        "max(x) filter (where late is not true)",
        "min(case when even = late then y end)",
        "min(x)",
        "max(x)",
        "min(odd)",
        "max(odd)",
        "min(y * x - odd)",
        "max(-x)",
        "max(abs(x) + sqrt(y))",
        "min(n)",
        "max(n)",
        "min(t)",
        "max(u)",
        "max(u - t)",
        "count(*) filter (where x > 0 and odd < 0)",
        "min(y) filter (where x is null)",
        "max(case when x > y then x when odd <= 0 then y end)",
        "sum(case when odd = 0 then 1 else 0 end)",
        "sum(case when odd > 1e300 or odd <> odd then 1 end)",
        "sum(odd)",
        "avg(case when k < 30 then odd else 'NaN'::double end)",
    ]
    .map(str::to_owned)
    .into();
    let sums = [
        "sum(x)",
        "avg(y)",
        "avg(x * y)",
        "sum((x - y) / ((x + y * 40000) / 2))",
        "sum(x * 0.1 + k)",
        "avg(floor(x) - ceil(y) + exp(1 / y) - ln(y))",
        "stddev(x)",
        "var_pop(y)",
        "var(1e6 + y)",
        "covar_samp(x, y)",
        "corr(x, k)",
        "regr_slope(x, y)",
        "regr_intercept(y, k)",
        "regr_r2(x, x * y)",
        "regr_sxy(y, x) + regr_syy(x, y) + regr_avgx(x, k)",
        "corr(y, y + 0.001 * x)",
        "avg(extract(epoch from u - t))",
        "sum(case when x > 0 then x when y > 500 then 1 / y end)",
        "sum(y) filter (where u > t)",
        "avg(cast(n as double))",
        "sum(y / 7)",
        "avg(-y)",
        "sum(volt) filter (where volt < 5)",
        "stddev(case when volt < 5 then volt end)",
        "avg(volt * x) filter (where volt < 5)",
    ];
    values.extend(sums.iter().map(|value| rounded(value)));
    for value in &values {
        both.same_fused(&format!("select {value} from f where k < 40"));
        both.same_fused(&format!("select g, {value} from f group by g"));
        both.same_fused(&format!(
            "select d.name, k, {value} from f join d on k = id where y < 700 group by d.name, k"
        ));
    }
    // Exact, whatever the order of the rows.
    both.same_fused(
        "select g, sum(eighth), avg(eighth * 2) from f where k <> 0 and y > 1 group by g",
    );
}

#[test]
fn floats_of_a_dimension_are_looked_up() {
    let both = both();
    for value in [
        "sum(x * scale)",
        "avg(y * scale + shift)",
        "sum(case when x > shift then scale end)",
        "stddev(scale)",
    ] {
        let value = rounded(value);
        both.same_fused(&format!("select {value} from f join d on k = id"));
        both.same_fused(&format!(
            "select name, {value} from f join d on k = id where scale > 1.5 and x < 4000 * shift \
             group by name"
        ));
    }
    both.same_fused(
        "select g, min(x * scale), max(shift), count(shift) from f join d on k = id group by g",
    );
}

#[test]
fn conditions_on_words_are_those_of_sql() {
    let both = both();
    let at = |share: f64| ((ROWS as f64 * share) as i64) << 32;
    let (early, late) = (at(0.2), at(0.4));
    for condition in [
        "x > 100.25",
        "x <= -0.0",
        "x is null",
        "late",
        "not even",
        "late is null or even",
        "volt = 0",
        "volt > 1.1 or volt < -0.5",
        "volt > arrow_cast(1.1, 'Float32')",
        "volt < x",
        "not (late and even)",
        "late = even",
        "late <> (x > 0)",
        "late is distinct from true",
        "late in (true, false)",
        "x is not null and y >= 500",
        "not (x > y)",
        "odd = 0",
        "odd < 0",
        "odd <= '-0.0'::double",
        "odd >= 0 and odd <= 0",
        "odd <> 0",
        "odd = 'NaN'::double",
        "odd > 'Infinity'::double",
        "odd in (0, 1.5, '-Infinity'::double)",
        "odd not in (0, 1.5)",
        "x < y and y < odd * odd",
        "x = odd",
        "x * 2 > y + 1",
        "x between -10 and 10 or y between 10 and 20",
        "n > 12345678901234",
        "n between -1000000000000000 and 5000000000000000",
        "n < k",
        "n in (1, 2, -3)",
        "t < u",
        "u is null or u - t < interval '1 second'",
        "extract(hour from t) = 3",
    ] {
        both.same(&format!(
            "select count(*), min(y), max(n) from f where {condition}"
        ));
        both.same(&format!(
            "select g, count(*), count(x) from f where not ({condition}) group by g"
        ));
    }
    for condition in [
        format!("t >= to_timestamp_micros({early}) and t < to_timestamp_micros({late})"),
        format!("t = to_timestamp_micros({early})"),
        format!("t > to_timestamp_micros({late}) and k < 3"),
    ] {
        let ran = both.same_fused(&format!(
            "select g, count(*), max(x), {} from f where {condition} group by g",
            rounded("sum(y)")
        ));
        assert!(ran.rows.is_ok());
    }
}

#[test]
fn groups_by_a_computed_word_are_hashed_unless_they_are_too_many() {
    let both = both();
    for key in [
        "floor(y / 100) * 100",
        "round(x / 1000)",
        "round(y, 1)",
        "ceil(odd)",
        "round(-odd / 7, 0)",
        "case when x > 0 then floor(y / 50) when k < 20 then 1e3 end",
        "(n - 3) * 0",
        "case when n > 0 then k + 1 when g = 'a' then k end",
        "u - (u - t) - (t - u)",
    ] {
        both.same(&format!(
            "select {key}, count(*), count(x), max(n) from f group by {key}"
        ));
    }
    for key in [
        "floor(y / 100) * 100",
        "round(x / 1000)",
        "round(y, 1)",
        "ceil(odd)",
    ] {
        both.same_fused(&format!(
            "select {key}, count(*), min(x), {} from f where k < 50 group by {key}",
            rounded("sum(y)")
        ));
        both.same_fused(&format!(
            "select {key}, {} from f join d on k = id where x < scale * 4000 group by {key}",
            rounded("sum(y * scale)")
        ));
    }
    for key in [
        "late",
        "even",
        "not late",
        "coalesce(late, even)",
        "late and even",
    ] {
        both.same(&format!(
            "select {key}, g, count(*), max(x) from f group by {key}, g"
        ));
    }
    for key in ["late", "even", "not late"] {
        both.same_fused(&format!(
            "select {key}, g, count(*), max(x) from f group by {key}, g"
        ));
    }
    both.same("select floor(y), g, count(*) from f group by floor(y), g");
    // Not whole where they are not finite, of an unknown range, or too large for an integer.
    for key in [
        "floor(odd)",
        "floor(volt)",
        "ceil(x / (y - 500))",
        "round(x * 1e30)",
    ] {
        both.same(&format!(
            "select {key}, g, count(*), max(n) from f group by {key}, g"
        ));
    }
    both.same("select count(*) from (select distinct round(x) from f)");
}

/// Keys that are computed from each row, with those that have codes and those of a joined table.
const KEYS: [&str; 24] = [
    "case when x > 0 then 'positive' when x < -5000 then 'low' else 'some' end",
    "case when x is null then 'none' when y > 500 then 'high' end",
    "case when y > 10 then 'same' when x > 0 then 'same' else null end",
    "case when late then date '2024-02-29' else date '1969-12-31' end",
    "case g when 'a' then 1.5 when 'b' then -2.5 end",
    "case when n > 0 then k - 30 when g = 'a' then k end",
    "case when x > y then 7 else -7 end",
    "x > y",
    "x < 0 and y > 500",
    "not late",
    "late",
    "g",
    "upper(g)",
    "k",
    "k % 7",
    "name",
    "name like '%3'",
    "round(scale)",
    "floor(y / 100)",
    "ceil(x / 1000) * 2 - 1",
    "round(-x / 500)",
    "floor((k - 30) / 7e0)",
    "floor(arrow_cast(y, 'Float32') / 10)",
    "round(-arrow_cast(x, 'Float32') * arrow_cast(0.003, 'Float32')) + 1",
];

#[test]
fn groups_by_several_keys_some_of_which_are_computed_are_those_of_sql() {
    let both = both();
    let mut numbers = Numbers::of_this_run();
    for _ in 0..60 {
        let mut keys: Vec<&str> = Vec::new();
        while keys.len() < 2 + numbers.below(2) as usize {
            let key = *numbers.one_of(&KEYS);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let keys = keys.join(", ");
        let from = match numbers.below(2) == 0 || keys.contains("name") || keys.contains("scale") {
            true => "f join d on k = id",
            false => "f",
        };
        let filter = numbers.one_of(&["", "where y > 300", "where x < y"]);
        let sql = format!(
            "select {keys}, count(*), count(x), max(n), {} from {from} {filter} group by {keys}",
            rounded("sum(y)")
        );
        both.same_fused(&sql);
    }
    // Zeros of both signs are one group.
    both.same("select case when x > y then 0e0 else -0e0 end, g, count(*) from f group by 1, 2");
    for key in [
        "case when x > 0 then 'positive' else 'none' end, k",
        "x > y, k, case when y > 500 then 1 end",
        "case when x > y then 'one' end",
        "case when x > y then 'one' end, name",
    ] {
        both.same_fused(&format!(
            "select {key}, count(*), max(n) from f join d on k = id group by {key}"
        ));
    }
}

#[test]
fn times_of_words_are_grouped_by_what_is_constant_for_a_while() {
    let both = both();
    for part in [
        "date_trunc('hour', t)",
        "date_trunc('day', u)",
        "extract(hour from u)",
        "cast(t as date)",
        "date_bin(interval '2 hours', u, timestamp '1970-01-01')",
        "to_char(date_trunc('month', t), '%Y-%m')",
    ] {
        both.same(&format!(
            "select {part}, g, count(*), max(x), {} from f group by {part}, g",
            rounded("sum(y)")
        ));
    }
    for hour in [
        "date_trunc('hour', t)",
        "extract(hour from u)",
        "cast(u as date)",
    ] {
        both.same_fused(&format!(
            "select {hour}, count(*), min(y) from f group by {hour}"
        ));
    }
    for condition in [
        "extract(hour from u) in (3, 4, 17)",
        "extract(day from t) = 2 and extract(hour from u) < 7",
        "date_trunc('day', u) is null or extract(hour from u) > 20",
        "extract(year from t) = 1900",
    ] {
        both.same_fused(&format!(
            "select k, count(*), max(u), min(x) from f where {condition} group by k"
        ));
    }
}
