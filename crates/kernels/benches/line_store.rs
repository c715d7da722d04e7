//! Stores of whole lines: `cargo bench -p tierloom-kernels --bench line_store`.
//!
//! The target has 64 MiB, more than most caches, and its lines are visited in an order that no
//! prefetcher follows, as by a partitioning.

use divan::Bencher;
use divan::counter::BytesCount;
use tierloom_kernels::access::SharedBytes;
use tierloom_kernels::{LINE_WORDS, LineStore, Simd, WordLine};

/// An odd number of lines, so that every line is visited once.
const STEP_LINES: usize = 97_003;

fn main() {
    divan::main();
}

#[divan::bench(args = ["plain", "words", "avx2", "avx512"])]
fn scattered_lines(bencher: Bencher, kind: &str) {
    let store = match kind {
        "plain" => LineStore::plain(),
        "words" => LineStore::stream(Simd::Scalar),
        "avx2" => LineStore::stream(Simd::Avx2),
        _ => LineStore::stream(Simd::Avx512),
    };
    let tried_out = std::env::args().any(|argument| argument == "--test");
    let lines: usize = if tried_out { 1 << 10 } else { 1 << 20 };
    let mut memory = vec![1_u8; lines * 64 + 63];
    let start = memory.as_ptr().align_offset(64);
    let words = SharedBytes::new(&mut memory[start..]).words();
    let line = WordLine([7; LINE_WORDS]);
    bencher
        .counter(BytesCount::new(lines * 64))
        .bench_local(|| {
            for at in 0..lines {
                let line_at = at * STEP_LINES % lines;
                store.store(words, line_at * LINE_WORDS, &line);
            }
            store.finish();
        });
}
