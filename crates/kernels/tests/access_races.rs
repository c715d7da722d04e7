//! Several threads on the same bytes at the same time.

use tierloom_kernels::access::{
    Access, CacheOp, Distribution, Kernel, Operation, Order, Places, SharedBytes, Touched,
    check_pattern, pattern_word,
};

const THREADS: u64 = 4;
const ROUNDS: u64 = 50;

/// `ROUNDS` batches over all of `memory` in each of `THREADS` threads.
fn race(access: Access, memory: &mut [u8]) -> Touched {
    let kernel = Kernel::new(access).expect("possible here");
    let len = memory.len();
    let shared = SharedBytes::new(memory);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|worker| {
                scope.spawn(move || {
                    let mut places = Places::new(kernel.access(), len, 5, worker);
                    (0..ROUNDS)
                        .map(|_| kernel.run(shared, 0..len, &mut places))
                        .sum::<Touched>()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    })
}

/// Memory of `lines` whole lines, with room to align it.
fn lines(buffer: &mut Vec<u8>, lines: usize) -> &mut [u8] {
    buffer.resize(lines * 64 + 64, 0);
    let skip = buffer.as_ptr().align_offset(64);
    &mut buffer[skip..skip + lines * 64]
}

fn counters(memory: &[u8]) -> u64 {
    memory
        .chunks(64)
        .map(|line| u64::from_le_bytes(line[..8].try_into().expect("8 bytes")))
        .sum()
}

const ORDERS: [Order; 3] = [
    Order::Ascending,
    Order::Descending,
    Order::Random(Distribution::Uniform),
];

#[test]
fn racing_fetch_and_adds_lose_nothing() {
    for order in ORDERS {
        for cache_op in [CacheOp::None, CacheOp::Flush] {
            let mut buffer = Vec::new();
            let memory = lines(&mut buffer, 8);
            let access = Access {
                order,
                cache_op,
                ..Access::sequential(Operation::FetchAdd)
            };
            let touched = race(access, memory);
            assert_eq!(touched.operations, THREADS * ROUNDS * 8);
            assert_eq!(counters(memory), touched.operations);
        }
    }
}

#[test]
fn compare_and_swaps_count_exactly_those_that_won() {
    for order in ORDERS {
        let mut buffer = Vec::new();
        let memory = lines(&mut buffer, 2);
        let access = Access {
            order,
            ..Access::sequential(Operation::CompareAndSwap)
        };
        let touched = race(access, memory);
        assert_eq!(touched.operations, THREADS * ROUNDS * 2);
        assert_eq!(counters(memory), touched.checksum);
        assert!(touched.checksum > 0 && touched.checksum <= touched.operations);
    }
}

#[test]
fn racing_writers_of_all_kinds_leave_the_pattern() {
    for operation in [
        Operation::Write,
        Operation::StreamWrite,
        Operation::Mix {
            read_percent: 50,
            stream: true,
        },
    ] {
        for order in ORDERS {
            let mut buffer = Vec::new();
            let memory = lines(&mut buffer, 64);
            let access = Access {
                order,
                ..Access::sequential(operation)
            };
            let touched = race(access, memory);
            assert_eq!(touched.operations, THREADS * ROUNDS * 64);
            let whole = matches!(operation, Operation::Write | Operation::StreamWrite);
            if whole && !matches!(order, Order::Random(_)) {
                assert_eq!(check_pattern(memory), None);
            }
            // Unwritten words are still zero, written ones are the pattern, and nothing is torn.
            for (index, word) in memory.chunks(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
                assert!(word == 0 || word == pattern_word(index * 8));
            }
        }
    }
}
