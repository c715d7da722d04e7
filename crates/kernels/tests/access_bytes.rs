//! Kernels touch exactly the bytes that they are specified to touch: each is compared with a
//! byte-by-byte reference, between canaries.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{
    Access, AccessError, CacheOp, Distribution, Kernel, Operation, Order, Places, SharedBytes,
    Touched, check_pattern, pattern_word,
};

/// Number of bytes before and after the memory that must stay unchanged.
const CANARY_BYTES: usize = 256;
const SEED: u64 = 11;

const OPERATIONS: [Operation; 12] = [
    Operation::Read,
    Operation::StreamRead,
    Operation::Write,
    Operation::StreamWrite,
    Operation::Copy,
    Operation::StreamCopy,
    Operation::Mix {
        read_percent: 67,
        stream: false,
    },
    Operation::Mix {
        read_percent: 30,
        stream: true,
    },
    Operation::Mix {
        read_percent: 100,
        stream: false,
    },
    Operation::CompareAndSwap,
    Operation::FetchAdd,
    Operation::Nop,
];
const ORDERS: [Order; 4] = [
    Order::Ascending,
    Order::Descending,
    Order::Random(Distribution::Uniform),
    Order::Random(Distribution::Zipf { alpha: 0.9 }),
];
const CACHE_OPS: [CacheOp; 4] = [
    CacheOp::None,
    CacheOp::WriteBack,
    CacheOp::Flush,
    CacheOp::FlushOpt,
];
const WIDTHS: [Simd; 4] = [Simd::Scalar, Simd::Avx2, Simd::Avx512, Simd::Neon];

/// Memory between canaries that begins `misaligned_by` bytes after a cache line.
struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    fn new(len: usize, misaligned_by: usize) -> Self {
        let mut state = 88_172_645_463_325_252_u64;
        let bytes: Vec<u8> = (0..len + 2 * CANARY_BYTES + 128)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        let aligned = bytes[CANARY_BYTES..].as_ptr().align_offset(64);
        Self {
            start: CANARY_BYTES + aligned + misaligned_by,
            bytes,
            len,
        }
    }

    fn memory(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// The effect of the accesses at `offsets` on `memory` and the counts, one byte after another.
fn reference(access: &Access, memory: &mut [u8], offsets: &[usize], image: usize) -> Touched {
    let mut touched = Touched::default();
    let size = access.access_bytes;
    let sum = |bytes: &[u8]| {
        bytes.chunks(8).fold(0_u64, |sum, word| {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            sum.wrapping_add(u64::from_le_bytes(padded))
        })
    };
    let write = |memory: &mut [u8], offset: usize| {
        for (at, byte) in (offset..).zip(&mut memory[offset..offset + size]) {
            *byte = pattern_word(at).to_le_bytes()[at % 8];
        }
    };
    for (index, &offset) in (0_u64..).zip(offsets) {
        touched.operations += 1;
        let bytes = size as u64;
        let reads = match access.operation {
            Operation::Mix { read_percent, .. } => {
                let share = u64::from(read_percent);
                (index + 1) * share / 100 > index * share / 100
            }
            Operation::Read | Operation::StreamRead => true,
            _ => false,
        };
        match access.operation {
            Operation::Nop => {}
            Operation::Copy | Operation::StreamCopy => {
                memory.copy_within(offset..offset + size, offset + image);
                touched.read_bytes += bytes;
                touched.written_bytes += bytes;
            }
            Operation::CompareAndSwap | Operation::FetchAdd => {
                let word: [u8; 8] = memory[offset..offset + 8].try_into().expect("8 bytes");
                let old = u64::from_le_bytes(word);
                memory[offset..offset + 8].copy_from_slice(&old.wrapping_add(1).to_le_bytes());
                touched.read_bytes += 8;
                touched.written_bytes += 8;
                let counted = match access.operation {
                    Operation::FetchAdd => old,
                    _ => 1,
                };
                touched.checksum = touched.checksum.wrapping_add(counted);
            }
            _ if reads => {
                touched.read_bytes += bytes;
                let sum = sum(&memory[offset..offset + size]);
                touched.checksum = touched.checksum.wrapping_add(sum);
            }
            _ => {
                touched.written_bytes += bytes;
                write(memory, offset);
            }
        }
    }
    touched
}

/// The offsets of a batch of `count` places from `start`.
fn offsets(access: &Access, memory_len: usize, start: usize, count: usize) -> Vec<usize> {
    let ascending = (0..count).map(|place| start + place * access.stride_bytes);
    match access.order {
        Order::Ascending => ascending.collect(),
        Order::Descending => ascending.rev().collect(),
        Order::Random(_) => {
            let mut places = Places::new(access, memory_len, SEED, 0);
            (0..count).map(|_| places.next_offset()).collect()
        }
    }
}

/// Runs `access` on a batch in the middle of some memory and compares all bytes and counts with the
/// reference.
fn compare(access: Access, misaligned_by: usize) -> Result<(), AccessError> {
    let kernel = Kernel::new(access)?;
    let places = 7;
    let half = access.stride_bytes * (places - 1) + access.access_bytes + 128 + 20;
    let copies = matches!(access.operation, Operation::Copy | Operation::StreamCopy);
    let len = if copies { 2 * half + 64 } else { half };
    let mut guarded = Guarded::new(len, misaligned_by);
    let skip = (64 - misaligned_by) % 64;
    let mut expected = guarded.bytes.clone();
    let span = kernel.span_bytes(len - skip);
    // Batches begin at whole lines: 10 means 64.
    let batch = 10..span - 4;
    let count = kernel.places_in(batch.end - 64) as usize;
    assert!(count >= places - 1, "{access:?}: {count}");
    let first = guarded.start + skip;
    let expected_touched = reference(
        &access,
        &mut expected[first..first + len - skip],
        &offsets(&access, len - skip, 64, count),
        span,
    );
    let mut state = Places::new(&access, len - skip, SEED, 0);
    let touched = kernel.run(SharedBytes::new(guarded.memory()), batch, &mut state);
    assert_eq!(touched, expected_touched, "{access:?}");
    let wrong = guarded
        .bytes
        .iter()
        .zip(&expected)
        .position(|(a, b)| a != b);
    assert_eq!(
        wrong, None,
        "{access:?}: first wrong byte, memory starts at {first}"
    );
    Ok(())
}

/// [`compare`], except for accesses that are refused with a reason that names a next step; returns
/// whether it ran.
fn compare_unless_refused(access: Access, misaligned_by: usize) -> bool {
    match compare(access, misaligned_by) {
        Ok(()) => true,
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains("needs")
                    || text.contains("need a")
                    || text.contains("; use ")
                    || text.contains("; choose "),
                "{text}"
            );
            false
        }
    }
}

#[test]
fn every_kind_of_access_touches_exactly_its_bytes() {
    let native = if cfg!(target_arch = "x86_64") {
        [Simd::Avx2, Simd::Avx512].as_slice()
    } else {
        &[Simd::Neon]
    };
    for simd in native.iter().filter(|simd| !simd.available()) {
        tierloom_testing::left_out(format!("this processor cannot run {simd:?}"));
    }
    let mut ran = 0;
    for operation in OPERATIONS {
        for order in ORDERS {
            for size in (2..=16).map(|log| 1_usize << log) {
                for stride in [size, size + 8, size * 3, size + 4096] {
                    for simd in WIDTHS.into_iter().filter(|simd| simd.available()) {
                        for cache_op in CACHE_OPS {
                            let large =
                                size > 4096 && (cache_op != CacheOp::None || stride > 2 * size);
                            if large && size != 64 << 10 {
                                continue;
                            }
                            let access = Access {
                                operation,
                                order,
                                access_bytes: size,
                                stride_bytes: stride,
                                cache_op,
                                prefetch_bytes: 0,
                                simd,
                            };
                            ran += usize::from(compare_unless_refused(access, 0));
                        }
                    }
                }
            }
        }
    }
    // Refused: atomics of 4 bytes, some non-temporal accesses, flushes that a processor lacks.
    assert!(ran > 2000, "only {ran} accesses were possible");
}

#[test]
fn prefetching_changes_nothing_but_time() {
    for operation in OPERATIONS {
        for order in ORDERS {
            for size in [4, 8, 16, 64, 256, 4096] {
                for stride in [size, size + 64] {
                    for prefetch_bytes in [64, 1024, 64 << 10] {
                        for simd in WIDTHS.into_iter().filter(|simd| simd.available()) {
                            let access = Access {
                                operation,
                                order,
                                access_bytes: size,
                                stride_bytes: stride,
                                cache_op: CacheOp::None,
                                prefetch_bytes,
                                simd,
                            };
                            compare_unless_refused(access, 0);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn memory_that_begins_within_a_line_loses_only_that_line() {
    for misaligned_by in [1, 8, 33, 63] {
        for operation in OPERATIONS {
            for order in ORDERS {
                let access = Access {
                    order,
                    ..Access::sequential(operation)
                };
                compare_unless_refused(access, misaligned_by);
            }
        }
    }
}

#[test]
fn strides_that_break_alignment_read_right_and_are_refused_where_they_would_fault() {
    for simd in WIDTHS.into_iter().filter(|simd| simd.available()) {
        for stride in [68, 72, 100, 132] {
            let access = |operation| Access {
                stride_bytes: stride,
                simd,
                ..Access::sequential(operation)
            };
            compare(access(Operation::Read), 0).expect("loads may be misaligned");
            let stored = compare(access(Operation::Write), 0);
            assert_eq!(stored.is_ok(), stride % 8 == 0, "{simd} {stride}");
            let streamed = Kernel::new(access(Operation::StreamWrite));
            assert_eq!(
                streamed.is_ok(),
                simd == Simd::Scalar && stride % 8 == 0,
                "{simd} {stride}"
            );
        }
    }
}

#[test]
fn widths_this_processor_lacks_are_named_with_what_to_choose_instead() {
    for simd in WIDTHS.into_iter().filter(|simd| !simd.available()) {
        let access = Access {
            simd,
            ..Access::sequential(Operation::Read)
        };
        let error = Kernel::new(access).expect_err("not available").to_string();
        assert!(
            error.contains(&simd.to_string()) && error.contains("choose simd"),
            "{error}"
        );
    }
}

#[test]
fn mixes_have_their_exact_share_over_many_batches() {
    let mut memory = vec![0_u8; 64 * 1024];
    for read_percent in [0, 1, 33, 50, 67, 99, 100] {
        let operation = Operation::Mix {
            read_percent,
            stream: false,
        };
        let kernel = Kernel::new(Access::sequential(operation)).expect("a mix");
        let mut places = Places::new(kernel.access(), memory.len(), 0, 0);
        let shared = SharedBytes::new(&mut memory);
        // 90 batches of 10 lines.
        let touched: Touched = (0..90)
            .map(|batch| kernel.run(shared, batch * 640..(batch + 1) * 640, &mut places))
            .sum();
        assert_eq!(touched.operations, 900);
        assert_eq!(touched.read_bytes, 900 * u64::from(read_percent) / 100 * 64);
        assert_eq!(touched.read_bytes + touched.written_bytes, 900 * 64);
    }
}

#[test]
fn batches_tile_the_memory_and_writes_leave_the_whole_pattern() {
    for operation in [Operation::Write, Operation::StreamWrite] {
        for simd in WIDTHS.into_iter().filter(|simd| simd.available()) {
            for size in [8, 64, 4096] {
                let mut guarded = Guarded::new(1 << 18, 0);
                let access = Access {
                    access_bytes: size,
                    stride_bytes: size,
                    simd,
                    ..Access::sequential(operation)
                };
                let kernel = Kernel::new(access).expect("aligned stores");
                let mut places = Places::new(&access, 1 << 18, 0, 0);
                let shared = SharedBytes::new(guarded.memory());
                let touched: Touched = (0..16)
                    .map(|batch| kernel.run(shared, batch << 14..(batch + 1) << 14, &mut places))
                    .sum();
                assert_eq!(touched.written_bytes, 1 << 18);
                assert_eq!(check_pattern(guarded.memory()), None);
                guarded.memory()[777] ^= 1;
                assert_eq!(check_pattern(guarded.memory()), Some(777));
            }
        }
    }
}

#[test]
fn random_accesses_reach_every_place() {
    for distribution in [Distribution::Uniform, Distribution::Zipf { alpha: 0.5 }] {
        for prefetch_bytes in [0, 512] {
            let access = Access {
                order: Order::Random(distribution),
                prefetch_bytes,
                ..Access::sequential(Operation::FetchAdd)
            };
            let mut guarded = Guarded::new(64 * 64, 0);
            guarded.memory().fill(0);
            let kernel = Kernel::new(access).expect("atomics");
            let mut places = Places::new(&access, 64 * 64, SEED, 0);
            let shared = SharedBytes::new(guarded.memory());
            let touched: Touched = (0..100)
                .map(|_| kernel.run(shared, 0..64 * 64, &mut places))
                .sum();
            let counts: Vec<u64> = guarded
                .memory()
                .chunks(64)
                .map(|line| u64::from_le_bytes(line[..8].try_into().expect("8 bytes")))
                .collect();
            assert!(
                counts.iter().all(|count| *count > 0),
                "{access:?}: {counts:?}"
            );
            assert_eq!(counts.iter().sum::<u64>(), touched.operations);
            assert_eq!(touched.operations, 6400);
        }
    }
}

#[test]
fn places_of_another_memory_cannot_lead_outside() {
    let large = Access::random(Operation::Write);
    let kernel = Kernel::new(large).expect("a write");
    let mut guarded = Guarded::new(4096, 0);
    let before = guarded.bytes.clone();
    let mut places = Places::new(&large, 1 << 30, SEED, 0);
    let touched = kernel.run(SharedBytes::new(guarded.memory()), 0..4096, &mut places);
    assert_eq!(touched.operations, 64);
    assert_eq!(places.place_count(), 64);
    let end = guarded.start + guarded.len;
    assert!(guarded.bytes[..guarded.start] == before[..guarded.start]);
    assert!(guarded.bytes[end..] == before[end..]);
}

#[test]
fn batches_outside_of_the_memory_do_nothing() {
    let mut guarded = Guarded::new(4096, 0);
    let before = guarded.bytes.clone();
    for order in ORDERS {
        let access = Access {
            order,
            ..Access::sequential(Operation::Write)
        };
        let kernel = Kernel::new(access).expect("a write");
        let mut places = Places::new(&access, 4096, SEED, 0);
        let shared = SharedBytes::new(guarded.memory());
        #[expect(
            clippy::reversed_empty_ranges,
            reason = "what a confused caller passes"
        )]
        let batches = [4096..8192, 4090..5000, 100..90, 5000..usize::MAX, 0..63];
        for batch in batches {
            assert_eq!(kernel.run(shared, batch, &mut places), Touched::default());
        }
        let tiny = kernel.run(shared.part(0, 63), 0..4096, &mut places);
        assert_eq!(tiny, Touched::default());
    }
    assert!(guarded.bytes == before);
}

#[test]
fn copies_to_another_memory_write_the_places_of_the_source_there_and_no_other_byte() {
    for (operation, order) in [Operation::Copy, Operation::StreamCopy]
        .into_iter()
        .flat_map(|operation| ORDERS.map(|order| (operation, order)))
    {
        for simd in WIDTHS.into_iter().filter(|simd| simd.available()) {
            for (source_len, target_len) in [(4096, 4096), (64 * 37, 9000), (9000, 64 * 5)] {
                let access = Access {
                    order,
                    simd,
                    stride_bytes: 128,
                    ..Access::sequential(operation)
                };
                let kernel = Kernel::new(access).unwrap();
                let mut source = Guarded::new(source_len, 0);
                let mut target = Guarded::new(target_len, 0);
                target.bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
                let (before, unchanged) = (target.bytes.clone(), source.bytes.clone());
                let lines_bytes = source_len.min(target_len) / 64 * 64;
                let mut places = Places::new(&access, 2 * lines_bytes, SEED, 0);
                let touched = kernel.run_across(
                    SharedBytes::new(source.memory()),
                    SharedBytes::new(target.memory()),
                    0..lines_bytes,
                    &mut places,
                );
                let what = format!("{operation} {order:?} {simd} {source_len} {target_len}");
                let places = (lines_bytes - 64) / 128 + 1;
                assert_eq!(touched.operations, places as u64, "{what}");
                assert_eq!(source.bytes, unchanged, "{what}");
                let start = target.start;
                let copied = |at: usize| at.checked_sub(start).filter(|at| *at < lines_bytes);
                let mut changed = 0;
                for (at, (byte, old)) in target.bytes.iter().zip(&before).enumerate() {
                    let place = copied(at).filter(|at| at % 128 < 64);
                    let new = place.map(|at| source.bytes[source.start + at]);
                    assert!(byte == old || Some(*byte) == new, "{what}: byte {at}");
                    changed += usize::from(Some(*byte) == new);
                }
                if !matches!(order, Order::Random(_)) {
                    assert_eq!(changed, places * 64, "{what}");
                }
            }
        }
    }
}
