//! A session: an engine, its tables and settings, and statements run one after the other.
//!
//! Several sessions can have one engine and its tables (`sessions.rs`); each has its own settings,
//! prepared statements and running statement.
//!
//! Changing a setting may replace the engine; what DataFusion keeps per engine (settings, prepared
//! statements, registered tables) is therefore also kept here and replayed on the new one.

use super::adaptive::{self, SharedDriver};
use super::admission::Considerate;
use super::catalog::{Catalog, TableInfo};
use super::counts::SharedCounts;
use super::error::SqlError;
use super::planner::{Planner, Running};
use super::pool::SharedPool;
use super::replay::Replay;
use super::run::{self, Ran, Sink, StatementTiming, Watch};
use super::script::Piece;
use super::settings::{SessionSettings, check_policy};
use super::shared::{Seen, Shared};
use super::storage::Storage;
use super::views::Views;
use super::work::WorkLog;
use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, PoisonError};
use tierloom_engine::adapt::Driver;
use tierloom_engine::star::StarExec;
use tierloom_engine::{Engine, EngineOptions, PlannedQuery};
use tierloom_memory::{MemoryBackend, PageSize};
use tierloom_metrics::Kind;
use tierloom_model::Phase;
use tierloom_placement::Policy;
use tierloom_topology::Topology;

/// Initial configuration of a [`SqlSession`].
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Threads, batch size, operators and routing of the first engine.
    pub engine: EngineOptions,
    /// Topology that placements and limits are resolved on.
    pub topology: Topology,
    /// Page size of the regions of columns.
    pub page_size: PageSize,
    /// Initial placement policy of columns; cannot be adaptive yet.
    pub placement: Policy,
    /// Source of the columns' memory.
    pub backend: Arc<dyn MemoryBackend>,
}

/// A table that was loaded or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Name in schema `public`.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of its columns as stored.
    pub size_bytes: u64,
}

/// A SQL session.
///
/// A failed or interrupted statement leaves tables, settings and files as they were, and the
/// session stays usable.
pub struct SqlSession {
    pub(super) catalog: Catalog,
    pub(super) views: Views,
    pub(super) replay: Replay,
    pub(super) settings: SessionSettings,
    pub(super) storage: Storage,
    /// The pool whose tables it has, if any.
    pub(super) pool: SharedPool,
    /// The driver of adaptive placement, if it is on.
    pub(super) drive: SharedDriver,
    /// What it counts of its statements.
    pub(super) counts: SharedCounts,
    /// What it has in common with other sessions of its engine.
    pub(super) shared: Arc<Shared>,
    /// What it knows of the changes of others.
    pub(super) seen: Seen,
    /// Whether its engine may have other sessions.
    pub(super) served: bool,
    /// What its temporary tables are known by.
    pub(super) owner: u64,
    pub(super) running: Running,
    /// The work of its statements, if somebody asked for that.
    pub(super) work: WorkLog,
}

impl SqlSession {
    /// Creates a session without tables.
    ///
    /// # Errors
    /// Threads that cannot be started, a placement that the machine cannot follow, or an adaptive
    /// one (it needs a machine profile first).
    pub fn new(options: SqlOptions) -> Result<Self, SqlError> {
        check_policy(&options.placement, &options.topology)?;
        if matches!(options.placement, Policy::Adaptive(_)) {
            return Err(SqlError::input(format!(
                "placement {} begins with a machine profile; start with another, then SET tierloom.machine = 'NAME' and SET tierloom.placement = 'adaptive'",
                options.placement
            )));
        }
        let (pool, drive) = (SharedPool::default(), SharedDriver::default());
        let counts = SharedCounts::default();
        let engine = Engine::new(options.engine.clone())?;
        let settings = SessionSettings::new(options.engine, options.placement);
        Ok(SqlSession {
            catalog: Catalog::new(engine, pool.clone(), drive.clone(), counts.clone())?,
            views: Views::default(),
            replay: Replay::default(),
            shared: Arc::new(Shared::new(settings.clone())),
            seen: Seen::default(),
            served: false,
            owner: 0,
            settings,
            storage: Storage {
                topology: Arc::new(options.topology),
                backend: options.backend,
                page_size: options.page_size,
            },
            pool,
            drive,
            counts,
            running: Running::default(),
            work: WorkLog::default(),
        })
    }

    /// Lists tables, views and system tables by name.
    pub fn tables(&self) -> Vec<TableInfo> {
        self.catalog.list()
    }

    /// The columns of a table or view.
    ///
    /// # Errors
    /// Bad input if there is no table of that name.
    pub fn schema_of(&self, table: &str) -> Result<SchemaRef, SqlError> {
        self.catalog.schema_of(table)
    }

    /// The name and the columns of a table's primary key, if it has one.
    pub fn primary_key(&self, table: &str) -> Option<(String, Vec<String>)> {
        let rules = self.catalog.rules(table);
        let key = rules.keys.iter().find(|key| key.primary)?;
        Some((key.name.clone(), key.columns.clone()))
    }

    /// The schemas in which tables can be, `public` first.
    pub fn schemas(&self) -> Vec<String> {
        let made = self.catalog.schemas();
        std::iter::once("public".to_owned()).chain(made).collect()
    }

    /// Plans a query and caches the plan, so that the same text finds it later.
    ///
    /// # Errors
    /// Bad input, with its position in the script.
    pub fn plan(&self, query: &Piece) -> Result<PlannedQuery, SqlError> {
        self.planner().cached(query)
    }

    /// Keeps the work of every statement from now on, for [`Self::take_work`].
    ///
    /// Reads some columns once: the time that this machine waits for its memory is no work.
    pub fn keep_work(&mut self) {
        let threads = self.catalog.engine().options().threads;
        self.work = WorkLog::keep(&self.catalog.placed(), threads);
    }

    /// The phases of the statements since the last call, in the order they ended; empty without
    /// [`Self::keep_work`].
    pub fn take_work(&mut self) -> Vec<Phase> {
        self.work.take()
    }

    /// What the last statement was.
    pub fn last_kind(&self) -> Kind {
        self.running.kind.unwrap_or(Kind::Other)
    }

    pub(super) fn planner(&self) -> Planner<'_> {
        Planner::new(&self.catalog, &self.running)
    }

    /// Runs `plan` and delivers its rows to `sink`.
    pub(super) fn stream(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
        timing: &mut StatementTiming,
    ) -> Result<Ran, SqlError> {
        let engine = self.catalog.engine();
        self.running.kind = Some(match has_star(plan) {
            true => Kind::Star,
            false => Kind::Query,
        });
        let statement = &self.running.text;
        let turn = self.shared.admission.enter(false, watch)?;
        let mut sink = Considerate { sink, turn, watch };
        let mut ran = run::stream(
            engine,
            &self.work.host(),
            (&self.drive, &self.counts),
            statement,
            plan,
            &mut sink,
            watch,
            timing,
        )?;
        drop(sink);
        if let Some(begun) = ran.begun.take() {
            let (workers, machine) = (engine.options().threads, self.settings.machine.as_deref());
            begun.finish(statement, &ran.captured, workers, machine)?;
        }
        self.shared.add_reads(&ran.captured.column_reads);
        self.work.ran(&ran.captured);
        Ok(ran)
    }

    /// Plans what reads `changed` again: views in dependency order, and all prepared statements.
    ///
    /// Also clears the plan cache.
    pub(super) fn bind(&self, changed: &str) {
        let engine = self.catalog.engine();
        engine.forget_all_plans();
        let binding = self.shared.binding.lock();
        // It guards no data, so a panic while it was held broke nothing.
        let _binding = binding.unwrap_or_else(PoisonError::into_inner);
        self.shared.changed();
        self.views.bind(changed, self.planner());
        self.replay.prepare_again(engine);
    }

    /// Creates a driver for the session as it is now; `None` if `policy` is not adaptive.
    ///
    /// # Errors
    /// Bad input: no machine profile is set, or its first tier does not exist here.
    pub(super) fn driver_for(&self, policy: &Policy) -> Result<Option<Driver>, SqlError> {
        adaptive::driver_for(
            policy,
            &self.settings,
            &self.storage.topology,
            self.catalog.placed(),
        )
    }

    /// Replaces the driver after a change of what it was created with. What it has learned is lost.
    pub(super) fn renew_driver(&self) -> Result<(), SqlError> {
        if self.drive.get().is_some() {
            self.drive.set(self.driver_for(&self.settings.placement)?);
        }
        Ok(())
    }

    /// Informs the driver of new or dropped tables.
    pub(super) fn drive_tables(&self) -> Result<(), SqlError> {
        match self.drive.get() {
            // The mover of a capped driver has its own list of tables, which cannot be changed.
            Some(_) if self.settings.dram_bytes.is_some() => self.renew_driver(),
            Some(driver) => {
                driver.set_tables(self.catalog.placed());
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn has_star(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<StarExec>().is_some() || plan.children().into_iter().any(has_star)
}
