//! The fused pipeline against a simple loop over rows.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_kernels::codes::{CodeWidth, Codes, pack};
use tierloom_kernels::select::CodeSet;
use tierloom_star::{
    CodeValues, ColumnFilter, Columns, Expr, GroupMap, GroupPart, Groups, MORSEL_ROWS, Measure,
    MeasureKind, PlanError, SpanParts, Spans, StarPlan, Test, Worker,
};

struct Column {
    codes: Vec<u32>,
    bytes: Vec<u8>,
    width: CodeWidth,
}

impl Column {
    fn new(rows: usize, max: u32, seed: u64) -> Self {
        let mut state = seed | 1;
        let codes: Vec<u32> = (0..rows)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 11) % (u64::from(max) + 1)) as u32
            })
            .collect();
        let width = CodeWidth::for_max(max);
        let mut bytes = vec![0x5a; width.size_bytes(rows)];
        pack(&mut bytes, width, 0, &codes);
        Column {
            codes,
            bytes,
            width,
        }
    }
}

/// (rows, value of each measure or `None`)
type Answer = BTreeMap<u64, (u64, Vec<Option<i128>>)>;

fn value(expr: &Expr, columns: &[Column], row: usize) -> i128 {
    match expr {
        Expr::Constant(v) => i128::from(*v),
        Expr::Code { column, base } => i128::from(*base) + i128::from(columns[*column].codes[row]),
        Expr::Mapped { column, values } => {
            let mut value = [0];
            values.look_up(&columns[*column].codes[row..=row], &mut value);
            i128::from(value[0])
        }
        Expr::Add(a, b) => value(a, columns, row) + value(b, columns, row),
        Expr::Sub(a, b) => value(a, columns, row) - value(b, columns, row),
        Expr::Mul(a, b) => value(a, columns, row) * value(b, columns, row),
        Expr::Within {
            value: of,
            low,
            high,
        } => {
            let range = i128::from(*low)..=i128::from(*high);
            i128::from(range.contains(&value(of, columns, row)))
        }
        Expr::InSet { column, set } => i128::from(set.contains(columns[*column].codes[row])),
        Expr::Choose { when, then, other } => {
            let taken = if value(when, columns, row) == 0 {
                other
            } else {
                then
            };
            value(taken, columns, row)
        }
        other => unreachable!("no codes: {other:?}"),
    }
}

fn by_rows(plan: &StarPlan, columns: &[Column], rows: usize) -> Answer {
    let mut answer = Answer::new();
    for row in 0..rows {
        let passes = |f: &ColumnFilter| {
            let code = columns[f.column].codes[row];
            match &f.test {
                Test::Range { low, high } => (*low..=*high).contains(&code),
                Test::Set(set) => set.contains(code),
            }
        };
        let holds = |condition: &Expr| value(condition, columns, row) != 0;
        if !plan.filters.iter().all(passes) || !plan.conditions.iter().all(holds) {
            continue;
        }
        let key = plan.groups.iter().fold(0u64, |key, part| {
            let code = columns[part.column].codes[row] as usize;
            let ordinal = match &part.map {
                GroupMap::Code => code as u64,
                GroupMap::Bytes(m) => u64::from(m[code]),
                GroupMap::Halves(m) => u64::from(m[code]),
                GroupMap::Words(m) => u64::from(m[code]),
            };
            key * part.count + ordinal
        });
        let (count, values) = answer
            .entry(key)
            .or_insert_with(|| (0, vec![None; plan.measures.len()]));
        *count += 1;
        for (slot, measure) in values.iter_mut().zip(&plan.measures) {
            let code = |column: usize| columns[column].codes[row];
            let null =
                measure.nulls.iter().any(|c| code(*c) == 0) || !measure.when.iter().all(holds);
            let new = value(&measure.expr, columns, row);
            match measure.kind {
                MeasureKind::Count => *slot = Some(slot.unwrap_or(0) + i128::from(!null)),
                _ if null => {}
                MeasureKind::Sum | MeasureKind::FloatSum => {
                    *slot = Some(slot.unwrap_or(0) + new);
                }
                MeasureKind::Min => *slot = Some(slot.map_or(new, |old| old.min(new))),
                MeasureKind::Max => *slot = Some(slot.map_or(new, |old| old.max(new))),
            }
        }
    }
    answer
}

fn fused(plan: StarPlan, columns: &[Column], rows: usize, workers: usize) -> Answer {
    let plan = Arc::new(plan);
    let codes: Vec<Codes<'_>> = columns[..plan.columns]
        .iter()
        .map(|c| Codes::new(&c.bytes, c.width, rows).unwrap())
        .collect();
    let widths: Vec<CodeWidth> = codes.iter().map(Codes::width).collect();
    let mut team: Vec<Worker> = (0..workers)
        .map(|_| Worker::new(Arc::clone(&plan), &widths).unwrap())
        .collect();
    for (index, start) in (0..rows).step_by(MORSEL_ROWS).enumerate() {
        let rows = start..rows.min(start + MORSEL_ROWS);
        team[index % workers]
            .morsel(Columns::of_codes(&codes), rows)
            .unwrap();
    }
    let team: Vec<Groups> = team.into_iter().map(Worker::into_groups).collect();
    let mut in_parts = Vec::new();
    for part in 0..3 {
        let part = Groups::merged_part(&team, part, 3).unwrap().finish();
        let rows = part.keys.iter().copied().zip(part.rows);
        in_parts.extend(rows);
    }
    in_parts.sort_unstable();
    let mut parts = team.into_iter();
    let mut groups = parts.next().unwrap();
    parts.for_each(|part| groups.merge(part).unwrap());
    let found = groups.finish();
    let mut at_once: Vec<_> = found.keys.iter().copied().zip(found.rows.clone()).collect();
    at_once.sort_unstable();
    assert_eq!(in_parts, at_once, "merged by several threads and by one");
    let measures = |i: usize| found.measures.iter().map(|m| m.get(i)).collect();
    (0..found.keys.len())
        .map(|i| (found.keys[i], (found.rows[i], measures(i))))
        .collect()
}

fn some_codes(codes: u64, keep: u64) -> Arc<CodeSet> {
    let mut set = CodeSet::new(codes);
    (0..codes as u32)
        .filter(|c| u64::from(c.wrapping_mul(2_654_435_761) % 100) < keep)
        .for_each(|c| set.insert(c));
    Arc::new(set)
}

/// The number of the span of `code`.
fn span_of(spans: &Spans, code: u32) -> u32 {
    let SpanParts::Codes { offset, length } = spans.parts else {
        unreachable!("spans of codes");
    };
    let first = u32::from(spans.nullable);
    match code.checked_sub(first) {
        Some(code) => (code + offset) / length + first,
        None => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_plan_gives_what_a_loop_over_rows_gives(
        rows in prop::sample::select(vec![0usize, 1, 63, 64, 4095, 4096, 5000, 70_000]),
        maxima in prop::collection::vec(prop::sample::select(vec![0u32, 3, 200, 3000, 70_000]), 4),
        filters in prop::collection::vec((0usize..4, any::<bool>(), 0u32..100, 1u32..101), 0..4),
        groups in prop::collection::vec((0usize..5, any::<bool>()), 0..3),
        spans in (0usize..4, any::<bool>(), 2u32..900, any::<u32>()),
        nullable in any::<bool>(),
        wide in any::<bool>(),
        when in prop::collection::vec((0usize..5, 0usize..5), 0..3),
        conditions in prop::collection::vec((0usize..5, 0usize..5), 0..3),
        workers in 1usize..4,
        turned in 0usize..8,
        seed in any::<u64>(),
    ) {
        let mut columns: Vec<Column> = maxima.iter().enumerate().map(|(i, max)| Column::new(rows, *max, seed.wrapping_add(i as u64))).collect();
        // The last column is computed from another one.
        let (column, nullable_spans, length, offset) = spans;
        let spans = Spans { column, nullable: nullable_spans, parts: SpanParts::Codes { offset: offset % length, length } };
        let codes: Vec<u32> = columns[column].codes.iter().map(|code| span_of(&spans, *code)).collect();
        let mut maxima = maxima;
        maxima.push(span_of(&spans, maxima[column]).max(1));
        columns.push(Column { codes, bytes: Vec::new(), width: CodeWidth::Four });
        let filters = filters.into_iter().map(|(column, set, low, width)| {
            let max = u64::from(maxima[column]);
            let test = if set {
                Test::Set(some_codes(max + 1, u64::from(width)))
            } else {
                let low = (max * u64::from(low) / 100) as u32;
                Test::Range { low, high: (u64::from(low) + max * u64::from(width) / 100) as u32 }
            };
            ColumnFilter { column, test, expected_share: 0.5 }
        }).collect();
        let groups = groups.into_iter().map(|(column, mapped)| {
            let codes = u64::from(maxima[column]) + 1;
            if mapped {
                let ordinals: Vec<u32> = (0..codes as u32).map(|c| c % 7).collect();
                GroupPart { column, map: GroupMap::new(&ordinals, 7), count: 7 }
            } else {
                GroupPart { column, map: GroupMap::Code, count: codes }
            }
        }).collect();
        let code = |column, base| Expr::Code { column, base };
        let nulls = if nullable { vec![1] } else { vec![] };
        // Conditions that hold for some codes, for none, for those of a table that ends early, and
        // that compare two columns.
        let condition = |(column, kind): (usize, usize)| {
            let codes = 0..=i64::from(maxima[column]);
            let values: CodeValues = match kind {
                0 => codes.map(|c| c % 3).collect(),
                1 => codes.map(|_| 0).collect(),
                2 => (0..2).map(|_| 1).collect(),
                3 => return (code(column, 3) - code(1, 0)).within(-20, 1500),
                _ => {
                    let set = some_codes(u64::from(maxima[column]) + 1, 50);
                    let in_set = Expr::InSet { column, set };
                    return in_set.choose(Expr::Constant(1), code(0, 0).within(2, 9));
                }
            };
            Expr::Mapped { column, values }
        };
        let when: Vec<Expr> = when.into_iter().map(condition).collect();
        let conditions = conditions.into_iter().map(condition).collect();
        let table: CodeValues = (0..=i64::from(maxima[2])).map(|c| c * 3 - 50).collect();
        let product = || code(1, -100) * (Expr::Constant(10) - code(0, 0));
        // Values of one expression are computed once for measures that follow each other.
        let mut measures = vec![
            Measure { kind: MeasureKind::Max, expr: product(), factor: None, nulls: vec![], when: vec![], wide: false },
            Measure { kind: MeasureKind::Min, expr: product(), factor: None, nulls: nulls.clone(), when: vec![], wide: false },
            Measure { kind: MeasureKind::Min, expr: product(), factor: None, nulls: vec![], when: when.clone(), wide: false },
            Measure { kind: MeasureKind::Sum, expr: product(), factor: None, nulls: vec![], when: vec![], wide },
            Measure { kind: MeasureKind::Sum, expr: code(1, -100) * (Expr::Constant(10) - code(0, 0)), factor: None, nulls: nulls.clone(), when: when.clone(), wide },
            Measure { kind: MeasureKind::Count, expr: Expr::Constant(0), factor: None, nulls: nulls.clone(), when: when.clone(), wide: false },
            Measure { kind: MeasureKind::Min, expr: Expr::Mapped { column: 2, values: table } + code(3, 5), factor: None, nulls: vec![], when, wide: false },
            Measure { kind: MeasureKind::Max, expr: code(3, -7), factor: None, nulls, when: vec![], wide: false },
        ];
        measures.rotate_left(turned);
        let plan = StarPlan { filters, conditions, groups, measures, columns: 4, spans: vec![spans], rows: rows as u64, ..StarPlan::default() };
        let expected = by_rows(&plan, &columns, rows);
        let mut answer = fused(plan, &columns, rows, workers);
        // A count over rows that are all NULL is 0, as in the loop above.
        prop_assert_eq!(answer.len(), expected.len());
        for (key, (rows, measures)) in expected {
            let found = answer.remove(&key);
            prop_assert_eq!(found, Some((rows, measures)), "group {}", key);
        }
    }
}

#[test]
fn sums_that_leave_64_bits_are_right_when_kept_wide() {
    let columns = [Column::new(10_000, 9, 3)];
    let big = Expr::Constant(i64::MAX / 2);
    let plan = StarPlan {
        filters: vec![],
        groups: vec![],
        measures: vec![
            Measure {
                kind: MeasureKind::Sum,
                expr: big.clone(),
                factor: None,
                nulls: vec![],
                when: vec![],
                wide: true,
            },
            Measure {
                kind: MeasureKind::Sum,
                expr: Expr::Constant(0) - big,
                factor: None,
                nulls: vec![],
                when: vec![],
                wide: true,
            },
        ],
        columns: 1,
        ..StarPlan::default()
    };
    let answer = fused(plan, &columns, 10_000, 3);
    let sum = i128::from(i64::MAX / 2) * 10_000;
    assert_eq!(answer[&0].1, [Some(sum), Some(-sum)]);
}

#[test]
fn a_plan_that_names_a_missing_column_is_refused() {
    let part = |count| GroupPart {
        column: 0,
        map: GroupMap::Code,
        count,
    };
    let plan = |columns, groups| StarPlan {
        filters: vec![],
        groups,
        measures: vec![],
        columns,
        ..StarPlan::default()
    };
    assert!(Worker::new(Arc::new(plan(0, vec![part(2)])), &[]).is_err());
    let many = plan(1, vec![part(1 << 40), part(1 << 40)]);
    assert!(Worker::new(Arc::new(many), &[CodeWidth::One]).is_err());
}

/// Sums by the code of one column, over columns with `codes` codes.
fn by_code(codes: u64, rows: u64) -> StarPlan {
    StarPlan {
        groups: vec![GroupPart {
            column: 0,
            map: GroupMap::Code,
            count: codes,
        }],
        measures: vec![Measure {
            kind: MeasureKind::Sum,
            expr: Expr::Code { column: 0, base: 0 },
            factor: None,
            nulls: vec![],
            when: vec![],
            wide: false,
        }],
        columns: 1,
        rows,
        ..StarPlan::default()
    }
}

#[test]
fn groups_beyond_what_may_be_kept_are_an_error_and_never_share_accumulators() {
    const CODES: u32 = 100_000;
    let column = Column::new(300_000, CODES - 1, 5);
    let codes = [Codes::new(&column.bytes, column.width, 300_000).unwrap()];
    // Two words per group: its rows and the sum.
    let most_bytes = Some(1000 * 16);
    let plan = Arc::new(StarPlan {
        most_bytes,
        ..by_code(u64::from(CODES), 300_000)
    });
    assert_eq!(plan.dense_bytes(), Ok(None));
    let mut worker = Worker::new(Arc::clone(&plan), &[column.width]).unwrap();
    let refused = worker.morsel(Columns::of_codes(&codes), 0..MORSEL_ROWS);
    let most_bytes = 16_000;
    assert_eq!(refused, Err(PlanError::TooManyAccumulators { most_bytes }));
    // Each alone has room for its groups, but both together do not.
    let mut team = (0..2).map(|part| {
        let mut worker = Worker::new(Arc::clone(&plan), &[column.width]).unwrap();
        worker
            .morsel(Columns::of_codes(&codes), part * 800..(part + 1) * 800)
            .unwrap();
        assert_eq!(worker.counted().rows_out, 800);
        worker.into_groups()
    });
    let (mut first, second) = (team.next().unwrap(), team.next().unwrap());
    let both = [first.clone(), second.clone()];
    let refused = Err(PlanError::TooManyAccumulators { most_bytes });
    assert_eq!(Groups::merged_part(&both, 0, 1).map(|_| ()), refused);
    assert_eq!(first.merge(second), refused);
}

#[test]
fn arrays_of_all_workers_together_stay_in_proportion_to_the_rows() {
    let rows = 1 << 30;
    let plan = |workers, codes| StarPlan {
        workers,
        ..by_code(codes, rows)
    };
    let few = plan(2, rows / 8).dense_bytes().unwrap();
    assert_eq!(few, Some(rows / 8 * 16));
    for (workers, codes) in [
        (2, rows / 8),
        (96, rows / 8),
        (96, rows / 100),
        (1, rows / 9),
    ] {
        let bytes = plan(workers, codes).dense_bytes().unwrap().unwrap_or(0);
        assert!(bytes * workers as u64 <= rows * 16, "{workers} {codes}");
    }
    // The values of one column are an array down to a row per value that passes the filters.
    assert_eq!(plan(1, rows).dense_bytes(), Ok(Some(rows * 16)));
    assert_eq!(plan(1, rows + 1).dense_bytes(), Ok(None));
    let half = |codes| {
        let filter = ColumnFilter {
            column: 0,
            test: Test::Range { low: 0, high: 1 },
            expected_share: 0.5,
        };
        let filters = vec![filter];
        StarPlan {
            filters,
            ..plan(1, codes)
        }
    };
    assert!(half(rows / 2).dense_bytes().unwrap().is_some());
    assert_eq!(half(rows / 2 + 1).dense_bytes(), Ok(None));
    // 65,536 combinations are an array, whatever the number of rows.
    assert!(plan(96, 1 << 16).dense_bytes().unwrap().is_some());
    let hashed = StarPlan {
        hashed: true,
        ..plan(1, 100)
    };
    assert_eq!(hashed.dense_bytes(), Ok(None));
    // An array that is too long for 32-bit offsets.
    let vast = by_code(1 << 32, 1 << 40);
    assert_eq!(vast.dense_bytes(), Ok(None));
}

#[test]
fn groups_of_different_plans_are_not_brought_together() {
    let worker = |codes: u64| {
        let plan = Arc::new(by_code(codes, 1000));
        Worker::new(plan, &[CodeWidth::Two]).unwrap().into_groups()
    };
    let refused = worker(1000).merge(worker(2000));
    assert_eq!(refused, Err(PlanError::DifferentPlans));
}

#[test]
fn an_ordinal_that_a_part_does_not_have_is_found() {
    let mut plan = by_code(3, 10);
    plan.groups[0].map = GroupMap::new(&[0, 1, 2], 3);
    assert_eq!(plan.check_ordinals(), Ok(()));
    plan.groups[0].count = 2;
    let (part, ordinal, count) = (0, 2, 2);
    let wrong = PlanError::OrdinalTooLarge {
        part,
        ordinal,
        count,
    };
    assert_eq!(plan.check_ordinals(), Err(wrong));
}
