//! The whole tree under many interleavings of its threads, with `shuttle`: histories of single keys
//! are linearisable, scans are in order, and the tree is whole afterwards.
//!
//! The sources are compiled a second time here with the atomics and locks of `shuttle`, whose
//! scheduler decides at each of them which thread runs next.

#![allow(dead_code, reason = "the tests use a part of the tree")]

#[path = "../src/arena.rs"]
mod arena;
#[path = "../src/check.rs"]
mod check;
#[path = "../src/counts.rs"]
mod counts;
#[path = "../src/descend.rs"]
mod descend;
#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/error.rs"]
mod error;
#[path = "common/history.rs"]
mod history;
#[path = "../src/insert.rs"]
mod insert;
#[path = "../src/load.rs"]
mod load;
#[path = "../src/node.rs"]
mod node;
#[path = "../src/remove.rs"]
mod remove;
#[path = "../src/scan.rs"]
mod scan;
#[path = "../src/tree.rs"]
mod tree;
#[path = "../src/version.rs"]
mod version;

/// Without the tests of the module.
mod search {
    use crate::sync::{AtomicU64, Ordering};

    pub(crate) fn count_below(keys: &[AtomicU64], key: u64) -> usize {
        count(keys, |other| other < key)
    }

    pub(crate) fn count_up_to(keys: &[AtomicU64], key: u64) -> usize {
        count(keys, |other| other <= key)
    }

    fn count(keys: &[AtomicU64], before: impl Fn(u64) -> bool) -> usize {
        keys.partition_point(|word| before(word.load(Ordering::Relaxed)))
    }
}

mod sync {
    pub(crate) use shuttle::sync::Mutex;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::PoisonError;

    pub(crate) fn pause(_: u32) {
        shuttle::thread::yield_now();
    }
}

pub use arena::Arena;
pub use error::{NodeKind, TreeError};
pub use tree::BPlusTree;

use std::collections::BTreeMap;
use std::sync::Arc;

use history::{Action, Clock, Event};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

/// A tree to begin with, and what its threads do.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// Keys at first: 0, 10, 20 and so on.
    keys: u64,
    /// Pairs in each leaf at first, of 15.
    pairs_per_leaf: u64,
    threads: u64,
    operations: u64,
    /// The keys that are worked on: from the first on, this many, in steps.
    worked_on: (u64, u64, u64),
    /// Per cent of the operations.
    inserts: u32,
    removals: u32,
    /// Whether one more thread scans.
    scans: bool,
}

fn begin(case: Case) -> (Arc<BPlusTree>, BTreeMap<u64, u64>) {
    let inner = Arena::in_memory(60, 256).unwrap();
    let leaves = Arena::in_memory(case.keys.div_ceil(case.pairs_per_leaf) as usize + 12, 256);
    let first: BTreeMap<u64, u64> = (0..case.keys).map(|key| (10 * key, key)).collect();
    let pairs = first.iter().map(|(key, value)| (*key, *value));
    let fill = (case.pairs_per_leaf as f64 + 0.01) / 15.0;
    let tree = BPlusTree::bulk_load(inner, leaves.unwrap(), pairs, first.len(), fill.min(1.0));
    (Arc::new(tree.unwrap()), first)
}

fn operate(tree: &BPlusTree, case: Case, clock: &Clock, thread: u64) -> Vec<Event> {
    let mut session = tree.session();
    let operation = |number| {
        let (from, count, by) = case.worked_on;
        let key = from + thread_rng().gen_range(0..count) * by;
        let drawn = thread_rng().gen_range(0..100);
        // A value that no other operation inserts.
        let value = 1000 + thread * case.operations + number;
        let action = match drawn {
            drawn if drawn < case.inserts => Action::Insert(value),
            drawn if drawn < case.inserts + case.removals => Action::Remove,
            _ => Action::Get,
        };
        clock.note(key, action, || match action {
            Action::Get => session.get(key),
            Action::Insert(value) => session.insert(key, value).expect("room for all keys"),
            Action::Remove => session.remove(key),
        })
    };
    (0..case.operations).map(operation).collect()
}

/// Keys that nobody works on are in every scan; the others have a value that someone has inserted.
fn scan(tree: &BPlusTree, case: Case, first: &BTreeMap<u64, u64>) {
    let mut found = BTreeMap::new();
    let mut before = None;
    tree.session().scan(0, |key, value| {
        assert!(
            before.is_none_or(|before| before < key),
            "{before:?} before {key}"
        );
        before = Some(key);
        found.insert(key, value);
        true
    });
    let (from, count, by) = case.worked_on;
    let worked_on: Vec<u64> = (0..count).map(|at| from + at * by).collect();
    for (key, value) in first.iter().filter(|(key, _)| !worked_on.contains(key)) {
        assert_eq!(
            found.remove(key),
            Some(*value),
            "key {key} is there all the time"
        );
    }
    assert!(found.keys().all(|key| worked_on.contains(key)), "{found:?}");
}

fn run(case: Case) {
    let (tree, first) = begin(case);
    let clock = Arc::new(Clock::default());
    let operators: Vec<_> = (0..case.threads)
        .map(|number| {
            let (tree, clock) = (Arc::clone(&tree), Arc::clone(&clock));
            thread::spawn(move || operate(&tree, case, &clock, number))
        })
        .collect();
    let scanner = case.scans.then(|| {
        let (tree, first) = (Arc::clone(&tree), first.clone());
        thread::spawn(move || scan(&tree, case, &first))
    });
    let events = operators.into_iter().flat_map(|t| t.join().unwrap());
    let events: Vec<Event> = events.collect();
    scanner.into_iter().for_each(|s| s.join().unwrap());
    let mut tree = Arc::into_inner(tree).expect("all threads are done");
    let mut last = BTreeMap::new();
    let summary = tree.check(|key, value| {
        last.insert(key, value);
        Ok(())
    });
    assert!(summary.is_ok(), "{summary:?}");
    history::check(events, &first, &last);
}

/// Random schedules, and those with few switches between threads at unlikely places.
fn explore(case: Case, iterations: usize) {
    shuttle::check_random(move || run(case), iterations);
    shuttle::check_pct(move || run(case), iterations, 3);
}

#[test]
fn a_full_leaf_that_several_threads_split_at_once() {
    let case = Case {
        keys: 15,
        pairs_per_leaf: 15,
        threads: 3,
        operations: 3,
        worked_on: (60, 8, 3),
        inserts: 60,
        removals: 10,
        scans: true,
    };
    explore(case, 3000);
}

#[test]
fn full_leaves_below_a_full_root() {
    let case = Case {
        keys: 300,
        pairs_per_leaf: 15,
        threads: 3,
        operations: 2,
        worked_on: (1401, 6, 23),
        inserts: 70,
        removals: 0,
        scans: false,
    };
    explore(case, 1500);
}

#[test]
fn leaves_that_are_merged_while_others_read_and_fill_them() {
    let case = Case {
        keys: 12,
        pairs_per_leaf: 3,
        threads: 3,
        operations: 4,
        worked_on: (20, 7, 10),
        inserts: 20,
        removals: 50,
        scans: true,
    };
    explore(case, 3000);
}

#[test]
fn a_root_that_loses_its_last_separator() {
    let case = Case {
        keys: 6,
        pairs_per_leaf: 3,
        threads: 3,
        operations: 4,
        worked_on: (0, 6, 10),
        inserts: 25,
        removals: 60,
        scans: true,
    };
    explore(case, 3000);
}

#[test]
fn inner_nodes_that_are_merged_while_others_go_through_them() {
    // 42 leaves with one key each, and inner nodes with two children: five levels of them.
    let case = Case {
        keys: 42,
        pairs_per_leaf: 1,
        threads: 2,
        operations: 10,
        worked_on: (150, 12, 10),
        inserts: 10,
        removals: 80,
        scans: true,
    };
    explore(case, 500);
}

#[test]
fn a_leaf_that_fills_up_while_its_neighbour_wants_to_be_merged_with_it() {
    let case = move || {
        // Two leaves of six keys; then three and nine, so that one less fits into one leaf.
        let inner = Arena::in_memory(4, 256).unwrap();
        let leaves = Arena::in_memory(6, 256).unwrap();
        let pairs = (0..12).map(|key| (10 * key, key));
        let tree = Arc::new(BPlusTree::bulk_load(inner, leaves, pairs, 12, 0.41).unwrap());
        assert_eq!(tree.nodes(NodeKind::Leaf), 2);
        let mut session = tree.session();
        (0..3).for_each(|key| assert_eq!(session.remove(10 * key), Some(key)));
        (61..64).for_each(|key| assert_eq!(session.insert(key, key), Ok(None)));
        drop(session);
        let fills = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let mut session = tree.session();
                (71..77).for_each(|key| assert_eq!(session.insert(key, key), Ok(None)));
            })
        };
        assert_eq!(tree.session().remove(30), Some(3));
        fills.join().unwrap();
        let mut tree = Arc::into_inner(tree).expect("all threads are done");
        let summary = tree.check(|_, _| Ok(()));
        assert_eq!(summary.map(|summary| summary.keys), Ok(17));
    };
    shuttle::check_random(case, 1000);
    shuttle::check_pct(case, 5000, 2);
}
