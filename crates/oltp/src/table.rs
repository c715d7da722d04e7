//! A table of rows of one size in three regions: heads and delta in the heap, and main.
//!
//! ```text
//!   heads  [version, location] of row 0, 1, 2 ...                                 heap
//!   delta  owner of slot 0, 1, 2 ... | slot 0 | slot 1 | ...                      heap
//!   main   row 0 | row 1 | ...                                                    main
//! ```
//! A row has a place in main from the beginning. Its first change puts a whole copy into a slot of
//! the delta, where further changes find it; merging copies it back to its place and frees the
//! slot. So transactions write to the heap alone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tierloom_memory::RegionWords;

use crate::OltpError;
use crate::head::{HEAD_WORDS, Head, Location, RowVersion};
use crate::traffic::{RowLines, lines};

/// Name, row size and capacity of a table.
#[derive(Debug, Clone, Copy)]
pub struct RowSpec {
    /// Name of the table.
    pub name: &'static str,
    /// Words of 8 bytes of a row.
    pub row_words: usize,
    /// Rows that there is room for. A row that was deleted is not used again.
    pub rows: u64,
    /// Rows that the delta holds, before merging must make room; at least as many as a transaction
    /// changes.
    pub delta_rows: u32,
}

impl RowSpec {
    /// Bytes of the heads.
    pub(crate) fn heads_bytes(&self) -> usize {
        self.rows as usize * HEAD_WORDS * 8
    }

    /// Bytes of main.
    pub(crate) fn main_bytes(&self) -> usize {
        self.rows as usize * self.row_words * 8
    }

    /// Bytes of the delta with the owners of its slots.
    pub(crate) fn delta_bytes(&self) -> usize {
        self.delta_rows as usize * (self.row_words + 1) * 8
    }
}

/// The memory of a table.
#[derive(Debug)]
pub(crate) struct TableWords {
    pub(crate) heads: RegionWords,
    pub(crate) main: RegionWords,
    pub(crate) delta: RegionWords,
}

/// Rows of one size, by row number.
#[derive(Debug)]
pub(crate) struct RowTable {
    spec: RowSpec,
    pub(crate) words: TableWords,
    /// Rows from here on were never used.
    fresh: AtomicU64,
    /// Slots of the delta that hold no row.
    free: Mutex<Vec<u32>>,
    free_count: AtomicU32,
}

impl RowTable {
    pub(crate) fn new(spec: RowSpec, words: TableWords) -> Self {
        Self {
            spec,
            words,
            fresh: AtomicU64::new(0),
            // From the end, so that the first slots are used first.
            free: Mutex::new((0..spec.delta_rows).rev().collect()),
            free_count: AtomicU32::new(spec.delta_rows),
        }
    }

    pub(crate) fn spec(&self) -> &RowSpec {
        &self.spec
    }

    /// Rows that were ever used.
    pub(crate) fn used_rows(&self) -> u32 {
        self.fresh.load(Ordering::Acquire) as u32
    }

    #[inline]
    pub(crate) fn head(&self, row: u32) -> Head<'_> {
        Head::new(self.words.heads.as_ref(), row)
    }

    /// A row that was never used.
    pub(crate) fn take_row(&self) -> Result<u32, OltpError> {
        let next = |fresh: u64| (fresh < self.spec.rows).then_some(fresh + 1);
        let taken = self
            .fresh
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
        taken.map(|row| row as u32).map_err(|_| self.full())
    }

    /// Counts row numbers up to `row` as used.
    pub(crate) fn use_up_to(&self, row: u32) -> Result<(), OltpError> {
        if u64::from(row) >= self.spec.rows {
            return Err(self.full());
        }
        self.fresh.fetch_max(u64::from(row) + 1, Ordering::AcqRel);
        Ok(())
    }

    fn full(&self) -> OltpError {
        OltpError::Full {
            table: self.spec.name,
            rows: self.spec.rows as u32,
        }
    }

    /// Takes up to `most` slots of the delta, or none if fewer than `least` are free.
    pub(crate) fn take_slots(&self, into: &mut Vec<u32>, least: usize, most: usize) {
        if (self.free_count.load(Ordering::Relaxed) as usize) < least {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < least {
            return;
        }
        let left = free.len() - most.min(free.len());
        into.extend(free.drain(left..));
        self.free_count.store(left as u32, Ordering::Relaxed);
    }

    /// Takes slots back that hold no row.
    pub(crate) fn give_slots(&self, slots: &mut Vec<u32>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.append(slots);
        self.free_count.store(free.len() as u32, Ordering::Relaxed);
    }

    /// Slots of the delta that hold no row and that no session has.
    pub(crate) fn free_slots(&self) -> u32 {
        self.free_count.load(Ordering::Relaxed)
    }

    #[inline]
    fn slot_start(&self, slot: u32) -> usize {
        self.spec.delta_rows as usize + slot as usize * self.spec.row_words
    }

    #[inline]
    fn main_start(&self, row: u32) -> usize {
        row as usize * self.spec.row_words
    }

    /// Copies words of a row from word `at` on, as of the version that is returned.
    ///
    /// `None` if somebody is changing it.
    #[inline]
    pub(crate) fn read(
        &self,
        row: u32,
        at: usize,
        out: &mut [u64],
        counted: &mut RowLines,
    ) -> Option<RowVersion> {
        let head = self.head(row);
        let version = head.read()?;
        let location = head.location();
        counted.head_read += 1;
        match location.slot() {
            None => {
                let start = self.main_start(row) + at;
                counted.main_pieces += 1;
                counted.main_read += lines(start, out.len());
                copy_out(self.words.main.as_ref(), start, out);
            }
            Some(slot) => {
                let start = self.slot_start(slot) + at;
                counted.delta_pieces += 1;
                counted.delta_read += lines(start, out.len());
                copy_out(self.words.delta.as_ref(), start, out);
            }
        }
        head.unchanged(version, location).then_some(version)
    }

    /// Writes words of a row that the caller has locked. A row that is in main moves into the slot
    /// that `spare` gives.
    pub(crate) fn write(
        &self,
        row: u32,
        at: usize,
        words: &[u64],
        spare: &mut Vec<u32>,
        counted: &mut RowLines,
    ) {
        let head = self.head(row);
        let delta = self.words.delta.as_ref();
        let slot = match head.location().slot() {
            Some(slot) => slot,
            None => {
                #[expect(clippy::expect_used, reason = "sessions reserve before they lock")]
                let slot = spare.pop().expect("a reserved slot");
                delta[slot as usize].store(u64::from(row) + 1, Ordering::Relaxed);
                let whole = words.len() == self.spec.row_words;
                if !whole {
                    let (from, to) = (self.main_start(row), self.slot_start(slot));
                    let main = self.words.main.as_ref();
                    counted.main_pieces += 1;
                    counted.main_read += lines(from, self.spec.row_words);
                    counted.delta_write += lines(to, self.spec.row_words);
                    copy(main, from, delta, to, self.spec.row_words);
                }
                head.move_to(Some(slot));
                slot
            }
        };
        let start = self.slot_start(slot) + at;
        counted.delta_write += lines(start, words.len());
        copy_in(words, delta, start);
    }

    /// Puts a row into main, before anybody else uses the table.
    pub(crate) fn load(&self, row: u32, words: &[u64]) {
        copy_in(words, self.words.main.as_ref(), self.main_start(row));
        let head = self.head(row);
        if let Some(version) = head.lock() {
            head.unlock(version.next(true));
        }
    }

    /// Moves the row in a slot of the delta to main and frees the slot; says whether it did. A row
    /// that somebody is changing stays.
    pub(crate) fn merge(&self, slot: u32, freed: &mut Vec<u32>, counted: &mut RowLines) -> bool {
        let delta = self.words.delta.as_ref();
        let owner = delta[slot as usize].load(Ordering::Relaxed);
        let Some(row) = owner.checked_sub(1).map(|row| row as u32) else {
            return false;
        };
        let head = self.head(row);
        let Some(version) = head.lock() else {
            return false;
        };
        // The owner may be one that the slot had before.
        let is_here = |location: Location| location.slot() == Some(slot);
        let merges = is_here(head.location());
        if merges {
            let (from, to) = (self.slot_start(slot), self.main_start(row));
            counted.delta_pieces += 1;
            counted.delta_read += lines(from, self.spec.row_words);
            counted.main_write += lines(to, self.spec.row_words);
            counted.head_update += 1;
            let main = self.words.main.as_ref();
            copy(delta, from, main, to, self.spec.row_words);
            delta[slot as usize].store(0, Ordering::Relaxed);
            head.move_to(None);
            freed.push(slot);
        }
        head.unlock(version);
        merges
    }
}

#[inline]
fn copy_out(from: &[AtomicU64], start: usize, out: &mut [u64]) {
    let words = &from[start..start + out.len()];
    for (to, word) in out.iter_mut().zip(words) {
        *to = word.load(Ordering::Relaxed);
    }
}

#[inline]
fn copy_in(from: &[u64], to: &[AtomicU64], start: usize) {
    let words = &to[start..start + from.len()];
    for (word, value) in words.iter().zip(from) {
        word.store(*value, Ordering::Relaxed);
    }
}

#[inline]
fn copy(from: &[AtomicU64], start: usize, to: &[AtomicU64], at: usize, words: usize) {
    let pairs = from[start..start + words].iter().zip(&to[at..at + words]);
    for (source, target) in pairs {
        target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
