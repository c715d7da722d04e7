//! The engine: plans and runs SQL on placed tables with its own worker threads.
//!
//! An [`Engine`] owns a DataFusion context with our planner rules, a tokio runtime and a plan
//! cache. It knows nothing of scripts, settings by SQL or output formats; those are in the crate
//! `sql`.

use crate::EngineError;
use crate::big_operators::big_operators;
use crate::bigjoin::{BigAggregateOptions, BigJoinOptions};
use crate::counting::Counting;
use crate::grouping_sets::GroupingSets;
use crate::join_order::JoinOrderOptions;
use crate::last_parsed::LastParsed;
use crate::logical_rules::rules;
use crate::modulo::modulo;
use crate::plan_cache::PlanCache;
use crate::planning;
use crate::provider::PlacedTableProvider;
use crate::quick_rules;
use crate::routing::{self, RouteOperators, RoutingOptions, TierMemoryTable};
use crate::runtime_filter::RuntimeFilters;
use crate::shared_subplans::SharedSubplans;
use crate::stack;
use crate::star::{self, EarlyStarJoins, LaterRules, StarJoinRule};
use crate::system_table::SystemTable;
use crate::table::PlacedTable;
use crate::task::{counted_context, task_context};
use crate::text_length::character_length;
use crate::wait::stopped;
use arrow::array::RecordBatch;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tierloom_corrections::{NoMergedOuterColumns, checked_sum, corrected};
use tokio::runtime::{Handle, Runtime};

/// Name of the threads that plan and run queries.
pub const WORKER_NAME: &str = "tierloom-worker";

/// Configuration of an [`Engine`].
#[derive(Debug, Clone, PartialEq)]
pub struct EngineOptions {
    /// Number of worker threads and of partitions of every plan.
    pub threads: usize,
    /// Rows per batch, and per morsel of a scan.
    pub batch_rows: usize,
    /// Whether Tierloom's planner settings and rules apply.
    ///
    /// Without them this is plain DataFusion, the baseline.
    pub tuned: bool,
    /// Whether star joins run as one fused pipeline where possible, and grouping sets are made of
    /// groups by all of their columns.
    pub fused: bool,
    /// Whether joins, group-bys and sorts of many rows use operators built for memory latency, and
    /// running windows one that needs one pass.
    pub big_tables: bool,
    /// Whether scans of a probe side leave out rows without the keys of the build side.
    pub runtime_filters: bool,
    /// Whether aggregations that occur several times in a plan run once.
    pub share_subplans: bool,
    /// Whether the sides of joins are chosen by better estimates than DataFusion's: of joins below
    /// by all of several keys, not one of them, and of filters by the values that pass.
    pub estimated: bool,
    /// Which joins count as large; tests lower the threshold.
    pub big_joins: BigJoinOptions,
    /// Which group-bys count as large.
    pub big_aggregates: BigAggregateOptions,
    /// Which joins are put into another order than that of the text.
    pub join_order: JoinOrderOptions,
    /// Placement of operator memory; `None` to neither route nor count it.
    ///
    /// Routing is process-wide: the engine created last decides.
    pub routing: Option<RoutingOptions>,
}

impl EngineOptions {
    /// The rules for large inputs, if there are any.
    pub(crate) fn big_operators(&self) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
        match self.tuned && self.big_tables {
            true => big_operators(&self.big_joins, &self.big_aggregates),
            false => Vec::new(),
        }
    }

    /// Tierloom's defaults for `threads` workers.
    pub fn tuned(threads: usize) -> Self {
        // 16,384 rows of four bytes are 64 KiB per column: a batch of one query's columns stays in
        // a core's L2 cache.
        EngineOptions {
            threads,
            batch_rows: 16 * 1024,
            tuned: true,
            fused: true,
            big_tables: true,
            runtime_filters: true,
            share_subplans: true,
            estimated: true,
            big_joins: BigJoinOptions::default(),
            big_aggregates: BigAggregateOptions::default(),
            join_order: JoinOrderOptions::default(),
            routing: Some(RoutingOptions::default()),
        }
    }

    /// DataFusion's own defaults for `threads` workers.
    pub fn plain(threads: usize) -> Self {
        EngineOptions {
            threads,
            batch_rows: 8 * 1024,
            tuned: false,
            fused: false,
            big_tables: false,
            runtime_filters: false,
            share_subplans: false,
            estimated: false,
            big_joins: BigJoinOptions::default(),
            big_aggregates: BigAggregateOptions::default(),
            join_order: JoinOrderOptions::default(),
            routing: None,
        }
    }
}

/// A SQL session on placed tables, with its own worker threads.
pub struct Engine {
    context: SessionContext,
    handle: Handle,
    /// The worker threads, shared by the engines that were made beside each other.
    workers: Arc<Workers>,
    options: EngineOptions,
    plans: Arc<PlanCache>,
    parsed: LastParsed,
}

/// Worker threads, and the plan caches of the engines that use them.
struct Workers {
    /// Taken by `drop`.
    runtime: Option<Runtime>,
    caches: Mutex<Vec<Weak<PlanCache>>>,
}

impl Workers {
    /// Adds an empty plan cache.
    fn cache(&self) -> Arc<PlanCache> {
        let cache = Arc::new(PlanCache::default());
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|known| known.strong_count() > 0);
        caches.push(Arc::downgrade(&cache));
        cache
    }
}

impl Drop for Workers {
    /// Does not wait for running operators.
    ///
    /// After an interruption one may not yield for a long time.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A planned query that can run many times.
#[derive(Debug, Clone)]
pub struct PlannedQuery {
    plan: Arc<dyn ExecutionPlan>,
    /// Time to plan the query, or to find its plan in the cache.
    pub planning: Duration,
}

impl PlannedQuery {
    /// The columns of the query's rows.
    pub fn schema(&self) -> arrow::datatypes::SchemaRef {
        self.plan.schema()
    }

    /// The physical plan as indented text.
    pub fn display(&self) -> String {
        displayable(self.plan.as_ref()).indent(false).to_string()
    }

    /// For each aggregation of the plan, that it was fused or why not.
    pub fn notes(&self) -> Vec<String> {
        star::notes(&self.plan)
    }

    /// The physical plan; operators need fresh state for each run, see [`Engine::execute`].
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }
}

/// One execution of a query: result, duration and executed plan.
pub struct Execution {
    /// The result in batches, in the order of the plan's output.
    pub batches: Vec<RecordBatch>,
    /// Time from the first poll to the last batch.
    pub time: Duration,
    /// The executed plan, whose operators hold their metrics.
    pub plan: Arc<dyn ExecutionPlan>,
}

impl Engine {
    /// Creates a session without tables.
    ///
    /// # Errors
    /// [`EngineError::Runtime`] if the threads cannot be started; with places for operator memory,
    /// also [`EngineError::Routing`] and placement errors.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads)
            .enable_time()
            .thread_name(WORKER_NAME)
            .thread_stack_size(stack::worker_bytes())
            .build()
            .map_err(|source| EngineError::Runtime {
                threads: options.threads,
                source,
            })?;
        let routed = match &options.routing {
            Some(routing) => routing::start(routing)?,
            None => false,
        };
        let context = SessionContext::new_with_state(state(&options, routed));
        if routed {
            context
                .register_table(
                    routing::TIER_MEMORY,
                    Arc::new(SystemTable(TierMemoryTable::new())),
                )
                .map_err(EngineError::datafusion("table tier_memory"))?;
        }
        let handle = runtime.handle().clone();
        let workers = Arc::new(Workers {
            runtime: Some(runtime),
            caches: Mutex::default(),
        });
        Ok(Engine {
            context,
            handle,
            plans: workers.cache(),
            parsed: LastParsed::default(),
            workers,
            options,
        })
    }

    /// Another session on the same worker threads, tables and functions, with settings, prepared
    /// statements and a plan cache of its own.
    ///
    /// `threads` is how many partitions its plans have, at most the number of worker threads;
    /// `batch_rows` as in [`EngineOptions`].
    pub fn beside(&self, threads: usize, batch_rows: usize) -> Engine {
        let options = EngineOptions {
            threads: threads.min(self.options.threads),
            batch_rows,
            ..self.options.clone()
        };
        let config = self.context.copied_config();
        let config = config
            // It would replace the catalog that is shared by an empty one.
            .with_create_default_catalog_and_schema(false)
            .with_target_partitions(options.threads)
            .with_batch_size(options.batch_rows);
        // What a session keeps for itself is in this state; the catalog behind it is shared.
        let builder = SessionStateBuilder::new_from_existing(self.context.state());
        let state = builder.with_config(config).build();
        Engine {
            context: SessionContext::new_with_state(state),
            handle: self.handle.clone(),
            workers: Arc::clone(&self.workers),
            options,
            plans: self.workers.cache(),
            parsed: LastParsed::default(),
        }
    }

    /// The configuration that the engine was created with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Handle of the runtime that plans and runs queries.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// DataFusion's context, for everything that this type does not wrap.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Registers `table` under its name; scans read it in place.
    ///
    /// # Errors
    /// DataFusion's, from its catalog.
    pub fn register(&self, table: &Arc<PlacedTable>) -> Result<(), EngineError> {
        let provider = Arc::new(PlacedTableProvider::new(Arc::clone(table)));
        self.context
            .register_table(table.name(), provider)
            .map(drop)
            .map_err(EngineError::datafusion(format!("table {}", table.name())))
    }

    /// Registers `table` as a DataFusion `MemTable` over the same memory.
    ///
    /// Batches of `batch_rows` rows are distributed round-robin over the partitions. For comparison
    /// with the placed scan.
    ///
    /// # Errors
    /// DataFusion's, from its catalog, or Arrow's, from decoding columns.
    pub fn register_as_mem_table(&self, table: &Arc<PlacedTable>) -> Result<(), EngineError> {
        let rows = self.options.batch_rows;
        let mut partitions: Vec<Vec<RecordBatch>> = vec![Vec::new(); self.options.threads];
        for (index, start) in (0..table.rows()).step_by(rows).enumerate() {
            partitions[index % self.options.threads]
                .push(table.batch(start, rows.min(table.rows() - start))?);
        }
        partitions.retain(|p| !p.is_empty());
        let failed = || EngineError::datafusion(format!("table {}", table.name()));
        let mem = datafusion::datasource::MemTable::try_new(Arc::clone(table.schema()), partitions)
            .map_err(failed())?;
        self.context
            .register_table(table.name(), Arc::new(mem))
            .map(drop)
            .map_err(failed())
    }

    /// Parses one statement in the dialect of the session.
    ///
    /// # Errors
    /// DataFusion's, if the text is not one statement.
    pub fn parse(&self, sql: &str) -> datafusion::common::Result<Statement> {
        self.parsed.statement(&self.context.state_ref().read(), sql)
    }

    /// Plans a query, or finds the cached plan of the same text over the same tables.
    ///
    /// # Errors
    /// DataFusion's, for a statement that does not parse, is not a query or names something
    /// unknown; [`EngineError::Panicked`].
    pub fn plan(&self, name: &str, sql: &str) -> Result<PlannedQuery, EngineError> {
        // Every level of nesting takes at least two characters.
        self.plan_until(name, sql, sql.len() / 2, &|| false)
    }

    /// Same for a text that nests at most `levels` deep; `stop` can interrupt it.
    ///
    /// # Errors
    /// Same as [`Engine::plan`], or [`EngineError::Interrupted`].
    pub fn plan_until(
        &self,
        name: &str,
        sql: &str,
        levels: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<PlannedQuery, EngineError> {
        let start = Instant::now();
        // Lines before it say where a statement is in a script; they mean nothing else.
        let key = sql.trim();
        let found = self.handle.block_on(self.plans.find(&self.context, key));
        if let Some(plan) = found {
            let planning = start.elapsed();
            return Ok(PlannedQuery { plan, planning });
        }
        let parsed = self.parsed.known(&self.context.state_ref().read(), sql);
        let (context, text) = (self.context.clone(), sql.to_owned());
        let planned = self.aside(name, levels, stop, async move {
            planning::query(&context, &text, parsed).await
        })?;
        self.plans.keep(key, &planned.plan, planned.sources);
        Ok(PlannedQuery {
            plan: planned.plan,
            planning: start.elapsed(),
        })
    }

    /// The physical plan of a logical one; like [`Engine::plan_until`], without the cache.
    ///
    /// # Errors
    /// DataFusion's, plans that are known to return wrong rows, [`EngineError::Panicked`] and
    /// [`EngineError::Interrupted`].
    pub fn plan_logical(
        &self,
        name: &str,
        logical: LogicalPlan,
        levels: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
        let state = self.context.state();
        self.aside(name, levels, stop, async move {
            planning::physical(&state, &logical).await
        })
    }

    /// The optimised logical plan of a query; `levels` and `stop` as for [`Engine::plan_until`].
    ///
    /// # Errors
    /// Same as [`Engine::plan_until`].
    pub fn optimised(
        &self,
        name: &str,
        sql: &str,
        levels: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<LogicalPlan, EngineError> {
        let (state, text) = (self.context.state(), sql.to_owned());
        self.aside(name, levels, stop, async move {
            planning::optimised(&state, &text).await
        })
    }

    /// Runs planning work for `name` on a thread of the runtime; see [`planning::aside`].
    fn aside<T: Send + 'static>(
        &self,
        name: &str,
        levels: usize,
        stop: &(dyn Fn() -> bool + Sync),
        work: impl Future<Output = datafusion::common::Result<T>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let name = format!("planning {name}");
        planning::aside(&self.handle, &name, levels, stop, work)?
            .map_err(EngineError::datafusion(name))
    }

    /// Clears the plan cache; needed after a change of a setting that planning depends on.
    pub fn forget_plans(&self) {
        self.plans.clear();
    }

    /// Clears the plan caches of all engines on the same worker threads; needed after a change of
    /// tables, whose memory cached plans would keep.
    pub fn forget_all_plans(&self) {
        let caches = &self.workers.caches;
        let caches = caches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for cache in caches.iter().filter_map(Weak::upgrade) {
            cache.clear();
        }
    }

    /// Runs a planned query to its end, or until `stop` returns true (polled every 10 ms).
    ///
    /// # Errors
    /// [`EngineError::Interrupted`], or the error of an operator.
    pub fn execute(
        &self,
        name: &str,
        query: &PlannedQuery,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Execution, EngineError> {
        let plan = self.fresh(name, query)?;
        self.run(name, plan, None, stop)
    }

    /// Same as [`Engine::execute`], and counts what each operator does: see
    /// [`crate::capture::Captured::counted`].
    ///
    /// # Errors
    /// Same as [`Engine::execute`].
    pub fn execute_counted(
        &self,
        name: &str,
        query: &PlannedQuery,
        counting: &Arc<Counting>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Execution, EngineError> {
        let plan = self.fresh(name, query)?;
        self.run(name, plan, Some(counting), stop)
    }

    /// The plan of a query with fresh operator state and metrics, for one execution.
    ///
    /// # Errors
    /// DataFusion's, from resetting operators.
    pub(crate) fn fresh(
        &self,
        name: &str,
        query: &PlannedQuery,
    ) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
        reset_plan_states(Arc::clone(&query.plan))
            .map_err(EngineError::datafusion(format!("running {name}")))
    }

    /// Runs a fresh plan; see [`Engine::execute`].
    ///
    /// # Errors
    /// Same as [`Engine::execute`].
    pub(crate) fn run(
        &self,
        name: &str,
        plan: Arc<dyn ExecutionPlan>,
        counting: Option<&Arc<Counting>>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Execution, EngineError> {
        let failed = || EngineError::datafusion(format!("running {name}"));
        // Memory may have been added to or removed from nodes since the last query.
        if self.options.routing.is_some() {
            tierloom_memory::router::refresh();
        }
        let context = task_context(&self.context, &plan);
        let counted = counting.map(|counting| counted_context(&context, Arc::clone(counting)));
        let context = counted.unwrap_or(context);
        let start = Instant::now();
        let outcome = self.handle.block_on(async {
            let work = collect(Arc::clone(&plan), context);
            // A panic in an operator fails its query only: operators of one execution share no
            // state with others.
            let work = AssertUnwindSafe(work).catch_unwind();
            tokio::select! {
                batches = work => Some(batches),
                () = stopped(stop) => None,
            }
        });
        let time = start.elapsed();
        let batches = outcome
            .ok_or(EngineError::Interrupted)?
            .map_err(|panic| EngineError::panicked(&format!("running {name}"), panic.as_ref()))?
            .map_err(failed())?;
        Ok(Execution {
            batches,
            time,
            plan,
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Dropping a deeply nested plan recurses as deeply as planning it did.
        stack::with(stack::most_levels(), || self.plans.clear());
    }
}

fn state(options: &EngineOptions, routed: bool) -> datafusion::execution::SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads)
        .with_batch_size(options.batch_rows)
        .with_information_schema(false);
    if options.tuned {
        tune(&mut config);
    }
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(NoMergedOuterColumns));
    let later = LaterRules::default();
    let tuned = options.tuned.then_some(&options.join_order);
    let mut builder = corrected(builder).with_optimizer_rules(rules(tuned));
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.push(modulo());
    if options.tuned {
        let functions = builder.aggregate_functions().get_or_insert_default();
        functions.push(checked_sum());
        let functions = builder.scalar_functions().get_or_insert_default();
        functions.push(character_length());
        let physical = builder.physical_optimizers().get_or_insert_default();
        quick_rules::replace(&mut physical.rules, options.estimated);
    }
    if options.tuned && options.fused {
        let physical = builder.physical_optimizers().get_or_insert_default();
        insert_grouping_sets(&mut physical.rules);
        let early = Arc::new(EarlyStarJoins(later.clone()));
        insert_before(&mut physical.rules, EarlyStarJoins::BEFORE, early);
        builder = builder.with_physical_optimizer_rule(Arc::new(StarJoinRule));
    }
    let big = options.big_operators().into_iter();
    builder = big.fold(builder, SessionStateBuilder::with_physical_optimizer_rule);
    if options.tuned && options.runtime_filters {
        builder = builder.with_physical_optimizer_rule(Arc::new(RuntimeFilters));
    }
    // Last, so that every other rule matches on the operators themselves; the fused ones are routed
    // too.
    if routed {
        builder = builder.with_physical_optimizer_rule(Arc::new(RouteOperators));
    }
    // After that, because what it takes out of the plan is routed too.
    if options.tuned && options.share_subplans {
        builder = builder.with_physical_optimizer_rule(Arc::new(SharedSubplans));
    }
    let state = builder.build();
    later.set(state.physical_optimizers());
    state
}

/// Grouping sets are made of finer groups before operators are repartitioned.
fn insert_grouping_sets(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
    insert_before(rules, GroupingSets::BEFORE, Arc::new(GroupingSets));
}

fn insert_before(
    rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    name: &str,
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) {
    let at = rules.iter().position(|rule| rule.name() == name);
    rules.insert(at.unwrap_or(0), rule);
}

/// Sets what suits tables in memory better than DataFusion's defaults.
fn tune(config: &mut SessionConfig) {
    let options = config.options_mut();
    // Build sides of up to 256 MiB are collected once and shared: repartitioning the probe side
    // costs more than it saves.
    options.optimizer.hash_join_single_partition_threshold = 256 << 20;
    options.optimizer.hash_join_single_partition_threshold_rows = 16 << 20;
    options.execution.perfect_hash_join_small_build_threshold = 1 << 20;
    options.execution.perfect_hash_join_min_key_density = 0.01;
}
