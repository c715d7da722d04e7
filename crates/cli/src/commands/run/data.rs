//! Loads the data of a run and opens the engines on it.

use super::memory;
use super::plan::RunPlan;
use super::workload::Workload;
use crate::commands::generate::RowProgress;
use crate::failure::Failure;
use std::sync::Arc;
use tierloom_engine::load::{ColumnPlacer, LoadTimes, load_ssb};
use tierloom_engine::tpc::load_tpc;
use tierloom_engine::{Engine, EngineError, EngineOptions, PlacedTable, PlannedQuery};
use tierloom_memory::{AnonymousNuma, Placement};
use tierloom_placement::Policy;
use tierloom_record::MemoryUse;
use tierloom_workloads::WorkloadError;

/// Data, engines and query plans of a run.
pub struct Session {
    pub data: Data,
    pub engine: Engine,
    pub queries: Vec<PlannedQuery>,
    /// Plain DataFusion on a `MemTable` of the same data, with its query plans.
    pub baseline: Option<(Engine, Vec<PlannedQuery>)>,
    /// The placement that the data was loaded under.
    pub loaded_as: String,
    /// Memory of this process after loading.
    pub memory: MemoryUse,
}

/// The tables of a run and the time that loading them took.
pub struct Data {
    pub tables: Vec<Arc<PlacedTable>>,
    pub times: LoadTimes,
}

/// Converts an engine error to a failure; `kept` completes the message of an interruption.
pub fn failure(error: EngineError, kept: &str) -> Failure {
    match error {
        EngineError::Interrupted | EngineError::Workload(WorkloadError::Cancelled) => {
            Failure::Interrupted(kept.into())
        }
        // The placement comes from the command line.
        EngineError::Placement(error) => Failure::input(error),
        other => Failure::runtime(other),
    }
}

impl Session {
    /// Generates the data under [`RunPlan::loaded_under`] and plans every query once.
    ///
    /// # Errors
    /// Memory that cannot be allocated, a query that cannot be planned, or an interruption.
    pub fn open(plan: &RunPlan) -> Result<Session, Failure> {
        let nothing = "while loading the data; nothing was measured yet";
        let data = load(plan).map_err(|e| failure(e, nothing))?;
        let memory = memory::after_loading();
        let options = EngineOptions {
            routing: Some(plan.operator_memory.routing(&plan.topology)),
            fused: !plan.plain_operators,
            big_tables: !plan.plain_operators,
            ..EngineOptions::tuned(plan.threads)
        };
        let engine = Engine::new(options).map_err(|e| failure(e, nothing))?;
        // The audit starts only now, so that memory of the loading is not counted as operator
        // memory.
        plan.operator_memory.watch();
        for table in &data.tables {
            engine.register(table).map_err(Failure::runtime)?;
        }
        let queries = plan_all(plan, &engine)?;
        let baseline = if plan.baseline {
            Some(open_baseline(plan, &data)?)
        } else {
            None
        };
        Ok(Session {
            data,
            engine,
            queries,
            baseline,
            loaded_as: plan.loaded_under().text.clone(),
            memory,
        })
    }
}

fn load(plan: &RunPlan) -> Result<Data, EngineError> {
    let placement = match &plan.loaded_under().policy {
        Policy::Uniform(spec) => spec.resolve(&plan.topology)?,
        // Other policies place column by column once the heat is known; until then the kernel
        // decides.
        _ => Placement::kernel_default(),
    };
    note!(
        "generating {} into memory placed {} ({} threads)",
        plan.workload.title(),
        placement,
        plan.threads
    );
    let mut placer = ColumnPlacer::new(
        Arc::new(AnonymousNuma::new()),
        &plan.topology,
        plan.page_size,
        plan.threads,
    );
    let placement_of = |_: &str| placement.clone();
    match &plan.workload {
        Workload::Ssb(config) => {
            // An order has four lines on average.
            let progress = RowProgress::new("generating", config.orders() * 4);
            let loaded = load_ssb(config, &mut placer, &placement_of, &progress);
            progress.finish();
            loaded.map(|data| Data {
                tables: data.tables,
                times: data.times,
            })
        }
        Workload::Tpc { .. } => {
            let sources = plan.workload.sources();
            let rows = sources.iter().map(|s| s.expected_rows()).sum();
            let progress = RowProgress::new("generating", rows);
            let loaded = load_tpc(
                &sources,
                plan.threads,
                &mut placer,
                &placement_of,
                &progress,
            );
            progress.finish();
            loaded.map(|data| Data {
                tables: data.tables,
                times: data.times,
            })
        }
    }
}

pub fn plan_all(plan: &RunPlan, engine: &Engine) -> Result<Vec<PlannedQuery>, Failure> {
    plan.queries
        .iter()
        .map(|q| engine.plan(q.id, &q.sql).map_err(Failure::runtime))
        .collect()
}

fn open_baseline(plan: &RunPlan, data: &Data) -> Result<(Engine, Vec<PlannedQuery>), Failure> {
    let engine = Engine::new(EngineOptions::plain(plan.threads)).map_err(Failure::runtime)?;
    for table in &data.tables {
        engine
            .register_as_mem_table(table)
            .map_err(Failure::runtime)?;
    }
    let queries = plan_all(plan, &engine)?;
    Ok((engine, queries))
}
