//! One statement: planned here, cut for the nodes, run on them.

use crate::codec::{Forwarded, PlanCodec};
use crate::error::{ClusterError, While};
use crate::functions::planning;
use crate::http::RegistryClient;
use crate::map::{ClusterMap, Layout, NodeState};
use crate::registry::SILENCE;
use crate::scan::ClusterTable;
use crate::scheduler::LARGEST_MESSAGE;
use crate::spread::{Distributed, distribute};
use crate::wire::TableRef;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use ballista_core::config::{
    BALLISTA_CLIENT_GRPC_CONNECT_TIMEOUT_SECONDS, BALLISTA_CLIENT_IO_RETRIES_TIMES,
    BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS,
};
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, ScalarValue, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::TryStreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tierloom_engine::Engine;

/// Settings of Ballista: a result that cannot be read is soon given up, because the executor that
/// had it is gone and others make it again.
const SETTINGS: [(&str, u64); 3] = [
    (BALLISTA_CLIENT_IO_RETRIES_TIMES, 1),
    (BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS, 100),
    (BALLISTA_CLIENT_GRPC_CONNECT_TIMEOUT_SECONDS, 3),
];

/// Time between two looks at the nodes while a statement runs.
const LOOK: Duration = Duration::from_millis(500);

/// How often a statement starts again because an executor went away.
const RETRIES: usize = 2;

/// How long a statement goes on after the last holder of one of its shards fell silent: Ballista
/// may still notice it and say so.
const LOST: Duration = Duration::from_secs(5);

/// The engine that plans one statement.
pub(crate) struct ClusterSession<'a> {
    registry: &'a RegistryClient,
    /// Tables and nodes when it began.
    pub map: ClusterMap,
    engine: Engine,
    /// Talks with scheduler and executors; the engine's threads plan and do nothing else.
    runtime: tokio::runtime::Runtime,
    /// Why tables cannot be read.
    unusable: BTreeMap<String, String>,
}

impl<'a> ClusterSession<'a> {
    pub fn new(registry: &'a RegistryClient) -> Result<Self, ClusterError> {
        let map = registry.map()?;
        let engine = Engine::new(planning()).attempting("starting the engine")?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("tierloom-client")
            .build();
        let mut unusable = BTreeMap::new();
        for (name, entry) in &map.tables {
            let (schema, rows) = match map.usable(name) {
                Ok(usable) => usable,
                Err(why) => {
                    unusable.insert(name.clone(), why);
                    continue;
                }
            };
            let sharded = matches!(entry.layout, Layout::Sharded { .. });
            let table = ClusterTable {
                table: TableRef {
                    name: name.clone(),
                    generation: entry.generation,
                    sharded,
                },
                size_bytes: row_bytes(&schema).saturating_mul(rows),
                schema,
                layout: Arc::new(entry.layout.clone()),
                rows,
            };
            let registered = engine
                .context()
                .register_table(name.as_str(), Arc::new(table));
            registered.attempting(format!("table {name}"))?;
        }
        Ok(ClusterSession {
            registry,
            map,
            engine,
            runtime: runtime.attempting("starting threads")?,
            unusable,
        })
    }

    /// The plan of a query as it is written.
    pub fn logical(&self, sql: &str) -> Result<LogicalPlan, ClusterError> {
        let state = self.engine.context().state();
        let parsed = self.engine.parse(sql).map_err(|e| self.input(&e))?;
        let planned = self
            .engine
            .handle()
            .block_on(state.statement_to_plan(parsed));
        let plan = planned.map_err(|e| self.input(&e))?;
        match plan {
            LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_) => Err(ClusterError::input(
                "a cluster runs queries only; this is another statement",
            )),
            plan => Ok(plan),
        }
    }

    /// An error of planning; a table that cannot be read is named with the reason.
    fn input(&self, error: &DataFusionError) -> ClusterError {
        let text = error.strip_backtrace();
        let lost = self.unusable.iter().find(|(name, _)| {
            let named = format!(".{name}'");
            text.contains("not found") && text.contains(&named)
        });
        match lost {
            Some((_, why)) => ClusterError::Failed(why.clone()),
            None => ClusterError::Input(text),
        }
    }

    /// The rows of a plan.
    pub fn rows(
        &self,
        plan: LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(SchemaRef, Vec<RecordBatch>), ClusterError> {
        let plan = self.without_subqueries(plan, stop)?;
        let (schema, plan) = self.distributed(plan, stop)?;
        let batches = self.collected(&plan, stop)?;
        Ok((schema, batches))
    }

    /// The plan with the values of subqueries that give one and refer to nothing outside of them.
    pub fn without_subqueries(
        &self,
        plan: LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<LogicalPlan, ClusterError> {
        let mut failed = None;
        let replaced = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let replaced = expr.transform_up(|expr| match &expr {
                    Expr::ScalarSubquery(subquery) if subquery.outer_ref_columns.is_empty() => {
                        let plan = LogicalPlan::clone(&subquery.subquery);
                        let value = self.value(plan, stop).or_else(
                            |error| -> Result<_, DataFusionError> {
                                failed = Some(error);
                                plan_err!("a subquery failed")
                            },
                        )?;
                        Ok(Transformed::yes(Expr::Literal(value, None)))
                    }
                    _ => Ok(Transformed::no(expr)),
                })?;
                Ok(replaced.update_data(|expr| name.restore(expr)))
            })
        });
        match (replaced, failed) {
            (_, Some(error)) => Err(error),
            (replaced, None) => Ok(replaced.map_err(|e| self.input(&e))?.data),
        }
    }

    /// The value of a subquery: NULL without a row.
    fn value(
        &self,
        plan: LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<ScalarValue, ClusterError> {
        let (schema, batches) = self.rows(plan, stop)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let failed = |e: DataFusionError| ClusterError::Failed(e.strip_backtrace());
        if rows > 1 {
            return Err(ClusterError::Failed(
                "a subquery that stands for one value gave several rows".into(),
            ));
        }
        match batches.iter().find(|batch| batch.num_rows() == 1) {
            Some(batch) => ScalarValue::try_from_array(batch.column(0), 0).map_err(failed),
            None => ScalarValue::try_from(schema.field(0).data_type()).map_err(failed),
        }
    }

    pub fn distributed(
        &self,
        plan: LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(SchemaRef, Distributed), ClusterError> {
        let levels = levels_of(&plan);
        let planned = self
            .engine
            .plan_logical("the statement", plan, levels, stop);
        let planned = planned.map_err(|error| match error {
            tierloom_engine::EngineError::Interrupted => ClusterError::Interrupted,
            other => ClusterError::Input(other.to_string()),
        })?;
        let schema = planned.schema();
        let plan = distribute(planned).map_err(|e| ClusterError::Failed(e.strip_backtrace()))?;
        Ok((schema, plan))
    }

    /// Runs a plan on the cluster; once more if an executor went away with a part of the answer
    /// that others can make too.
    fn collected(
        &self,
        plan: &Distributed,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<RecordBatch>, ClusterError> {
        if let Some(why) = lost(plan, &self.map) {
            return Err(ClusterError::Failed(why));
        }
        for _ in 0..RETRIES {
            match self.attempt(plan, stop) {
                Err(ClusterError::Failed(text)) if may_be_a_loss(&text) => {
                    match self.what_is_lost(plan, stop)? {
                        Loss::Nothing => return Err(ClusterError::Failed(text)),
                        Loss::Shard(why) => return Err(ClusterError::Failed(why)),
                        Loss::Executor => {}
                    }
                }
                other => return other,
            }
        }
        self.attempt(plan, stop)
    }

    /// Waits until a node that was there when the statement began is known to be gone, at most as
    /// long as that takes.
    fn what_is_lost(
        &self,
        plan: &Distributed,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Loss, ClusterError> {
        let start = Instant::now();
        while start.elapsed() < SILENCE + LOOK {
            let map = self.registry.map()?;
            if let Some(why) = lost(plan, &map) {
                return Ok(Loss::Shard(why));
            }
            let mut before = self.map.nodes.iter().filter(|(_, node)| node.alive);
            let gone = |(name, node): (&String, &NodeState)| {
                let now = map.nodes.get(name);
                now.is_none_or(|now| !now.alive || now.process != node.process)
            };
            if before.any(gone) {
                return Ok(Loss::Executor);
            }
            if stop() {
                return Err(ClusterError::Interrupted);
            }
            std::thread::sleep(LOOK / 2);
        }
        Ok(Loss::Nothing)
    }

    /// Runs a plan on the cluster.
    fn attempt(
        &self,
        plan: &Distributed,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<RecordBatch>, ClusterError> {
        let mut config = SessionConfig::new_with_ballista()
            .with_target_partitions(1)
            .with_ballista_grpc_client_max_message_size(LARGEST_MESSAGE as usize);
        for (name, value) in SETTINGS {
            config = config.set_u64(name, value);
        }
        let settings = config.ballista_config();
        let codec = PlanCodec::new(Arc::new(Forwarded));
        let session = session_name();
        let work = async {
            let rows = execute_physical_plan::<PhysicalPlanNode>(
                self.registry.url().into(),
                &settings,
                Arc::clone(&plan.plan),
                &codec,
                session,
                config.clone(),
            );
            rows.await?.try_collect::<Vec<_>>().await
        };
        self.runtime.block_on(async {
            tokio::select! {
                rows = work => rows.map_err(|e| ClusterError::Failed(cause(&e))),
                ended = self.watch(plan, stop) => Err(ended),
            }
        })
    }

    /// Ends when the statement cannot go on: the user stops it, or a shard has lost its last
    /// holder.
    async fn watch(&self, plan: &Distributed, stop: &(dyn Fn() -> bool + Sync)) -> ClusterError {
        let mut lost_since: Option<Instant> = None;
        let mut looked = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if stop() {
                return ClusterError::Interrupted;
            }
            if looked.elapsed() < LOOK {
                continue;
            }
            let registry = self.registry.clone();
            let map = tokio::task::spawn_blocking(move || registry.map()).await;
            looked = Instant::now();
            let why = match map {
                Ok(Ok(map)) => lost(plan, &map),
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => None,
            };
            match (why, lost_since) {
                (Some(why), Some(since)) if since.elapsed() > LOST => {
                    return ClusterError::Failed(why);
                }
                (Some(_), None) => lost_since = Some(Instant::now()),
                (Some(_), Some(_)) => {}
                (None, _) => lost_since = None,
            }
        }
    }
}

/// What a statement has lost.
enum Loss {
    /// Nothing: it failed for another reason.
    Nothing,
    /// An executor, but no shard.
    Executor,
    /// A shard, with the reason.
    Shard(String),
}

/// Whether the error of a statement may be that of a connection to an executor that is gone.
fn may_be_a_loss(text: &str) -> bool {
    let marks = [
        "protocol error",
        "onnect",
        "transport",
        "roken pipe",
        "is not on node",
        "Fetch",
    ];
    marks.iter().any(|mark| text.contains(mark))
}

/// A name that no other statement has.
fn session_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |time| time.as_nanos());
    format!("tierloom-{}-{now}", std::process::id())
}

/// Why nobody can read a table of the plan, or do anything at all.
fn lost(plan: &Distributed, map: &ClusterMap) -> Option<String> {
    if !map.nodes.values().any(|node| node.alive) {
        return Some("no executor answers".into());
    }
    let tables = plan.nodes.iter().flat_map(|node| &node.header.tables);
    let mut whys = tables.filter_map(|table| map.usable(&table.name).err());
    whys.next()
}

/// Approximate bytes of a row in memory.
fn row_bytes(schema: &SchemaRef) -> u64 {
    let widths = schema.fields().iter();
    let widths = widths.map(|f| f.data_type().primitive_width().unwrap_or(16) as u64);
    widths.sum()
}

/// How deep a plan nests, at most.
fn levels_of(plan: &LogicalPlan) -> usize {
    let mut operators = 0;
    // Counting does not fail.
    let _ = plan.apply_with_subqueries(|_| {
        operators += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    operators
}

/// The text of an error without the layers that Ballista puts around it.
fn cause(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    // An error of an operator arrives as the debug form of the task's error.
    let marks = ["Execution(\"", "ResourcesExhausted(\"", "Internal(\""];
    let found = marks.iter().find_map(|mark| {
        let (_, rest) = text.split_once(mark)?;
        rest.split_once("\")").map(|(inner, _)| inner)
    });
    found.map_or(text.clone(), |inner| {
        inner.replace("\\\"", "\"").replace("\\'", "'")
    })
}
