//! The pool of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_engine::pooled::{PooledTable, Sweep, Verification};
use tierloom_memory::router::LentPool;
use tierloom_pool::Pool;

/// The session's pool, shared with the system table that shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPool(Arc<Mutex<Option<OpenPool>>>);

#[derive(Debug)]
pub(super) struct OpenPool {
    pub(super) pool: Pool,
    pub(super) verification: Verification,
    pub(super) tables: BTreeMap<String, PooledTable>,
    /// Damaged tables that an error has named already.
    pub(super) told: BTreeSet<String>,
    /// The check in the background, over the tables of the moment when it was started.
    pub(super) sweep: Option<Sweep>,
    /// While it is there, operators can use memory of the pool.
    pub(super) _lent: LentPool,
}

impl SharedPool {
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
