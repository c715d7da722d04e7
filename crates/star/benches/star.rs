//! The cost per row: query shapes of the Star Schema Benchmark on random codes, on one thread.
//!
//! Also times the steps that the cost model in `cost.rs` compares.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tierloom_kernels::codes::{CodeWidth, Codes, pack};
use tierloom_kernels::select::CodeSet;
use tierloom_memory::{AnonymousNuma, PageSize, Placement, Region, RegionOptions};
use tierloom_star::{
    ColumnFilter, Columns, Expr, GroupMap, GroupPart, MORSEL_ROWS, Measure, MeasureKind, StarPlan,
    Test, Worker,
};
use tierloom_topology::{SysRoot, Topology};

fn main() {
    divan::main();
}

const ROWS: usize = 6_000_000;

struct Column {
    bytes: Region,
    width: CodeWidth,
}

/// Memory in huge pages, like the engine's columns, on the node of the first CPU.
fn region(size_bytes: usize) -> Region {
    let topology = Topology::read(&SysRoot::host()).expect("the machine's nodes");
    let page_size = PageSize::Thp;
    let node = topology.nodes.first().expect("a node").id;
    let place = Placement::bind(node);
    let options = RegionOptions {
        page_size,
        ..RegionOptions::new("column", page_size.round_up(size_bytes), place)
    };
    Region::create(Arc::new(AnonymousNuma::new()), &topology, options).expect("memory")
}

/// date, customer, supplier, part, discount, quantity, price: domains as at scale factor 10, but
/// fewer rows.
const CODES: [u32; 7] = [2406, 300_000, 20_000, 800_000, 11, 50, 10_000_000];

fn columns() -> &'static [Column] {
    static COLUMNS: OnceLock<Vec<Column>> = OnceLock::new();
    COLUMNS.get_or_init(|| made(&[0, 1, 2, 3, 4, 5, 6], ROWS))
}

/// Uniformly distributed codes of the given columns.
fn made(which: &[usize], rows: usize) -> Vec<Column> {
    let mut state = 88_172_645_463_325_252u64;
    which
        .iter()
        .map(|column| {
            let count = CODES[*column];
            let codes: Vec<u32> = (0..rows)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (((state >> 32) * u64::from(count)) >> 32) as u32
                })
                .collect();
            let width = CodeWidth::for_max(count - 1);
            let mut bytes = region(width.size_bytes(rows));
            pack(bytes.as_mut_slice(), width, 0, &codes);
            Column { bytes, width }
        })
        .collect()
}

fn range(column: usize, share: f64) -> ColumnFilter {
    let high = (f64::from(CODES[column]) * share) as u32 - 1;
    ColumnFilter {
        column,
        test: Test::Range { low: 0, high },
        expected_share: share,
    }
}

fn set(column: usize, one_in: u32) -> ColumnFilter {
    let mut codes = CodeSet::new(u64::from(CODES[column]));
    (0..CODES[column])
        .filter(|c| (c.wrapping_mul(2_654_435_761) >> 8).is_multiple_of(one_in))
        .for_each(|c| codes.insert(c));
    ColumnFilter {
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
        factor: None,
        nulls: vec![],
        when: vec![],
        wide: false,
    }
}

fn code(column: usize) -> Expr {
    Expr::Code { column, base: 1 }
}

fn run(
    bencher: Bencher<'_, '_>,
    filters: Vec<ColumnFilter>,
    groups: Vec<GroupPart>,
    measures: Vec<Measure>,
) {
    run_plan(bencher, plan_of(filters, groups, measures));
}

fn plan_of(filters: Vec<ColumnFilter>, groups: Vec<GroupPart>, measures: Vec<Measure>) -> StarPlan {
    StarPlan {
        filters,
        groups,
        measures,
        columns: CODES.len(),
        rows: ROWS as u64,
        ..StarPlan::default()
    }
}

fn run_plan(bencher: Bencher<'_, '_>, plan: StarPlan) {
    let plan = Arc::new(plan);
    let codes: Vec<Codes<'static>> = columns()
        .iter()
        .map(|c| Codes::new(c.bytes.as_slice(), c.width, ROWS).expect("padded"))
        .collect();
    let widths: Vec<CodeWidth> = codes.iter().map(Codes::width).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut worker = Worker::new(Arc::clone(&plan), &widths).expect("a sound plan");
        for start in (0..ROWS).step_by(MORSEL_ROWS) {
            let rows = start..ROWS.min(start + MORSEL_ROWS);
            worker
                .morsel(Columns::of_codes(&codes), rows)
                .expect("room for the groups");
        }
        worker.into_groups().finish().keys.len()
    });
}

#[divan::bench(sample_count = 200)]
fn q1_1(bencher: Bencher<'_, '_>) {
    let filters = vec![range(0, 1.0 / 7.0), range(4, 3.0 / 11.0), range(5, 0.5)];
    run(bencher, filters, vec![], vec![sum(code(6) * code(4))]);
}

#[divan::bench(sample_count = 200)]
fn q1_1_filters(bencher: Bencher<'_, '_>) {
    let filters = vec![range(0, 1.0 / 7.0), range(4, 3.0 / 11.0), range(5, 0.5)];
    run(bencher, filters, vec![], vec![]);
}

/// The rows of the fact table at scale factor 8, so that the columns are far larger than any cache.
const MANY_ROWS: usize = 48_000_000;

/// Q1.1 from memory on one and on two threads.
///
/// The rate counts the cache lines that it has to read, as `docs/peers-sql.md` does.
#[divan::bench(sample_count = 20, args = [1, 2])]
fn q1_1_from_memory(bencher: Bencher<'_, '_>, threads: usize) {
    static COLUMNS: OnceLock<Vec<Column>> = OnceLock::new();
    let columns = COLUMNS.get_or_init(|| made(&[0, 4, 5, 6], MANY_ROWS));
    let filters = vec![range(0, 1.0 / 7.0), range(4, 3.0 / 11.0), range(5, 0.5)];
    let columns: Vec<&Column> = CODES
        .iter()
        .enumerate()
        .map(|(i, _)| &columns[[0, 0, 0, 0, 1, 2, 3][i]])
        .collect();
    let plan = Arc::new(StarPlan {
        filters,
        groups: vec![],
        measures: vec![sum(code(6) * code(4))],
        columns: CODES.len(),
        rows: MANY_ROWS as u64,
        workers: threads,
        ..StarPlan::default()
    });
    let codes: Vec<Codes<'static>> = columns
        .iter()
        .map(|c| Codes::new(c.bytes.as_slice(), c.width, MANY_ROWS).expect("padded"))
        .collect();
    let widths: Vec<CodeWidth> = codes.iter().map(Codes::width).collect();
    // A cache line has 64 / 3 of the price's codes, each of which passes with this share.
    let passing: f64 = plan.filters.iter().map(|f| f.expected_share).product();
    let lines = 1.0 - (1.0 - passing).powf(64.0 / 3.0);
    let bytes = MANY_ROWS as f64 * (2.0 + 1.0 + 1.0 + 3.0 * lines);
    bencher
        .counter(BytesCount::new(bytes as u64))
        .bench_local(|| {
            let next = AtomicUsize::new(0);
            let work = || {
                let mut worker = Worker::new(Arc::clone(&plan), &widths).expect("a sound plan");
                loop {
                    let start = next.fetch_add(MORSEL_ROWS, Ordering::Relaxed);
                    if start >= MANY_ROWS {
                        return worker.into_groups().finish().keys.len();
                    }
                    let rows = start..MANY_ROWS.min(start + MORSEL_ROWS);
                    worker
                        .morsel(Columns::of_codes(&codes), rows)
                        .expect("room for the groups");
                }
            };
            std::thread::scope(|scope| {
                (1..threads).for_each(|_| drop(scope.spawn(work)));
                work()
            })
        });
}

/// The best rate at which one and two threads can read those columns: all of a large array,
/// sequentially.
#[divan::bench(sample_count = 20, args = [1, 2])]
fn plain_reading(bencher: Bencher<'_, '_>, threads: usize) {
    static WORDS: OnceLock<Region> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let mut words = region(320 << 20);
        words.as_mut_slice().fill(1);
        words
    });
    let words = words.as_slice().as_chunks::<8>().0;
    bencher
        .counter(BytesCount::of_slice(words))
        .bench_local(|| {
            std::thread::scope(|scope| {
                let parts = words.chunks(words.len().div_ceil(threads));
                let sum =
                    |part: &[[u8; 8]]| part.iter().fold(0u64, |s, w| s ^ u64::from_le_bytes(*w));
                let running: Vec<_> = parts.map(|p| scope.spawn(move || sum(p))).collect();
                running
                    .into_iter()
                    .map(|t| t.join().unwrap_or(0))
                    .fold(0, |a, b| a ^ b)
            })
        });
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

/// Sums by 300,000 or 800,000 values, in an array or a hash table.
#[divan::bench(sample_count = 20, args = [(1, false), (1, true), (3, false), (3, true)])]
fn groups_by_many_values(bencher: Bencher<'_, '_>, (column, hashed): (usize, bool)) {
    let groups = vec![GroupPart {
        column,
        map: GroupMap::Code,
        count: u64::from(CODES[column]),
    }];
    let plan = StarPlan {
        hashed,
        ..plan_of(vec![], groups, vec![sum(code(6))])
    };
    run_plan(bencher, plan);
}

/// So many sums of floats in groups of thousands of rows, which follow each other at random.
#[divan::bench(sample_count = 10, args = [1, 2, 3, 4, 8])]
fn float_sums_by_group(bencher: Bencher<'_, '_>, sums: usize) {
    let groups = vec![GroupPart {
        column: 0,
        map: GroupMap::Code,
        count: u64::from(CODES[0]),
    }];
    let float_sum = |number: usize| Measure {
        kind: MeasureKind::FloatSum,
        ..sum(code(4 + number % 3).to_float(1.0 + number as f64))
    };
    let measures = (0..sums).map(float_sum).collect();
    run_plan(bencher, plan_of(vec![], groups, measures));
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
