//! A final plan on all nodes at the same time: they pass rows to each other as streams, by the
//! keys that joins, groups and windows need.
//!
//! [DataFusion Distributed](https://github.com/datafusion-contrib/datafusion-distributed) cuts the
//! plan into stages and runs them. Its leaves are the rows of node plans; the task of a stage with
//! the number of a node runs on that node, so that each reads its own shards. Nothing is written to
//! files, and a node that is lost in the middle fails the statement, which starts again.

mod leaf;
mod on_threads;
mod partitions;
mod worker;

pub(crate) use leaf::NodeRowsExec;
pub(crate) use worker::with_worker;

use crate::codec::{Forwarded, PlanCodec};
use crate::direct::NodeLinks;
use crate::done_by::done_by;
use crate::map::ClusterMap;
use crate::parts::parts_of;
use crate::planner::ClusterPlanner;
use crate::scan::with_inputs;
use crate::sent::BATCH_ROWS;
use crate::spread::{NodePlan, without_marks};
use crate::wire::{PlanPart, RowsHeader};
use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, DataFusionError, Result, exec_datafusion_err, plan_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, collect};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, DistributedLeafExec,
    RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    SessionStateBuilderExt, WorkerResolver, display_plan_ascii,
};
use partitions::{in_partitions, sorted_by_all_keys};
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_corrections::Walk;
use tierloom_sql::with_pauses;
use tokio::runtime::Handle;
use url::Url;
use worker::NodeChannels;

/// The nodes that take part, in the order of their names, which is that of tasks. One alone takes
/// part twice.
#[derive(Debug, Clone)]
struct Workers {
    names: Arc<BTreeMap<String, usize>>,
    urls: Arc<Vec<Url>>,
    /// Partitions of each task.
    threads: usize,
}

impl Workers {
    fn of(map: &ClusterMap) -> Result<Self> {
        let alive = || map.nodes.iter().filter(|(_, state)| state.alive);
        let names = alive()
            .zip(0..)
            .map(|((name, _), task)| (name.clone(), task));
        let urls = alive().map(|(name, state)| {
            Url::parse(&format!("http://{}", state.address))
                .map_err(|e| exec_datafusion_err!("address of node {name}: {e}"))
        });
        let threads = alive().map(|(_, state)| state.threads).max();
        let mut urls: Vec<Url> = urls.collect::<Result<_>>()?;
        if let [only] = urls.as_slice() {
            // Stages with one task are not sent away, and all rows would come to the client.
            urls.push(only.clone());
        }
        Ok(Workers {
            names: Arc::new(names.collect()),
            urls: Arc::new(urls),
            threads: threads.unwrap_or(1),
        })
    }

    fn count(&self) -> usize {
        self.urls.len().max(1)
    }

    /// Partitions of the rows of all nodes together: several, or the optimizer would not bring them
    /// together where one operator needs them all.
    fn partitions(&self) -> usize {
        (self.count() * self.threads).max(2)
    }

    /// The parts that each of `tasks` tasks reads: its own, if there is one for each node.
    fn divided(&self, parts: &[PlanPart], tasks: usize) -> Vec<Vec<PlanPart>> {
        let mut divided = vec![Vec::new(); tasks];
        for part in parts {
            let task = self.names.get(&part.node).copied().unwrap_or(0);
            divided[task % tasks].push(part.clone());
        }
        divided
    }
}

impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.urls.to_vec())
    }
}

/// A final plan in stages, and the session that runs it.
pub(crate) struct Stages {
    plan: Arc<dyn ExecutionPlan>,
    session: SessionState,
}

impl Stages {
    /// Those of the final plan `last` over the node plans `nodes`, on the nodes of `map`.
    ///
    /// # Errors
    /// DataFusion's, from planning; a shard that no live node has.
    pub async fn of(
        planner: &ClusterPlanner,
        links: &Arc<NodeLinks>,
        last: &Arc<dyn ExecutionPlan>,
        nodes: &[NodePlan],
        map: &ClusterMap,
    ) -> Result<Self> {
        let workers = Workers::of(map)?;
        let plan = over_nodes(last, nodes, map, links, workers.partitions())?;
        let plan = plan
            .up(&mut |node| in_partitions(node, workers.count()))
            .data()?;
        let session = of_one_node(planner, &workers);
        let optimizer = DefaultPhysicalPlanner::default();
        let plan = optimizer.optimize_physical_plan(plan, &session, |_, _| {})?;
        let plan = plan.up(&mut without_marks).data()?;
        let plan = plan.up(&mut sorted_by_all_keys).data()?;
        let session = of_all_nodes(session, links, &workers, with_pauses(plan)?)?;
        let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(DFSchema::empty()),
        });
        let planner = session.query_planner();
        let plan = planner.create_physical_plan(&nothing, &session).await?;
        Ok(Stages { plan, session })
    }

    /// Its rows; what is left to do here is done by `threads`.
    ///
    /// # Errors
    /// DataFusion's, from nodes; connections that are lost say so.
    pub async fn rows(self, threads: &Handle) -> Result<Vec<RecordBatch>> {
        let work = collect(self.plan, self.session.task_ctx());
        done_by(threads, work)
            .await
            .map_err(DataFusionError::Execution)?
    }

    /// The stages as text.
    pub fn text(&self) -> String {
        display_plan_ascii(self.plan.as_ref(), false)
    }
}

/// The final plan with the rows of node plans as leaves.
fn over_nodes(
    last: &Arc<dyn ExecutionPlan>,
    nodes: &[NodePlan],
    map: &ClusterMap,
    links: &Arc<NodeLinks>,
    partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    with_inputs(last, |input| {
        let Some(plan) = nodes.get(input.index) else {
            return plan_err!("a final plan has no input {}", input.index);
        };
        let parts = parts_of(&plan.header, map).map_err(DataFusionError::Execution)?;
        let header = RowsHeader {
            plan: plan.header.clone(),
            parts,
            partitions,
        };
        Ok(Arc::new(NodeRowsExec::new(
            header,
            Arc::clone(&plan.bytes),
            StatisticsContext::new().compute(plan.plan.as_ref(), &StatisticsArgs::new())?,
            plan.plan.schema(),
            Vec::new(),
            Arc::clone(links),
        )))
    })
}

/// Gives a plan that was made before.
#[derive(Debug)]
struct Made(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Made {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        _: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// A session that optimizes a plan for the partitions of one node.
fn of_one_node(planner: &ClusterPlanner, workers: &Workers) -> SessionState {
    let state = planner.engine().context().state();
    let mut config = state
        .config()
        .clone()
        // The catalog is the planner's; another one would take its place.
        .with_create_default_catalog_and_schema(false)
        .with_target_partitions(workers.threads.max(2))
        .with_batch_size(BATCH_ROWS);
    let options = config.options_mut();
    options.optimizer.repartition_aggregations = true;
    options.optimizer.repartition_joins = true;
    options.optimizer.repartition_sorts = true;
    options.optimizer.repartition_windows = true;
    let builder = SessionStateBuilder::new_from_existing(state);
    builder.with_config(config).build()
}

/// The session that cuts `plan` into stages and runs them, with the settings of `session`.
fn of_all_nodes(
    session: SessionState,
    links: &Arc<NodeLinks>,
    workers: &Workers,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<SessionState> {
    let (counted, divided, routed) = (workers.clone(), workers.clone(), workers.clone());
    let builder = SessionStateBuilder::new_from_existing(session)
        .with_query_planner(Arc::new(Made(plan)))
        .with_distributed_worker_resolver(workers.clone())
        .with_distributed_channel_resolver(NodeChannels(Arc::clone(links)))
        .with_distributed_user_codec(PlanCodec::new(Arc::new(Forwarded)))
        .with_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
            let rows = event.plan.downcast_ref::<NodeRowsExec>()?;
            let tasks = if rows.is_sharded() {
                counted.count()
            } else {
                1
            };
            Some(Ok(DesiredTaskCountEventResponse::desired(tasks)))
        })
        .with_distributed_scale_up_leaf_node_handler(move |event: ScaleUpLeafNodeEvent<'_>| {
            let rows = event.plan.downcast_ref::<NodeRowsExec>()?;
            let tasks = divided.divided(rows.parts(), event.task_count);
            let tasks = tasks
                .into_iter()
                .map(|parts| Arc::new(rows.of(parts, divided.threads)) as Arc<dyn ExecutionPlan>);
            let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), tasks);
            Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
        })
        .with_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| {
            let urls = routed.routes(event.plan, event.task_count)?;
            Some(Ok(RouteTasksEventResponse::new(urls)))
        })
        .with_distributed_planner()
        // All tasks of a stage read their own parts of all inputs of a union.
        .with_distributed_children_isolator_unions(false)?
        // One core compresses less than 10 Gbit/s.
        .with_distributed_compression(None)?
        // Nodes put operators of their own in, of which the client knows nothing.
        .with_distributed_metrics_collection(false)?;
    Ok(builder.build())
}

impl Workers {
    /// Where the tasks of a stage run; `None` if it does not matter.
    fn routes(&self, stage: &Arc<dyn ExecutionPlan>, tasks: usize) -> Option<Vec<Url>> {
        if tasks == self.urls.len() {
            return Some(self.urls.to_vec());
        }
        let mut found = None;
        // Looking does not fail.
        let _ = stage.has(&mut |node| {
            let leaf = node.downcast_ref::<DistributedLeafExec>();
            let first = leaf.map(|leaf| {
                let variants = leaf.variants().iter();
                let firsts = variants.map(|variant| {
                    let rows = variant.downcast_ref::<NodeRowsExec>()?;
                    let task = self.names.get(&rows.parts().first()?.node)?;
                    self.urls.get(*task).cloned()
                });
                firsts.collect::<Option<Vec<Url>>>()
            });
            found = found.take().or(first.flatten());
            Ok(found.is_some())
        });
        found.filter(|urls| urls.len() == tasks)
    }
}
