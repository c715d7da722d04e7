//! Loads the data of a run and opens the engines on it.

use super::{Data, memory};
use crate::{Event, Observer, PlannedPlacement, RunError, Stage, SuitePlan};
use std::sync::Arc;
use tierloom_bench::run::Session as Invocation;
use tierloom_counters::stalls::StallSource;
use tierloom_engine::counting::Counting;
use tierloom_engine::load::{ColumnPlacer, merged_audit};
use tierloom_engine::{Engine, EngineError, EngineOptions, PlannedQuery};
use tierloom_memory::{AnonymousNuma, AuditMode, Placement};
use tierloom_placement::{Decision, Policy};
use tierloom_record::{AuditRecord, MemoryUse, REFERENCE};
use tierloom_workloads::Progress;

/// Data, engines and query plans of a run.
pub struct Session<'a> {
    pub plan: &'a SuitePlan,
    pub invocation: &'a Invocation,
    pub observer: &'a dyn Observer,
    pub data: Data,
    pub engine: Engine,
    pub queries: Vec<PlannedQuery>,
    /// Plain DataFusion on a `MemTable` of the same data, with its query plans.
    pub baseline: Option<(Engine, Vec<PlannedQuery>)>,
    /// The placement that the data was loaded under.
    pub loaded_as: String,
    /// Memory of this process after loading.
    pub memory: MemoryUse,
    /// What untimed executions are counted with.
    pub counting: Arc<Counting>,
}

/// Progress of generating the data, for the observer.
struct RowEvents<'a>(&'a dyn Observer);

impl Progress for RowEvents<'_> {
    fn advance(&self, rows: u64) {
        self.0.event(Event::Advanced(rows));
    }

    fn cancelled(&self) -> bool {
        self.0.stopped()
    }
}

impl<'a> Session<'a> {
    /// Generates the data under [`SuitePlan::loaded_under`] and plans every query once.
    ///
    /// # Errors
    /// Memory that cannot be allocated, a query that cannot be planned, or an interruption.
    pub fn open(
        plan: &'a SuitePlan,
        invocation: &'a Invocation,
        observer: &'a dyn Observer,
    ) -> Result<Self, RunError> {
        let failure =
            |error| RunError::of_engine(error, "while loading the data; nothing was measured yet");
        let data = load(plan, observer).map_err(failure)?;
        let memory = memory::after_loading();
        // The audit starts only now, so that memory of the loading is not counted as operator
        // memory.
        plan.operator_memory.watch();
        let opened = Session::over(data, plan, invocation, observer)?;
        Ok(Session { memory, ..opened })
    }

    /// The engines over `data`, with every query planned once.
    ///
    /// # Errors
    /// A query that cannot be planned.
    pub fn over(
        data: Data,
        plan: &'a SuitePlan,
        invocation: &'a Invocation,
        observer: &'a dyn Observer,
    ) -> Result<Self, RunError> {
        let options = EngineOptions {
            routing: Some(plan.operator_memory.routing(&plan.topology)),
            fused: !plan.plain_operators,
            big_tables: !plan.plain_operators,
            runtime_filters: !plan.plain_operators,
            ..EngineOptions::tuned(plan.threads)
        };
        let opening = |error| RunError::of_engine(error, "while opening the engine");
        let engine = Engine::new(options).map_err(opening)?;
        for table in &data.tables {
            engine.register(table)?;
        }
        let queries = plan_all(plan, &engine)?;
        let baseline = plan.baseline.then(|| open_baseline(plan, &data));
        Ok(Session {
            plan,
            invocation,
            observer,
            queries,
            baseline: baseline.transpose()?,
            data,
            engine,
            loaded_as: plan.loaded_under().text.clone(),
            memory: MemoryUse::default(),
            counting: Counting::new(StallSource::probe(&plan.topology.root)),
        })
    }

    /// Migrates the columns to where `decisions` place them; `kept` completes the message of an
    /// interruption.
    ///
    /// # Errors
    /// Pages that cannot be moved, or an interruption.
    pub fn place(&self, decisions: &[Decision], kept: &str) -> Result<(), RunError> {
        let stop = self.observer.stop();
        let mut tables = self.data.tables.iter();
        tables
            .try_for_each(|table| table.place(decisions, &self.plan.topology, stop))
            .map_err(|e| RunError::of_engine(e, kept))
    }

    /// Looks up the nodes of all pages of the data. `None` where the kernel does not report them.
    ///
    /// # Errors
    /// Pages that cannot be looked up.
    pub fn audit(&self) -> Result<Option<AuditRecord>, RunError> {
        let audit = merged_audit(&self.data.tables, AuditMode::Full)?;
        Ok(audit.as_ref().map(tierloom_bench::run::audit_record))
    }
}

impl SuitePlan {
    /// The placement that the data is loaded under: DRAM if it is measured, that is, wherever a
    /// DRAM tier exists.
    fn loaded_under(&self) -> &PlannedPlacement {
        let reference = self.measured().find(|p| p.text == REFERENCE);
        reference
            .or_else(|| self.measured().next())
            .unwrap_or(&self.placements[0])
    }
}

fn load(plan: &SuitePlan, observer: &dyn Observer) -> Result<Data, EngineError> {
    let placement = match &plan.loaded_under().policy {
        Policy::Uniform(spec) => spec.resolve(&plan.topology)?,
        // Other policies place column by column once the heat is known; until then the kernel
        // decides.
        _ => Placement::kernel_default(),
    };
    observer.note(&format!(
        "generating {} into memory placed {} ({} threads)",
        plan.workload.title(),
        placement,
        plan.threads
    ));
    let mut placer = ColumnPlacer::new(
        Arc::new(AnonymousNuma::new()),
        &plan.topology,
        plan.page_size,
        plan.threads,
    );
    let rows = plan.workload.expected_rows();
    observer.event(Event::Begin(Stage::Generating, rows));
    let workload = &plan.workload;
    let loaded = workload.load(&mut placer, &placement, plan.threads, &RowEvents(observer));
    observer.event(Event::End);
    loaded
}

/// Plans every query of the run.
///
/// # Errors
/// A query that cannot be planned.
pub fn plan_all(plan: &SuitePlan, engine: &Engine) -> Result<Vec<PlannedQuery>, RunError> {
    let queries = plan.queries.iter();
    queries.map(|q| Ok(engine.plan(q.id, &q.sql)?)).collect()
}

fn open_baseline(plan: &SuitePlan, data: &Data) -> Result<(Engine, Vec<PlannedQuery>), RunError> {
    let engine = Engine::new(EngineOptions::plain(plan.threads))?;
    for table in &data.tables {
        engine.register_as_mem_table(table)?;
    }
    let queries = plan_all(plan, &engine)?;
    Ok((engine, queries))
}
