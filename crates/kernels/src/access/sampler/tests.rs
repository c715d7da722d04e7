use proptest::prelude::*;

use super::*;
use crate::Simd;
use crate::access::{CacheOp, Operation, pattern_word};

/// Bytes before and behind the shared memory, which must not be written.
const MARGIN: usize = 128;

const OPERATIONS: [Operation; 9] = [
    Operation::Read,
    Operation::StreamRead,
    Operation::Write,
    Operation::StreamWrite,
    Operation::Copy,
    Operation::StreamCopy,
    Operation::CompareAndSwap,
    Operation::FetchAdd,
    Operation::Nop,
];

fn accesses() -> Vec<Access> {
    let mut all = Vec::new();
    for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512, Simd::Neon] {
        for operation in OPERATIONS {
            for cache_op in [
                CacheOp::None,
                CacheOp::WriteBack,
                CacheOp::Flush,
                CacheOp::FlushOpt,
            ] {
                for access_bytes in [4, 8, 16, 32, 64, 128, 4096, 65536] {
                    all.push(Access {
                        access_bytes,
                        stride_bytes: access_bytes,
                        cache_op,
                        simd,
                        ..Access::sequential(operation)
                    });
                }
            }
        }
    }
    all
}

/// Bytes that no pattern produces.
fn noise(len: usize) -> Vec<u8> {
    let mut random = crate::rng::SplitMix64::new(len as u64);
    (0..len).map(|_| random.next() as u8).collect()
}

fn words(bytes: &[u8]) -> u64 {
    if bytes.len() == 4 {
        return bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let (words, _) = bytes.as_chunks::<8>();
    words
        .iter()
        .fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// Applies the access to `memory`, which begins with a whole line, and returns what `touch`
/// returns.
fn expected(access: &Access, memory: &mut [u8], offset: usize) -> u64 {
    let size = access.access_bytes;
    let half = memory.len() / 2 / 64 * 64;
    match access.operation {
        Operation::Read | Operation::StreamRead => words(&memory[offset..offset + size]),
        Operation::Write | Operation::StreamWrite => {
            for (at, slot) in memory.iter_mut().enumerate().skip(offset).take(size) {
                *slot = pattern_word(at).to_le_bytes()[at % 8];
            }
            0
        }
        Operation::Copy | Operation::StreamCopy => {
            memory.copy_within(offset..offset + size, half + offset);
            0
        }
        Operation::CompareAndSwap | Operation::FetchAdd => {
            let before = words(&memory[offset..offset + 8]);
            memory[offset..offset + 8].copy_from_slice(&before.wrapping_add(1).to_le_bytes());
            before
        }
        Operation::Nop | Operation::Mix { .. } => 0,
    }
}

/// A buffer with margins around `len` bytes that begin `skip` bytes before a line.
struct Guarded {
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    fn new(len: usize, skip: usize) -> Self {
        let buffer = noise(len + 3 * MARGIN);
        let start = MARGIN + buffer.as_ptr().align_offset(64) + (64 - skip) % 64;
        Self { buffer, start, len }
    }

    fn memory(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}

#[test]
fn every_access_touches_exactly_its_bytes() {
    let mut checked = 0;
    for access in accesses() {
        let Ok(sampler) = Sampler::new(access, LineState::AsIs, FenceMode::Full) else {
            continue;
        };
        let len = 4 * access.access_bytes.max(64);
        let mut memory = Guarded::new(len, 0);
        let mut reference = noise(memory.buffer.len());
        let places = len / 2 / access.access_bytes.max(8);
        for place in [0, 1, places - 1] {
            let offset = place * access.access_bytes.max(8);
            let found = sampler.touch(SharedBytes::new(memory.memory()), offset);
            let start = memory.start;
            let wanted = expected(&access, &mut reference[start..start + len], offset);
            assert_eq!(found, wanted, "{access:?} at {offset}");
            assert!(memory.buffer == reference, "{access:?} at {offset}");
        }
        checked += 1;
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn timed_accesses_do_the_same_as_untimed_ones() {
    for access in accesses() {
        for line in [LineState::AsIs, LineState::Preloaded, LineState::Flushed] {
            for fence in [FenceMode::Full, FenceMode::None] {
                let Ok(sampler) = Sampler::new(access, line, fence) else {
                    continue;
                };
                let len = 2 * access.access_bytes.max(64);
                let mut memory = Guarded::new(len, 0);
                let mut reference = memory.buffer.clone();
                sampler.sample(SharedBytes::new(memory.memory()), 0);
                expected(&access, &mut reference[memory.start..memory.start + len], 0);
                assert!(memory.buffer == reference, "{access:?} {line:?} {fence:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn wild_offsets_and_small_memories_stay_inside(
        index in any::<prop::sample::Index>(), len in 0_usize..700, skip in 0_usize..64, offset in prop_oneof![0_usize..800, Just(usize::MAX), any::<usize>()],
        flushed in any::<bool>(),
    ) {
        let all = accesses();
        let access = Access { access_bytes: index.get(&all).access_bytes.min(256), ..*index.get(&all) };
        let access = Access { stride_bytes: access.access_bytes, ..access };
        let line = if flushed { LineState::Flushed } else { LineState::Preloaded };
        if let Ok(sampler) = Sampler::new(access, line, FenceMode::Full) {
            let mut memory = Guarded::new(len, skip);
            let before = memory.buffer.clone();
            sampler.sample(SharedBytes::new(memory.memory()), offset);
            sampler.touch(SharedBytes::new(memory.memory()), offset);
            let end = memory.start + len;
            prop_assert_eq!(&memory.buffer[..memory.start], &before[..memory.start]);
            prop_assert_eq!(&memory.buffer[end..], &before[end..]);
        }
    }

    #[test]
    fn all_lines_of_an_access_are_prepared_once(size in 2_u32..12, offset in 0_usize..200, copies in any::<bool>()) {
        let operation = if copies { Operation::Copy } else { Operation::Read };
        let size = 1 << size;
        let access = Access { access_bytes: size, stride_bytes: size, simd: Simd::Scalar, ..Access::sequential(operation) };
        let single = Single::new(access).unwrap();
        let mut memory = Guarded::new(10_000, 0);
        let base = memory.memory().as_ptr().addr();
        let place = single.place(SharedBytes::new(memory.memory()), offset).unwrap();
        let mut lines = Vec::new();
        place.for_each_line(single.copies(), |at| lines.push((at.addr() - base) / 64));
        let mut wanted: Vec<usize> = (offset / 64..=(offset + size - 1) / 64).collect();
        if copies {
            let image = 10_000 / 2 / 64 * 64 + offset;
            wanted.extend(image / 64..=(image + size - 1) / 64);
        }
        prop_assert_eq!(lines, wanted);
    }
}

#[test]
fn samples_and_what_they_cost_are_ticks_of_the_timer() {
    let timer = Timer::calibrate();
    let mut memory = vec![0_u8; 4096];
    for operation in [Operation::Read, Operation::Write, Operation::FetchAdd] {
        for fence in [FenceMode::Full, FenceMode::None] {
            let sampler =
                Sampler::new(Access::random(operation), LineState::Flushed, fence).unwrap();
            let overhead = sampler.overhead_ns(&timer);
            assert!(
                overhead.min >= 0.0
                    && overhead.min <= overhead.median
                    && overhead.median <= overhead.max
            );
            let before = timer.now();
            let ticks = sampler.sample(SharedBytes::new(&mut memory), 64);
            let around = timer.now() - before;
            // A sample is a part of the time around it, on the same clock.
            assert!(ticks <= around, "{ticks} {around}");
        }
    }
}

#[test]
fn mixes_are_refused_with_what_to_do_instead() {
    let mix = Operation::Mix {
        read_percent: 50,
        stream: false,
    };
    let error = Sampler::new(Access::random(mix), LineState::AsIs, FenceMode::Full).unwrap_err();
    assert!(error.to_string().contains("separate tasks"), "{error}");
}
