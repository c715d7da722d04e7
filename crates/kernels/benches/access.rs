//! Bandwidth of the main kernels with one thread and with two: `cargo bench -p tierloom-kernels
//! --bench access`.
//!
//! Every kernel works on 256 MiB (1 MiB with `--test`), which no cache holds, in batches of 32 MiB.
//! Two threads have a half each, except for random places, which are anywhere.

use divan::Bencher;
use divan::counter::BytesCount;
use tierloom_kernels::Simd;
use tierloom_kernels::access::{
    Access, Distribution, Kernel, Operation, Order, Places, SharedBytes,
};

const BATCH_BYTES: usize = 32 << 20;

fn main() {
    divan::main();
}

/// Bytes of memory: few if benchmarks are only tried out.
fn memory_bytes() -> usize {
    if std::env::args().any(|argument| argument == "--test") {
        1 << 20
    } else {
        256 << 20
    }
}

/// Runs `access` over the whole memory once per iteration.
fn bench(bencher: Bencher, threads: usize, access: Access) {
    let Ok(kernel) = Kernel::new(access) else {
        // This processor lacks the width or instruction.
        return;
    };
    let len = memory_bytes();
    let mut memory = vec![1_u8; len];
    let shared = SharedBytes::new(&mut memory);
    let span = kernel.span_bytes(len);
    let mut workers: Vec<Places> = (0..threads as u64)
        .map(|worker| Places::new(&access, len, 1, worker))
        .collect();
    let part = span / threads;
    let one_pass = |first: usize, places: &mut Places| {
        (first..first + part)
            .step_by(BATCH_BYTES)
            .map(|start| {
                kernel.run(
                    shared,
                    start..(start + BATCH_BYTES).min(first + part),
                    places,
                )
            })
            .sum::<tierloom_kernels::access::Touched>()
    };
    let directions = match access.operation {
        Operation::Copy | Operation::StreamCopy => 2,
        _ => 1,
    };
    bencher
        .counter(BytesCount::new(span * directions))
        .bench_local(|| {
            let (own, others) = workers.split_at_mut(1);
            std::thread::scope(|scope| {
                for (index, places) in (1..).zip(others) {
                    scope.spawn(move || one_pass(index * part, places));
                }
                one_pass(0, &mut own[0])
            })
        });
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn read(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::sequential(Operation::Read));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn read_prefetched_1_kib_ahead(bencher: Bencher, threads: usize) {
    let access = Access {
        prefetch_bytes: 1024,
        ..Access::sequential(Operation::Read)
    };
    bench(bencher, threads, access);
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn read_avx2(bencher: Bencher, threads: usize) {
    let access = Access {
        simd: Simd::Avx2,
        ..Access::sequential(Operation::Read)
    };
    bench(bencher, threads, access);
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn read_scalar(bencher: Bencher, threads: usize) {
    let access = Access {
        simd: Simd::Scalar,
        ..Access::sequential(Operation::Read)
    };
    bench(bencher, threads, access);
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn write(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::sequential(Operation::Write));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn stream_write(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::sequential(Operation::StreamWrite));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn copy(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::sequential(Operation::Copy));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn stream_copy(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::sequential(Operation::StreamCopy));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn mix_two_reads_to_one_write(bencher: Bencher, threads: usize) {
    let operation = Operation::Mix {
        read_percent: 67,
        stream: false,
    };
    bench(bencher, threads, Access::sequential(operation));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn random_read_64(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::random(Operation::Read));
}

/// What benchmarks do that draw all places before the time begins, with the fewest instructions: a
/// word of each line. The list of places is traffic too, and is not counted.
#[divan::bench(sample_count = 15)]
fn random_read_64_of_prepared_places(bencher: Bencher) {
    const LINE_WORDS: usize = 8;
    let len = memory_bytes();
    let memory = vec![1_u64; len / size_of::<u64>()];
    let mut places = Places::new(&Access::random(Operation::Read), len, 1, 0);
    let lines = len / 64;
    let prepared: Vec<u32> = (0..lines)
        .map(|_| (places.next_offset() / 64) as u32)
        .collect();
    bencher.counter(BytesCount::new(len)).bench_local(|| {
        let words = prepared
            .iter()
            .map(|line| memory[*line as usize * LINE_WORDS]);
        words.fold(0_u64, u64::wrapping_add)
    });
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn random_read_64_prefetched_64_ahead(bencher: Bencher, threads: usize) {
    let access = Access {
        prefetch_bytes: 4096,
        ..Access::random(Operation::Read)
    };
    bench(bencher, threads, access);
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn zipf_read_64(bencher: Bencher, threads: usize) {
    let access = Access {
        order: Order::Random(Distribution::Zipf { alpha: 0.9 }),
        ..Access::random(Operation::Read)
    };
    bench(bencher, threads, access);
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn random_fetch_and_add(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::random(Operation::FetchAdd));
}

#[divan::bench(args = [1, 2], sample_count = 15)]
fn nothing(bencher: Bencher, threads: usize) {
    bench(bencher, threads, Access::sequential(Operation::Nop));
}
