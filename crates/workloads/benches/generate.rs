//! Speed of generating SSB data: `cargo bench -p tierloom-workloads`.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use tierloom_workloads::{Silent, ssb};

fn main() {
    divan::main();
}

/// Bytes of a lineorder row: 15 integers and 2 codes.
const ROW_BYTES: usize = 15 * 4 + 2;

/// Fills memory that already has its pages, on all threads of the pool.
#[divan::bench(args = [0.1, 1.0], sample_count = 10)]
fn lineorder_fill(bencher: Bencher<'_, '_>, scale_factor: f64) {
    let Ok(plan) =
        ssb::SsbConfig::new(scale_factor, 1).and_then(|config| ssb::Lineorder::plan(&config))
    else {
        return;
    };
    let rows = plan.rows();
    let mut int32 = vec![vec![1i32; rows]; 15];
    let mut dict8 = vec![vec![1u8; rows]; 2];
    bencher
        .counter(ItemsCount::new(rows))
        .counter(BytesCount::new(rows * ROW_BYTES))
        .bench_local(|| {
            let mut columns = ssb::LineorderColumns {
                int32: int32.iter_mut().map(Vec::as_mut_slice).collect(),
                dict8: dict8.iter_mut().map(Vec::as_mut_slice).collect(),
            };
            plan.fill(&mut columns, &Silent)
        });
}

/// Counts the rows, which is necessary before memory can be allocated.
#[divan::bench(args = [0.1, 1.0], sample_count = 10)]
fn lineorder_plan(bencher: Bencher<'_, '_>, scale_factor: f64) {
    let Ok(config) = ssb::SsbConfig::new(scale_factor, 1) else {
        return;
    };
    bencher
        .counter(ItemsCount::new(config.orders()))
        .bench_local(|| ssb::Lineorder::plan(&config));
}

/// All four dimension tables.
#[divan::bench(args = [0.1, 1.0], sample_count = 10)]
fn dimensions(bencher: Bencher<'_, '_>, scale_factor: f64) {
    let Ok(config) = ssb::SsbConfig::new(scale_factor, 1) else {
        return;
    };
    bencher.bench_local(|| {
        ["customer", "supplier", "part", "date"].map(|table| ssb::dimension(&config, table))
    });
}
