//! Several sessions of one engine, at the same time.

use super::admission::AdmissionOptions;
use super::catalog::Catalog;
use super::opaque::Opaque;
use super::planner::Running;
use super::replay::Replay;
use super::session::SqlSession;
use super::shared::Seen;
use super::work::WorkLog;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// An engine with its tables, for any number of sessions at the same time.
pub struct SharedEngine {
    first: Opaque<SqlSession>,
}

impl SharedEngine {
    /// Shares the engine of `session` with its tables, views and settings.
    ///
    /// `admission` limits what runs at the same time.
    pub fn new(session: SqlSession, admission: AdmissionOptions) -> Self {
        session.shared.admission.limit(admission);
        session.shared.publish(&session.settings);
        let mut first = session;
        first.served = true;
        SharedEngine {
            first: Opaque::new(first),
        }
    }

    /// DataFusion's context that sessions are copied from: functions and schemas that are added to
    /// it are those of every later session.
    pub fn context(&self) -> &SessionContext {
        self.first.catalog.engine().context()
    }

    /// A new session; what it sets for itself ends with it.
    pub fn session(&self) -> SqlSession {
        let first = &self.first;
        let mut seen = Seen::default();
        let shared = Arc::clone(&first.shared);
        let settings = shared.settings_since(&mut seen);
        let settings = settings.unwrap_or_else(|| first.settings.clone());
        shared.tables_since(&mut seen);
        let options = first.catalog.engine().options();
        let engine = first
            .catalog
            .engine()
            .beside(options.threads, options.batch_rows);
        let counts = first.counts.beside();
        SqlSession {
            catalog: Catalog::beside(&first.catalog, engine, counts.clone()),
            counts,
            views: first.views.clone(),
            replay: Replay::default(),
            settings,
            storage: first.storage.clone(),
            pool: first.pool.clone(),
            drive: first.drive.clone(),
            owner: shared.new_owner(),
            shared,
            seen,
            served: true,
            running: Running::default(),
            work: WorkLog::default(),
        }
    }

    /// The session that others are copied from.
    pub(super) fn session_state(&self) -> &SqlSession {
        &self.first
    }

    /// Statements that run now, and that wait for others to end.
    pub fn load(&self) -> (usize, usize) {
        self.first.shared.admission.load()
    }
}

impl SqlSession {
    /// DataFusion's context of this session: functions that are added to it are this session's.
    pub fn context(&self) -> &SessionContext {
        self.catalog.engine().context()
    }

    /// A session for one query beside this one, with the settings that it has now.
    pub fn fork(&self) -> SqlSession {
        // As in its context, where `SET datafusion.execution.batch_size` changes it.
        let engine = self.catalog.engine();
        let batch_rows = engine.context().copied_config().batch_size();
        let engine = engine.beside(self.settings.engine.threads, batch_rows);
        SqlSession {
            catalog: Catalog::beside(&self.catalog, engine, self.counts.clone()),
            counts: self.counts.clone(),
            views: self.views.clone(),
            replay: Replay::default(),
            settings: self.settings.clone(),
            storage: self.storage.clone(),
            pool: self.pool.clone(),
            drive: self.drive.clone(),
            shared: Arc::clone(&self.shared),
            seen: self.seen,
            served: true,
            owner: self.owner,
            running: Running::default(),
            work: WorkLog::default(),
        }
    }

    /// Before a statement: what other sessions have changed since the last one.
    pub(super) fn follow_others(&mut self) {
        if let Some(common) = self.shared.settings_since(&mut self.seen) {
            self.settings.follow(&common);
        }
        if self.shared.tables_since(&mut self.seen) {
            // Prepared statements hold the tables that they were planned with.
            self.replay.prepare_again(self.catalog.engine());
        }
    }
}
