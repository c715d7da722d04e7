//! Time to decode codes, per value of a batch of 16,384: `cargo bench -p tierloom-kernels --bench
//! codes`.

use divan::Bencher;
use divan::counter::ItemsCount;
use tierloom_kernels::codes::{CodeWidth, Codes, pack};
use tierloom_kernels::{CodeValue, positions};

const ROWS: usize = 16 * 1024;

fn main() {
    // The C library returns freed memory to the kernel until a larger block has been freed; page
    // faults are not to be measured here.
    drop(divan::black_box(vec![1_u8; 16 << 20]));
    divan::main();
}

fn column(width: CodeWidth) -> Vec<u8> {
    let codes: Vec<u32> = (0..ROWS as u32)
        .map(|row| row.wrapping_mul(0x9e37_79b9) >> 8)
        .collect();
    let mut bytes = vec![0; width.size_bytes(ROWS)];
    pack(&mut bytes, width, 0, &codes);
    bytes
}

fn offsets<T: CodeValue>(bencher: Bencher, width: CodeWidth) {
    let bytes = column(width);
    let Ok(codes) = Codes::new(&bytes, width, ROWS) else {
        return;
    };
    bencher
        .counter(ItemsCount::new(ROWS))
        .bench_local(|| codes.offsets::<T>(0..ROWS, 19_920_101));
}

const WIDTHS: [CodeWidth; 4] = [
    CodeWidth::One,
    CodeWidth::Two,
    CodeWidth::Three,
    CodeWidth::Four,
];

#[divan::bench(args = WIDTHS)]
fn offsets_to_i32(bencher: Bencher, width: CodeWidth) {
    offsets::<i32>(bencher, width);
}

#[divan::bench(args = WIDTHS)]
fn offsets_to_i64(bencher: Bencher, width: CodeWidth) {
    offsets::<i64>(bencher, width);
}

#[divan::bench(args = WIDTHS)]
fn offsets_to_i128(bencher: Bencher, width: CodeWidth) {
    offsets::<i128>(bencher, width);
}

#[divan::bench]
fn dates_from_a_table(bencher: Bencher) {
    let bytes = column(CodeWidth::Two);
    let Ok(codes) = Codes::new(&bytes, CodeWidth::Two, ROWS) else {
        return;
    };
    let days: Vec<i32> = (0..2556).collect();
    bencher
        .counter(ItemsCount::new(ROWS))
        .bench_local(|| codes.looked_up(0..ROWS, 0, &days));
}

/// A filter that passes 2 in 256, and the positions that it selects.
#[divan::bench]
fn filter_by_range(bencher: Bencher) {
    let bytes = column(CodeWidth::One);
    let Ok(codes) = Codes::new(&bytes, CodeWidth::One, ROWS) else {
        return;
    };
    bencher
        .counter(ItemsCount::new(ROWS))
        .bench_local(|| positions(&codes.in_range(0..ROWS, 5, 6)));
}
