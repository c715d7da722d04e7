//! Speed of the latency kernels: pointer chases (ring building, one chain, several), timed single
//! accesses, and custom chains.

use std::sync::LazyLock;

use divan::Bencher;
use divan::counter::ItemsCount;
use tierloom_kernels::access::{
    Access, CacheOp, Chain, ChainState, ChainStep, ChaseLocality, FenceMode, LineState, Operation,
    Places, Sampler, SharedBytes,
};
use tierloom_kernels::{ChaseRing, LINE_BYTES, Simd};

/// Loads, samples or chains per iteration.
const STEPS: u64 = 20_000;

/// Bytes of memory: more than the caches, but few if benchmarks are only tried out.
static MEMORY_BYTES: LazyLock<usize> = LazyLock::new(|| {
    if std::env::args().any(|arg| arg == "--test") {
        4 << 20
    } else {
        512 << 20
    }
});

fn main() {
    divan::main();
}

const LOCALITIES: [ChaseLocality; 2] = [ChaseLocality::Random, ChaseLocality::Pages];

/// Bytes of the buffer that a ring is written through.
#[divan::bench(args = LOCALITIES)]
fn ring_build(bencher: Bencher<'_, '_>, locality: ChaseLocality) {
    let mut memory = vec![1_u8; *MEMORY_BYTES];
    bencher
        .counter(ItemsCount::new(*MEMORY_BYTES / LINE_BYTES))
        .bench_local(|| ChaseRing::build_with(&mut memory, locality, LINE_BYTES, 1).lines());
}

/// Dependent loads through 16 KiB, where the loop's own instructions would show, and through
/// memory.
#[divan::bench(args = [16 << 10, usize::MAX], consts = [64, 256])]
fn chase_walk<const STRIDE_BYTES: usize>(bencher: Bencher<'_, '_>, at_most_bytes: usize) {
    let mut memory = vec![1_u8; at_most_bytes.min(*MEMORY_BYTES)];
    let ring = ChaseRing::build_with(&mut memory, ChaseLocality::Pages, STRIDE_BYTES, 1);
    let mut at = 0;
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        at = ring.walk(at, STEPS);
        at
    });
}

/// The same number of loads in several chains: the speed-up is the memory-level parallelism.
#[divan::bench(args = [1, 2, 4, 8, 12, 16, 32])]
fn chase_walk_many(bencher: Bencher<'_, '_>, chains: usize) {
    let mut memory = vec![1_u8; *MEMORY_BYTES];
    let ring = ChaseRing::build(&mut memory, 1);
    let mut at = ring.starts(chains);
    bencher
        .counter(ItemsCount::new(STEPS / chains as u64 * chains as u64))
        .bench_local(|| ring.walk_many(&mut at, STEPS / chains as u64));
}

const SAMPLED: [Operation; 4] = [
    Operation::Nop,
    Operation::Read,
    Operation::Write,
    Operation::FetchAdd,
];

/// The whole cost of sampling, not the latency that a sample reports.
#[divan::bench(args = SAMPLED, consts = [false, true])]
fn sample<const FLUSHED: bool>(bencher: Bencher<'_, '_>, operation: Operation) {
    let mut memory = vec![1_u8; *MEMORY_BYTES];
    let access = Access::random(operation);
    let line = if FLUSHED {
        LineState::Flushed
    } else {
        LineState::Preloaded
    };
    let Ok(sampler) = Sampler::new(access, line, FenceMode::Full) else {
        return;
    };
    let mut places = Places::new(&access, memory.len(), 1, 0);
    let shared = SharedBytes::new(&mut memory);
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench_local(|| sampler.sample(shared, places.next_offset()));
}

/// Chains of dependent reads, the last line of each updated.
#[divan::bench(args = [1, 2, 4])]
fn chain_of_reads(bencher: Bencher<'_, '_>, reads: usize) {
    let read = ChainStep {
        region: 0,
        write: false,
        size_bytes: LINE_BYTES,
        cache_op: CacheOp::None,
        stream: false,
        offset_bytes: None,
    };
    let mut steps = vec![read; reads];
    steps.push(ChainStep {
        write: true,
        offset_bytes: Some(0),
        ..read
    });
    let Ok(chain) = Chain::new(&steps, Simd::detect()) else {
        return;
    };
    let mut memory = vec![1_u8; *MEMORY_BYTES];
    let memories = [SharedBytes::new(&mut memory)];
    let mut state = ChainState::new(1, 0);
    bencher
        .counter(ItemsCount::new(STEPS))
        .bench_local(|| chain.run(&memories, STEPS, &mut state));
}
