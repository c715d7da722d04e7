//! The version word and the epochs under all interleavings and all orders that the memory model
//! allows, with `loom`.
//!
//! The sources are compiled a second time here with the atomics of `loom`.

#![allow(dead_code, reason = "the tree itself uses the rest")]

#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/version.rs"]
mod version;

mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::PoisonError;

    pub(crate) fn pause(_: u32) {
        loom::thread::yield_now();
    }
}

/// As in the crate, which the epochs name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Not used here.
    Leaf,
}

use std::sync::Arc;

use epoch::Epochs;
use loom::thread;
use sync::{AtomicU64, Ordering};
use version::Version;

/// A node with two words that are equal except while it is locked.
struct TwoWords {
    version: AtomicU64,
    words: [AtomicU64; 2],
}

impl TwoWords {
    fn shared() -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    fn version(&self) -> Version<'_> {
        Version::new(&self.version)
    }

    fn load(&self) -> [u64; 2] {
        [0, 1].map(|at| self.words[at].load(Ordering::Relaxed))
    }

    /// Adds one to both words; false if something has changed meanwhile.
    fn add(&self) -> bool {
        let Some(seen) = self.version().read() else {
            return false;
        };
        let [first, second] = self.load();
        let Some(_locked) = self.version().lock(seen) else {
            return false;
        };
        assert_eq!(
            first, second,
            "the lock was given for something else than was read"
        );
        self.words[0].store(first + 1, Ordering::Relaxed);
        self.words[1].store(second + 1, Ordering::Relaxed);
        true
    }
}

/// Up to three switches between threads that need not be.
fn bounded(case: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(case);
}

#[test]
fn a_reader_that_finds_the_version_unchanged_has_read_no_mixture() {
    loom::model(|| {
        let node = TwoWords::shared();
        let writer = {
            let node = Arc::clone(&node);
            thread::spawn(move || assert!(node.add() && node.add()))
        };
        if let Some(seen) = node.version().read() {
            let [first, second] = node.load();
            if node.version().unchanged(seen) {
                assert_eq!(first, second);
            }
        }
        writer.join().unwrap();
        assert_eq!(node.load(), [2, 2]);
    });
}

#[test]
fn two_writers_lose_no_change() {
    bounded(|| {
        let node = TwoWords::shared();
        let other = {
            let node = Arc::clone(&node);
            thread::spawn(move || u64::from(node.add()))
        };
        let own = u64::from(node.add()) + u64::from(node.add());
        let done = own + other.join().unwrap();
        assert_eq!(node.load(), [done, done]);
        assert!(done >= 2, "a writer only fails where another one succeeds");
    });
}

#[test]
fn a_retired_node_is_never_read_as_valid_and_its_next_life_is_another_version() {
    loom::model(|| {
        let node = TwoWords::shared();
        // One change, so that a counter that begins again comes to the same version.
        node.version.store(4, Ordering::Relaxed);
        let before = node.version().read().unwrap();
        let writer = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                let seen = node.version().read().unwrap();
                let locked = node.version().lock(seen).unwrap();
                node.words[0].store(1, Ordering::Relaxed);
                locked.retire();
            })
        };
        if let Some(seen) = node.version().read() {
            let [first, _] = node.load();
            assert!(!node.version().unchanged(seen) || first == 0);
        }
        writer.join().unwrap();
        assert!(node.version().read().is_none());
        node.version().revive();
        assert_ne!(node.version().read().unwrap(), before);
        assert!(node.version().lock(before).is_none());
    });
}

#[test]
fn a_lock_that_was_not_used_does_not_disturb_readers() {
    loom::model(|| {
        let node = TwoWords::shared();
        let seen = node.version().read().unwrap();
        node.version().lock(seen).unwrap().unused();
        assert!(node.version().unchanged(seen));
        drop(node.version().lock(seen).unwrap());
        assert!(!node.version().unchanged(seen));
    });
}

#[test]
fn a_session_that_still_finds_a_node_keeps_it_from_being_used_again() {
    // A link to node 0 is changed to node 1, and node 0 retired; then it is used again as soon as
    // it is free.
    bounded(|| {
        let epochs = Arc::new(Epochs::new());
        let link = Arc::new(AtomicU64::new(0));
        let nodes = Arc::new([AtomicU64::new(10), AtomicU64::new(11)]);
        let reader = {
            let (epochs, link, nodes) = (epochs.clone(), link.clone(), nodes.clone());
            thread::spawn(move || {
                let slot = epochs.enter();
                epochs.pin(&slot);
                let number = link.load(Ordering::Acquire);
                let found = nodes[number as usize].load(Ordering::Relaxed);
                assert_eq!(found, 10 + number, "a node that was used again");
                slot.unpin();
            })
        };
        link.store(1, Ordering::Release);
        epochs.retire(NodeKind::Leaf, 0);
        for _ in 0..3 {
            epochs.collect(|_, number| nodes[number as usize].store(99, Ordering::Relaxed));
        }
        reader.join().unwrap();
        for _ in 0..3 {
            epochs.collect(|_, number| nodes[number as usize].store(99, Ordering::Relaxed));
        }
        assert_eq!(nodes[0].load(Ordering::Relaxed), 99, "nobody holds it back");
    });
}
