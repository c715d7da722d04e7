//! Columns of words, and floats, against a simple loop over rows.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_kernels::codes::{CodeWidth, Codes, pack};
use tierloom_kernels::words::rank;
use tierloom_star::{
    Bits, ColumnFilter, Columns, Expr, FloatFunction, FloatOp, FloatSum, GroupMap, GroupPart,
    MORSEL_ROWS, Measure, MeasureKind, StarPlan, Test, WordColumn, WordKey, WordValues, Worker,
};

/// A code of up to 9, a float with NULLs, an integer of 64 bits and a float without.
struct Rows {
    codes: Vec<u32>,
    x: Vec<Option<f64>>,
    n: Vec<i64>,
    y: Vec<f64>,
}

const X: usize = 1;
const N: usize = 2;
const Y: usize = 3;
/// Whether `y` is an even multiple of 1/8, NULL where `x` is.
const EVEN: usize = 4;

/// Multiples of 1/8 of either sign: sums of their products are exact.
fn rows(count: usize, seed: u64) -> Rows {
    let mut state = seed | 1;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut rows = Rows {
        codes: Vec::new(),
        x: Vec::new(),
        n: Vec::new(),
        y: Vec::new(),
    };
    for _ in 0..count {
        rows.codes.push(next(10) as u32);
        let x = (next(1 << 20) as f64 - f64::from(1 << 19)) / 8.0;
        rows.x.push((next(7) != 0).then_some(x));
        rows.n.push((next(1 << 40) as i64 - (1 << 39)) << 20);
        rows.y.push((next(1 << 18) as f64 + 1.0) / 8.0);
    }
    rows
}

fn word(column: usize) -> Expr {
    Expr::Word {
        column,
        low: i64::MIN,
        high: i64::MAX,
    }
}

fn constant(value: f64) -> Expr {
    Expr::Constant(value.to_bits() as i64)
}

fn measure(kind: MeasureKind, expr: Expr, nulls: &[usize]) -> Measure {
    Measure {
        kind,
        expr,
        factor: None,
        nulls: nulls.to_vec(),
        when: Vec::new(),
        wide: true,
    }
}

/// Runs `plan` by several workers: the values of each measure by group.
fn fused(plan: StarPlan, rows: &Rows, workers: usize) -> BTreeMap<u64, Vec<Option<i128>>> {
    let count = rows.codes.len();
    let mut bytes = vec![0; CodeWidth::One.size_bytes(count)];
    pack(&mut bytes, CodeWidth::One, 0, &rows.codes);
    let codes = Codes::new(&bytes, CodeWidth::One, count).unwrap();
    let none = Codes::new(&bytes[bytes.len() - 64..], CodeWidth::Zero, count);
    let none = none.unwrap_or(codes);
    let words = |values: &dyn Fn(usize) -> f64| -> Vec<i64> {
        (0..count).map(|row| values(row).to_bits() as i64).collect()
    };
    let x = words(&|row| rows.x[row].unwrap_or(f64::NAN));
    let y = words(&|row| rows.y[row]);
    // The first row's bit is not the first of a byte.
    let offset = 3;
    let mut valid_bytes = vec![0_u8; (count + offset) / 8 + 1];
    for (row, x) in rows.x.iter().enumerate() {
        valid_bytes[(row + offset) / 8] |= u8::from(x.is_some()) << ((row + offset) % 8);
    }
    let valid = Bits {
        bytes: &valid_bytes,
        offset,
    };
    let of = |words, valid| {
        let values = WordValues::Words(words);
        Some(WordColumn { values, valid })
    };
    // Whether `y` is an even multiple.
    let mut even_bytes = vec![0_u8; count / 8 + 1];
    for (row, y) in rows.y.iter().enumerate() {
        even_bytes[row / 8] |= u8::from((y * 8.0) as i64 % 2 == 0) << (row % 8);
    }
    let even = WordColumn {
        values: WordValues::Bits(Bits {
            bytes: &even_bytes,
            offset: 0,
        }),
        valid: Some(valid),
    };
    let columns = Columns {
        codes: &[codes, none, none, none, none],
        words: &[
            None,
            of(&x, Some(valid)),
            of(&rows.n, None),
            of(&y, None),
            Some(even),
        ],
    };
    let plan = Arc::new(plan);
    let kinds: Vec<MeasureKind> = plan.measures.iter().map(|m| m.kind).collect();
    let widths = [CodeWidth::One; 5];
    let mut team: Vec<Worker> = (0..workers)
        .map(|_| Worker::new(Arc::clone(&plan), &widths).unwrap())
        .collect();
    for (index, start) in (0..count).step_by(MORSEL_ROWS / 8).enumerate() {
        let rows = start..count.min(start + MORSEL_ROWS / 8);
        team[index % workers].morsel(columns, rows).unwrap();
    }
    let mut parts = team.into_iter().map(Worker::into_groups);
    let mut groups = parts.next().unwrap();
    parts.for_each(|part| groups.merge(part).unwrap());
    let found = groups.finish();
    // Sums of floats as their bits.
    let is_float = |at: usize| kinds[at] == MeasureKind::FloatSum;
    let value = |at: usize, value: i128| match is_float(at) {
        true => bits(FloatSum::of_value(value).value()),
        false => value,
    };
    let measures = |row: usize| {
        let measures = found.measures.iter().enumerate();
        measures
            .map(|(at, values)| values.get(row).map(|v| value(at, v)))
            .collect()
    };
    let keys = found.keys.iter().enumerate();
    keys.map(|(row, key)| (*key, measures(row))).collect()
}

fn bits(value: f64) -> i128 {
    i128::from(value.to_bits() as i64)
}

/// The measures of the plan below over rows of one group.
fn by_rows(rows: &Rows, group: &[usize]) -> Vec<Option<i128>> {
    let all = || group.iter().copied();
    let valid = || all().filter_map(|row| Some((row, rows.x[row]?)));
    let of_valid = |value: Option<i128>| value.filter(|_| valid().next().is_some());
    let float = |values: &dyn Fn(usize, f64) -> f64| {
        of_valid(Some(bits(valid().map(|(row, x)| values(row, x)).sum())))
    };
    let ranks = || valid().map(|(_, x)| i128::from(rank(x.to_bits() as i64)));
    vec![
        float(&|_, x| x),
        float(&|row, x| x * rows.y[row]),
        float(&|_, x| x * x),
        Some(valid().count() as i128),
        ranks().min(),
        ranks().max(),
        Some(all().map(|row| i128::from(rows.n[row])).sum()),
        all().map(|row| i128::from(rows.n[row])).max(),
        Some(bits(
            all()
                .map(|row| (rows.y[row] + f64::from(rows.codes[row]) / 4.0).floor())
                .sum(),
        )),
        Some(bits(
            all()
                .map(|row| {
                    if rows.y[row] < 9_000.0 {
                        -rows.y[row]
                    } else {
                        0.5
                    }
                })
                .sum(),
        )),
        float(&|row, x| if rows.y[row] < x { 1.0 } else { 0.25 }),
        of_valid(Some(
            valid()
                .map(|(row, _)| i128::from((rows.y[row] * 8.0) as i64 % 2 == 0))
                .sum(),
        )),
    ]
}

/// Stands for a key that is NULL.
const NULL: i64 = i64::MIN + 77;

/// Groups by `floor(x / 4096)`.
fn by_x() -> WordKey {
    let quotient = word(X).with_float(FloatOp::Div, constant(4096.0));
    WordKey {
        value: quotient.of_float(FloatFunction::Floor),
        null: NULL,
        nulls: vec![X],
        when: Vec::new(),
        below: None,
    }
}

/// Groups by `n - 5` where the code is more than 3.
fn by_n() -> WordKey {
    let more = Expr::Code { column: 0, base: 0 }.within(4, 9);
    WordKey {
        value: word(N) - Expr::Constant(5),
        null: NULL,
        nulls: Vec::new(),
        when: vec![more],
        below: None,
    }
}

/// Groups by the code and whether `y` is small, or nothing where `x` is NULL; up to `most` words.
fn by_number(most: u64) -> WordKey {
    let small = word(Y)
        .rank()
        .within(i64::MIN, rank(9_000_f64.to_bits() as i64));
    let number = Expr::Code { column: 0, base: 1 } * Expr::Constant(2) + small;
    WordKey {
        value: number,
        null: 0,
        nulls: vec![X],
        when: Vec::new(),
        below: Some(most),
    }
}

fn measures() -> Vec<Measure> {
    use MeasureKind::{Count, FloatSum, Max, Min, Sum};
    let quarters = Expr::Code { column: 0, base: 0 }.to_float(4.0);
    let less = word(Y).rank().less(word(X).rank());
    vec![
        measure(FloatSum, word(X), &[X]),
        measure(FloatSum, word(X).with_float(FloatOp::Mul, word(Y)), &[X]),
        Measure {
            factor: Some(word(X)),
            ..measure(FloatSum, word(X), &[X])
        },
        measure(Count, Expr::Constant(0), &[X]),
        measure(Min, word(X).rank(), &[X]),
        measure(Max, word(X).rank(), &[X]),
        measure(Sum, word(N), &[]),
        measure(Max, word(N), &[]),
        measure(
            FloatSum,
            word(Y)
                .with_float(FloatOp::Add, quarters)
                .of_float(FloatFunction::Floor),
            &[],
        ),
        measure(
            FloatSum,
            word(Y)
                .rank()
                .within(i64::MIN, rank(9_000_f64.to_bits() as i64) - 1)
                .choose(word(Y).of_float(FloatFunction::Negative), constant(0.5)),
            &[],
        ),
        measure(FloatSum, less.choose(constant(1.0), constant(0.25)), &[X]),
        measure(Sum, word(EVEN), &[EVEN]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn words_and_floats_are_aggregated_as_by_a_loop(
        count in prop::sample::select(vec![1_usize, 1023, 1025, 4096, 30_000]),
        grouped in 0_u8..6,
        filtered in any::<bool>(),
        conditions in 0_u8..4,
        workers in 1_usize..4,
        turned in 0_usize..12,
        kept in 1_usize..13,
        seed in any::<u64>(),
    ) {
        let rows = rows(count, seed);
        let within = |value: Expr, low: f64| {
            let low = rank(low.to_bits() as i64);
            value.rank().within(low, i64::MAX)
        };
        let small_n = word(N).within(-(1 << 57), 1 << 57);
        let filter = ColumnFilter {
            column: 0,
            test: Test::Range { low: 2, high: 4 },
            expected_share: 0.3,
        };
        let group = GroupPart { column: 0, map: GroupMap::Code, count: 10 };
        let mut measures = measures();
        measures.rotate_left(turned);
        // Sums of floats are added by one, two and four.
        measures.truncate(kept);
        let plan = StarPlan {
            filters: if filtered { vec![filter] } else { vec![] },
            conditions: match conditions {
                0 => vec![],
                1 => vec![small_n],
                2 => vec![within(word(Y), 2_000.0), small_n],
                _ => vec![within(word(X), -7.5), Expr::Code { column: X, base: 0 }.within(1, 1)],
            },
            groups: if grouped == 1 { vec![group] } else { vec![] },
            key: match grouped {
                2 => Some(by_x()),
                3 => Some(by_n()),
                4 => Some(by_number(22)),
                // Too many for an array of so few rows.
                5 => Some(by_number(1 << 40)),
                _ => None,
            },
            measures,
            columns: 5,
            rows: count as u64,
            ..StarPlan::default()
        };
        let is_small = |row: usize| rows.n[row].abs() <= 1 << 57;
        let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for row in 0..count {
            let passes = !filtered || (2..=4).contains(&rows.codes[row]);
            let holds = match conditions {
                0 => true,
                1 => is_small(row),
                2 => is_small(row) && rows.y[row] >= 2_000.0,
                _ => rows.x[row].is_some_and(|x| x >= -7.5),
            };
            if passes && holds {
                let key = match grouped {
                    0 => 0,
                    1 => u64::from(rows.codes[row]),
                    2 => rows.x[row].map_or(NULL, |x| (x / 4096.0).floor().to_bits() as i64) as u64,
                    4 | 5 => rows.x[row].map_or(0, |_| {
                        2 * (u64::from(rows.codes[row]) + 1) + u64::from(rows.y[row] <= 9_000.0)
                    }),
                    _ if rows.codes[row] > 3 => (rows.n[row] - 5) as u64,
                    _ => NULL as u64,
                };
                groups.entry(key).or_default().push(row);
            }
        }
        let found = fused(plan, &rows, workers);
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), groups.keys().collect::<Vec<_>>());
        for (key, group) in &groups {
            let mut expected = by_rows(&rows, group);
            expected.rotate_left(turned);
            expected.truncate(kept);
            prop_assert_eq!(&found[key], &expected, "group {}", key);
        }
    }
}
