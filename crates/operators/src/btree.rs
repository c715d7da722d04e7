//! Lookups, insertions and range scans in a B+-tree with optimistic lock coupling, whose inner nodes
//! and leaves are placed apart (Weisgut et al., "CXL Memory Performance for In-Memory Data
//! Processing", 2025).
//!
//! ```text
//!   inner, leaves:  the nodes of the tree, loaded anew before each pass
//!   requests:       what is done, 8 bytes each: a key, and in the lowest two bits how
//! ```
//! A pass begins with the same keys and inserts the same others, each once, so all keys are known
//! at its end. Lookups and scans begin at keys that are there from the start.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use tierloom_tree::{
    Arena, Counts, NODE_BYTES, Needed, Pinned, Tree, TreeError, check_bytes, most_nodes,
    nodes_needed,
};

use crate::data::{Draw, Permutation, Sums, each, mix};
use crate::share::{Found, chunks, part, words_of};
use crate::spec::{ParameterError, Parameters, check_tuples, check_zipf};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic, Watch};

/// Bytes of a request.
const REQUEST_BYTES: u64 = 8;
/// Bits of a key: a request has two more.
const KEY_BITS: u32 = 62;
/// Most keys of a tree, with those that are inserted: numbers of nodes have 32 bits.
const MAX_KEYS: u64 = 1 << 36;
/// Requests for which a worker stays pinned.
const PINNED: usize = 64;

/// What is done with the key of a request.
const LOOKUP: u64 = 0;
const INSERT: u64 = 1;
const SCAN: u64 = 2;

/// Operations on a concurrent B+-tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BTree {
    /// Keys at the begin of a pass.
    pub keys: u64,
    /// Operations of a pass, of all workers together.
    pub operations: u64,
    /// Share of the operations that insert a new key.
    pub inserts: f64,
    /// Share of the operations that scan a range; the others are lookups.
    pub scans: f64,
    /// Pairs that a scan reads.
    pub scan_keys: u32,
    /// Skew of the keys of lookups and scans; `None` for uniform ones.
    pub zipf_alpha: Option<f64>,
    /// Size of an inner node, bytes.
    pub inner_node_bytes: u32,
    /// Size of a leaf, bytes.
    pub leaf_node_bytes: u32,
    /// Share of a node that is filled at the begin of a pass.
    pub fill: f64,
    /// How it is carried out: the plain form does not prefetch nodes.
    pub form: Form,
    /// One of how many operations is timed by itself; 0 for none.
    pub sample_every: u64,
}

impl Default for BTree {
    /// The read-heavy mix and the node size of the publication; it does not say how many keys.
    fn default() -> Self {
        Self {
            keys: 100_000_000,
            operations: 16_000_000,
            inserts: 0.05,
            scans: 0.0,
            scan_keys: 100,
            zipf_alpha: None,
            inner_node_bytes: 1024,
            leaf_node_bytes: 1024,
            fill: 0.7,
            form: Form::Tuned,
            sample_every: 64,
        }
    }
}

impl fmt::Display for BTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inner, leaf) = (self.inner_node_bytes, self.leaf_node_bytes);
        let per_cent = |share: f64| (share * 1000.0).round() / 10.0;
        let (keys, operations) = (self.keys, self.operations);
        write!(f, "{keys} keys, {operations} operations, ")?;
        write!(f, "{} % inserts, ", per_cent(self.inserts))?;
        if self.scans > 0.0 {
            let (scans, length) = (per_cent(self.scans), self.scan_keys);
            write!(f, "{scans} % scans of {length}, ")?;
        }
        if let Some(alpha) = self.zipf_alpha {
            write!(f, "zipf {alpha}, ")?;
        }
        write!(f, "nodes of {inner} B, leaves of {leaf} B, {}", self.form)
    }
}

impl BTree {
    /// Keys that a pass inserts.
    fn inserted(&self) -> u64 {
        (self.operations as f64 * self.inserts).round() as u64
    }

    fn scanned(&self) -> u64 {
        let left = self.operations - self.inserted();
        ((self.operations as f64 * self.scans).round() as u64).min(left)
    }

    fn node_bytes(&self) -> (usize, usize) {
        (
            self.inner_node_bytes as usize,
            self.leaf_node_bytes as usize,
        )
    }

    /// Nodes for which the arenas have room; none for parameters that are refused.
    fn needed(&self) -> Needed {
        let (inner, leaf) = self.node_bytes();
        let none = Needed {
            inner: 0,
            leaves: 0,
        };
        most_nodes(self.keys, self.inserted(), inner, leaf, self.fill).unwrap_or(none)
    }

    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledTree {
        let keys = Keys::new(self.keys + self.inserted(), seed);
        let draw = Draw {
            count: self.keys,
            zipf_alpha: self.zipf_alpha,
            seed: seed ^ 0x7265_6164,
        };
        let kinds = Permutation::new(self.operations, seed ^ 0x6b69_6e64);
        let (inserted, scanned) = (self.inserted(), self.scanned());
        let bytes = (self.operations * REQUEST_BYTES) as usize;
        let looked_up = each::<8>(&mut structures[2][..bytes], |at, words| {
            let mut sums = Sums::default();
            let drawn = draw.block(&at);
            for ((at, word), position) in at.zip(words).zip(drawn) {
                let number = kinds.at(at as u64);
                let (kind, position) = match number {
                    number if number < inserted => (INSERT, self.keys + number),
                    number if number < inserted + scanned => (SCAN, position),
                    _ => (LOOKUP, position),
                };
                let key = keys.at(position);
                *word = (key << 2 | kind).to_le_bytes();
                if kind == LOOKUP {
                    sums.add(value_of(key));
                }
            }
            sums
        });
        FilledTree {
            tree: self.clone(),
            first: keys.places_of_first(self.keys),
            keys,
            looked_up,
            root: Arc::default(),
        }
    }
}

/// The value of a key.
#[inline(always)]
fn value_of(key: u64) -> u64 {
    mix(key)
}

/// The keys of a tree at the end of a pass: somewhere in equal parts of the range, so that they are
/// known in their order; and the random order in which they come.
#[derive(Debug, Clone, Copy)]
struct Keys {
    count: u64,
    part: u64,
    order: Permutation,
}

impl Keys {
    fn new(count: u64, seed: u64) -> Self {
        Self {
            count,
            part: (1 << KEY_BITS) / count,
            order: Permutation::new(count, seed),
        }
    }

    /// The key at that place in ascending order.
    fn sorted(&self, place: u64) -> u64 {
        place * self.part + mix(place) % self.part
    }

    /// The key that comes at that position.
    fn at(&self, position: u64) -> u64 {
        self.sorted(self.order.at(position))
    }

    /// A bit for each place in ascending order: whether the key there is one of the first `first`.
    fn places_of_first(&self, first: u64) -> Vec<u64> {
        let words = self.count.div_ceil(64) as usize;
        let bits: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let share = first.div_ceil(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (bits, range) = (&bits, thread * share..((thread + 1) * share).min(first));
                scope.spawn(move || {
                    for position in range {
                        let place = self.order.at(position);
                        bits[place as usize / 64].fetch_or(1 << (place % 64), Ordering::Relaxed);
                    }
                });
            }
        });
        bits.into_iter().map(AtomicU64::into_inner).collect()
    }
}

impl Parameters for BTree {
    fn check(&self) -> Result<(), ParameterError> {
        check_tuples("operations", self.operations, MAX_KEYS)?;
        for (field, share) in [("inserts", self.inserts), ("scans", self.scans)] {
            if !(0.0..=1.0).contains(&share) {
                let problem = format!("{share}; expected a share from 0 to 1");
                return Err(ParameterError::new(field, problem));
            }
        }
        if self.inserts + self.scans > 1.0 {
            let most = 1.0 - self.inserts;
            let problem = format!("{}; expected at most {most}, beside `inserts`", self.scans);
            return Err(ParameterError::new("scans", problem));
        }
        check_tuples(
            "keys",
            self.keys,
            MAX_KEYS - self.inserted().min(MAX_KEYS - 1),
        )?;
        if !(1..=1 << 20).contains(&self.scan_keys) {
            let problem = format!("{}; expected 1 to {}", self.scan_keys, 1 << 20);
            return Err(ParameterError::new("scan_keys", problem));
        }
        check_zipf(self.zipf_alpha)?;
        let (inner, leaf) = self.node_bytes();
        for (field, bytes) in [("inner_node_bytes", inner), ("leaf_node_bytes", leaf)] {
            if !bytes.is_power_of_two() || !NODE_BYTES.contains(&bytes) {
                let problem = TreeError::NodeBytes(bytes).to_string();
                return Err(ParameterError::new(field, problem));
            }
        }
        if !(self.fill > 0.0 && self.fill <= 1.0) {
            let problem = TreeError::Fill(self.fill).to_string();
            return Err(ParameterError::new("fill", problem));
        }
        Ok(())
    }

    fn structures(&self, _: u32) -> Vec<Structure> {
        let needed = self.needed();
        vec![
            Structure {
                name: "inner",
                size_bytes: needed.inner * u64::from(self.inner_node_bytes),
            },
            Structure {
                name: "leaves",
                size_bytes: needed.leaves * u64::from(self.leaf_node_bytes),
            },
            Structure {
                name: "requests",
                size_bytes: self.operations * REQUEST_BYTES,
            },
        ]
    }

    fn tuples(&self, _: u32) -> u64 {
        self.operations
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// A tree whose requests are in place.
#[derive(Debug)]
struct FilledTree {
    tree: BTree,
    keys: Keys,
    /// Places of the keys at the begin of a pass.
    first: Vec<u64>,
    /// Values that lookups find.
    looked_up: Sums,
    /// The root after the last pass.
    root: Arc<AtomicU64>,
}

impl Filled for FilledTree {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let words = words_of(structures);
        let (inner, leaf) = self.tree.node_bytes();
        let arenas = (Arena::new(words[0], inner), Arena::new(words[1], leaf));
        // The sizes were checked, and there is room for a leaf.
        let tree = match arenas {
            (Ok(inner), Ok(leaves)) => Tree::new(inner, leaves),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let wrong = tree.as_ref().err().map(ToString::to_string);
        let tree = tree.ok().map(|mut tree| {
            tree.set_prefetch(self.tree.form == Form::Tuned);
            tree
        });
        Box::new(Operating {
            tree: RwLock::new(tree),
            requests: &words[2][..self.tree.operations as usize],
            work: self.tree.clone(),
            keys: self.keys,
            first: self.first.clone(),
            looked_up: self.looked_up,
            root: Arc::clone(&self.root),
            found: Found::new(workers),
            counts: (0..workers).map(|_| Mutex::default()).collect(),
            wrong: Mutex::new(wrong),
            workers,
        })
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let (inner, leaf) = self.tree.node_bytes();
        let root = self.root.load(Ordering::Relaxed);
        let mut place = 0;
        let found = check_bytes(
            root,
            (structures[0], inner),
            (structures[1], leaf),
            |key, value| {
                let wanted = (place < self.keys.count).then(|| self.keys.sorted(place));
                if wanted != Some(key) {
                    return Err(format!("key {key}, where {wanted:?} should be"));
                }
                if value != value_of(key) {
                    return Err(format!("key {key} has another value"));
                }
                place += 1;
                Ok(())
            },
        )?;
        if found.keys != self.keys.count {
            return Err(format!("{} keys, expected {}", found.keys, self.keys.count));
        }
        Ok(format!(
            "{} keys in order with their values, in {} leaves below {} inner nodes",
            found.keys, found.leaves, found.inner
        ))
    }
}

struct Operating<'a> {
    /// None if it could not be made; written to between passes.
    tree: RwLock<Option<Tree<&'a [AtomicU64]>>>,
    requests: &'a [AtomicU64],
    work: BTree,
    keys: Keys,
    first: Vec<u64>,
    looked_up: Sums,
    root: Arc<AtomicU64>,
    found: Found,
    /// What the operations of each worker cost besides themselves in this pass.
    counts: Vec<Mutex<Counts>>,
    /// What is wrong with this pass.
    wrong: Mutex<Option<String>>,
    workers: usize,
}

impl Operating<'_> {
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
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let loaded = tree
            .as_mut()
            .map(|tree| tree.load(pairs, self.work.keys as usize, self.work.fill));
        if let Some(Err(error)) = loaded {
            self.note(error);
        }
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
