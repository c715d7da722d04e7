//! What a row costs: the shapes of the Star Schema Benchmark on invented codes, one thread.
//!
//! Besides the shapes, the steps that `cost.rs` weighs against each other are timed on their own.

use divan::Bencher;
use divan::counter::ItemsCount;
use std::sync::{Arc, OnceLock};
use tierloom_kernels::codes::{CodeWidth, Codes, pack};
use tierloom_kernels::select::CodeSet;
use tierloom_star::{
    Expr, Filter, GroupMap, GroupPart, MORSEL_ROWS, Measure, MeasureKind, StarPlan, Test, Worker,
};

fn main() {
    divan::main();
}

const ROWS: usize = 6_000_000;

struct Column {
    bytes: Vec<u8>,
    width: CodeWidth,
}

/// date, customer, supplier, part, discount, quantity, price: as at scale factor 10, but fewer rows.
const CODES: [u32; 7] = [2406, 300_000, 20_000, 800_000, 11, 50, 10_000_000];

fn columns() -> &'static [Column] {
    static COLUMNS: OnceLock<Vec<Column>> = OnceLock::new();
    COLUMNS.get_or_init(|| {
        let mut state = 88_172_645_463_325_252u64;
        CODES
            .iter()
            .map(|count| {
                let codes: Vec<u32> = (0..ROWS)
                    .map(|_| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        (((state >> 32) * u64::from(*count)) >> 32) as u32
                    })
                    .collect();
                let width = CodeWidth::for_max(count - 1);
                let mut bytes = vec![0; width.size_bytes(ROWS)];
                pack(&mut bytes, width, 0, &codes);
                Column { bytes, width }
            })
            .collect()
    })
}

fn range(column: usize, share: f64) -> Filter {
    let high = (f64::from(CODES[column]) * share) as u32 - 1;
    Filter {
        column,
        test: Test::Range { low: 0, high },
        expected_share: share,
    }
}

fn set(column: usize, one_in: u32) -> Filter {
    let mut codes = CodeSet::new(u64::from(CODES[column]));
    (0..CODES[column])
        .filter(|c| (c.wrapping_mul(2_654_435_761) >> 8).is_multiple_of(one_in))
        .for_each(|c| codes.insert(c));
    Filter {
        column,
        test: Test::Set(Arc::new(codes)),
        expected_share: 1.0 / f64::from(one_in),
    }
}

fn group(column: usize, count: u32) -> GroupPart {
    let ordinals: Vec<u32> = (0..CODES[column]).map(|c| c % count).collect();
    GroupPart {
        column,
        map: GroupMap::new(&ordinals, u64::from(count)),
        count: u64::from(count),
    }
}

fn sum(expr: Expr) -> Measure {
    Measure {
        kind: MeasureKind::Sum,
        expr,
        nulls: vec![],
        wide: false,
    }
}

fn code(column: usize) -> Expr {
    Expr::Code { column, base: 1 }
}

fn run(
    bencher: Bencher<'_, '_>,
    filters: Vec<Filter>,
    groups: Vec<GroupPart>,
    measures: Vec<Measure>,
) {
    let plan = Arc::new(StarPlan {
        filters,
        groups,
        measures,
        columns: CODES.len(),
        rows: ROWS as u64,
    });
    let codes: Vec<Codes<'static>> = columns()
        .iter()
        .map(|c| Codes::new(&c.bytes, c.width, ROWS).expect("padded"))
        .collect();
    let widths: Vec<CodeWidth> = codes.iter().map(Codes::width).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut worker = Worker::new(Arc::clone(&plan), &widths).expect("a sound plan");
        for start in (0..ROWS).step_by(MORSEL_ROWS) {
            worker.morsel(&codes, start..ROWS.min(start + MORSEL_ROWS));
        }
        worker.into_groups().finish().keys.len()
    });
}

#[divan::bench(sample_count = 20)]
fn q1_1(bencher: Bencher<'_, '_>) {
    let filters = vec![range(0, 1.0 / 7.0), range(4, 3.0 / 11.0), range(5, 0.5)];
    run(bencher, filters, vec![], vec![sum(code(6) * code(4))]);
}

#[divan::bench(sample_count = 20)]
fn q2_1(bencher: Bencher<'_, '_>) {
    run(
        bencher,
        vec![set(2, 5), set(3, 25)],
        vec![group(0, 7), group(3, 40)],
        vec![sum(code(6))],
    );
}

#[divan::bench(sample_count = 20)]
fn q3_1(bencher: Bencher<'_, '_>) {
    let filters = vec![set(1, 5), set(2, 5), range(0, 6.0 / 7.0)];
    run(
        bencher,
        filters,
        vec![group(1, 5), group(2, 5), group(0, 6)],
        vec![sum(code(6))],
    );
}

#[divan::bench(sample_count = 20)]
fn q4_1(bencher: Bencher<'_, '_>) {
    let filters = vec![set(1, 5), set(2, 5), set(3, 3)];
    run(
        bencher,
        filters,
        vec![group(0, 7), group(1, 5)],
        vec![sum(code(6) - code(5))],
    );
}

#[divan::bench(sample_count = 20)]
fn four_groups_of_all_rows(bencher: Bencher<'_, '_>) {
    let price = code(6) * (Expr::Constant(100) - code(4));
    let measures = vec![
        sum(code(5)),
        sum(code(6)),
        sum(price.clone()),
        sum(price * code(4)),
    ];
    run(bencher, vec![range(0, 0.98)], vec![group(4, 4)], measures);
}

#[divan::bench(sample_count = 20)]
fn groups_by_customer_hashed(bencher: Bencher<'_, '_>) {
    let groups = vec![GroupPart {
        column: 1,
        map: GroupMap::Code,
        count: 300_000,
    }];
    run(bencher, vec![], groups, vec![sum(code(6))]);
}

#[divan::bench(sample_count = 20, args = [0, 2, 3, 4])]
fn dense_range(bencher: Bencher<'_, '_>, column: usize) {
    run(bencher, vec![range(column, 0.1)], vec![], vec![]);
}

#[divan::bench(sample_count = 20, args = [0, 1, 2, 3])]
fn dense_set(bencher: Bencher<'_, '_>, column: usize) {
    run(bencher, vec![set(column, 5)], vec![], vec![]);
}

#[divan::bench(sample_count = 20, args = [1, 2, 3])]
fn sparse_set(bencher: Bencher<'_, '_>, column: usize) {
    run(bencher, vec![set(0, 2), set(column, 2)], vec![], vec![]);
}
