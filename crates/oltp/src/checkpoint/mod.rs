//! Checkpoints: the rows and index entries of a store as one table of a pool, so that the log
//! before can go.
//!
//! ```text
//!   take   1  begin a part of the log; commits of earlier parts are in the store and durable
//!          2  copy rows and entries, each as it is at its moment, while clients go on
//!          3  wait until the log is durable as far as it is now
//!          4  checksums; make the bytes durable; seal; make the seal durable
//!          5  remove earlier parts of the log, drop the checkpoint before
//!
//!   pool   "oltp checkpoint N": as the content says | table 0 | table 1 | ... | index 0 | ...
//!            table: a bit per row, whether there is one (words of 64) | row 0 | row 1 | ...
//!            index: (key, row) ...                                words of 8 bytes, little-endian
//! ```
//! The copy is of no single moment, and need not be. The log from step 1 on says what words of rows
//! and entries were set to, so that doing all of it again in its order gives the same whether a
//! change was in the copy or not: a word or entry that the log names gets the last value there, and
//! one that it does not name has not changed since step 1. That is a *fuzzy* checkpoint (Gray and
//! Reuter, "Transaction Processing", 1993). It counts only with the log up to step 3.
//!
//! A crash before the seal leaves the checkpoint before, whose log has all parts since; one after
//! it leaves the new one, and the next checkpoint clears what step 5 has left.

mod copy;
mod restore;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tierloom_pool::{
    CreateOptions, Finished, OpenOptions, Pool, PoolError, RegionKind, RegionState, Spread,
    TableSpec,
};

pub use restore::Checkpoint;

use crate::OltpError;
use crate::log::{PartStart, RedoLog};
use crate::store::Store;
use copy::Copying;

const FORMAT: &str = "tierloom-oltp-checkpoint/1";
/// Name of a checkpoint in the pool, but for its number: that of the first part of its log.
const NAME: &str = "oltp checkpoint ";
/// Room for what is said about a checkpoint: a line per table and index.
const CONTENT_BYTES: u64 = 64 << 10;

/// A table of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TableContent {
    name: String,
    row_words: usize,
    /// Row numbers that were used.
    rows: u32,
}

impl TableContent {
    /// Words of the bits that say which rows there are.
    fn bit_words(&self) -> usize {
        (self.rows as usize).div_ceil(64)
    }

    fn words(&self) -> usize {
        self.bit_words() + self.rows as usize * self.row_words
    }
}

/// An index of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct IndexContent {
    name: String,
    keys: usize,
}

/// What a checkpoint says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    format: String,
    /// What the log says of the data.
    identity: String,
    /// Part of the log that it is to be done again from.
    part: u64,
    /// Bytes of records from there on without which the copy is of no moment.
    log_bytes: u64,
    tables: Vec<TableContent>,
    indexes: Vec<IndexContent>,
}

impl Content {
    fn words(&self) -> usize {
        let tables = self.tables.iter().map(TableContent::words);
        let indexes = self.indexes.iter().map(|index| 2 * index.keys);
        tables.chain(indexes).sum()
    }
}

/// What a checkpoint took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointTaken {
    /// Bytes of rows and index entries that were written.
    pub size_bytes: u64,
    /// From the first step to the last.
    pub duration: Duration,
    /// Transactions that were put into the log meanwhile.
    pub transactions: u64,
}

/// Moments of a checkpoint, at which tests take a machine's power away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Begun,
    Reserved,
    Copied,
    Finished,
    Sealed,
    LogRemoved,
    Dropped,
}

/// The checkpoints of a store, in a pool that is theirs alone.
#[derive(Debug)]
pub struct Checkpoints {
    pool: Pool,
    path: PathBuf,
}

impl Checkpoints {
    /// Makes a pool in a file, with room for two checkpoints of this store when it is full. The
    /// file takes disk space only for what there is.
    ///
    /// # Errors
    /// [`OltpError::Checkpoint`]: what the pool says, for instance that there is something at
    /// `path`.
    pub fn create(path: &Path, store: &Store) -> Result<Self, OltpError> {
        let options = CreateOptions {
            file_bytes: pool_bytes(store),
            ..CreateOptions::default()
        };
        let pool = Pool::create(path, &[], &options, &OpenOptions::default());
        let pool = pool.map_err(|e| failed(path, "create", &e))?;
        let made = Self {
            pool,
            path: path.to_owned(),
        };
        made.sync().map_err(|e| failed(path, "create", &e))?;
        Ok(made)
    }

    /// Opens the pool of earlier checkpoints. Whatever a crash has left unsealed in it is freed.
    ///
    /// # Errors
    /// [`OltpError::Checkpoint`]: no pool, a damaged one, or one that another process has open.
    pub fn open(path: &Path) -> Result<Self, OltpError> {
        let open = |skip_damaged| {
            let options = OpenOptions {
                skip_damaged,
                ..OpenOptions::default()
            };
            options.open(path)
        };
        let pool = match open(false) {
            // A loss of power in the middle of a commit. The state before is as good: the log says
            // whether it has what that state's checkpoint needs.
            Err(PoolError::Damaged { .. } | PoolError::NoState { .. }) => open(true),
            done => done,
        };
        let opened = Self {
            pool: pool.map_err(|e| failed(path, "open", &e))?,
            path: path.to_owned(),
        };
        // The process before may have been killed between a seal and its flush; the log that the
        // sealed one makes needless goes with the next.
        opened.sync().map_err(|e| failed(path, "open", &e))?;
        Ok(opened)
    }

    /// Takes a checkpoint of a store with a log, while clients work on it.
    ///
    /// # Errors
    /// [`OltpError::Checkpoint`] if it cannot be taken, [`OltpError::Log`] if no part of the log
    /// can be begun or removed. The store can go on, unless the log cannot be written any more.
    pub fn take(&mut self, store: &Store) -> Result<CheckpointTaken, OltpError> {
        self.take_with(store, &mut |_| {})
    }

    /// As [`Checkpoints::take`]; calls `at` after each step.
    pub(crate) fn take_with(
        &mut self,
        store: &Store,
        at: &mut dyn FnMut(Step),
    ) -> Result<CheckpointTaken, OltpError> {
        let take_failed = |e: PoolError| failed(&self.path, "take", &e);
        let Some(log) = &store.log else {
            return Err(failed(&self.path, "take", &"the store has no log"));
        };
        let (begin, before) = (Instant::now(), log.transactions());
        // What a crash has left would take the room of this one.
        if let Some((newest, _)) = self.sealed().into_iter().max() {
            log.remove_before(newest)?;
            self.drop_before(newest)?;
        }
        let start = log.begin_part()?;
        at(Step::Begun);
        let (finished, size_bytes) = self.written(store, log, start, at)?;
        self.sync().map_err(|e| failed(&self.path, "write", &e))?;
        at(Step::Finished);
        self.pool
            .seal_together(vec![finished])
            .map_err(take_failed)?;
        self.sync().map_err(|e| failed(&self.path, "write", &e))?;
        at(Step::Sealed);
        log.remove_before(start.number)?;
        at(Step::LogRemoved);
        self.drop_before(start.number)?;
        at(Step::Dropped);
        Ok(CheckpointTaken {
            size_bytes,
            duration: begin.elapsed(),
            transactions: log.transactions() - before,
        })
    }

    /// Steps 2 to 4 up to the seal: the copy, and its bytes.
    fn written(
        &self,
        store: &Store,
        log: &RedoLog,
        start: PartStart,
        at: &mut dyn FnMut(Step),
    ) -> Result<(Finished, u64), OltpError> {
        let take_failed = |e: PoolError| failed(&self.path, "take", &e);
        let copying = Copying::begin(store);
        let mut content = copying.content(log.identity(), start.number);
        let spec = TableSpec {
            name: format!("{NAME}{}", start.number),
            data_bytes: content.words() as u64 * 8,
            content_bytes: CONTENT_BYTES,
            spread: Spread::Pack,
        };
        let mut draft = self.pool.reserve(&spec).map_err(take_failed)?;
        at(Step::Reserved);
        copying.write(&content, draft.bytes_mut());
        // The copy may have the changes of transactions that are not durable yet.
        let end = log.end()?.lsn;
        log.wait(end)?;
        content.log_bytes = start.bytes_to(end);
        at(Step::Copied);
        let said = serde_json::to_value(&content);
        let said = said.map_err(|e| failed(&self.path, "take", &e))?;
        let finished = draft.finish(&said, &[]).map_err(take_failed)?;
        Ok((finished, spec.data_bytes))
    }

    fn drop_before(&self, number: u64) -> Result<(), OltpError> {
        let older = self.sealed().into_iter().filter(|found| found.0 < number);
        for (_, name) in older {
            let dropped = self.pool.drop_table(&name);
            dropped.map_err(|e| failed(&self.path, "drop", &e))?;
        }
        Ok(())
    }

    /// Numbers and names of the checkpoints that are whole; more than one after a crash.
    fn sealed(&self) -> Vec<(u64, String)> {
        let regions = self.pool.status().regions.into_iter();
        let sealed = regions
            .filter(|r| (r.kind, r.state) == (RegionKind::Table, RegionState::Sealed))
            .filter_map(|region| {
                Some((region.name.strip_prefix(NAME)?.parse().ok()?, region.name))
            });
        sealed.collect()
    }

    /// Makes everything that was written to the pool durable. Stores into mapped pages of a file
    /// are; a device has no file to write back to.
    fn sync(&self) -> io::Result<()> {
        for member in self.pool.status().members {
            let file = File::open(&member.path)?;
            if file.metadata()?.is_file() {
                file.sync_all()?;
            }
        }
        crate::log::sync_folder(&self.path)
    }
}

/// Bytes of a pool that has room for two checkpoints, extents that are begun and the pool itself.
fn pool_bytes(store: &Store) -> u64 {
    const SPARE: u64 = 32 << 20;
    let tables = store.tables.iter().map(|table| {
        let spec = table.spec();
        spec.rows * 8 * spec.row_words as u64 + spec.rows / 8 + 8
    });
    let indexes = store.indexes.iter().map(|index| index.most_keys * 16);
    let most: u64 = tables.chain(indexes).sum();
    // A small share is for checksums and the larger state of a larger pool.
    2 * most + most / 64 + SPARE
}

fn failed(path: &Path, action: &'static str, why: &dyn std::fmt::Display) -> OltpError {
    OltpError::Checkpoint {
        path: path.display().to_string(),
        action,
        reason: why.to_string(),
    }
}
