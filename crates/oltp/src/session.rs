//! Transactions of one thread, with optimistic concurrency control.
//!
//! ```text
//!   read    copies a row and notes its version; sees what the transaction itself wrote
//!   write   notes the new words; nothing is shared yet
//!   commit  1  reserve slots of the delta and new rows
//!           2  lock the rows that are written, in one order for all
//!           3  are all rows that were read unchanged and not locked by others? or give up
//!           4  put the changes into the log's buffer
//!           5  write the versions, then the index entries
//!           6  unlock
//!           7  wait until the log is durable so far
//! ```
//! The protocol is that of Tu, Zheng, Kohler, Liskov and Madden, "Speedy Transactions in Multicore
//! In-Memory Databases" (SOSP 2013), with versions that count per row instead of epochs.
//!
//! **Isolation: serialisable**, in the order of the moments at which transactions hold all their
//! locks (the end of step 2). What a transaction read was current at that moment, since step 3
//! finds it unchanged later; what it wrote nobody else reads or writes before step 6, or, of new
//! rows, before step 5, when it is certain to commit. A full fence between steps 2 and 3 makes one
//! of two transactions that each read what the other writes see the other's lock.
//!
//! **Phantoms.** An index entry is made and removed while the transaction holds the lock of a row
//! that guards the range: the district, for orders. A transaction that draws a conclusion from what
//! a scan or look-up did *not* find reads the guard first; then an entry that comes or goes
//! meanwhile changes the guard's version. [`TxSession::guard`] does both.
//!
//! Reads of a transaction that must be tried again may be of different moments, so code that runs
//! in one must not loop or fail because rows do not fit together.

mod commit;
mod redo;

use std::ops::{AddAssign, Sub};
use std::time::Instant;

use tierloom_memory::RegionWords;
use tierloom_tree::Session;

use crate::Abort;
use crate::effect::{Effect, WriteRow};
use crate::head::RowVersion;
use crate::store::Store;
use crate::traffic::StoreTraffic;

/// Time that a session waited, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// For rows that another transaction had locked.
    pub lock_ns: u64,
    /// For room in the delta: merging was behind, and the session merged itself.
    pub room_ns: u64,
    /// For the log to be durable.
    pub log_ns: u64,
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.lock_ns += other.lock_ns;
        self.room_ns += other.room_ns;
        self.log_ns += other.log_ns;
    }
}

impl Sub for Waits {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            lock_ns: self.lock_ns - before.lock_ns,
            room_ns: self.room_ns - before.room_ns,
            log_ns: self.log_ns - before.log_ns,
        }
    }
}

/// A row that was read, with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadRow {
    pub(crate) table: u16,
    pub(crate) row: u32,
    pub(crate) version: RowVersion,
}

/// The row of an insert that is not committed yet.
const NO_ROW: u32 = u32::MAX;

/// Tables and rows that a commit has locked, with the versions before.
type LockedRow = (u16, u32, RowVersion);

/// The transactions of one thread, one after the other.
#[derive(Debug)]
pub struct TxSession<'s> {
    store: &'s Store,
    trees: Vec<Session<'s, RegionWords>>,
    pub(crate) reads: Vec<ReadRow>,
    pub(crate) writes: Vec<WriteRow>,
    words: Vec<u64>,
    keys: Vec<(u16, u64)>,
    pub(crate) locks: Vec<LockedRow>,
    /// Slots of each table's delta that this session has reserved.
    spare: Vec<Vec<u32>>,
    /// The record of the log that is being made.
    record: Vec<u8>,
    traffic: StoreTraffic,
    waits: Waits,
    /// Commits without looking whether what was read has changed, to show that tests notice.
    #[cfg(test)]
    pub(crate) skips_validation: bool,
    /// Rows that the last commit changed, with the versions before and after.
    #[cfg(test)]
    pub(crate) written: Vec<(u16, u32, RowVersion, RowVersion)>,
}

impl Store {
    /// A session for one thread.
    pub fn session(&self) -> TxSession<'_> {
        TxSession::new(self)
    }
}

impl<'s> TxSession<'s> {
    fn new(store: &'s Store) -> Self {
        Self {
            store,
            trees: store.indexes.iter().map(|index| index.session()).collect(),
            reads: Vec::new(),
            writes: Vec::new(),
            words: Vec::new(),
            keys: Vec::new(),
            locks: Vec::new(),
            spare: vec![Vec::new(); store.tables.len()],
            record: Vec::new(),
            traffic: store.no_traffic(),
            waits: Waits::default(),
            #[cfg(test)]
            skips_validation: false,
            #[cfg(test)]
            written: Vec::new(),
        }
    }

    /// Begins a transaction; what was not committed of the one before is forgotten.
    pub fn begin(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.words.clear();
        self.keys.clear();
        self.locks.clear();
        #[cfg(test)]
        self.written.clear();
    }

    /// The row of a key in an index.
    pub fn look_up(&mut self, index: usize, key: u64) -> Option<u32> {
        let found = self.trees[index].get(key);
        self.store.indexes[index].count(0, false, &mut self.traffic.indexes[index]);
        found.map(|row| row as u32)
    }

    /// Keys of an index from `from` on with their rows, in order, until `each` returns false.
    pub fn scan(&mut self, index: usize, from: u64, mut each: impl FnMut(u64, u32) -> bool) {
        let mut pairs = 0;
        self.trees[index].scan(from, |key, row| {
            pairs += 1;
            each(key, row as u32)
        });
        self.store.indexes[index].count(pairs, false, &mut self.traffic.indexes[index]);
    }

    /// Copies words of a row from word `at` on.
    ///
    /// # Errors
    /// [`Abort::Conflict`] if there is no such row (any more).
    pub fn read(
        &mut self,
        table: usize,
        row: u32,
        at: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let version = self.copy_row(table, row, at, out);
        self.reads.push(ReadRow {
            table: table as u16,
            row,
            version,
        });
        if !version.is_present() {
            return Err(Abort::Conflict);
        }
        self.see_own(table, row, at, out);
        Ok(())
    }

    /// One word of a row.
    ///
    /// # Errors
    /// As [`TxSession::read`].
    pub fn word(&mut self, table: usize, row: u32, at: usize) -> Result<u64, Abort> {
        let mut word = [0];
        self.read(table, row, at, &mut word)?;
        Ok(word[0])
    }

    /// Copies words of a row for a check, with no transaction running; says whether there is a row.
    pub fn peek(&mut self, table: usize, row: u32, at: usize, out: &mut [u64]) -> bool {
        self.copy_row(table, row, at, out).is_present()
    }

    fn copy_row(&mut self, table: usize, row: u32, at: usize, out: &mut [u64]) -> RowVersion {
        let (rows, counted) = (&self.store.tables[table], &mut self.traffic.tables[table]);
        if let Some(version) = rows.read(row, at, out, counted) {
            return version;
        }
        let since = Instant::now();
        let mut tries = 0;
        let version = loop {
            pause(tries);
            tries += 1;
            if let Some(version) = rows.read(row, at, out, counted) {
                break version;
            }
        };
        self.waits.lock_ns += since.elapsed().as_nanos() as u64;
        version
    }

    /// Puts over words that were read what this transaction itself wrote.
    fn see_own(&self, table: usize, row: u32, at: usize, out: &mut [u64]) {
        let own = |write: &&WriteRow| {
            write.effect == Effect::Patch && (write.table, write.row) == (table as u16, row)
        };
        for write in self.writes.iter().filter(own) {
            let words = &self.words[write.words.0 as usize..write.words.1 as usize];
            for (place, word) in (write.at as usize..).zip(words) {
                if let Some(out) = place.checked_sub(at).and_then(|place| out.get_mut(place)) {
                    *out = *word;
                }
            }
        }
    }

    /// Changes words of a row from word `at` on.
    pub fn update(&mut self, table: usize, row: u32, at: usize, words: &[u64]) {
        self.write(Effect::Patch, table, row, at, words, &[]);
    }

    /// Makes a row with these index entries, each an index and a key. The range of each entry must
    /// be guarded, if anybody draws conclusions from what is not in it.
    pub fn insert(&mut self, table: usize, words: &[u64], keys: &[(usize, u64)]) {
        // It gets its row number at commit, so that none is lost by trying again.
        self.write(Effect::Insert, table, NO_ROW, 0, words, keys);
    }

    /// Removes a row that was read, with its index entries; see [`TxSession::insert`].
    pub fn delete(&mut self, table: usize, row: u32, keys: &[(usize, u64)]) {
        self.write(Effect::Delete, table, row, 0, &[], keys);
    }

    /// Makes this transaction conflict with all others that use the row as the guard of a range, as
    /// one that changes the range.
    ///
    /// A transaction that changes a word of the guard need not do this.
    pub fn guard(&mut self, table: usize, row: u32) {
        self.write(Effect::Guard, table, row, 0, &[], &[]);
    }

    fn write(
        &mut self,
        effect: Effect,
        table: usize,
        row: u32,
        at: usize,
        words: &[u64],
        keys: &[(usize, u64)],
    ) {
        let (first_word, first_key) = (self.words.len() as u32, self.keys.len() as u32);
        self.words.extend_from_slice(words);
        let keys = keys.iter().map(|(index, key)| (*index as u16, *key));
        self.keys.extend(keys);
        self.writes.push(WriteRow {
            effect,
            table: table as u16,
            row,
            at: at as u32,
            words: (first_word, self.words.len() as u32),
            keys: (first_key, self.keys.len() as u32),
        });
    }

    /// What this session accessed so far.
    pub fn traffic(&self) -> &StoreTraffic {
        &self.traffic
    }

    /// What this session waited for so far.
    pub fn waits(&self) -> Waits {
        self.waits
    }
}

impl Drop for TxSession<'_> {
    fn drop(&mut self) {
        for (table, spare) in self.store.tables.iter().zip(&mut self.spare) {
            table.give_slots(spare);
        }
    }
}

/// Lets the holder of a lock go on: the processor's hint first, and the scheduler where the holder
/// may have lost its CPU.
pub(crate) fn pause(tries: u32) {
    const SPINS: u32 = 64;
    if tries < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
