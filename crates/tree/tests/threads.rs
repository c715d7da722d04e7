//! Several threads of the system on one tree: histories of keys, scans, whole trees afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use history::{Action, Clock, Event};
use tierloom_tree::{Arena, BPlusTree, NodeKind, TreeError};

#[path = "common/history.rs"]
mod history;

const THREADS: u64 = 4;

fn tree(keys: u64, by: u64, node_bytes: usize) -> BPlusTree {
    let inner = Arena::in_memory(2000, node_bytes).unwrap();
    let leaves = Arena::in_memory(20_000, node_bytes).unwrap();
    let pairs = (0..keys).map(|key| (key * by, key));
    BPlusTree::bulk_load(inner, leaves, pairs, keys as usize, 0.7).unwrap()
}

fn contents(tree: &mut BPlusTree) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    let summary = tree.check(|key, value| {
        all.insert(key, value);
        Ok(())
    });
    assert!(summary.is_ok(), "{summary:?}");
    all
}

/// All threads start together.
struct Start(AtomicU64);

impl Start {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn wait(&self, threads: u64) {
        self.0.fetch_add(1, Ordering::SeqCst);
        while self.0.load(Ordering::SeqCst) < threads {
            std::thread::yield_now();
        }
    }
}

#[test]
fn histories_of_few_keys_under_many_changes_are_linearisable() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for round in 0..300 {
        // Few keys in nodes that split and merge all the time, since neighbours come and go.
        let mut tree = tree(60, 4, 256);
        let first = contents(&mut tree);
        let (clock, start) = (Clock::default(), Start::new());
        let events: Vec<Event> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (tree, clock, start) = (&tree, &clock, &start);
                    let mut random = fastrand::Rng::with_seed(seed ^ (round * THREADS + thread));
                    scope.spawn(move || {
                        let mut session = tree.session();
                        start.wait(THREADS);
                        let operation = |number| {
                            let key = random.u64(100..130);
                            let action = match random.u32(0..3) {
                                0 => Action::Get,
                                1 => Action::Insert(1000 * (thread + 1) + number),
                                _ => Action::Remove,
                            };
                            clock.note(key, action, || match action {
                                Action::Get => session.get(key),
                                Action::Insert(value) => session.insert(key, value).unwrap(),
                                Action::Remove => session.remove(key),
                            })
                        };
                        (0..150).map(operation).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|t| t.join().unwrap())
                .collect()
        });
        history::check(events, &first, &contents(&mut tree));
    }
}

#[test]
fn no_insertion_and_no_removal_is_lost_at_any_node_size() {
    for node_bytes in [256, 512, 1024, 2048, 4096] {
        let mut tree = tree(3000, 8, node_bytes);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let tree = &tree;
                scope.spawn(move || {
                    let mut session = tree.session();
                    // Keys of this thread between those of the others, in an order of its own.
                    let own = |at: u64| (at * 7919 % 3000) * 8 + 1 + thread;
                    for at in 0..3000 {
                        assert_eq!(session.insert(own(at), thread), Ok(None));
                    }
                    for at in (0..3000).filter(|at| at % 4 > 0) {
                        assert_eq!(session.remove(own(at)), Some(thread));
                    }
                    for at in 0..3000 {
                        assert_eq!(session.get(own(at)), (at % 4 == 0).then_some(thread));
                    }
                });
            }
        });
        let all = contents(&mut tree);
        assert_eq!(all.len() as u64, 3000 + THREADS * 750, "{node_bytes}");
        assert!((0..3000).all(|key| all[&(key * 8)] == key), "{node_bytes}");
    }
}

#[test]
fn scans_beside_writers_are_in_order_and_miss_nothing_that_stays() {
    let mut tree = tree(3000, 8, 256);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|thread| {
                let (tree, stop) = (&tree, &stop);
                scope.spawn(move || {
                    let mut session = tree.session();
                    while !stop.load(Ordering::Relaxed) {
                        // Fills a stretch and empties it again.
                        let from = fastrand::u64(0..2900) * 8;
                        let keys = || (from..from + 400).filter(|k| k % 8 == 1 + thread);
                        keys().for_each(|key| assert_eq!(session.insert(key, key), Ok(None)));
                        keys().for_each(|key| assert_eq!(session.remove(key), Some(key)));
                    }
                })
            })
            .collect();
        let mut session = tree.session();
        for _ in 0..200 {
            let from = fastrand::u64(0..24_000);
            let (mut before, mut stays) = (None, 0);
            session.scan(from, |key, value| {
                assert!(key >= from && before.is_none_or(|before| before < key));
                before = Some(key);
                match key % 8 {
                    0 => {
                        assert_eq!(value, key / 8);
                        stays += 1;
                    }
                    1 | 2 => assert_eq!(value, key),
                    _ => panic!("key {key} never was"),
                }
                true
            });
            assert_eq!(stays, 3000 - from.div_ceil(8), "from {from}");
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|w| w.join().unwrap());
    });
    assert_eq!(contents(&mut tree).len(), 3000);
}

#[test]
fn a_full_arena_under_several_threads_refuses_keys_and_loses_none() {
    let inner = Arena::in_memory(20, 256).unwrap();
    let leaves = Arena::in_memory(60, 256).unwrap();
    let mut tree = BPlusTree::new(inner, leaves).unwrap();
    let inserted: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    let mut session = tree.session();
                    let keys = (0..1000).map(|at| (at * 37 % 1000) * THREADS + thread);
                    let kept = keys.filter(|key| match session.insert(*key, *key) {
                        Ok(before) => before.is_none(),
                        Err(error) => {
                            assert!(matches!(error, TreeError::Full(_)));
                            assert_eq!(session.get(*key), None);
                            false
                        }
                    });
                    kept.collect::<Vec<u64>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    });
    assert_eq!(tree.nodes(NodeKind::Leaf), 60);
    let all = contents(&mut tree);
    assert_eq!(all.len(), inserted.len());
    assert!(inserted.iter().all(|key| all.contains_key(key)));
}
