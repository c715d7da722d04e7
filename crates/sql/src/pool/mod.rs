//! Tables of a pool in a session: attached where the pool has them, else loaded and kept there.
//!
//! ```text
//!   name=path ── fingerprint of the files ──┬─ as in the pool ──► attach
//!                                           └─ else ──► load ──► write ──► seal all ──► attach
//! ```
//! Tables that are loaded together replace older ones in one commit. A damaged table is loaded
//! again from its files, if these are what they were.

mod rows;
mod shared;

use super::error::SqlError;
use super::load::unbroken;
use super::run::Watch;
use super::session::{Loaded, SqlSession};
use super::source::{CsvOptions, Fingerprint, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tierloom_engine::pooled::{self, PooledTable, Verification};
use tierloom_pool::{Finished, Pool, PoolError, RegionState, Spread};

pub(super) use rows::{TIER_POOL, TierPool};
use shared::OpenPool;
pub(super) use shared::SharedPool;

/// A table of a pool that a session asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolTable {
    /// Its name.
    pub name: String,
    /// Size; `None` if it cannot be used, or was not loaded because nothing may be changed.
    pub loaded: Option<Loaded>,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a table of a pool came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The pool had it.
    Attached,
    /// It had to be loaded, and the pool has it now.
    Loaded {
        /// The file or folder.
        from: PathBuf,
        /// Why the pool's table was not used.
        why: String,
    },
    /// It is in the pool and may fail, or cannot be used at all.
    Unusable {
        /// What is wrong, and what to do.
        why: String,
    },
}

const DAMAGED: &str = "its data in the pool is damaged";

/// What is kept beside a table.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    source: Fingerprint,
}

/// What the pool has for a file.
enum Standing {
    Same(PooledTable),
    Other { why: String },
}

impl From<PoolError> for SqlError {
    fn from(error: PoolError) -> Self {
        match error.is_bad_input() {
            true => SqlError::input(error),
            false => SqlError::failed(error),
        }
    }
}

impl SqlSession {
    /// Gives the session a pool; its tables are checked as `verification` says, and places of
    /// operator memory can name it. Nothing is attached yet.
    ///
    /// # Errors
    /// If operators use memory of another pool.
    pub fn use_pool(&mut self, pool: Pool, verification: Verification) -> Result<(), SqlError> {
        let memory = Arc::new(pool.operator_scratch(Spread::Pack));
        let lent = tierloom_memory::router::lend_pool(memory).map_err(SqlError::failed)?;
        *self.pool.lock() = Some(OpenPool {
            pool,
            verification,
            _lent: lent,
            tables: BTreeMap::new(),
            followed: None,
            told: BTreeSet::new(),
            sweep: None,
        });
        Ok(())
    }

    /// Attaches the tables that the pool has exactly as the files are now, and loads the others
    /// into the pool, all or none.
    ///
    /// # Errors
    /// As [`SqlSession::load_files`], and those of the pool, such as too little space: it has then
    /// what it had before.
    pub fn load_into_pool(
        &mut self,
        tables: &[(String, PathBuf)],
        csv: &CsvOptions,
        watch: &dyn Watch,
    ) -> Result<Vec<PoolTable>, SqlError> {
        let (pool, _) = self.opened_pool()?;
        let mut finished: Vec<Finished> = Vec::new();
        let mut standings = Vec::new();
        for (name, path) in tables {
            self.catalog.check_new_name(name, false)?;
            let standing = self.standing(name, path, csv)?;
            if let Standing::Other { .. } = standing {
                finished.push(self.written(name, path, csv, watch)?);
            }
            standings.push(standing);
        }
        pool.seal_together(finished)?;
        let mut done = Vec::new();
        for ((name, path), standing) in tables.iter().zip(standings) {
            let (table, origin) = match standing {
                Standing::Same(table) => (table, Origin::Attached),
                Standing::Other { why } => {
                    let from = path.clone();
                    (self.attached(name)?, Origin::Loaded { from, why })
                }
            };
            done.push(self.adopt(name, table, origin, watch)?);
        }
        self.pool.sweep();
        Ok(done)
    }

    /// What [`SqlSession::load_into_pool`] would do, without doing it.
    ///
    /// # Errors
    /// Bad input: files that cannot be read.
    pub fn would_load_into_pool(
        &self,
        tables: &[(String, PathBuf)],
        csv: &CsvOptions,
    ) -> Result<Vec<PoolTable>, SqlError> {
        let planned = tables.iter().map(|(name, path)| {
            let origin = match self.standing(name, path, csv)? {
                Standing::Same(_) => Origin::Attached,
                Standing::Other { why } => {
                    // Finds out whether the files can be read.
                    Source::open(path, csv.clone())?;
                    let from = path.clone();
                    Origin::Loaded { from, why }
                }
            };
            Ok(PoolTable {
                name: name.clone(),
                loaded: None,
                origin,
            })
        });
        planned.collect()
    }

    /// Attaches all tables of the pool that the session does not have yet. Damaged ones are loaded
    /// again if their files are what they were. Where other processes use the pool too, every
    /// statement begins with the tables as they are then.
    ///
    /// # Errors
    /// Those of a table that has to be loaded again. One that cannot be used is no error.
    pub fn attach_pool(&mut self, watch: &dyn Watch) -> Result<Vec<PoolTable>, SqlError> {
        let (pool, _) = self.opened_pool()?;
        let regions = pool.status().regions.into_iter();
        let sealed = regions.filter(|region| region.state == RegionState::Sealed);
        let missing: Vec<String> = sealed
            .map(|region| region.name)
            .filter(|name| self.catalog.get(name).is_none())
            .collect();
        let mut done = Vec::new();
        for name in missing {
            done.push(self.attach_one(&name, watch)?);
        }
        self.pool.follow();
        self.pool.sweep();
        Ok(done)
    }

    /// Before a statement: tables that other clients of the pool have sealed or replaced since are
    /// attached, and those that they have dropped are let go. One that cannot be used stays as it
    /// was.
    pub(super) fn follow_pool(&mut self, watch: &dyn Watch) -> Result<(), SqlError> {
        let news = self.pool.news();
        for name in &news.gone {
            self.forget(name)?;
            self.bind(name);
        }
        for name in &news.replaced {
            if let Ok(table) = self.attached(name) {
                self.adopt(name, table, Origin::Attached, watch)?;
            }
        }
        for name in &news.new {
            self.attach_one(name, watch)?;
        }
        if !news.replaced.is_empty() || !news.new.is_empty() {
            self.pool.sweep();
        }
        Ok(())
    }

    /// Checks all bytes of all attached tables.
    ///
    /// # Errors
    /// The first one that is damaged.
    pub fn verify_pool(&self) -> Result<(), SqlError> {
        let open = self.pool.lock();
        let tables = open.iter().flat_map(|open| open.tables.values());
        let tables: Vec<PooledTable> = tables.cloned().collect();
        // Not held meanwhile: a damaged table is noted.
        drop(open);
        Ok(tables.iter().try_for_each(PooledTable::verify_all)?)
    }

    fn attach_one(&mut self, name: &str, watch: &dyn Watch) -> Result<PoolTable, SqlError> {
        let unusable = |why: String| PoolTable {
            name: name.to_owned(),
            loaded: None,
            origin: Origin::Unusable { why },
        };
        if let Err(error) = self.catalog.check_new_name(name, false) {
            return Ok(unusable(error.to_string()));
        }
        let attached = match self.attached(name) {
            Err(SqlError::Interrupted) => return Err(SqlError::Interrupted),
            attached => attached,
        };
        let why = match &attached {
            Ok(table) if !table.attached().is_damaged() => {
                return self.adopt(name, table.clone(), Origin::Attached, watch);
            }
            Ok(_) => DAMAGED.to_owned(),
            Err(error) => error.to_string(),
        };
        match (self.loaded_again(name, watch), attached) {
            (Ok(from), _) => {
                let table = self.attached(name)?;
                self.adopt(name, table, Origin::Loaded { from, why }, watch)
            }
            (Err(SqlError::Interrupted), _) => Err(SqlError::Interrupted),
            (Err(error), attached) => {
                let why = format!("{why}, and it cannot be loaded again: {error}");
                match attached {
                    // What is whole of it can be used.
                    Ok(table) => self.adopt(name, table, Origin::Unusable { why }, watch),
                    Err(_) => Ok(unusable(why)),
                }
            }
        }
    }

    fn opened_pool(&self) -> Result<(Pool, Verification), SqlError> {
        let pool = self.pool.pool();
        pool.ok_or_else(|| SqlError::input("the session has no pool; name one with --pool"))
    }

    /// Attaches a table of the pool.
    fn attached(&self, name: &str) -> Result<PooledTable, SqlError> {
        let (pool, verification) = self.opened_pool()?;
        Ok(pooled::attach(&pool, name, verification)?)
    }

    /// Makes an attached table one of the session.
    fn adopt(
        &mut self,
        name: &str,
        table: PooledTable,
        origin: Origin,
        watch: &dyn Watch,
    ) -> Result<PoolTable, SqlError> {
        let loaded = self.register(name, Arc::clone(table.table()), watch)?;
        self.pool.keep(name, table);
        Ok(PoolTable {
            name: name.to_owned(),
            loaded: Some(loaded),
            origin,
        })
    }

    /// Whether the pool has a table exactly as its files are now.
    fn standing(&self, name: &str, path: &Path, csv: &CsvOptions) -> Result<Standing, SqlError> {
        let now = Fingerprint::of(path, csv)?;
        let table = match self.attached(name) {
            Ok(table) => table,
            Err(SqlError::Interrupted) => return Err(SqlError::Interrupted),
            Err(error) => {
                let (pool, _) = self.opened_pool()?;
                let regions = pool.status().regions.into_iter();
                let mut known = regions.filter(|region| region.state == RegionState::Sealed);
                let why = match known.any(|region| region.name == name) {
                    true => error.to_string(),
                    false => "the pool has no table of this name".to_owned(),
                };
                return Ok(Standing::Other { why });
            }
        };
        let why = match source_of(table.note()) {
            _ if table.attached().is_damaged() => DAMAGED.to_owned(),
            None => "it was made from something else".to_owned(),
            Some(before) => match now.difference(&before) {
                None => return Ok(Standing::Same(table)),
                Some(difference) => difference,
            },
        };
        Ok(Standing::Other { why })
    }

    /// Loads files and writes them into the pool. Nobody sees the table yet.
    fn written(
        &self,
        name: &str,
        path: &Path,
        csv: &CsvOptions,
        watch: &dyn Watch,
    ) -> Result<Finished, SqlError> {
        let (pool, _) = self.opened_pool()?;
        let source = Fingerprint::of(path, csv)?;
        let table = unbroken(path, || {
            let source = Source::open(path, csv.clone())?;
            self.table_of_source(name, &source, watch)
        })?;
        if let Some(difference) = Fingerprint::of(path, csv)?.difference(&source) {
            return Err(SqlError::failed(format!(
                "{difference}, while it was loaded; load it again when nobody writes to it"
            )));
        }
        let note = serde_json::to_value(Note { source }).map_err(SqlError::failed)?;
        Ok(pooled::write(&pool, name, &table, note)?)
    }

    /// Replaces a table in the pool that cannot be used by one from its files; returns their path.
    fn loaded_again(&self, name: &str, watch: &dyn Watch) -> Result<PathBuf, SqlError> {
        let (pool, _) = self.opened_pool()?;
        // Of a table in another column format this much can be read.
        let before = source_of(&pool.attach(name)?.content()["note"]);
        let Some(before) = before else {
            return Err(SqlError::failed("the pool does not say where it came from"));
        };
        let now = Fingerprint::of(&before.path, &before.csv)?;
        if let Some(difference) = now.difference(&before) {
            return Err(SqlError::failed(difference));
        }
        let finished = self.written(name, &before.path, &before.csv, watch)?;
        pool.seal_together(vec![finished])?;
        Ok(before.path)
    }

    /// After a failed statement: tables that were found damaged are loaded again, and the error
    /// says so.
    pub(super) fn mended(&mut self, error: SqlError, watch: &dyn Watch) -> SqlError {
        let mut text = match &error {
            SqlError::Failed(text) => text.clone(),
            _ => return error,
        };
        let damaged = self.pool.newly_damaged();
        if damaged.is_empty() {
            return error;
        }
        for name in damaged {
            let mended = self.loaded_again(&name, watch).and_then(|from| {
                let table = self.attached(&name)?;
                self.adopt(&name, table, Origin::Attached, watch)?;
                Ok(from)
            });
            let more = match mended {
                Ok(from) => format!("{name} was loaded again from {}", from.display()),
                Err(why) => format!("{name} cannot be loaded again: {why}"),
            };
            text = format!("{text}; {more}");
        }
        self.pool.sweep();
        SqlError::Failed(text)
    }
}

/// The files that a table in a pool was loaded from.
fn source_of(note: &Value) -> Option<Fingerprint> {
    let note = Note::deserialize(note).ok()?;
    Some(note.source)
}
