//! A tree at work: passes that begin with the same keys.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tierloom_tree::{Arena, BPlusTree, Counts, Pinned, TreeError, nodes_needed};

use super::{BTree, INSERT, Keys, LOOKUP, REQUEST_BYTES, value_of};
use crate::data::Sums;
use crate::share::{Found, chunks, part};
use crate::{Form, Job, PhaseInfo, Traffic, Watch};

/// Requests for which a worker stays pinned.
const PINNED: usize = 64;

type Words<'a> = &'a [AtomicU64];

pub(super) struct Operating<'a> {
    /// None before the first pass, and if it could not be made; written to between passes.
    pub(super) tree: RwLock<Option<BPlusTree<Words<'a>>>>,
    /// The memory of inner nodes and leaves.
    pub(super) nodes: (Words<'a>, Words<'a>),
    pub(super) requests: &'a [AtomicU64],
    pub(super) work: BTree,
    pub(super) keys: Keys,
    pub(super) first: Vec<u64>,
    pub(super) looked_up: Sums,
    pub(super) root: Arc<AtomicU64>,
    pub(super) found: Found,
    /// What the operations of each worker cost besides themselves in this pass.
    pub(super) counts: Vec<Mutex<Counts>>,
    /// What is wrong with this pass.
    pub(super) wrong: Mutex<Option<String>>,
    pub(super) workers: usize,
}

impl<'a> Operating<'a> {
    fn note(&self, problem: impl fmt::Display) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.get_or_insert_with(|| problem.to_string());
    }

    /// Puts the keys of the begin into the tree.
    fn load(&self) {
        let places = (0..self.keys.count)
            .filter(|place| self.first[*place as usize / 64] >> (place % 64) & 1 == 1);
        let pairs = places.map(|place| {
            let key = self.keys.sorted(place);
            (key, value_of(key))
        });
        let loaded = self.tree_of(pairs);
        if let Err(error) = &loaded {
            self.note(error);
        }
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        *tree = loaded.ok();
    }

    fn tree_of(
        &self,
        pairs: impl Iterator<Item = (u64, u64)>,
    ) -> Result<BPlusTree<Words<'a>>, TreeError> {
        let work = &self.work;
        let (inner, leaf) = work.node_bytes();
        let arenas = (
            Arena::new(self.nodes.0, inner)?,
            Arena::new(self.nodes.1, leaf)?,
        );
        let count = work.keys as usize;
        let mut tree = BPlusTree::bulk_load(arenas.0, arenas.1, pairs, count, work.fill)?;
        tree.set_prefetch(work.form == Form::Tuned);
        Ok(tree)
    }

    fn operate(&self, worker: usize, stop: &dyn Fn() -> bool, watch: &mut dyn Watch) {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tree) = tree.as_ref() else {
            return;
        };
        let mut session = tree.session();
        let mut sums = Sums::default();
        // Counts down to the next operation that is timed; never gets there without samples.
        let every = self.work.sample_every;
        let mut untimed = if every == 0 { u64::MAX } else { 1 };
        let own = part(self.requests.len(), self.workers, worker);
        for chunk in chunks(own, stop) {
            let mut pinned = session.pin();
            for some in self.requests[chunk].chunks(PINNED) {
                for request in some {
                    let request = request.load(Ordering::Relaxed);
                    untimed -= 1;
                    if untimed > 0 {
                        self.serve(request, &mut pinned, &mut sums);
                        continue;
                    }
                    untimed = every;
                    watch.begin();
                    self.serve(request, &mut pinned, &mut sums);
                    watch.end();
                }
                pinned.refresh();
            }
        }
        self.found.set(worker, sums);
        let mut counts = self.counts[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *counts = session.counts();
    }

    #[inline(always)]
    fn serve(&self, request: u64, pinned: &mut Pinned<'_, '_, &[AtomicU64]>, sums: &mut Sums) {
        let key = request >> 2;
        match request & 3 {
            LOOKUP => {
                if let Some(value) = pinned.get(key) {
                    sums.add(value);
                }
            }
            INSERT => match pinned.insert(key, value_of(key)) {
                Ok(None) => {}
                Ok(Some(_)) => self.note(format!("key {key} was there before its insertion")),
                Err(error) => self.note(error),
            },
            _ => self.scan(key, pinned),
        }
    }

    /// Reads the pairs of a range, which have to ascend from a key that is there.
    fn scan(&self, from: u64, pinned: &mut Pinned<'_, '_, &[AtomicU64]>) {
        let (mut left, mut next, mut fine) = (self.work.scan_keys, from, true);
        pinned.scan(from, |key, value| {
            fine &= key >= next && value == value_of(key) && (next != from || key == from);
            next = key + 1;
            left -= 1;
            left > 0
        });
        if !fine || next == from {
            self.note(format!(
                "the scan from key {from} is wrong before key {next}"
            ));
        }
    }

    /// Levels of inner nodes at the begin of a pass.
    fn inner_levels(&self) -> u64 {
        let (inner, leaf) = self.work.node_bytes();
        let needed = |keys| nodes_needed(keys, inner, leaf, self.work.fill).ok();
        let leaves = needed(self.work.keys).map_or(1, |needed| needed.leaves);
        // Children of a node are half as many again as pairs of a leaf of that size.
        let children = (f64::from(self.work.inner_node_bytes) / 12.0 * self.work.fill).max(2.0);
        ((leaves as f64).ln() / children.ln()).ceil().max(0.0) as u64
    }
}

/// Words that a search in `words` words looks at.
fn searched(words: u64) -> u64 {
    u64::from(u64::BITS - words.leading_zeros())
}

impl Job for Operating<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let work = &self.work;
        let (inserted, scanned) = (work.inserted(), work.scanned());
        let (levels, scan) = (self.inner_levels(), u64::from(work.scan_keys));
        let pairs = u64::from(work.leaf_node_bytes) / 16;
        let inner_words = searched(u64::from(work.inner_node_bytes) / 12) + 4;
        let leaf_words = searched(pairs) + 4;
        // An insertion moves half of the pairs of its leaf.
        let moved = (pairs as f64 * work.fill) as u64;
        vec![
            PhaseInfo {
                name: "load",
                tuples: 0,
                counted: false,
                traffic: Vec::new(),
            },
            PhaseInfo {
                name: "operate",
                tuples: work.operations,
                counted: true,
                traffic: vec![
                    Traffic {
                        structure: "inner",
                        read_bytes: work.operations * levels * inner_words * 8,
                        written_bytes: 0,
                        random_accesses: work.operations * levels,
                    },
                    Traffic {
                        structure: "leaves",
                        read_bytes: 8
                            * (work.operations * leaf_words
                                + inserted * moved
                                + scanned * scan * 2),
                        written_bytes: 8 * inserted * (moved + 4),
                        random_accesses: work.operations + scanned * (scan / pairs.max(1)),
                    },
                    Traffic::scan("requests", work.operations * REQUEST_BYTES),
                ],
            },
        ]
    }

    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool) {
        self.run_watched(phase, worker, stop, &mut Unwatched);
    }

    fn run_watched(
        &self,
        phase: usize,
        worker: usize,
        stop: &dyn Fn() -> bool,
        watch: &mut dyn Watch,
    ) {
        match (phase, worker) {
            (0, 0) if !stop() => self.load(),
            (0, _) => {}
            _ => self.operate(worker, stop, watch),
        }
    }

    fn result(&self) -> Result<(), String> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = tree.as_ref() {
            self.root.store(tree.root_word(), Ordering::Relaxed);
        }
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        match wrong.clone() {
            Some(wrong) => Err(wrong),
            None => self.found.compare(self.looked_up, "values looked up"),
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut all = Counts::default();
        for counts in &self.counts {
            all += *counts.lock().unwrap_or_else(PoisonError::into_inner);
        }
        vec![("restarts", all.restarts), ("splits", all.splits)]
    }
}

/// For passes whose operations nobody times.
struct Unwatched;

impl Watch for Unwatched {
    fn begin(&mut self) {}

    fn end(&mut self) {}
}
