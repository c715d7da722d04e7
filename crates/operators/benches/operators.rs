//! One pass of each operator on one thread: `cargo bench -p tierloom-operators`.
//!
//! Structures are larger than most caches and in base pages; the tuned form is to be compared with
//! the plain one. `tierloom bench` runs the same with placements, huge pages and many threads.

use divan::Bencher;
use divan::counter::ItemsCount;
use tierloom_operators::{
    Aggregation, ColumnScan, Form, HashJoin, IndexJoin, Operator, RadixJoin, RadixPartition,
    SelectiveRead,
};

const FORMS: [Form; 2] = [Form::Plain, Form::Tuned];

fn main() {
    divan::main();
}

/// Divides sizes if benchmarks are only tried out.
fn tuples(count: u64) -> u64 {
    let tried_out = std::env::args().any(|argument| argument == "--test");
    if tried_out { count >> 10 } else { count }
}

fn pass(bencher: Bencher, operator: &Operator) {
    let structures = operator.structures(1);
    let mut memory: Vec<Vec<u8>> = structures
        .iter()
        .map(|structure| vec![0; structure.size_bytes as usize + 63])
        .collect();
    let mut slices: Vec<&mut [u8]> = memory
        .iter_mut()
        .map(|bytes| {
            let start = bytes.as_ptr().align_offset(64);
            &mut bytes[start..]
        })
        .collect();
    let filled = operator.fill(&mut slices, 1, 1);
    let job = filled.job(slices, 1);
    let phases = job.phases();
    bencher
        .counter(ItemsCount::new(operator.tuples(1)))
        .bench_local(|| {
            (0..phases.len()).for_each(|phase| job.run(phase, 0, &|| false));
        });
    assert_eq!(job.result(), Ok(()));
}

#[divan::bench(args = FORMS, sample_count = 5)]
fn hash_join(bencher: Bencher, form: Form) {
    pass(
        bencher,
        &Operator::HashJoin(HashJoin {
            build_tuples: tuples(8 << 20),
            probe_tuples: tuples(32 << 20),
            form,
            ..HashJoin::default()
        }),
    );
}

#[divan::bench(args = FORMS, sample_count = 5)]
fn index_join(bencher: Bencher, form: Form) {
    pass(
        bencher,
        &Operator::IndexJoin(IndexJoin {
            build_tuples: tuples(4 << 20),
            table_buckets: tuples(16 << 20),
            form,
            ..IndexJoin::default()
        }),
    );
}

#[divan::bench(args = FORMS, sample_count = 5)]
fn radix_join(bencher: Bencher, form: Form) {
    let build_tuples = tuples(8 << 20);
    pass(
        bencher,
        &Operator::RadixJoin(RadixJoin {
            build_tuples,
            probe_tuples: tuples(32 << 20),
            fanout: RadixJoin::fanout_for(build_tuples),
            form,
            ..RadixJoin::default()
        }),
    );
}

#[divan::bench(args = FORMS, consts = [64, 1024, 16384], sample_count = 5)]
fn radix_partition<const FANOUT: u64>(bencher: Bencher, form: Form) {
    pass(
        bencher,
        &Operator::RadixPartition(RadixPartition {
            tuples: tuples(32 << 20),
            fanout: FANOUT,
            form,
            ..RadixPartition::default()
        }),
    );
}

#[divan::bench(args = FORMS, consts = [10, 14, 22], sample_count = 5)]
fn aggregation<const LOG_GROUPS: u32>(bencher: Bencher, form: Form) {
    pass(
        bencher,
        &Operator::Aggregation(Aggregation {
            tuples: tuples(16 << 20),
            groups: 1 << LOG_GROUPS,
            form,
            ..Aggregation::default()
        }),
    );
}

#[divan::bench(args = FORMS, consts = [0, 1, 10, 50, 100], sample_count = 5)]
fn column_scan<const PERCENT: u32>(bencher: Bencher, form: Form) {
    pass(
        bencher,
        &Operator::ColumnScan(ColumnScan {
            rows_per_thread: tuples(64 << 20),
            selectivity: f64::from(PERCENT) / 100.0,
            form,
            ..ColumnScan::default()
        }),
    );
}

#[divan::bench(args = FORMS, consts = [0, 7, 63, 511], sample_count = 5)]
fn selective_read<const SKIP: u64>(bencher: Bencher, form: Form) {
    pass(
        bencher,
        &Operator::SelectiveRead(SelectiveRead {
            tuples: tuples(64 << 20),
            skip: SKIP,
            form,
            ..SelectiveRead::default()
        }),
    );
}
