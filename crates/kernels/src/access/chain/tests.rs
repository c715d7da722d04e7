use proptest::prelude::*;

use super::*;
use crate::access::pattern_word;

const READ: ChainStep = ChainStep {
    region: 0,
    write: false,
    size_bytes: 64,
    cache_op: CacheOp::None,
    stream: false,
    offset_bytes: None,
};
const WRITE: ChainStep = ChainStep {
    write: true,
    offset_bytes: Some(0),
    ..READ
};

/// Bytes of the widest instruction of a width.
fn widest(simd: Simd) -> usize {
    match simd {
        Simd::Avx512 => 64,
        Simd::Avx2 => 32,
        Simd::Neon => 32,
        Simd::Scalar => 8,
    }
}

/// A plain model of what chains do.
struct Model {
    memories: [Vec<u8>; 2],
    random: SplitMix64,
    checksum: u64,
}

impl Model {
    fn run(&mut self, steps: &[ChainStep], simd: Simd) {
        let (mut at, mut value) = (0_usize, 0_u64);
        for step in steps {
            let memory = &mut self.memories[usize::from(step.region)];
            let size = step.size_bytes;
            at = match step.offset_bytes {
                None => {
                    scale(
                        self.random.next().wrapping_add(value),
                        (memory.len() / size) as u64,
                    ) as usize
                        * size
                }
                Some(offset) => {
                    // Lines at which a step of this size may begin, as a circle.
                    let lines = ((memory.len() - size) / 64 + 1) as i64;
                    ((at as i64 / 64 + offset / 64).rem_euclid(lines) * 64) as usize
                }
            };
            if step.write {
                for (byte, slot) in memory.iter_mut().enumerate().skip(at).take(size) {
                    *slot = pattern_word(byte).to_le_bytes()[byte % 8];
                }
            } else {
                let from = at + size - size.min(widest(simd));
                value = u64::from_le_bytes(memory[from..from + 8].try_into().unwrap());
            }
        }
        self.checksum = self.checksum.wrapping_add(value);
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..len / 8)
        .flat_map(|_| random.next().to_le_bytes())
        .collect()
}

/// A vector aligned to a line, as regions are: the words of the pattern count from there.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let mut room = vec![0; bytes.len() + 64];
        let start = room.as_ptr().align_offset(64);
        room[start..start + bytes.len()].copy_from_slice(bytes);
        room.truncate(start + bytes.len());
        Self(room, start)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0[self.1..]
    }
}

fn step() -> impl Strategy<Value = ChainStep> {
    let write = (-40_i64..40, 6_u32..10, 0_u8..3).prop_map(|(lines, size, kind)| ChainStep {
        size_bytes: 1 << size,
        offset_bytes: Some(lines * 64),
        stream: kind == 1,
        cache_op: if kind == 2 {
            CacheOp::Flush
        } else {
            CacheOp::None
        },
        ..WRITE
    });
    let placed = (0_u8..2, 6_u32..10).prop_map(|(region, size)| ChainStep {
        region,
        size_bytes: 1 << size,
        offset_bytes: None,
        ..WRITE
    });
    let read = (0_u8..2, 6_u32..10).prop_map(|(region, size)| ChainStep {
        region,
        size_bytes: 1 << size,
        ..READ
    });
    prop_oneof![3 => read, 3 => write, 1 => placed]
}

/// Makes relative writes refer to the region of the previous step, and the first step absolute.
fn repaired(mut steps: Vec<ChainStep>) -> Vec<ChainStep> {
    let mut region = None;
    for step in &mut steps {
        match region {
            Some(before) if step.offset_bytes.is_some() => step.region = before,
            None => step.offset_bytes = None,
            Some(_) => {}
        }
        region = Some(step.region);
    }
    steps
}

proptest! {
    #[test]
    fn chains_touch_what_the_plain_description_says(
        steps in prop::collection::vec(step(), 1..8).prop_map(repaired), lens in [16_usize..200, 16_usize..200], seed in any::<u64>(), count in 1_u64..20,
    ) {
        for simd in [Simd::Scalar, Simd::detect()] {
            let chain = Chain::new(&steps, simd).unwrap();
            let [first, second] = lens.map(|lines| noise(lines * 64, seed));
            let mut model = Model { memories: [first.clone(), second.clone()], random: ChainState::new(seed, 3).random, checksum: 0 };
            let (mut first, mut second) = (Aligned::new(&first), Aligned::new(&second));
            let mut state = ChainState::new(seed, 3);
            let memories = [SharedBytes::new(first.bytes()), SharedBytes::new(second.bytes())];
            let touched = chain.run(&memories, count, &mut state);
            chain.sample(&memories, &mut state);
            for _ in 0..count {
                model.run(&steps, simd);
            }
            prop_assert_eq!(touched.checksum, model.checksum);
            prop_assert_eq!(Touched { checksum: 0, ..touched }, chain.touched(count));
            model.run(&steps, simd);
            prop_assert!(first.bytes() == model.memories[0]);
            prop_assert!(second.bytes() == model.memories[1]);
        }
    }
}

#[test]
fn the_place_of_a_read_depends_on_what_was_read_before_also_over_writes() {
    // The same random numbers on memories with different contents; the last step marks its place.
    let mark = ChainStep {
        offset_bytes: None,
        region: 1,
        ..WRITE
    };
    let steps = [READ, WRITE, mark];
    let marked = |contents: u8| {
        let mut first = Aligned::new(&[contents; 64]);
        let mut second = Aligned::new(&[0; 64 * 1000]);
        let memories = [
            SharedBytes::new(first.bytes()),
            SharedBytes::new(second.bytes()),
        ];
        let chain = Chain::new(&steps, Simd::detect()).unwrap();
        chain.run(&memories, 1, &mut ChainState::new(1, 0));
        second
            .bytes()
            .iter()
            .position(|byte| *byte != 0)
            .map(|at| at / 64)
    };
    assert!(marked(0).is_some());
    assert_eq!(marked(0), marked(0));
    assert_ne!(marked(0), marked(0x55));
}

#[test]
fn bytes_of_reads_and_writes_are_counted_apart() {
    let steps = [
        READ,
        ChainStep {
            size_bytes: 256,
            ..READ
        },
        WRITE,
        ChainStep {
            size_bytes: 128,
            ..WRITE
        },
    ];
    let touched = Chain::new(&steps, Simd::detect()).unwrap().touched(10);
    assert_eq!(
        (
            touched.operations,
            touched.read_bytes,
            touched.written_bytes
        ),
        (10, 3200, 1920)
    );
}

#[test]
fn chains_that_make_no_sense_are_refused_by_step() {
    let refused = |steps: &[ChainStep], expected: &str| {
        let error = Chain::new(steps, Simd::Scalar).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(&[], "no steps");
    refused(
        &[READ, ChainStep { region: 2, ..READ }],
        "step 2: there are the regions m0 and m1 only",
    );
    refused(
        &[ChainStep {
            size_bytes: 96,
            ..READ
        }],
        "step 1: 96 bytes",
    );
    refused(
        &[ChainStep {
            size_bytes: 4,
            ..READ
        }],
        "step 1: expected a size",
    );
    refused(
        &[ChainStep {
            size_bytes: 1 << 17,
            ..READ
        }],
        "step 1: 131072 bytes",
    );
    refused(
        &[ChainStep {
            cache_op: CacheOp::Flush,
            ..READ
        }],
        "only writes have",
    );
    refused(
        &[ChainStep {
            stream: true,
            ..READ
        }],
        "only writes have",
    );
    refused(
        &[ChainStep {
            offset_bytes: Some(64),
            ..READ
        }],
        "only writes have",
    );
    refused(&[WRITE], "in the same region");
    refused(
        &[READ, ChainStep { region: 1, ..WRITE }],
        "step 2: an offset counts from",
    );
    refused(
        &[
            READ,
            ChainStep {
                offset_bytes: Some(32),
                ..WRITE
            },
        ],
        "multiple of 64",
    );
}

#[test]
fn memories_without_room_are_named_and_left_alone() {
    let chain = Chain::new(
        &[
            READ,
            ChainStep {
                region: 1,
                size_bytes: 256,
                ..READ
            },
            ChainStep { region: 1, ..WRITE },
        ],
        Simd::Scalar,
    )
    .unwrap();
    assert_eq!(chain.regions(), 2);
    let (mut large, mut small) = (Aligned::new(&[7; 256]), Aligned::new(&[7; 128]));
    let memories = [
        SharedBytes::new(large.bytes()),
        SharedBytes::new(small.bytes()),
    ];
    let error = chain.check_memories(&memories).unwrap_err().to_string();
    assert!(
        error.contains("step 2 accesses 256 bytes of m1, which has 128"),
        "{error}"
    );
    let mut state = ChainState::new(0, 0);
    assert_eq!(chain.run(&memories, 5, &mut state), Touched::default());
    assert_eq!(chain.sample(&memories[..1], &mut state), 0);
    assert!(small.bytes().iter().all(|byte| *byte == 7));
}

#[test]
fn workers_go_different_ways_and_seeds_repeat_them() {
    let places = |seed, worker| {
        let mut memory = Aligned::new(&[0; 64 * 512]);
        let memories = [SharedBytes::new(memory.bytes())];
        let chain = Chain::new(&[READ, WRITE], Simd::Scalar).unwrap();
        chain.run(&memories, 20, &mut ChainState::new(seed, worker));
        memory.bytes().to_vec()
    };
    assert_eq!(places(1, 0), places(1, 0));
    assert_ne!(places(1, 0), places(1, 1));
    assert_ne!(places(1, 0), places(2, 0));
}

#[test]
fn an_empty_chain_costs_something() {
    let chain = Chain::new(&[READ], Simd::Scalar).unwrap();
    let overhead = chain.overhead_ns(&Timer::calibrate());
    assert!(
        overhead.mean > 0.0 && overhead.samples > 1000,
        "{overhead:?}"
    );
}
