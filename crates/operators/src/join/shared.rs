//! A hash join without partitioning: all workers fill one table and then look up in it (Huang et
//! al., "Bandwidth Expansion via CXL", 2024).
//!
//! ```text
//!   build, probe:  key, payload (4 + 4 bytes)
//!   table:         slots of one tuple, linear probing; a slot is taken by compare-and-swap
//! ```
//! The tuned form prefetches the slot of a later tuple before it works on this one (Chen, Ailamaki,
//! Gibbons and Mowry, "Improving hash join performance through prefetching", 2004).

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tierloom_kernels::{prefetch_read, prefetch_write};

use super::{Inputs, TUPLE_BYTES, hash, key_of, matched};
use crate::data::Sums;
use crate::share::{Found, chunks, part, words_of};
use crate::spec::{PREFETCH_TUPLES, ParameterError, Parameters, ahead, check_ahead, form_words};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// A join of 8-byte tuples with one shared hash table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashJoin {
    /// Tuples of the build input, at most 2^31 - 1; their keys are unique.
    pub build_tuples: u64,
    /// Tuples of the probe input.
    pub probe_tuples: u64,
    /// Tuples per slot of the table, at most; slots are a power of two.
    pub load_factor: f64,
    /// Share of the probe tuples without a match, 0 to 1.
    pub miss_share: f64,
    /// Skew of the probe keys; `None` for uniform ones.
    pub zipf_alpha: Option<f64>,
    /// How it is carried out.
    pub form: Form,
    /// Tuples that prefetches are ahead in the tuned form; 0 for none.
    pub prefetch_tuples: u32,
}

impl Default for HashJoin {
    /// The sizes of the publication, half full.
    fn default() -> Self {
        Self {
            build_tuples: 256 << 20,
            probe_tuples: 1 << 30,
            load_factor: 0.5,
            miss_share: 0.0,
            zipf_alpha: None,
            form: Form::Tuned,
            prefetch_tuples: PREFETCH_TUPLES,
        }
    }
}

impl fmt::Display for HashJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = form_words(self.form, self.prefetch_tuples);
        write!(f, "{}, {} full, {form}", self.inputs(), self.load_factor)
    }
}

impl HashJoin {
    fn inputs(&self) -> Inputs {
        Inputs {
            build_tuples: self.build_tuples,
            probe_tuples: self.probe_tuples,
            miss_share: self.miss_share,
            zipf_alpha: self.zipf_alpha,
        }
    }

    /// Slots of the table: there is a free one at least, at which a lookup ends.
    fn slots(&self) -> u64 {
        let wanted = (self.build_tuples as f64 / self.load_factor).ceil() as u64;
        wanted.max(self.build_tuples + 1).next_power_of_two().max(8)
    }

    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledHashJoin {
        let [build, probe, _] = structures else {
            unreachable!("three structures, as checked by the caller");
        };
        FilledHashJoin {
            join: self.clone(),
            expected: self.inputs().fill(build, probe, seed),
        }
    }
}

impl Parameters for HashJoin {
    fn check(&self) -> Result<(), ParameterError> {
        self.inputs().check()?;
        if !(0.01..=0.95).contains(&self.load_factor) {
            let problem = format!("{}; expected 0.01 to 0.95", self.load_factor);
            return Err(ParameterError::new("load_factor", problem));
        }
        check_ahead(self.prefetch_tuples)
    }

    fn structures(&self, _: u32) -> Vec<Structure> {
        let structure = |name, tuples| Structure {
            name,
            size_bytes: tuples * TUPLE_BYTES,
        };
        vec![
            structure("build", self.build_tuples),
            structure("probe", self.probe_tuples),
            structure("table", self.slots()),
        ]
    }

    fn tuples(&self, _: u32) -> u64 {
        self.build_tuples + self.probe_tuples
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// A join whose inputs are in place.
#[derive(Debug)]
pub(crate) struct FilledHashJoin {
    join: HashJoin,
    expected: Sums,
}

impl Filled for FilledHashJoin {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let structures = words_of(structures);
        let tuples = |index: usize, count: u64| &structures[index][..count as usize];
        Box::new(SharedJoin {
            build: tuples(0, self.join.build_tuples),
            probe: tuples(1, self.join.probe_tuples),
            table: JoinTable {
                slots: tuples(2, self.join.slots()),
                shift: 64 - self.join.slots().trailing_zeros(),
            },
            ahead: ahead(self.join.form, self.join.prefetch_tuples),
            found: Found::new(workers),
            expected: self.expected,
            workers,
        })
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let count = self.join.build_tuples;
        let slots = structures[2].as_chunks::<8>().0;
        let taken = slots[..self.join.slots() as usize]
            .iter()
            .filter(|slot| **slot != [0; 8])
            .count() as u64;
        if taken != count {
            return Err(format!("the table has {taken} tuples, expected {count}"));
        }
        Ok(format!(
            "{} matches with the right checksum in every pass, {count} tuples in the table",
            self.expected.count
        ))
    }
}

/// A table of tuples with linear probing; an empty slot is 0, which is no tuple.
#[derive(Debug, Clone, Copy)]
struct JoinTable<'a> {
    slots: &'a [AtomicU64],
    shift: u32,
}

impl JoinTable<'_> {
    #[inline(always)]
    fn slot_of(&self, key: u32) -> usize {
        (hash(key) >> self.shift) as usize
    }

    #[inline(always)]
    fn insert(&self, tuple: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.slot_of(key_of(tuple));
        loop {
            let slot = &self.slots[at & mask];
            // A load first: a compare-and-swap of a slot that is taken costs as much as one of a
            // free slot.
            if slot.load(Ordering::Relaxed) == 0
                && slot
                    .compare_exchange(0, tuple, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            at += 1;
        }
    }

    /// The tuple with this key; 0 if there is none.
    #[inline(always)]
    fn find(&self, key: u32) -> u64 {
        let mask = self.slots.len() - 1;
        let mut at = self.slot_of(key);
        loop {
            let tuple = self.slots[at & mask].load(Ordering::Relaxed);
            if tuple == 0 || key_of(tuple) == key {
                return tuple;
            }
            at += 1;
        }
    }
}

struct SharedJoin<'a> {
    build: &'a [AtomicU64],
    probe: &'a [AtomicU64],
    table: JoinTable<'a>,
    ahead: Option<usize>,
    found: Found,
    expected: Sums,
    workers: usize,
}

impl SharedJoin<'_> {
    fn build(&self, range: Range<usize>) {
        for at in range {
            if let Some(ahead) = self.ahead
                && let Some(later) = self.build.get(at + ahead)
            {
                let key = key_of(later.load(Ordering::Relaxed));
                prefetch_write(self.table.slots, self.table.slot_of(key));
            }
            self.table.insert(self.build[at].load(Ordering::Relaxed));
        }
    }

    fn probe(&self, range: Range<usize>) -> Sums {
        let mut sums = Sums::default();
        for at in range {
            if let Some(ahead) = self.ahead
                && let Some(later) = self.probe.get(at + ahead)
            {
                let key = key_of(later.load(Ordering::Relaxed));
                prefetch_read(self.table.slots, self.table.slot_of(key));
            }
            let probe = self.probe[at].load(Ordering::Relaxed);
            let build = self.table.find(key_of(probe));
            if build != 0 {
                sums.add(matched(build, probe));
            }
        }
        sums
    }
}

impl Job for SharedJoin<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let (build, probe) = (self.build.len() as u64, self.probe.len() as u64);
        let table = |read: u64, written: u64, random_accesses| Traffic {
            structure: "table",
            read_bytes: read * TUPLE_BYTES,
            written_bytes: written * TUPLE_BYTES,
            random_accesses,
        };
        vec![
            PhaseInfo {
                name: "clear",
                tuples: 0,
                counted: false,
                traffic: vec![table(0, self.table.slots.len() as u64, 0)],
            },
            PhaseInfo {
                name: "build",
                tuples: build,
                counted: true,
                traffic: vec![
                    Traffic::scan("build", build * TUPLE_BYTES),
                    table(build, build, build),
                ],
            },
            PhaseInfo {
                name: "probe",
                tuples: probe,
                counted: true,
                traffic: vec![
                    Traffic::scan("probe", probe * TUPLE_BYTES),
                    table(probe, 0, probe),
                ],
            },
        ]
    }

    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool) {
        let own = |count| part(count, self.workers, worker);
        match phase {
            0 => {
                for chunk in chunks(own(self.table.slots.len()), stop) {
                    for slot in &self.table.slots[chunk] {
                        slot.store(0, Ordering::Relaxed);
                    }
                }
            }
            1 => chunks(own(self.build.len()), stop).for_each(|chunk| self.build(chunk)),
            _ => {
                let mut sums = Sums::default();
                chunks(own(self.probe.len()), stop).for_each(|chunk| sums += self.probe(chunk));
                self.found.set(worker, sums);
            }
        }
    }

    fn result(&self) -> Result<(), String> {
        self.found.compare(self.expected, "matches")
    }
}
