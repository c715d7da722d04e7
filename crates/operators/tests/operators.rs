//! Operators on random sizes and seeds, by several threads, against naive implementations.

use std::collections::HashMap;
use std::sync::Barrier;

use tierloom_kernels::Simd;
use tierloom_operators::{
    Aggregation, BTree, ColumnScan, Filled, Form, GroupTables, HashJoin, IndexJoin, Operator,
    RadixJoin, RadixPartition, SelectiveRead, Watch,
};

/// Structures in memory that begins at cache lines.
struct Memory(Vec<Vec<u8>>);

impl Memory {
    fn for_operator(operator: &Operator, workers: u32) -> Self {
        let structures = operator.structures(workers);
        // Whatever was in a table or an output must not matter.
        let bytes = |bytes: u64| vec![0xa5; bytes as usize + 64];
        Self(structures.iter().map(|s| bytes(s.size_bytes)).collect())
    }

    fn slices(&mut self) -> Vec<&mut [u8]> {
        fn aligned(bytes: &mut [u8]) -> &mut [u8] {
            let start = bytes.as_ptr().align_offset(64);
            &mut bytes[start..]
        }
        self.0.iter_mut().map(|bytes| aligned(bytes)).collect()
    }

    fn words(&mut self, index: usize, count: u64) -> Vec<u64> {
        let slices = self.slices();
        let words = slices[index].as_chunks::<8>().0.iter().take(count as usize);
        words.map(|word| u64::from_le_bytes(*word)).collect()
    }
}

/// Runs `passes` passes with that many threads; the results of the passes.
fn run(
    filled: &dyn Filled,
    memory: &mut Memory,
    workers: usize,
    passes: usize,
) -> Vec<Result<(), String>> {
    let job = filled.job(memory.slices(), workers);
    let barrier = Barrier::new(workers);
    let mut results = Vec::new();
    for _ in 0..passes {
        std::thread::scope(|scope| {
            for worker in 0..workers {
                let (job, barrier) = (&job, &barrier);
                scope.spawn(move || {
                    for phase in 0..job.phases().len() {
                        job.run(phase, worker, &|| false);
                        barrier.wait();
                    }
                });
            }
        });
        results.push(job.result());
    }
    results
}

/// Fills, runs two passes and checks; returns what the check says.
fn checked(operator: &Operator, workers: usize, seed: u64, memory: &mut Memory) -> String {
    operator
        .check()
        .unwrap_or_else(|error| panic!("{operator}: {error}"));
    let filled = operator.fill(&mut memory.slices(), workers as u32, seed);
    for result in run(filled.as_ref(), memory, workers, 2) {
        result.unwrap_or_else(|wrong| panic!("{operator}, {workers} workers: {wrong}"));
    }
    let phases = filled.job(memory.slices(), workers).phases();
    let names: Vec<&str> = phases.iter().map(|phase| phase.name).collect();
    // The check of an aggregation's sums is a phase too, but none that a figure is about.
    let names: Vec<&str> = names.into_iter().filter(|name| *name != "verify").collect();
    assert_eq!(names, operator.phase_names(), "{operator}");
    let slices = memory.slices();
    let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
    filled
        .check(&slices, workers)
        .unwrap_or_else(|wrong| panic!("{operator}, {workers} workers: {wrong}"))
}

fn random() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

fn forms() -> [(Form, Simd); 4] {
    [
        (Form::Plain, Simd::Scalar),
        (Form::Tuned, Simd::Scalar),
        (Form::Tuned, Simd::Avx2),
        (Form::Tuned, Simd::Avx512),
    ]
}

#[test]
fn a_partitioning_is_the_one_of_a_naive_loop_in_every_form() {
    let mut random = random();
    for round in 0..24 {
        for (form, simd) in forms() {
            let tuples = random.u64(1..60_000);
            let fanout = 1 << random.u32(1..12);
            let workers = random.usize(1..5);
            let operator = Operator::RadixPartition(RadixPartition {
                tuples,
                fanout,
                form,
                simd,
            });
            let mut memory = Memory::for_operator(&operator, workers as u32);
            let said = checked(&operator, workers, random.u64(..), &mut memory);
            assert!(said.contains(&format!("all {tuples} tuples")), "{said}");
            let mut expected: Vec<Vec<u64>> = vec![Vec::new(); fanout as usize];
            for tuple in memory.words(0, tuples) {
                expected[(tuple % fanout) as usize].push(tuple);
            }
            // Workers have their parts in order, so the partitioning keeps the order of the input.
            assert_eq!(
                memory.words(1, tuples),
                expected.concat(),
                "{round}: {operator} x{workers}"
            );
        }
    }
}

/// Matches that a naive join of the two inputs finds.
fn naive_matches(build: &[u64], probe: &[u64]) -> u64 {
    let mut keys: HashMap<u32, u64> = HashMap::new();
    for tuple in build {
        *keys.entry(*tuple as u32).or_default() += 1;
    }
    let matches = probe.iter().filter_map(|tuple| keys.get(&(*tuple as u32)));
    matches.sum()
}

#[test]
fn joins_find_what_a_naive_join_finds_in_every_form() {
    let mut random = random();
    for _ in 0..12 {
        for (form, simd) in forms() {
            let build_tuples = random.u64(1..20_000);
            let probe_tuples = random.u64(1..40_000);
            let miss_share = *random.choice(&[0.0, 0.3, 1.0]).unwrap();
            let zipf_alpha = *random.choice(&[None, Some(0.9)]).unwrap();
            let workers = random.usize(1..5);
            let seed = random.u64(..);
            let joins = [
                Operator::HashJoin(HashJoin {
                    build_tuples,
                    probe_tuples,
                    load_factor: random.f64() * 0.85 + 0.1,
                    miss_share,
                    zipf_alpha,
                    form,
                    prefetch_tuples: random.u32(0..40),
                }),
                Operator::RadixJoin(RadixJoin {
                    build_tuples,
                    probe_tuples,
                    fanout: 1 << random.u32(1..10),
                    miss_share,
                    zipf_alpha,
                    form,
                    simd,
                }),
            ];
            for operator in joins {
                let mut memory = Memory::for_operator(&operator, workers as u32);
                let said = checked(&operator, workers, seed, &mut memory);
                let build = memory.words(0, build_tuples);
                let probe = memory.words(1, probe_tuples);
                let matches = naive_matches(&build, &probe);
                assert!(
                    said.starts_with(&format!("{matches} matches")),
                    "{operator}: {said}"
                );
                if miss_share != 0.3 {
                    let hits = if miss_share == 0.0 { probe_tuples } else { 0 };
                    assert!(matches.abs_diff(hits) < 2, "{operator}: {matches}");
                }
            }
        }
    }
}

#[test]
fn an_index_join_adds_up_the_values_of_the_buckets_of_this_pass() {
    let mut random = random();
    for _ in 0..20 {
        let table_buckets = 1 << random.u32(3..16);
        let operator = Operator::IndexJoin(IndexJoin {
            build_tuples: random.u64(1..=table_buckets),
            table_buckets,
            probe_passes: random.u32(1..5),
            form: *random.choice(&[Form::Plain, Form::Tuned]).unwrap(),
            prefetch_tuples: random.u32(0..40),
        });
        let workers = random.usize(1..5);
        let mut memory = Memory::for_operator(&operator, workers as u32);
        checked(&operator, workers, random.u64(..), &mut memory);
        let tuples = operator.structures(1)[0].size_bytes / 8;
        let mut index = memory.words(0, tuples);
        index.sort_unstable();
        index.dedup();
        assert_eq!(index.len() as u64, tuples, "positions are unique");
    }
}

#[test]
fn sums_by_group_are_those_of_a_naive_aggregation_in_shared_and_local_tables() {
    let mut random = random();
    for _ in 0..16 {
        for tables in [GroupTables::Shared, GroupTables::Local] {
            let tuples = random.u64(1..40_000);
            let aggregation = Aggregation {
                tuples,
                groups: 1 << random.u32(0..14),
                zipf_alpha: *random.choice(&[None, Some(1.1)]).unwrap(),
                tables,
                form: *random.choice(&[Form::Plain, Form::Tuned]).unwrap(),
                prefetch_tuples: random.u32(0..40),
            };
            let operator = Operator::Aggregation(aggregation);
            let workers = random.usize(1..5);
            let mut memory = Memory::for_operator(&operator, workers as u32);
            let said = checked(&operator, workers, random.u64(..), &mut memory);
            let mut expected: HashMap<u64, u64> = HashMap::new();
            for tuple in memory.words(0, 2 * tuples).chunks(2) {
                let sum = expected.entry(tuple[0]).or_default();
                *sum = sum.wrapping_add(tuple[1]);
            }
            assert!(
                said.starts_with(&format!("{} groups", expected.len())),
                "{operator}: {said}"
            );
            let slots = operator.structures(1)[1].size_bytes / 8;
            let found: HashMap<u64, u64> = memory
                .words(1, slots)
                .chunks(2)
                .filter(|slot| slot[0] != 0)
                .map(|slot| (slot[0], slot[1]))
                .collect();
            assert_eq!(found, expected, "{operator}");
        }
    }
}

/// A rate of a scan that looks at nothing would be without limit.
#[test]
fn a_scan_that_selects_nothing_still_looks_at_every_value() {
    for (form, simd) in forms() {
        let operator = Operator::ColumnScan(ColumnScan {
            rows_per_thread: 5000,
            selectivity: 0.0,
            form,
            simd,
        });
        let mut memory = Memory::for_operator(&operator, 1);
        let filled = operator.fill(&mut memory.slices(), 1, 7);
        assert_eq!(
            run(filled.as_ref(), &mut memory, 1, 1),
            [Ok(())],
            "{operator}"
        );
        for row in [0, 1234, 4999] {
            let column = &mut memory.slices()[0][row * 4..][..4];
            let before: [u8; 4] = column.try_into().unwrap();
            // No column that is filled for this has a 0.
            column.fill(0);
            let result = run(filled.as_ref(), &mut memory, 1, 1).remove(0);
            assert!(result.is_err(), "{operator}: row {row} was not looked at");
            memory.slices()[0][row * 4..][..4].copy_from_slice(&before);
        }
    }
}

#[test]
fn a_scan_lists_the_rows_of_each_worker_that_a_naive_scan_finds() {
    let mut random = random();
    for _ in 0..16 {
        for (form, simd) in forms() {
            let rows_per_thread = random.u64(1..40_000);
            let selectivity = *random.choice(&[0.0, 0.001, 0.1, 0.5, 1.0]).unwrap();
            let operator = Operator::ColumnScan(ColumnScan {
                rows_per_thread,
                selectivity,
                form,
                simd,
            });
            let workers = random.usize(1..5);
            let mut memory = Memory::for_operator(&operator, workers as u32);
            checked(&operator, workers, random.u64(..), &mut memory);
            let part = (rows_per_thread as usize * 4).next_multiple_of(64);
            let mut slices = memory.slices();
            let lists = slices.pop().unwrap();
            let columns = slices.pop().unwrap();
            let below = (selectivity * (1_u64 << 32) as f64).round() as u64;
            let numbers = |bytes: &[u8]| -> Vec<u32> {
                bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|n| u32::from_le_bytes(*n))
                    .collect()
            };
            for worker in 0..workers {
                let own = worker * part..worker * part + rows_per_thread as usize * 4;
                let values = numbers(&columns[own.clone()]);
                let matching = (0_u32..)
                    .zip(values)
                    .filter(|(_, value)| u64::from(*value) < below);
                let expected: Vec<u32> = matching.map(|(row, _)| row).collect();
                let found = numbers(&lists[own]);
                assert_eq!(
                    found[..expected.len()],
                    expected,
                    "{operator}, worker {worker}"
                );
            }
        }
    }
}

#[test]
fn a_selective_read_reads_every_so_many_values() {
    let mut random = random();
    for _ in 0..30 {
        let read = SelectiveRead {
            tuples: random.u64(1..100_000),
            skip: random.u64(0..600),
            form: *random.choice(&[Form::Plain, Form::Tuned]).unwrap(),
            prefetch_tuples: random.u32(0..40),
        };
        let workers = random.usize(1..5);
        let expected = (0..read.tuples).step_by(read.skip as usize + 1).count();
        let operator = Operator::SelectiveRead(read);
        let mut memory = Memory::for_operator(&operator, workers as u32);
        let said = checked(&operator, workers, random.u64(..), &mut memory);
        assert!(
            said.starts_with(&format!("{expected} values")),
            "{operator}: {said}"
        );
        assert_eq!(operator.tuples(1), expected as u64);
    }
}

#[test]
fn a_tuple_that_is_not_the_one_that_was_generated_is_noticed() {
    let join = HashJoin {
        build_tuples: 500,
        probe_tuples: 9000,
        ..HashJoin::default()
    };
    let radix = RadixJoin {
        build_tuples: 500,
        probe_tuples: 9000,
        fanout: 16,
        ..RadixJoin::default()
    };
    let index = IndexJoin {
        build_tuples: 500,
        table_buckets: 1024,
        ..IndexJoin::default()
    };
    let aggregation = Aggregation {
        tuples: 500,
        groups: 64,
        ..Aggregation::default()
    };
    let read = SelectiveRead {
        tuples: 500,
        skip: 0,
        ..SelectiveRead::default()
    };
    // Many probes for each key, so that none is without one.
    let mut random = random();
    for (operator, structure) in [
        (Operator::HashJoin(join.clone()), 0),
        (Operator::HashJoin(join), 1),
        (Operator::RadixJoin(radix.clone()), 0),
        (Operator::RadixJoin(radix), 1),
        (Operator::IndexJoin(index), 0),
        (Operator::Aggregation(aggregation), 0),
        (Operator::SelectiveRead(read), 0),
    ] {
        let mut memory = Memory::for_operator(&operator, 2);
        let filled = operator.fill(&mut memory.slices(), 2, 5);
        let at = random.usize(..500) * 8;
        // The lowest byte: another key or position, which all are within bounds.
        memory.slices()[structure][at] ^= 1;
        let result = run(filled.as_ref(), &mut memory, 2, 1).remove(0);
        assert!(
            result.is_err(),
            "{operator}: a change of structure {structure} is not seen"
        );
    }
    let operator = Operator::RadixPartition(RadixPartition {
        tuples: 5000,
        fanout: 8,
        ..RadixPartition::default()
    });
    let mut memory = Memory::for_operator(&operator, 2);
    let filled = operator.fill(&mut memory.slices(), 2, 5);
    assert_eq!(run(filled.as_ref(), &mut memory, 2, 1), [Ok(())]);
    // Lost, doubled and misplaced tuples.
    for bit in [1_u8, 8] {
        let mut slices = memory.slices();
        slices[1][80] ^= bit;
        let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        assert!(filled.check(&slices, 2).is_err(), "bit {bit}");
        memory.slices()[1][80] ^= bit;
    }
}

#[test]
fn a_pass_that_is_stopped_leaves_the_next_one_right() {
    for operator in [
        Operator::HashJoin(HashJoin {
            build_tuples: 40_000,
            probe_tuples: 90_000,
            ..HashJoin::default()
        }),
        Operator::IndexJoin(IndexJoin {
            build_tuples: 40_000,
            table_buckets: 1 << 16,
            ..IndexJoin::default()
        }),
        Operator::RadixPartition(RadixPartition {
            tuples: 100_000,
            ..RadixPartition::default()
        }),
        Operator::BTree(BTree {
            keys: 5000,
            operations: 40_000,
            inserts: 0.5,
            ..BTree::default()
        }),
    ] {
        let mut memory = Memory::for_operator(&operator, 1);
        let filled = operator.fill(&mut memory.slices(), 1, 3);
        let job = filled.job(memory.slices(), 1);
        // One chunk of the second phase, after which the pass is given up.
        job.run(0, 0, &|| false);
        let asked = std::cell::Cell::new(0);
        job.run(1, 0, &|| asked.replace(asked.get() + 1) > 0);
        for phase in 0..job.phases().len() {
            job.run(phase, 0, &|| false);
        }
        assert_eq!(job.result(), Ok(()), "{operator}");
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused_by_name() {
    let join = |change: fn(&mut HashJoin)| {
        let mut join = HashJoin::default();
        change(&mut join);
        Operator::HashJoin(join)
    };
    let partition = |fanout| {
        Operator::RadixPartition(RadixPartition {
            fanout,
            ..RadixPartition::default()
        })
    };
    let index = |build_tuples, table_buckets| {
        Operator::IndexJoin(IndexJoin {
            build_tuples,
            table_buckets,
            ..IndexJoin::default()
        })
    };
    let tree = |change: fn(&mut BTree)| {
        let mut tree = BTree::default();
        change(&mut tree);
        Operator::BTree(tree)
    };
    for (operator, field) in [
        (join(|j| j.build_tuples = 0), "build_tuples"),
        (join(|j| j.build_tuples = 1 << 31), "build_tuples"),
        (join(|j| j.probe_tuples = 0), "probe_tuples"),
        (join(|j| j.load_factor = 1.0), "load_factor"),
        (join(|j| j.load_factor = f64::NAN), "load_factor"),
        (join(|j| j.miss_share = 1.1), "miss_share"),
        (join(|j| j.zipf_alpha = Some(0.0)), "zipf_alpha"),
        (join(|j| j.prefetch_tuples = 5000), "prefetch_tuples"),
        (partition(1000), "fanout"),
        (partition(1), "fanout"),
        (partition(1 << 20), "fanout"),
        (index(1000, 1000), "table_buckets"),
        (index(1025, 1024), "build_tuples"),
        (tree(|t| t.keys = 0), "keys"),
        (tree(|t| t.keys = 1 << 36), "keys"),
        (tree(|t| t.operations = 0), "operations"),
        (tree(|t| t.inserts = 1.5), "inserts"),
        (tree(|t| t.scans = f64::NAN), "scans"),
        (tree(|t| (t.inserts, t.scans) = (0.6, 0.5)), "scans"),
        (tree(|t| t.scan_keys = 0), "scan_keys"),
        (tree(|t| t.inner_node_bytes = 1000), "inner_node_bytes"),
        (tree(|t| t.leaf_node_bytes = 128), "leaf_node_bytes"),
        (tree(|t| t.fill = 0.0), "fill"),
        (tree(|t| t.zipf_alpha = Some(-1.0)), "zipf_alpha"),
    ] {
        let error = operator.check().expect_err(field);
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains("expected"), "{error}");
    }
    for name in Operator::NAMES {
        let operator = Operator::by_name(name).expect(name);
        assert_eq!(operator.name(), name);
        assert_eq!(operator.check(), Ok(()), "{name}");
    }
    assert_eq!(Operator::by_name("hash-jion"), None);
}

fn trees(random: &mut fastrand::Rng) -> BTree {
    let inserts = random.f64();
    BTree {
        keys: random.u64(1..30_000),
        operations: random.u64(1..30_000),
        inserts,
        scans: (1.0 - inserts) * random.f64() * random.f64(),
        scan_keys: random.u32(1..200),
        zipf_alpha: random.bool().then_some(0.9),
        inner_node_bytes: 256 << random.u32(0..5),
        leaf_node_bytes: 256 << random.u32(0..5),
        fill: 0.3 + 0.7 * random.f64(),
        form: if random.bool() {
            Form::Tuned
        } else {
            Form::Plain
        },
        sample_every: random.u64(0..5),
    }
}

#[test]
fn a_tree_has_all_keys_after_each_pass_at_any_size_and_mix() {
    let mut random = random();
    for _ in 0..40 {
        let tree = trees(&mut random);
        let inserted = (tree.operations as f64 * tree.inserts).round() as u64;
        let keys = tree.keys + inserted;
        let operator = Operator::BTree(tree);
        let workers = random.usize(1..5);
        let mut memory = Memory::for_operator(&operator, workers as u32);
        let said = checked(&operator, workers, random.u64(..), &mut memory);
        let wanted = format!("{keys} keys in order");
        assert!(said.starts_with(&wanted), "{operator}: {said}");
    }
}

#[test]
fn a_tree_notices_lost_keys_wrong_values_and_requests_for_none() {
    let tree = BTree {
        keys: 3000,
        operations: 3000,
        inserts: 0.3,
        scans: 0.1,
        ..BTree::default()
    };
    let operator = Operator::BTree(tree);
    // A lookup, an insertion and a scan of a key that is not there, or is there already.
    for kind in 0..3_u64 {
        let mut memory = Memory::for_operator(&operator, 2);
        let filled = operator.fill(&mut memory.slices(), 2, 5);
        let requests = memory.words(2, 3000);
        let at = requests
            .iter()
            .position(|request| request & 3 == kind)
            .unwrap();
        let known = requests.iter().find(|request| **request & 3 == 0).unwrap() >> 2;
        let key = if kind == 1 { known } else { known + 1 };
        let request = (key << 2 | kind).to_le_bytes();
        memory.slices()[2][at * 8..at * 8 + 8].copy_from_slice(&request);
        let result = run(filled.as_ref(), &mut memory, 2, 1).remove(0);
        assert!(result.is_err(), "kind {kind}");
    }
    let mut memory = Memory::for_operator(&operator, 2);
    let filled = operator.fill(&mut memory.slices(), 2, 5);
    assert_eq!(run(filled.as_ref(), &mut memory, 2, 2), [Ok(()), Ok(())]);
    let check = |memory: &mut Memory| {
        let slices = memory.slices();
        let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        filled.check(&slices, 2)
    };
    assert!(check(&mut memory).is_ok());
    // The count, the first key and the first value of the first leaf.
    for at in [8, 16, 16 + 63 * 8] {
        memory.slices()[1][at] ^= 1;
        assert!(check(&mut memory).is_err(), "byte {at}");
        memory.slices()[1][at] ^= 1;
    }
}

/// Counts the operations that are timed.
#[derive(Default)]
struct Counted {
    open: bool,
    times: u64,
}

impl Watch for Counted {
    fn begin(&mut self) {
        assert!(!std::mem::replace(&mut self.open, true), "begun twice");
    }

    fn end(&mut self) {
        assert!(std::mem::replace(&mut self.open, false), "ended twice");
        self.times += 1;
    }
}

#[test]
fn one_of_so_many_operations_of_a_tree_is_timed_and_its_splits_are_counted() {
    for (sample_every, timed) in [(0, 0), (1, 4000), (64, 63), (5000, 1)] {
        let operator = Operator::BTree(BTree {
            keys: 3000,
            operations: 4000,
            inserts: 1.0,
            sample_every,
            ..BTree::default()
        });
        let mut memory = Memory::for_operator(&operator, 1);
        let filled = operator.fill(&mut memory.slices(), 1, 5);
        let job = filled.job(memory.slices(), 1);
        let mut watch = Counted::default();
        for phase in 0..job.phases().len() {
            job.run_watched(phase, 0, &|| false, &mut watch);
        }
        assert_eq!((watch.times, watch.open), (timed, false), "{sample_every}");
        let counts = job.counts();
        assert_eq!(counts[0], ("restarts", 0));
        // From 44 pairs in a leaf to between 31 and 63.
        assert!(
            counts[1].0 == "splits" && (40..200).contains(&counts[1].1),
            "{counts:?}"
        );
    }
}
