//! The group table of a worker: accumulators in an array or in a hash table.
//!
//! An array needs no hashing but has a slot for every combination of group ordinals, so it pays
//! only for few combinations or many rows per combination.

use crate::floats::{FloatSum, SUM_WORDS, sum_of, write};
use crate::plan::{Measure, MeasureKind, PlanError, StarPlan};
use crate::table::Table;
use tierloom_kernels::select::prefetch_all;

/// Up to this many combinations of group ordinals the accumulators are an array, however few rows
/// there are.
const DENSE_COMBINATIONS: u64 = 1 << 16;

/// Above that, they are an array only if there are this many rows per combination, since every
/// worker has to initialise its whole array, and all arrays have to be merged.
const ROWS_PER_COMBINATION: u64 = 8;

/// Limit for the arrays of all workers together, in bytes per row of the table: about the size of
/// its codes.
///
/// A larger array would mostly be initialised and merged, and hardly be written.
const ARRAY_BYTES_PER_ROW: u64 = 16;

/// Most accumulators, because offsets into them and numbers of groups are stored as 32 bits.
const MOST_WORDS: u64 = u32::MAX as u64;

/// Accumulators are prefetched if they are larger than this.
const FAR_BYTES: usize = 512 << 10;

/// Hash tables with more groups than this are merged by several threads.
const LARGE_GROUPS: usize = 1 << 14;

/// Number of keys that are looked up together, so that their cache misses overlap.
const BATCH: usize = 1024;

/// Up to this many combinations, each group has several accumulators that rows use in turn.
///
/// With one, each addition would have to wait for the previous one.
const FEW_COMBINATIONS: u64 = 64;
const LANES: usize = 4;

/// Position of the number of rows of a group in its slot.
const ROWS_AT: usize = 0;

/// The positions of a measure's words in a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub at: usize,
    pub wide: bool,
    /// Position of the number of rows that counted, if some rows may not (NULL inputs).
    pub valid_at: Option<usize>,
}

impl Words {
    /// Whether it is the number of rows, which is counted anyway.
    pub fn is_rows(&self) -> bool {
        self.at == ROWS_AT
    }
}

/// The words of one group: its number of rows, then its measures.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub words: usize,
    pub measures: Vec<Words>,
    initial: Vec<i64>,
}

impl Layout {
    fn new(measures: &[Measure]) -> Self {
        let mut initial = vec![0];
        let mut places = Vec::new();
        for measure in measures {
            if measure.kind == MeasureKind::Count && !measure.leaves_out_rows() {
                places.push(Words {
                    at: ROWS_AT,
                    wide: false,
                    valid_at: None,
                });
                continue;
            }
            let at = initial.len();
            initial.push(match measure.kind {
                // The bits of a float that is 0 are 0 too.
                MeasureKind::Sum | MeasureKind::FloatSum | MeasureKind::Count => 0,
                MeasureKind::Min => i64::MAX,
                MeasureKind::Max => i64::MIN,
            });
            let wide = measure.wide && measure.kind == MeasureKind::Sum;
            let more = match measure.kind {
                MeasureKind::FloatSum => SUM_WORDS - 1,
                _ => usize::from(wide),
            };
            initial.resize(initial.len() + more, 0);
            let valid_at = measure.leaves_out_rows().then_some(initial.len());
            if valid_at.is_some() {
                initial.push(0);
            }
            places.push(Words { at, wide, valid_at });
        }
        Layout {
            words: initial.len(),
            measures: places,
            initial,
        }
    }
}

#[derive(Debug, Clone)]
enum Index {
    /// Slot = key * lanes + lane.
    Dense {
        lanes: usize,
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
        if plan.key.is_some() {
            return None;
        }
        let slots = combinations.checked_mul(lanes(combinations) as u64)?;
        let words = slots.checked_mul(Layout::new(&plan.measures).words as u64)?;
        let bytes = words.checked_mul(8)?;
        let all_bytes = bytes.checked_mul(plan.workers.max(1) as u64)?;
        if plan.groups.is_empty() {
            // One slot, which needs no key.
            return Some(bytes);
        }
        let pays = combinations <= DENSE_COMBINATIONS
            || (combinations <= plan.rows / ROWS_PER_COMBINATION
                && all_bytes <= plan.rows.saturating_mul(ARRAY_BYTES_PER_ROW));
        (pays && !plan.hashed && words <= most_words(plan)).then_some(bytes)
    }

    /// An empty group table. `combinations` is the plan's own number of them.
    pub(crate) fn new(plan: &StarPlan, combinations: u64) -> Self {
        let layout = Layout::new(&plan.measures);
        let (index, slots) = match Self::dense_bytes(plan, combinations) {
            Some(_) => {
                let lanes = lanes(combinations);
                (Index::Dense { lanes }, combinations as usize * lanes)
            }
            None => (Index::Hashed(Table::new(combinations, 0)), 0),
        };
        Groups {
            index,
            kinds: plan.measures.iter().map(|m| m.kind).collect(),
            words: layout.initial.repeat(slots),
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

    /// Looks up keys and writes the offsets of their slots' first words, adding slots for new keys.
    ///
    /// # Errors
    /// [`PlanError::TooManyAccumulators`] if a new key does not fit the limit.
    pub(crate) fn offsets(&mut self, keys: &[u64], offsets: &mut [u32]) -> Result<(), PlanError> {
        let words = self.layout.words;
        match &mut self.index {
            // The size of an array is limited when it is created, so its offsets fit 32 bits.
            Index::Dense { lanes: 1 } => {
                for (offset, key) in offsets.iter_mut().zip(keys) {
                    *offset = (*key as usize * words) as u32;
                }
                if self.words.len() * 8 > FAR_BYTES {
                    prefetch_all(&self.words, &offsets[..keys.len()]);
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
                prefetch_all(&self.words, offsets);
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
            (Index::Dense { lanes: a }, Index::Dense { lanes: b }) => {
                if a != b || self.words.len() != other.words.len() {
                    return Err(PlanError::DifferentPlans);
                }
                for at in (0..self.words.len()).step_by(words) {
                    join(
                        &self.kinds,
                        &self.layout,
                        &mut self.words[at..at + words],
                        &other.words[at..at + words],
                    );
                }
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

    /// Whether several threads should merge the workers' groups, each with [`Groups::merged_part`]
    /// for its part.
    pub fn is_large(&self) -> bool {
        matches!(&self.index, Index::Hashed(table) if table.keys().len() > LARGE_GROUPS)
    }

    /// Merges those groups of all workers whose keys belong to the `part`-th of `parts`; each key
    /// belongs to one part.
    ///
    /// # Errors
    /// [`PlanError::TooManyAccumulators`] if the groups of a part do not fit the limit.
    ///
    /// # Panics
    /// If `workers` is empty.
    pub fn merged_part(workers: &[Groups], part: usize, parts: usize) -> Result<Groups, PlanError> {
        let all: usize = workers.iter().map(Groups::hashed_keys).sum();
        let mut whole = workers[0].without_groups(all / parts.max(1));
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
                for (offset, words) in offsets[..count].iter().zip(slots) {
                    let at = *offset as usize;
                    let into = &mut whole.words[at..at + words.len()];
                    join(&whole.kinds, &whole.layout, into, words);
                }
            }
        }
        Ok(whole)
    }

    /// Number of groups in a hash table.
    fn hashed_keys(&self) -> usize {
        match &self.index {
            Index::Dense { .. } => 0,
            Index::Hashed(table) => table.keys().len(),
        }
    }

    /// An empty group table of the same plan, with room for so many groups.
    fn without_groups(&self, room: usize) -> Groups {
        let (index, slots) = match &self.index {
            Index::Dense { lanes } => {
                let slots = self.words.len() / self.layout.words;
                (Index::Dense { lanes: *lanes }, slots)
            }
            Index::Hashed(table) => (Index::Hashed(table.emptied(room)), 0),
        };
        Groups {
            index,
            kinds: self.kinds.clone(),
            words: self.layout.initial.repeat(slots),
            layout: self.layout.clone(),
            most_words: self.most_words,
        }
    }

    /// Merges the accumulators of each group that rows used in turn.
    fn fold_lanes(&mut self) {
        let Index::Dense { lanes } = &mut self.index else {
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
                Index::Dense { lanes } => ((slot / lanes) as u64, words),
                Index::Hashed(table) => (table.keys()[slot], words),
            })
    }

    /// The groups that have rows, column by column.
    pub fn finish(mut self) -> FinishedGroups {
        self.fold_lanes();
        let mut found = FinishedGroups {
            keys: Vec::new(),
            rows: Vec::new(),
            measures: vec![Vec::new(); self.kinds.len()],
        };
        for (key, words) in self.slots() {
            found.keys.push(key);
            found.rows.push(words[ROWS_AT] as u64);
        }
        let measures = found.measures.iter_mut().zip(&self.kinds);
        for ((column, kind), place) in measures.zip(&self.layout.measures) {
            column.reserve_exact(found.keys.len());
            column.extend(self.slots().map(|(_, words)| value(*kind, *place, words)));
        }
        found
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

/// The groups that have rows, column by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedGroups {
    /// Combined keys; in ascending order unless the groups were hashed.
    pub keys: Vec<u64>,
    /// Number of rows of each group.
    pub rows: Vec<u64>,
    /// The values of each measure by group; `None` where no row counted, except that
    /// counts are then 0. Sums of floats are for [`FloatSum::of_value`](crate::FloatSum::of_value).
    pub measures: Vec<Vec<Option<i128>>>,
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

fn value(kind: MeasureKind, place: Words, words: &[i64]) -> Option<i128> {
    if place.valid_at.is_some_and(|at| words[at] == 0) && kind != MeasureKind::Count {
        return None;
    }
    Some(if kind == MeasureKind::FloatSum {
        FloatSum::from(sum_of(&words[place.at..])).to_value()
    } else if place.wide {
        wide(words, place.at)
    } else {
        i128::from(words[place.at])
    })
}

/// The 128 bits of two words.
fn wide(words: &[i64], at: usize) -> i128 {
    (i128::from(words[at + 1]) << 64) | i128::from(words[at] as u64)
}

/// Adds to the 128 bits of two words.
pub(crate) fn add_wide(words: &mut [i64], at: usize, value: i128) {
    let sum = wide(words, at).wrapping_add(value);
    (words[at], words[at + 1]) = (sum as i64, (sum >> 64) as i64);
}

fn join(kinds: &[MeasureKind], layout: &Layout, into: &mut [i64], from: &[i64]) {
    into[ROWS_AT] += from[ROWS_AT];
    let measures = kinds.iter().zip(&layout.measures);
    for (kind, place) in measures.filter(|(_, place)| !place.is_rows()) {
        let at = place.at;
        match kind {
            MeasureKind::Min => into[at] = into[at].min(from[at]),
            MeasureKind::Max => into[at] = into[at].max(from[at]),
            MeasureKind::FloatSum => {
                let mut sum = sum_of(&into[at..]);
                sum.join(sum_of(&from[at..]));
                write(sum, &mut into[at..]);
            }
            MeasureKind::Sum | MeasureKind::Count if place.wide => {
                add_wide(into, at, wide(from, at));
            }
            MeasureKind::Sum | MeasureKind::Count => into[at] = into[at].wrapping_add(from[at]),
        }
        if let Some(valid) = place.valid_at {
            into[valid] += from[valid];
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
