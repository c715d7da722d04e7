//! Commit: the steps that the session's documentation numbers.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use super::{TxSession, pause};
use crate::effect::{Effect, WriteRow};
use crate::log::{Appended, Lsn, record};
use crate::{Abort, OltpError};

/// Slots that a session takes from a delta at once, where there are plenty.
const SLOT_BATCH: usize = 8;

impl TxSession<'_> {
    /// Makes the transaction's effects visible to all at once, and durable if the store has a log.
    ///
    /// # Errors
    /// [`Abort::Conflict`] if it must be tried again; [`Abort::Failed`] if the store cannot go on:
    /// then it is not known to be durable. Nothing has changed after a conflict, or if a table is
    /// full.
    pub fn commit(&mut self) -> Result<(), Abort> {
        let lsn = self.try_commit();
        self.release_spare();
        self.wait_durable(lsn?)
    }

    /// Steps 1 to 6.
    fn try_commit(&mut self) -> Result<Option<Lsn>, Abort> {
        self.reserve();
        self.lock_rows();
        // Either this transaction sees the locks of another that writes what this one read, or the
        // other sees the locks of this one.
        fence(Ordering::SeqCst);
        if !self.is_unchanged() {
            self.unlock(false);
            return Err(Abort::Conflict);
        }
        let appended = match self.take_rows().and_then(|()| self.append()) {
            Ok(appended) => appended,
            Err(error) => {
                self.unlock(false);
                return Err(error.into());
            }
        };
        let applied = self.apply();
        self.unlock(true);
        if let (Some(log), Some(appended)) = (&self.store.log, appended) {
            log.applied(appended);
        }
        applied?;
        Ok(appended.map(|appended| appended.lsn))
    }

    /// Reserves a slot for every row that is written, without holding a lock: who waits here keeps
    /// nobody from going on. Tables come in one order for all, so that of sessions that wait for
    /// each other's slots one can go on.
    pub(super) fn reserve(&mut self) {
        let mut patched: Vec<(u16, u32)> = Vec::with_capacity(self.writes.len());
        let patches = self.writes.iter().filter(|w| w.effect == Effect::Patch);
        patched.extend(patches.map(|write| (write.table, write.row)));
        patched.sort_unstable();
        patched.dedup();
        for table in 0..self.spare.len() {
            let inserts = |write: &&WriteRow| {
                usize::from(write.table) == table && write.effect == Effect::Insert
            };
            let rows = patched.iter().filter(|(of, _)| usize::from(*of) == table);
            let needed = rows.count() + self.writes.iter().filter(inserts).count();
            if self.spare[table].len() < needed {
                self.fill_spare(table, needed);
            }
        }
    }

    fn fill_spare(&mut self, table: usize, needed: usize) {
        let (rows, spare) = (&self.store.tables[table], &mut self.spare[table]);
        let plenty = (rows.free_slots() / 64) as usize;
        let least = needed - spare.len();
        rows.take_slots(spare, least, least + SLOT_BATCH.min(plenty));
        if spare.len() >= needed {
            return;
        }
        let since = Instant::now();
        while self.spare[table].len() < needed {
            // Others may need what this session cannot use yet. For the same reason it takes all
            // that it needs or nothing: sessions that each wait with a part would give it back and
            // take it again for ever.
            let later = self.store.tables.iter().zip(&mut self.spare).skip(table);
            later.for_each(|(rows, spare)| rows.give_slots(spare));
            self.store.merge_table(table, &mut self.traffic);
            rows.take_slots(&mut self.spare[table], needed, needed);
            if self.spare[table].len() < needed {
                std::thread::yield_now();
            }
        }
        self.waits.room_ns += since.elapsed().as_nanos() as u64;
    }

    /// Gives slots back that were not needed, where there are few.
    fn release_spare(&mut self) {
        for (rows, spare) in self.store.tables.iter().zip(&mut self.spare) {
            if !spare.is_empty() && rows.free_slots() < rows.spec().delta_rows / 4 {
                rows.give_slots(spare);
            }
        }
    }

    /// Locks all rows that are written, but new ones, which nobody can reach.
    pub(super) fn lock_rows(&mut self) {
        let mut rows: Vec<(u16, u32)> = Vec::with_capacity(self.writes.len());
        let known = self.writes.iter().filter(|w| w.effect != Effect::Insert);
        rows.extend(known.map(|write| (write.table, write.row)));
        rows.sort_unstable();
        rows.dedup();
        for (table, row) in rows {
            let head = self.store.tables[usize::from(table)].head(row);
            self.traffic.tables[usize::from(table)].head_update += 1;
            let version = head.lock().unwrap_or_else(|| {
                let since = Instant::now();
                let mut tries = 0;
                let version = loop {
                    pause(tries);
                    tries += 1;
                    if let Some(version) = head.lock() {
                        break version;
                    }
                };
                self.waits.lock_ns += since.elapsed().as_nanos() as u64;
                version
            });
            self.locks.push((table, row, version));
        }
    }

    /// Whether all rows that were read are as they were, and no other transaction has locked one.
    fn is_unchanged(&self) -> bool {
        #[cfg(test)]
        if self.skips_validation {
            return true;
        }
        self.reads.iter().all(|read| {
            let place = (read.table, read.row);
            let own = self
                .locks
                .binary_search_by_key(&place, |lock| (lock.0, lock.1));
            let now = match own {
                Ok(at) => Some(self.locks[at].2),
                Err(_) => self.store.tables[usize::from(read.table)]
                    .head(read.row)
                    .read(),
            };
            now == Some(read.version)
        })
    }

    /// Gives new rows their numbers.
    fn take_rows(&mut self) -> Result<(), OltpError> {
        for write in &mut self.writes {
            if write.effect == Effect::Insert {
                write.row = self.store.tables[usize::from(write.table)].take_row()?;
            }
        }
        Ok(())
    }

    /// Puts the changes into the log. Without changes: what was read must be durable as well, and
    /// all of that is in the log already.
    fn append(&mut self) -> Result<Option<Appended>, OltpError> {
        let Some(log) = &self.store.log else {
            return Ok(None);
        };
        if self
            .writes
            .iter()
            .all(|write| write.effect == Effect::Guard)
        {
            return log.end().map(Some);
        }
        self.record.clear();
        record::encode(&mut self.record, &self.writes, &self.words, &self.keys);
        log.append(&self.record).map(Some)
    }

    pub(super) fn apply(&mut self) -> Result<(), OltpError> {
        // Rows of all inserts before the first index entry, and entries in the order of the
        // inserts: who finds the last entry finds all that belongs to it.
        for at in 0..self.writes.len() {
            let write = self.writes[at];
            let table = usize::from(write.table);
            let words = &self.words[write.words.0 as usize..write.words.1 as usize];
            let (spare, counted) = (&mut self.spare[table], &mut self.traffic.tables[table]);
            let rows = &self.store.tables[table];
            match write.effect {
                Effect::Patch => rows.write(write.row, write.at as usize, words, spare, counted),
                Effect::Insert => {
                    // Merging may look at a row that was never in use, but finds nothing to do.
                    let version = loop {
                        if let Some(version) = rows.head(write.row).lock() {
                            break version;
                        }
                    };
                    rows.write(write.row, 0, words, spare, counted);
                    rows.head(write.row).unlock(version.next(true));
                    #[cfg(test)]
                    self.written
                        .push((write.table, write.row, version, version.next(true)));
                    counted.head_update += 1;
                }
                Effect::Delete | Effect::Guard => {}
            }
        }
        for at in 0..self.writes.len() {
            let write = self.writes[at];
            for key in write.keys.0..write.keys.1 {
                let (index, key) = self.keys[key as usize];
                self.change_index(usize::from(index), key, write)?;
            }
        }
        Ok(())
    }

    fn change_index(&mut self, index: usize, key: u64, write: WriteRow) -> Result<(), OltpError> {
        let rows = &self.store.indexes[index];
        rows.count(0, true, &mut self.traffic.indexes[index]);
        if write.effect == Effect::Delete {
            self.trees[index].remove(key);
            return Ok(());
        }
        let inserted = self.trees[index].insert(key, u64::from(write.row));
        inserted.map(|_| ()).map_err(|source| OltpError::Index {
            index: rows.name,
            source,
        })
    }

    /// Gives all locks back; rows have changed or not.
    pub(super) fn unlock(&mut self, changed: bool) {
        for (table, row, before) in self.locks.drain(..) {
            let deleted = || {
                let deletes = |write: &WriteRow| {
                    write.effect == Effect::Delete && (write.table, write.row) == (table, row)
                };
                self.writes.iter().any(deletes)
            };
            let version = match changed {
                true => before.next(before.is_present() && !deleted()),
                false => before,
            };
            #[cfg(test)]
            if changed {
                self.written.push((table, row, before, version));
            }
            self.store.tables[usize::from(table)]
                .head(row)
                .unlock(version);
        }
    }

    fn wait_durable(&mut self, lsn: Option<Lsn>) -> Result<(), Abort> {
        let (Some(log), Some(lsn)) = (&self.store.log, lsn) else {
            return Ok(());
        };
        let since = Instant::now();
        let waited = log.wait(lsn);
        self.waits.log_ns += since.elapsed().as_nanos() as u64;
        Ok(waited?)
    }
}
