//! The group table of a worker: accumulators in an array or in a hash table.
//!
//! An array needs no hashing but has a slot for every combination of group ordinals, so it pays
//! only for few combinations, many rows per combination, or the values of one column.

use crate::finished::{FinishedGroups, MeasureValues};
use crate::floats::{sum_of, write};
use crate::layout::{Layout, ROWS_AT, Words, add_wide, wide};
use crate::plan::{MeasureKind, PlanError, StarPlan};
use crate::table::Table;
use tierloom_kernels::select::prefetch_all;

/// Up to this many combinations of group ordinals the accumulators are an array, however few rows
/// there are.
pub const DENSE_COMBINATIONS: u64 = 1 << 16;

/// Above that, they are an array only if there are this many rows per combination, since every
/// worker has to initialise its whole array, and all arrays have to be merged.
const ROWS_PER_COMBINATION: u64 = 8;

/// Same for the values of one column: most of them occur, so that a hash table would have as many
/// groups, with their keys, and would find their number only by growing.
const ROWS_PER_VALUE: u64 = 1;

/// Limit for the arrays of all workers together, in bytes per row of the table: about the size of
/// its codes.
///
/// A larger array would mostly be initialised and merged, and hardly be written.
const ARRAY_BYTES_PER_ROW: u64 = 16;

/// Most accumulators, because offsets into them and numbers of groups are stored as 32 bits.
const MOST_WORDS: u64 = u32::MAX as u64;

/// Accumulators are requested before they are read if they are larger than this.
const FAR_BYTES: usize = 512 << 10;

/// Tables with more slots than this are merged by several threads.
const LARGE_GROUPS: usize = 1 << 14;

/// Number of keys that are looked up together, so that their cache misses overlap.
const BATCH: usize = 1024;

/// Up to this many combinations, each group has several accumulators that rows use in turn.
///
/// With one, each addition would have to wait for the previous one.
const FEW_COMBINATIONS: u64 = 64;
const LANES: usize = 4;

#[derive(Debug, Clone)]
enum Index {
    /// Slot = (key - first) * lanes + lane.
    Dense {
        lanes: usize,
        /// The key of the first slot; 0 but for a part of a merged array.
        first: u64,
    },
    Hashed(Table),
}

/// The group table of one worker, or of all workers after merging.
#[derive(Debug, Clone)]
pub struct Groups {
    index: Index,
    kinds: Vec<MeasureKind>,
    layout: Layout,
    words: Vec<i64>,
    /// Limit for the length of `words`.
    most_words: u64,
}

impl StarPlan {
    /// Size of each worker's array of accumulators, in bytes; `None` if they are hashed.
    ///
    /// # Errors
    /// Same as [`StarPlan::combinations`].
    pub fn dense_bytes(&self) -> Result<Option<u64>, PlanError> {
        Ok(Groups::dense_bytes(self, self.combinations()?))
    }
}

impl Groups {
    /// Size of the array for `combinations` groups, in bytes; `None` if the groups are hashed.
    fn dense_bytes(plan: &StarPlan, combinations: u64) -> Option<u64> {
        if plan.key.as_ref().is_some_and(|key| key.below.is_none()) {
            return None;
        }
        let slots = combinations.checked_mul(lanes(combinations) as u64)?;
        let words = slots.checked_mul(Layout::new(&plan.measures).words as u64)?;
        let bytes = words.checked_mul(8)?;
        let all_bytes = bytes.checked_mul(plan.workers.max(1) as u64)?;
        if plan.has_one_group() {
            // One slot, which needs no key.
            return Some(bytes);
        }
        let (rows, fewest) = match plan.groups.len() {
            1 => (plan.expected_rows(), ROWS_PER_VALUE),
            _ => (plan.rows, ROWS_PER_COMBINATION),
        };
        let pays = combinations <= DENSE_COMBINATIONS
            || (combinations <= rows / fewest
                && all_bytes <= plan.rows.saturating_mul(ARRAY_BYTES_PER_ROW));
        (pays && !plan.hashed && words <= most_words(plan)).then_some(bytes)
    }

    /// An empty group table. `combinations` is the plan's own number of them.
    pub(crate) fn new(plan: &StarPlan, combinations: u64) -> Self {
        let layout = Layout::new(&plan.measures);
        let (index, words) = match Self::dense_bytes(plan, combinations) {
            Some(_) => {
                let lanes = lanes(combinations);
                let slots = combinations as usize * lanes;
                (
                    Index::Dense { lanes, first: 0 },
                    layout.initial.repeat(slots),
                )
            }
            None => {
                let table = Table::new(combinations, 0);
                (Index::Hashed(table), Vec::new())
            }
        };
        Groups {
            index,
            kinds: plan.measures.iter().map(|m| m.kind).collect(),
            words,
            layout,
            most_words: most_words(plan),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn words_mut(&mut self) -> &mut [i64] {
        &mut self.words
    }

    /// Whether the accumulators may not be in the caches.
    pub(crate) fn are_far(&self) -> bool {
        self.words.len() * 8 > FAR_BYTES
    }

    /// Looks up keys and writes the offsets of their slots' first words, adding slots for new keys.
    ///
    /// # Errors
    /// [`PlanError::TooManyAccumulators`] if a new key does not fit the limit.
    pub(crate) fn offsets(&mut self, keys: &[u64], offsets: &mut [u32]) -> Result<(), PlanError> {
        let words = self.layout.words;
        match &mut self.index {
            // The size of an array is limited when it is created, so its offsets fit 32 bits.
            Index::Dense { lanes: 1, .. } => {
                for (offset, key) in offsets.iter_mut().zip(keys) {
                    *offset = (*key as usize * words) as u32;
                }
            }
            // All others have as many; a constant makes the remainder a mask.
            Index::Dense { .. } => {
                for (row, (offset, key)) in offsets.iter_mut().zip(keys).enumerate() {
                    *offset = ((*key as usize * LANES + row % LANES) * words) as u32;
                }
            }
            Index::Hashed(table) => {
                let offsets = &mut offsets[..keys.len()];
                table.slots(keys, offsets);
                let needed = table.keys().len() * words;
                if needed as u64 > self.most_words {
                    return Err(PlanError::TooManyAccumulators {
                        most_bytes: self.most_words * 8,
                    });
                }
                let initial = &self.layout.initial;
                match initial.iter().all(|word| *word == 0) {
                    true => self.words.resize(needed, 0),
                    false => {
                        let more = needed - self.words.len();
                        self.words.extend(initial.iter().cycle().take(more));
                    }
                }
                for offset in offsets.iter_mut() {
                    *offset *= words as u32;
                }
            }
        }
        Ok(())
    }

    /// Adds the groups of another worker of the same plan.
    ///
    /// # Errors
    /// [`PlanError::TooManyAccumulators`] if the groups do not fit the limit,
    /// [`PlanError::DifferentPlans`] if the plans' measures or kinds of group table differ.
    pub fn merge(&mut self, other: Groups) -> Result<(), PlanError> {
        let words = self.layout.words;
        if words != other.layout.words || self.kinds != other.kinds {
            return Err(PlanError::DifferentPlans);
        }
        match (&self.index, &other.index) {
            (Index::Dense { lanes: a, .. }, Index::Dense { lanes: b, .. }) => {
                if a != b || self.words.len() != other.words.len() {
                    return Err(PlanError::DifferentPlans);
                }
                self.join_slots(&other.words);
                return Ok(());
            }
            (Index::Hashed(_), Index::Hashed(_)) => {}
            _ => return Err(PlanError::DifferentPlans),
        }
        let mut offset = [0];
        for (key, words) in other.slots() {
            self.offsets(&[key], &mut offset)?;
            let at = offset[0] as usize;
            join(
                &self.kinds,
                &self.layout,
                &mut self.words[at..at + words.len()],
                words,
            );
        }
        Ok(())
    }

    /// Adds the accumulators of the same keys of another array.
    fn join_slots(&mut self, other: &[i64]) {
        let places = self.kinds.iter().zip(&self.layout.measures);
        let mut adds = places.map(|(kind, place)| {
            matches!(kind, MeasureKind::Sum | MeasureKind::Count) && !place.wide
        });
        if adds.all(|adds| adds) {
            for (into, from) in self.words.iter_mut().zip(other) {
                *into = into.wrapping_add(*from);
            }
            return;
        }
        let words = self.layout.words;
        let slots = self.words.chunks_exact_mut(words);
        for (into, from) in slots.zip(other.chunks_exact(words)) {
            join(&self.kinds, &self.layout, into, from);
        }
    }

    /// Whether several threads should merge the workers' groups, each with [`Groups::merged_part`]
    /// for its part.
    pub fn is_large(&self) -> bool {
        self.slot_count() > LARGE_GROUPS
    }

    /// Merges those groups of all workers whose keys belong to the `part`-th of `parts`; each key
    /// belongs to one part.
    ///
    /// # Errors
    /// [`PlanError::TooManyAccumulators`] if the groups of a part do not fit the limit,
    /// [`PlanError::DifferentPlans`] if arrays of several lengths are merged.
    ///
    /// # Panics
    /// If `workers` is empty.
    pub fn merged_part(workers: &[Groups], part: usize, parts: usize) -> Result<Groups, PlanError> {
        let table = match &workers[0].index {
            Index::Dense { lanes, .. } => {
                return Self::merged_range(workers, *lanes, part, parts);
            }
            Index::Hashed(table) => table,
        };
        let all: usize = workers.iter().map(Groups::slot_count).sum();
        let mut whole = workers[0].without_groups(table, all / parts.max(1));
        let (mut keys, mut slots, mut offsets) = ([0; BATCH], [&[][..]; BATCH], [0; BATCH]);
        for worker in workers {
            let mut from = worker.slots().peekable();
            while from.peek().is_some() {
                let mut count = 0;
                // Without a branch: which keys belong to another part cannot be predicted.
                for (key, words) in from.by_ref().take(BATCH) {
                    (keys[count], slots[count]) = (key, words);
                    count += usize::from(part_of(key, parts) == part);
                }
                whole.offsets(&keys[..count], &mut offsets[..count])?;
                prefetch_all(&whole.words, &offsets[..count]);
                for (offset, words) in offsets[..count].iter().zip(slots) {
                    let at = *offset as usize;
                    let into = &mut whole.words[at..at + words.len()];
                    join(&whole.kinds, &whole.layout, into, words);
                }
            }
        }
        Ok(whole)
    }

    /// Merges the `part`-th of `parts` ranges of keys of arrays.
    fn merged_range(
        workers: &[Groups],
        lanes: usize,
        part: usize,
        parts: usize,
    ) -> Result<Groups, PlanError> {
        let model = &workers[0];
        if workers.iter().any(|w| w.words.len() != model.words.len()) {
            return Err(PlanError::DifferentPlans);
        }
        let words_of_key = lanes * model.layout.words;
        let keys = model.words.len() / words_of_key;
        let [from, to] = [part, part + 1].map(|part| keys * part / parts);
        let range = from * words_of_key..to * words_of_key;
        let mut whole = Groups {
            index: Index::Dense {
                lanes,
                first: from as u64,
            },
            kinds: model.kinds.clone(),
            layout: model.layout.clone(),
            words: model.words[range.clone()].to_vec(),
            most_words: model.most_words,
        };
        for worker in &workers[1..] {
            whole.join_slots(&worker.words[range.clone()]);
        }
        Ok(whole)
    }

    /// Number of slots; those of a hash table are its groups.
    fn slot_count(&self) -> usize {
        self.words.len() / self.layout.words
    }

    /// An empty hash table for the same plan, with room for so many groups.
    fn without_groups(&self, table: &Table, room: usize) -> Groups {
        Groups {
            index: Index::Hashed(table.emptied(room)),
            kinds: self.kinds.clone(),
            words: Vec::with_capacity(room * self.layout.words),
            layout: self.layout.clone(),
            most_words: self.most_words,
        }
    }

    /// Merges the accumulators of each group that rows used in turn.
    fn fold_lanes(&mut self) {
        let Index::Dense { lanes, .. } = &mut self.index else {
            return;
        };
        let (words, count) = (self.layout.words, *lanes);
        if count == 1 {
            return;
        }
        *lanes = 1;
        let groups = self.words.len() / (words * count);
        let mut folded = self.layout.initial.repeat(groups);
        for (slot, part) in self.words.chunks_exact(words).enumerate() {
            let at = slot / count * words;
            join(&self.kinds, &self.layout, &mut folded[at..at + words], part);
        }
        self.words = folded;
    }

    fn slots(&self) -> impl Iterator<Item = (u64, &[i64])> {
        self.words
            .chunks_exact(self.layout.words)
            .enumerate()
            // An array has a slot for every combination; those without rows are not groups.
            .filter(|(_, words)| words[ROWS_AT] > 0)
            .map(move |(slot, words)| match &self.index {
                Index::Dense { lanes, first } => (first + (slot / lanes) as u64, words),
                Index::Hashed(table) => (table.keys()[slot], words),
            })
    }

    /// The groups that have rows, column by column.
    pub fn finish(mut self) -> FinishedGroups {
        self.fold_lanes();
        let groups = self.slots().count();
        let (mut keys, mut rows) = (Vec::with_capacity(groups), Vec::with_capacity(groups));
        for (key, words) in self.slots() {
            keys.push(key);
            rows.push(words[ROWS_AT] as u64);
        }
        let measures = self.kinds.iter().zip(&self.layout.measures);
        let values = |(kind, place): (&MeasureKind, &Words)| {
            let slots = self.slots().map(|(_, words)| words);
            MeasureValues::of(slots, groups, *kind, *place)
        };
        FinishedGroups {
            measures: measures.map(values).collect(),
            keys,
            rows,
        }
    }

    /// Size of the accumulators and their index, in bytes.
    pub fn size_bytes(&self) -> usize {
        let index = match &self.index {
            Index::Dense { .. } => 0,
            Index::Hashed(table) => table.size_bytes(),
        };
        self.words.capacity() * 8 + index
    }
}

/// Number of accumulators per group.
fn lanes(combinations: u64) -> usize {
    if combinations <= FEW_COMBINATIONS {
        LANES
    } else {
        1
    }
}

/// Limit for the number of words in one group table.
fn most_words(plan: &StarPlan) -> u64 {
    plan.most_bytes
        .map_or(MOST_WORDS, |bytes| (bytes / 8).min(MOST_WORDS))
}

fn join(kinds: &[MeasureKind], layout: &Layout, into: &mut [i64], from: &[i64]) {
    into[ROWS_AT] += from[ROWS_AT];
    let measures = kinds.iter().zip(&layout.measures);
    for (kind, place) in measures.filter(|(_, place)| !place.is_rows()) {
        let at = place.at;
        if let Some(counted) = place.counts() {
            into[counted] += from[counted];
        }
        match kind {
            // It is the number of rows that count.
            MeasureKind::Count => {}
            MeasureKind::Min => into[at] = into[at].min(from[at]),
            MeasureKind::Max => into[at] = into[at].max(from[at]),
            MeasureKind::FloatSum => {
                let mut sum = sum_of(&into[at..], place.stride);
                sum.join(sum_of(&from[at..], place.stride));
                write(sum, &mut into[at..], place.stride);
            }
            MeasureKind::Sum if place.wide => {
                add_wide(into, at, wide(from, at));
            }
            MeasureKind::Sum => into[at] = into[at].wrapping_add(from[at]),
        }
    }
}

/// The part that merges `key`.
///
/// It uses another multiplier than [`Table`]: with the same one, all keys of a part would collide
/// in a section of its table.
fn part_of(key: u64, parts: usize) -> usize {
    let hash = key.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32;
    ((hash * parts as u64) >> 32) as usize
}
