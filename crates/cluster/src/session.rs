//! One statement: planned here, cut for the nodes, run on them.

use crate::awake::AwakeTime;
use crate::direct::{NoAnswer, Question};
use crate::done_by::done_by;
use crate::error::ClusterError;
use crate::explain::{LastOn, described};
use crate::link::Link;
use crate::map::ClusterMap;
use crate::node_service::text_of;
use crate::options::Backend;
use crate::parts::{parts_of, question};
use crate::planner::{ClusterPlanner, Planned, levels_of};
use crate::registry::SILENCE;
use crate::scan::with_inputs;
use crate::spread::{Distributed, NodePlan};
use crate::streams::Stages;
use crate::through_scheduler::{job_name, through_scheduler};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, ScalarValue, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use futures::future::try_join_all;
use futures::{FutureExt, TryFutureExt};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tierloom_engine::{stack, task_context};
use tierloom_sql::with_pauses;

/// Time between two looks at the nodes while a statement runs.
const LOOK: Duration = Duration::from_millis(500);

/// Time between two looks whether the user stops a statement.
const SHORT: Duration = Duration::from_millis(20);

/// How often a statement starts again because an executor went away or a connection broke.
const RETRIES: usize = 2;

/// How long a statement goes on after the last holder of one of its shards fell silent, or any node
/// while Ballista does its work. Ballista may notice it and have others do what is missing; where
/// a process waits for rows of a machine that was cut off, it does not.
const LOST: Duration = Duration::from_secs(5);

/// A final plan over at most so many rows is done by the thread that waits for it.
const FEW_ROWS: usize = 4096;

/// One statement.
pub(crate) struct ClusterSession<'a> {
    /// Its connections.
    pub link: &'a Link,
    /// Tables and nodes when it began.
    pub map: Arc<ClusterMap>,
    /// Has the tables.
    pub planner: Arc<ClusterPlanner>,
}

impl<'a> ClusterSession<'a> {
    pub fn new(link: &'a Link) -> Result<Self, ClusterError> {
        Self::on(link, link.registry.map()?)
    }

    /// The same with tables and nodes that are known already.
    pub fn on(link: &'a Link, map: Arc<ClusterMap>) -> Result<Self, ClusterError> {
        let planner = link.planner(&map)?;
        Ok(ClusterSession { link, map, planner })
    }

    /// The rows of a query.
    pub fn answer(
        &self,
        sql: &str,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(SchemaRef, Vec<RecordBatch>), ClusterError> {
        if let Some(kept) = self.planner.kept(sql) {
            let batches = self.collected(&kept.plan, stop)?;
            return Ok((Arc::clone(&kept.schema), batches));
        }
        let logical = self.planner.logical(sql)?;
        let plan = self.without_subqueries(logical.clone(), stop)?;
        let planned = Arc::new(self.planner.distributed(plan, stop)?);
        self.planner.keep(sql, &logical, &planned);
        let batches = self.collected(&planned.plan, stop)?;
        Ok((Arc::clone(&planned.schema), batches))
    }

    /// The parts of a query that another engine has read.
    pub fn planned(
        &self,
        query: &LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arc<Planned>, ClusterError> {
        stack::with(levels_of(query), || {
            self.planner.check_tables(query)?;
            if let Some(kept) = self.planner.kept_of(query) {
                return Ok(kept);
            }
            let plan = self.without_subqueries(query.clone(), stop)?;
            let planned = Arc::new(self.planner.distributed(plan, stop)?);
            self.planner.keep_of(query, &planned);
            Ok(planned)
        })
    }

    /// The rows of a plan.
    fn rows(
        &self,
        plan: LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(SchemaRef, Vec<RecordBatch>), ClusterError> {
        let plan = self.without_subqueries(plan, stop)?;
        let planned = self.planner.distributed(plan, stop)?;
        let batches = self.collected(&planned.plan, stop)?;
        Ok((planned.schema, batches))
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
            (replaced, None) => Ok(replaced.map_err(|e| self.planner.input(&e))?.data),
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

    /// Runs a plan on the cluster; again if an executor went away with a part of the answer that
    /// others can make too, or if a connection broke and nobody is gone: that of the client first,
    /// and those of a node to others after it.
    pub fn collected(
        &self,
        plan: &Distributed,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<RecordBatch>, ClusterError> {
        if let Some(why) = lost(plan, &self.map) {
            return Err(ClusterError::Failed(why));
        }
        let mut map = Arc::clone(&self.map);
        for _ in 0..RETRIES {
            match self.attempt(plan, &map, stop) {
                Err(ClusterError::Failed(text)) if may_be_a_loss(&text) => {
                    match self.what_is_lost(plan, stop)? {
                        // The network was away for a moment.
                        Loss::Nothing if is_broken(&text) => {}
                        Loss::Nothing => return Err(ClusterError::Failed(text)),
                        Loss::Shard(why) => return Err(ClusterError::Failed(why)),
                        Loss::Executor(now) => map = now,
                    }
                }
                other => return other,
            }
        }
        self.attempt(plan, &map, stop)
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
            let map = self.link.registry.map()?;
            if let Some(why) = lost(plan, &map) {
                return Ok(Loss::Shard(why));
            }
            if gone(&self.map, &map).is_some() {
                return Ok(Loss::Executor(map));
            }
            if stop() {
                return Err(ClusterError::Interrupted);
            }
            std::thread::sleep(LOOK / 2);
        }
        Ok(Loss::Nothing)
    }

    /// Runs a plan on the cluster, whose nodes are those of `map`.
    fn attempt(
        &self,
        plan: &Distributed,
        map: &ClusterMap,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<RecordBatch>, ClusterError> {
        if self.is_asked(plan) {
            // Connections of the client notice by themselves that a node does not answer.
            let answer = self.unless(|now| lost(plan, now), stop, self.asked(plan, map))?;
            if let Some(rows) = answer {
                return Ok(rows);
            }
        }
        let is_lost = |now: &ClusterMap| lost(plan, now).or_else(|| gone(map, now));
        if let Some(last) = self.ended_by_all(plan) {
            let stages = Stages::of(&self.planner, &self.link.nodes, last, &plan.nodes, map);
            let threads = self.planner.engine().handle();
            let rows = stages.and_then(|stages| stages.rows(threads));
            let rows = rows.map_err(|e| ClusterError::Failed(text_of(&e)));
            return self.unless(is_lost, stop, rows);
        }
        let job = job_name();
        let work = through_scheduler(self.link.registry.url(), &plan.plan, &job);
        let done = self.unless(is_lost, stop, work);
        if done.is_err() {
            // Nobody waits for its tasks any more. A scheduler that does not answer has lost them.
            let _ = self.link.registry.cancel(&job);
        }
        done
    }

    /// Whether the nodes are asked for their rows, and the final plan is done here, unless there
    /// are too many of them.
    pub fn is_asked(&self, plan: &Distributed) -> bool {
        let direct = self.link.most_bytes > 0 && plan.has_small_results();
        let only_rows = plan.last.is_none() && self.link.backend == Backend::Distributed;
        (direct || only_rows || !self.link.has_scheduling)
            && !plan.gave_many.load(Ordering::Relaxed)
    }

    /// The final plan, if all nodes do it.
    fn ended_by_all<'p>(&self, plan: &'p Distributed) -> Option<&'p Arc<dyn ExecutionPlan>> {
        let last = plan.last.as_ref();
        last.filter(|_| self.link.backend == Backend::Distributed)
    }

    /// A plan as text, and who does its final plan.
    pub fn described(&self, plan: &Distributed) -> Result<String, ClusterError> {
        let on = match self.ended_by_all(plan) {
            _ if self.is_asked(plan) => LastOn::Asker(self.most_bytes(plan)),
            None => LastOn::OneNode,
            Some(last) => {
                let (links, nodes) = (&self.link.nodes, &plan.nodes);
                let stages = Stages::of(&self.planner, links, last, nodes, &self.map);
                let stages = stages.map_err(|e| ClusterError::Failed(text_of(&e)));
                LastOn::AllNodes(self.link.wait_for(stages)?.text())
            }
        };
        Ok(described(plan, &self.map, &on))
    }

    /// Most bytes of rows that nodes send here. Rows of an answer come in any case.
    fn most_bytes(&self, plan: &Distributed) -> usize {
        match plan.last {
            Some(_) if self.link.has_scheduling => self.link.most_bytes,
            _ => usize::MAX,
        }
    }

    /// Waits for `work` as long as nothing `is_lost` that it needs.
    pub fn unless<T>(
        &self,
        is_lost: impl Fn(&ClusterMap) -> Option<String>,
        stop: &(dyn Fn() -> bool + Sync),
        work: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        self.link.wait_for(async {
            tokio::select! {
                done = work => done,
                ended = self.watch(is_lost, stop) => Err(ended),
            }
        })
    }

    /// Asks the nodes themselves and does the final plan here; `None` if there are more rows for it
    /// than a client should hold.
    pub async fn asked(
        &self,
        plan: &Distributed,
        map: &ClusterMap,
    ) -> Result<Option<Vec<RecordBatch>>, ClusterError> {
        let addresses: Vec<&str> = map.nodes.values().map(|n| n.address.as_str()).collect();
        self.link.nodes.keep(&addresses);
        let left = AtomicUsize::new(self.most_bytes(plan));
        let rows = try_join_all(plan.nodes.iter().map(|node| self.results(node, map, &left)));
        let rows = match rows.await {
            Ok(rows) => rows,
            Err(NoAnswer::TooMany) => {
                plan.gave_many.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Err(NoAnswer::Failed(text)) => return Err(ClusterError::Failed(text)),
        };
        let failed = |e: DataFusionError| ClusterError::Failed(e.strip_backtrace());
        match &plan.last {
            None => Ok(Some(rows.into_iter().flatten().collect())),
            Some(last) => {
                let count = rows.iter().flatten().map(RecordBatch::num_rows).sum();
                let last = over_rows(last, &rows).map_err(failed)?;
                self.here(last, count).await.map(Some)
            }
        }
    }

    /// The rows of a node plan from all nodes that have a part of them.
    async fn results(
        &self,
        plan: &NodePlan,
        map: &ClusterMap,
        left: &AtomicUsize,
    ) -> Result<Vec<RecordBatch>, NoAnswer> {
        if plan.header.tables.is_empty() {
            let rows = self.here(Arc::clone(&plan.plan), 0).await;
            return rows.map_err(|error| NoAnswer::Failed(error.to_string()));
        }
        let questions = questions(plan, map)?;
        let asked = questions.into_iter().map(|q| self.link.nodes.ask(q, left));
        Ok(try_join_all(asked).await?.into_iter().flatten().collect())
    }

    /// The rows of a plan that reads so many rows, and nothing of other processes.
    async fn here(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        rows: usize,
    ) -> Result<Vec<RecordBatch>, ClusterError> {
        let engine = self.planner.engine();
        let failed = |e: DataFusionError| ClusterError::Failed(e.strip_backtrace());
        let plan = reset_plan_states(plan)
            .and_then(with_pauses)
            .map_err(failed)?;
        let context = task_context(engine.context(), &plan);
        if rows <= FEW_ROWS {
            // Over before another thread has begun. Operators of one execution share no state
            // with others, so a panic fails this statement only.
            let rows = AssertUnwindSafe(collect(plan, context))
                .catch_unwind()
                .await;
            let panicked = |_| ClusterError::Failed("the final plan failed: it panicked".into());
            return rows.map_err(panicked)?.map_err(failed);
        }
        let rows = done_by(engine.handle(), collect(plan, context)).await;
        rows.map_err(ClusterError::Failed)?.map_err(failed)
    }

    /// Ends when the statement cannot go on: the user stops it, or something has been lost for
    /// long.
    async fn watch(
        &self,
        is_lost: impl Fn(&ClusterMap) -> Option<String>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> ClusterError {
        // A node that comes back as another process is there for a moment in between, so that
        // times add up; those in which nothing was lost are taken off again.
        let mut lost_for = Duration::ZERO;
        let mut awake = AwakeTime::default();
        let mut looked = awake.sum();
        loop {
            tokio::time::sleep(SHORT).await;
            awake.tick();
            if stop() {
                return ClusterError::Interrupted;
            }
            if awake.sum() - looked < LOOK {
                continue;
            }
            let registry = self.link.registry.clone();
            let mut map = tokio::task::spawn_blocking(move || registry.map());
            let map = loop {
                tokio::select! {
                    map = &mut map => break map,
                    () = tokio::time::sleep(SHORT) => awake.tick(),
                }
                if stop() {
                    return ClusterError::Interrupted;
                }
            };
            let time = awake.sum() - looked;
            looked = awake.sum();
            let why = match map {
                Ok(Ok(map)) => is_lost(&map),
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => None,
            };
            match why {
                Some(why) if lost_for + time > LOST => return ClusterError::Failed(why),
                Some(_) => lost_for += time,
                None => lost_for = lost_for.saturating_sub(time),
            }
        }
    }
}

/// What a statement has lost.
enum Loss {
    /// Nothing: it failed for another reason.
    Nothing,
    /// An executor, but no shard; with the nodes that there are now.
    Executor(Arc<ClusterMap>),
    /// A shard, with the reason.
    Shard(String),
}

/// Whether the error of a statement may be that of a connection to an executor that is gone.
fn may_be_a_loss(text: &str) -> bool {
    let marks = ["onnect", "is not on node", "no live node has", "Fetch"];
    is_broken(text) || marks.iter().any(|mark| text.contains(mark))
}

/// Whether the error is that of a connection that broke.
fn is_broken(text: &str) -> bool {
    let marks = ["protocol error", "transport", "roken pipe"];
    marks.iter().any(|mark| text.contains(mark))
}

/// What the nodes of `map` are asked for, so that they read each shard once.
fn questions(plan: &NodePlan, map: &ClusterMap) -> Result<Vec<Question>, NoAnswer> {
    let schema = plan.plan.schema();
    let parts = parts_of(&plan.header, map).map_err(NoAnswer::Failed)?;
    let questions = parts.iter().map(|part| {
        let asked = question(part, &plan.header, &schema, &plan.bytes);
        asked.map_err(|e| NoAnswer::Failed(e.strip_backtrace()))
    });
    questions.collect()
}

/// A final plan that reads the rows of node plans.
fn over_rows(
    last: &Arc<dyn ExecutionPlan>,
    rows: &[Vec<RecordBatch>],
) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    with_inputs(last, |input| {
        let Some(rows) = rows.get(input.index) else {
            return plan_err!("a final plan has no input {}", input.index);
        };
        let rows = std::slice::from_ref(rows);
        Ok(MemorySourceConfig::try_new_exec(
            rows,
            input.schema(),
            None,
        )?)
    })
}

/// A process that was there `before` and is not there `now`, as the error of a connection to it.
fn gone(before: &ClusterMap, now: &ClusterMap) -> Option<String> {
    let mut alive = before.nodes.iter().filter(|(_, node)| node.alive);
    let gone = alive.find(|(name, node)| {
        let now = now.nodes.get(*name);
        now.is_none_or(|now| !now.alive || now.process != node.process)
    });
    gone.map(|(name, _)| format!("connection to node {name}: it does not answer"))
}

/// Why nobody can read a table of the plan, or do anything at all.
pub(crate) fn lost(plan: &Distributed, map: &ClusterMap) -> Option<String> {
    if !map.nodes.values().any(|node| node.alive) {
        return Some("no executor answers".into());
    }
    let tables = plan.nodes.iter().flat_map(|node| &node.header.tables);
    let mut whys = tables.filter_map(|table| map.usable(&table.name).err());
    whys.next()
}
