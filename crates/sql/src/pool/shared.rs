//! The pool of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_engine::pooled::{PooledTable, Sweep, Verification};
use tierloom_memory::router::LentPool;
use tierloom_pool::{Pool, RegionState};

/// The session's pool, shared with the system table that shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPool(Arc<Mutex<Option<OpenPool>>>);

#[derive(Debug)]
pub(super) struct OpenPool {
    pub(super) pool: Pool,
    pub(super) verification: Verification,
    pub(super) tables: BTreeMap<String, PooledTable>,
    /// Versions of all tables of the pool when they were last looked at, once the session has all
    /// of them.
    pub(super) followed: Option<BTreeMap<String, u64>>,
    /// Damaged tables that an error has named already.
    pub(super) told: BTreeSet<String>,
    /// The check in the background, over the tables of the moment when it was started.
    pub(super) sweep: Option<Sweep>,
    /// While it is there, operators can use memory of the pool.
    pub(super) _lent: LentPool,
}

/// What other clients did to the tables of the pool.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) gone: Vec<String>,
    pub(super) replaced: Vec<String>,
    pub(super) new: Vec<String>,
}

impl SharedPool {
    /// From now on, what others do to the pool's tables is news.
    pub(super) fn follow(&self) {
        let Some((pool, _)) = self.pool() else { return };
        let versions = versions(&pool);
        if let Some(open) = self.lock().as_mut() {
            open.followed = Some(versions);
        }
    }

    /// What was done since the last call. Nothing, where nobody else can do anything.
    pub(super) fn news(&self) -> News {
        let pool = self.pool().map(|(pool, _)| pool);
        let Some(pool) = pool.filter(Pool::is_client) else {
            return News::default();
        };
        let now = versions(&pool);
        let mut open = self.lock();
        let Some(OpenPool {
            tables,
            followed: Some(followed),
            ..
        }) = open.as_mut()
        else {
            return News::default();
        };
        if *followed == now {
            return News::default();
        }
        let of = |name: &&String| tables.get(*name).map(|table| table.attached().version());
        let changed = now
            .iter()
            .filter(|(name, version)| followed.get(*name) != Some(version));
        let changed: Vec<&String> = changed.map(|(name, _)| name).collect();
        let replaced = changed.iter().copied().filter(|name| of(name).is_some());
        let replaced = replaced.filter(|name| of(name) != now.get(*name).copied());
        let news = News {
            gone: tables
                .keys()
                .filter(|name| !now.contains_key(*name))
                .cloned()
                .collect(),
            replaced: replaced.cloned().collect(),
            new: changed
                .iter()
                .filter(|name| of(name).is_none())
                .map(|name| (*name).clone())
                .collect(),
        };
        *followed = now;
        news
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<OpenPool>> {
        // Tables are inserted and removed whole, so a panic elsewhere leaves it consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pool(&self) -> Option<(Pool, Verification)> {
        let open = self.lock();
        open.as_ref().map(|o| (o.pool.clone(), o.verification))
    }

    /// Lets a table go that the session does not have any more.
    pub fn forget(&self, name: &str) {
        let forgotten = self.lock().as_mut().and_then(|o| o.tables.remove(name));
        // Dropped without the lock: it may be the last user, which changes the pool.
        drop(forgotten);
    }

    pub(super) fn keep(&self, name: &str, table: PooledTable) {
        if let Some(open) = self.lock().as_mut() {
            open.tables.insert(name.to_owned(), table);
            open.told.remove(name);
        }
    }

    /// Starts the check in the background over all attached tables.
    pub(super) fn sweep(&self) {
        let mut open = self.lock();
        let Some(open) = open.as_mut() else { return };
        if open.verification == Verification::FirstUse {
            let tables = open.tables.values().map(|t| Arc::downgrade(t.attached()));
            open.sweep = Some(Sweep::start(tables.collect()));
        }
    }

    /// Tables that were found damaged since the last call.
    pub(super) fn newly_damaged(&self) -> Vec<String> {
        let mut open = self.lock();
        let Some(OpenPool { tables, told, .. }) = open.as_mut() else {
            return Vec::new();
        };
        let damaged = tables.iter().filter(|(_, t)| t.attached().is_damaged());
        let names: Vec<String> = damaged.map(|(name, _)| name.clone()).collect();
        let new = names.into_iter().filter(|name| told.insert(name.clone()));
        new.collect()
    }
}

fn versions(pool: &Pool) -> BTreeMap<String, u64> {
    let regions = pool.status().regions.into_iter();
    let sealed = regions.filter(|region| region.state == RegionState::Sealed);
    sealed.map(|region| (region.name, region.version)).collect()
}
