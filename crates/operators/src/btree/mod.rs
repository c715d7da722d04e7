//! Lookups, insertions and range scans in a B+-tree with optimistic lock coupling, whose inner
//! nodes and leaves are placed apart (Weisgut et al., "CXL Memory Performance for In-Memory Data
//! Processing", 2025).
//!
//! ```text
//!   inner, leaves:  the nodes of the tree, loaded anew before each pass
//!   requests:       what is done, 8 bytes each: a key, and in the lowest two bits how
//! ```
//! A pass begins with the same keys and inserts the same others, each once, so all keys are known
//! at its end. Lookups and scans begin at keys that are there from the start.

mod operating;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use serde::{Deserialize, Serialize};
use tierloom_tree::{NODE_BYTES, Needed, TreeError, check_bytes, most_nodes};

use crate::data::{KeyDraw, Permutation, Sums, each, mix};
use crate::share::{Found, words_of};
use crate::spec::{ParameterError, Parameters, check_tuples, check_zipf};
use crate::{Filled, Form, Job, Structure};
use operating::Operating;

/// Bytes of a request.
const REQUEST_BYTES: u64 = 8;
/// Bits of a key: a request has two more.
const KEY_BITS: u32 = 62;
/// Most keys of a tree, with those that are inserted: numbers of nodes have 32 bits.
const MAX_KEYS: u64 = 1 << 36;

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
        let draw = KeyDraw {
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
        Box::new(Operating {
            tree: RwLock::new(None),
            nodes: (words[0], words[1]),
            requests: &words[2][..self.tree.operations as usize],
            work: self.tree.clone(),
            keys: self.keys,
            first: self.first.clone(),
            looked_up: self.looked_up,
            root: Arc::clone(&self.root),
            found: Found::new(workers),
            counts: (0..workers).map(|_| Mutex::default()).collect(),
            wrong: Mutex::default(),
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
