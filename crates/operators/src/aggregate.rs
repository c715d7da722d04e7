//! A hash aggregation: sums of values by group.
//!
//! ```text
//!   input:         group and value, 8 bytes each
//!   groups:        slots of group (0 is none) and sum, 8 bytes each; linear probing
//!   local_groups:  with a table per worker: their tables, which are merged into `groups`
//! ```
//! In a shared table groups are taken by compare-and-swap, and values are added atomically. The
//! tuned form prefetches the slot of a later tuple.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tierloom_kernels::prefetch_write;

use crate::data::{KeyDraw, Sums, each, mix, random};
use crate::share::{Found, chunks, part, words_of};
use crate::spec::{
    PREFETCH_TUPLES, ParameterError, Parameters, ahead, check_ahead, check_tuples, check_zipf,
    form_words,
};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// Bytes of a tuple and of a slot.
const PAIR_BYTES: u64 = 16;
/// Words of a tuple and of a slot.
const PAIR: usize = 2;

/// Which tables hold the sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupTables {
    /// One table that all workers update.
    #[default]
    Shared,
    /// A table per worker, merged at the end.
    Local,
}

/// Sums of 8-byte values by group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aggregation {
    /// Tuples of the input.
    pub tuples: u64,
    /// Number of different groups in the input, at most.
    pub groups: u64,
    /// Skew of the groups; `None` for uniform ones.
    pub zipf_alpha: Option<f64>,
    /// Which tables hold the sums.
    pub tables: GroupTables,
    /// How it is carried out.
    pub form: Form,
    /// Tuples that prefetches are ahead in the tuned form; 0 for none.
    pub prefetch_tuples: u32,
}

impl Default for Aggregation {
    /// As many bytes of input as the partitionings of the publications, and a million groups.
    fn default() -> Self {
        Self {
            tuples: 512 << 20,
            groups: 1 << 20,
            zipf_alpha: None,
            tables: GroupTables::Shared,
            form: Form::Tuned,
            prefetch_tuples: PREFETCH_TUPLES,
        }
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tuples to {} groups, ", self.tuples, self.groups)?;
        if let Some(alpha) = self.zipf_alpha {
            write!(f, "zipf {alpha}, ")?;
        }
        if self.tables == GroupTables::Local {
            f.write_str("a table per thread, ")?;
        }
        f.write_str(&form_words(self.form, self.prefetch_tuples))
    }
}

impl Aggregation {
    /// Slots of a table: it is half full at most.
    fn slots(&self) -> u64 {
        (2 * self.groups).next_power_of_two().max(8)
    }

    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledAggregation {
        let draw = KeyDraw {
            count: self.groups,
            zipf_alpha: self.zipf_alpha,
            seed,
        };
        let values = random(seed, 1);
        let bytes = (self.tuples * PAIR_BYTES) as usize;
        let expected = each::<16>(&mut structures[0][..bytes], |at, pairs| {
            let mut sums = Sums::default();
            for ((at, pair), drawn) in at.clone().zip(pairs).zip(draw.block(&at)) {
                let (group, value) = (drawn + 1, random(values, at));
                pair[..8].copy_from_slice(&group.to_le_bytes());
                pair[8..].copy_from_slice(&value.to_le_bytes());
                sums.add(weighted(group, value));
            }
            sums
        });
        FilledAggregation {
            aggregation: self.clone(),
            expected,
        }
    }
}

impl Parameters for Aggregation {
    fn check(&self) -> Result<(), ParameterError> {
        check_tuples("tuples", self.tuples, u64::MAX)?;
        check_tuples("groups", self.groups, 1 << 36)?;
        check_zipf(self.zipf_alpha)?;
        check_ahead(self.prefetch_tuples)
    }

    fn structures(&self, workers: u32) -> Vec<Structure> {
        let structure = |name, pairs| Structure {
            name,
            size_bytes: pairs * PAIR_BYTES,
        };
        let mut all = vec![
            structure("input", self.tuples),
            structure("groups", self.slots()),
        ];
        if self.tables == GroupTables::Local {
            all.push(structure("local_groups", self.slots() * u64::from(workers)));
        }
        all
    }

    fn tuples(&self, _: u32) -> u64 {
        self.tuples
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// What a value of a group adds to the checksum: values of one group add up.
#[inline(always)]
fn weighted(group: u64, sum: u64) -> u64 {
    mix(group).wrapping_mul(sum)
}

/// An aggregation whose input is in place.
#[derive(Debug)]
pub(crate) struct FilledAggregation {
    aggregation: Aggregation,
    expected: Sums,
}

impl Filled for FilledAggregation {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let aggregation = &self.aggregation;
        let mut words = words_of(structures).into_iter();
        let mut next = |pairs: u64| {
            let words = words.next().unwrap_or_default();
            &words[..pairs as usize * PAIR]
        };
        let slots = aggregation.slots();
        Box::new(Aggregating {
            input: next(aggregation.tuples),
            groups: SlotTable::new(next(slots)),
            local: match aggregation.tables {
                GroupTables::Shared => Vec::new(),
                GroupTables::Local => next(slots * workers as u64)
                    .chunks(slots as usize * PAIR)
                    .map(SlotTable::new)
                    .collect(),
            },
            ahead: ahead(aggregation.form, aggregation.prefetch_tuples),
            found: Found::new(workers),
            expected: self.expected,
            workers,
        })
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let slots = &structures[1].as_chunks::<16>().0[..self.aggregation.slots() as usize];
        let mut sum = 0_u64;
        let mut groups = 0_u64;
        for slot in slots {
            let word = |at: usize| slot.as_chunks::<8>().0[at];
            let (group, value) = (u64::from_le_bytes(word(0)), u64::from_le_bytes(word(1)));
            groups += u64::from(group != 0);
            sum = sum.wrapping_add(weighted(group, value));
        }
        if sum != self.expected.sum {
            return Err(format!(
                "the checksum of the sums is {sum:016x}, expected {:016x}",
                self.expected.sum
            ));
        }
        Ok(format!(
            "{groups} groups with the right checksum of their sums"
        ))
    }
}

/// A table of groups and sums.
#[derive(Debug, Clone, Copy)]
struct SlotTable<'a> {
    words: &'a [AtomicU64],
    shift: u32,
}

impl<'a> SlotTable<'a> {
    fn new(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            shift: 64 - (words.len() / PAIR).trailing_zeros(),
        }
    }

    #[inline(always)]
    fn slot_of(&self, group: u64) -> usize {
        (group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Adds to the sum of a group; `alone` if no other worker uses the table.
    #[inline(always)]
    fn add(&self, group: u64, value: u64, alone: bool) {
        let mask = self.words.len() / PAIR - 1;
        let mut at = self.slot_of(group);
        loop {
            let slot = (at & mask) * PAIR;
            let (key, sum) = (&self.words[slot], &self.words[slot + 1]);
            let mut found = key.load(Ordering::Relaxed);
            if found == 0 {
                found = if alone {
                    key.store(group, Ordering::Relaxed);
                    group
                } else {
                    key.compare_exchange(0, group, Ordering::Relaxed, Ordering::Relaxed)
                        .map_or_else(|other| other, |_| group)
                };
            }
            if found == group {
                if alone {
                    let added = sum.load(Ordering::Relaxed).wrapping_add(value);
                    sum.store(added, Ordering::Relaxed);
                } else {
                    sum.fetch_add(value, Ordering::Relaxed);
                }
                return;
            }
            at += 1;
        }
    }

    fn clear(&self, words: Range<usize>) {
        for word in &self.words[words] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

struct Aggregating<'a> {
    /// Groups and values in turn.
    input: &'a [AtomicU64],
    groups: SlotTable<'a>,
    local: Vec<SlotTable<'a>>,
    ahead: Option<usize>,
    found: Found,
    expected: Sums,
    workers: usize,
}

impl Aggregating<'_> {
    fn aggregate(&self, table: SlotTable<'_>, tuples: Range<usize>, alone: bool) {
        for at in tuples {
            if let Some(ahead) = self.ahead
                && let Some(later) = self.input.get((at + ahead) * PAIR)
            {
                let slot = table.slot_of(later.load(Ordering::Relaxed));
                prefetch_write(table.words, slot * PAIR);
            }
            let group = self.input[at * PAIR].load(Ordering::Relaxed);
            let value = self.input[at * PAIR + 1].load(Ordering::Relaxed);
            table.add(group, value, alone);
        }
    }

    fn merge(&self, worker: usize, stop: &dyn Fn() -> bool) {
        let own = self.local[worker];
        for chunk in chunks(0..own.words.len() / PAIR, stop) {
            for slot in own.words[chunk.start * PAIR..chunk.end * PAIR].chunks(PAIR) {
                let group = slot[0].load(Ordering::Relaxed);
                if group != 0 {
                    let sum = slot[1].load(Ordering::Relaxed);
                    self.groups.add(group, sum, self.workers == 1);
                }
            }
        }
    }

    /// Adds up this worker's part of the table.
    fn verify(&self, worker: usize, stop: &dyn Fn() -> bool) {
        let mut sum = 0_u64;
        let slots = self.groups.words.len() / PAIR;
        for chunk in chunks(part(slots, self.workers, worker), stop) {
            for slot in self.groups.words[chunk.start * PAIR..chunk.end * PAIR].chunks(PAIR) {
                let (group, value) = (&slot[0], &slot[1]);
                let (group, value) = (group.load(Ordering::Relaxed), value.load(Ordering::Relaxed));
                sum = sum.wrapping_add(weighted(group, value));
            }
        }
        self.found.set(worker, Sums { count: 0, sum });
    }
}

impl Job for Aggregating<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let tuples = (self.input.len() / PAIR) as u64;
        let words = |table: &SlotTable<'_>| table.words.len() as u64 * 8;
        let local: u64 = self.local.iter().map(words).sum();
        let (all, structure) = match self.local.is_empty() {
            true => (words(&self.groups), "groups"),
            false => (words(&self.groups) + local, "local_groups"),
        };
        let traffic = |structure, read_bytes, written_bytes, random_accesses| Traffic {
            structure,
            read_bytes,
            written_bytes,
            random_accesses,
        };
        let phase = |name, tuples, counted, traffic| PhaseInfo {
            name,
            tuples,
            counted,
            traffic,
        };
        let bytes = tuples * PAIR_BYTES;
        let mut phases = vec![
            phase("clear", 0, false, vec![traffic(structure, 0, all, 0)]),
            phase(
                "aggregate",
                tuples,
                true,
                vec![
                    Traffic::scan("input", bytes),
                    traffic(structure, bytes, tuples * 8, tuples),
                ],
            ),
        ];
        if !self.local.is_empty() {
            let slots = local / PAIR_BYTES;
            phases.push(phase(
                "merge",
                slots,
                true,
                vec![
                    Traffic::scan("local_groups", local),
                    traffic("groups", local, local / 2, slots),
                ],
            ));
        }
        let read = words(&self.groups);
        phases.push(phase(
            "verify",
            0,
            false,
            vec![Traffic::scan("groups", read)],
        ));
        phases
    }

    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool) {
        let last = 2 + usize::from(!self.local.is_empty());
        match phase {
            0 => {
                let words = part(self.groups.words.len(), self.workers, worker);
                chunks(words, stop).for_each(|chunk| self.groups.clear(chunk));
                if let Some(own) = self.local.get(worker) {
                    chunks(0..own.words.len(), stop).for_each(|chunk| own.clear(chunk));
                }
            }
            1 => {
                let own = part(self.input.len() / PAIR, self.workers, worker);
                let local = self.local.get(worker).copied();
                let alone = local.is_some() || self.workers == 1;
                let table = local.unwrap_or(self.groups);
                chunks(own, stop).for_each(|chunk| self.aggregate(table, chunk, alone));
            }
            phase if phase == last => self.verify(worker, stop),
            _ => self.merge(worker, stop),
        }
    }

    fn result(&self) -> Result<(), String> {
        // Values are not counted one by one: their sums have the checksum.
        let expected = Sums {
            count: 0,
            ..self.expected
        };
        self.found.compare(expected, "sums")
    }
}
