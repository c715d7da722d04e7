//! Node plans and final plans on the node that runs them.

use crate::codec::{PlanReader, plan_of};
use crate::given_up::unless_given_up;
use crate::node::Node;
use crate::sent::{BATCH_ROWS, pieces};
use crate::wire::{Header, Message, ScanHeader};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PhysicalExpr, PlanProperties, displayable,
};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use futures::{StreamExt, TryStreamExt};
use log::{debug, info};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_engine::star::notes;
use tierloom_engine::{PlacedScanExec, with_settings};
use tierloom_sql::with_pauses;

/// Reads node plans and final plans as operators of this node.
#[derive(Debug)]
pub(crate) struct OnNode(pub Arc<Node>);

impl PlanReader for OnNode {
    fn operator(
        &self,
        message: Message,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (shards, partitions) = match &message.header {
            Header::NodePlan(header) if header.holders.is_empty() => (BTreeSet::new(), 1),
            Header::NodePlan(header) => {
                let shards: BTreeSet<u32> = header.shards.iter().copied().collect();
                (shards, header.shards.len())
            }
            Header::FinalPlan => (BTreeSet::new(), 1),
            Header::Scan(_) | Header::Input(_) | Header::Rows(_) | Header::Pieces => {
                return internal_err!("an operator of a node plan came without its plan");
            }
        };
        let Message { schema, plan, .. } = message;
        let work = LocalWork {
            node: Arc::clone(&self.0),
            plan,
            shards,
        };
        let inputs = inputs.to_vec();
        Ok(Arc::new(LocalPlanExec::new(
            work, schema, inputs, partitions,
        )))
    }
}

/// The node plan in `message` as one operator with one partition, for a client that asks this node.
///
/// # Errors
/// A message that is no node plan. A shard that is not here fails its execution.
pub(crate) fn asked_for(node: Arc<Node>, message: Message) -> Result<Arc<dyn ExecutionPlan>> {
    let Header::NodePlan(header) = message.header else {
        return internal_err!("a client asked a node for something else than a node plan");
    };
    Ok(part_of(
        node,
        message.plan,
        message.schema,
        header.shards,
        1,
    ))
}

/// The node plan in `plan` over `shards` of `node`, in so many partitions. A shard that is not here
/// fails its execution.
pub(crate) fn part_of(
    node: Arc<Node>,
    plan: Arc<Vec<u8>>,
    schema: SchemaRef,
    shards: Vec<u32>,
    partitions: usize,
) -> Arc<dyn ExecutionPlan> {
    let work = LocalWork {
        node,
        plan,
        shards: shards.into_iter().collect(),
    };
    Arc::new(LocalPlanExec::new(work, schema, Vec::new(), partitions))
}

/// Reads the leaves of a plan: scans of this node's shards, and inputs.
#[derive(Debug)]
struct Leaves {
    node: Arc<Node>,
    shards: BTreeSet<u32>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
}

impl Leaves {
    fn scan(&self, scan: &ScanHeader) -> Result<Arc<dyn ExecutionPlan>> {
        let shards = match scan.table.sharded {
            true => self.shards.clone(),
            false => BTreeSet::new(),
        };
        if scan.table.sharded && shards.is_empty() {
            return internal_err!("no shard of {} was named", scan.table.name);
        }
        let table = self
            .node
            .group(&scan.table.name, scan.table.generation, &shards)?;
        Ok(Arc::new(PlacedScanExec::new(
            table,
            Some(&scan.projection),
            scan.limit,
            self.node.threads(),
            BATCH_ROWS,
        )?))
    }
}

impl PlanReader for Leaves {
    fn operator(
        &self,
        message: Message,
        _inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &message.header {
            Header::Scan(scan) => self.scan(scan),
            Header::Input(index) => match self.inputs.get(*index) {
                Some(input) => Ok(Arc::clone(input)),
                None => internal_err!("a final plan has no input {index}"),
            },
            Header::NodePlan(_) | Header::FinalPlan | Header::Rows(_) | Header::Pieces => {
                internal_err!("a node plan inside of one")
            }
        }
    }
}

/// What is to be done, where.
#[derive(Debug, Clone)]
struct LocalWork {
    node: Arc<Node>,
    plan: Arc<Vec<u8>>,
    shards: BTreeSet<u32>,
}

impl LocalWork {
    /// The operators that do it, with fresh state.
    ///
    /// # Errors
    /// A shard that is not on this node; DataFusion's, from planning.
    fn operators(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
        if !inputs.is_empty() {
            return self.planned(inputs);
        }
        let key = (Arc::clone(&self.plan), self.shards.clone());
        let plan = match self.node.plans.get(&key) {
            Some(plan) => plan,
            None => {
                let plan = self.planned(inputs)?;
                self.node.plans.keep(key, Arc::clone(&plan));
                plan
            }
        };
        reset_plan_states(plan)
    }

    /// The same, planned anew.
    fn planned(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
        let context = self.node.engine().context();
        let leaves = Leaves {
            node: Arc::clone(&self.node),
            shards: self.shards.clone(),
            inputs: inputs.to_vec(),
        };
        let plan = plan_of(&self.plan, &context.task_ctx(), Arc::new(leaves))?;
        // Written for one partition. This chooses sides of joins by the rows that are here, adds
        // partitions for all threads, and puts our operators in.
        let planner = DefaultPhysicalPlanner::default();
        let plan = planner.optimize_physical_plan(plan, &context.state(), |_, _| {})?;
        for note in notes(&plan) {
            info!("node {}: {note}", self.node.name());
        }
        debug!("{}", displayable(plan.as_ref()).indent(false));
        // A client that goes away ends the plan at its next pause.
        with_pauses(plan)
    }

    /// `context` with the settings of this node's engine, and what Ballista keeps in it.
    fn context(&self, context: &Arc<TaskContext>) -> Arc<TaskContext> {
        let engine = self.node.engine().context().copied_config();
        let mut config = context.session_config().clone();
        if Arc::ptr_eq(config.options(), engine.options()) {
            return Arc::clone(context);
        }
        config.options_mut().execution = engine.options().execution.clone();
        config.options_mut().optimizer = engine.options().optimizer.clone();
        Arc::new(with_settings(context, config))
    }
}

/// A plan and the context of its execution, which is one although each partition is asked for under
/// a context of its own: keys of joins reach scans of the same execution.
type Operators = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// Runs a node plan over shards of this node, or a final plan over inputs.
///
/// A node plan has as many partitions as it has shards, because the scheduler counts so; which rows
/// come from which of them means nothing.
pub(crate) struct LocalPlanExec {
    work: LocalWork,
    schema: SchemaRef,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    /// Made when the first partition starts, so that a missing shard fails the task and not the
    /// executor's reading of it.
    operators: Mutex<Option<Operators>>,
    metrics: ExecutionPlanMetricsSet,
}

impl LocalPlanExec {
    fn new(
        work: LocalWork,
        schema: SchemaRef,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        partitions: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        LocalPlanExec {
            work,
            schema,
            inputs,
            properties: Arc::new(properties),
            operators: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same work over other inputs.
    fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let (work, schema) = (self.work.clone(), Arc::clone(&self.schema));
        LocalPlanExec::new(work, schema, inputs, self.partitions())
    }

    fn partitions(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    fn operators(&self, context: &Arc<TaskContext>) -> Result<Operators> {
        let mut made = self
            .operators
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(operators) = &*made {
            return Ok(operators.clone());
        }
        let mut plan = self.work.operators(&self.inputs)?;
        if plan.schema().fields().len() != self.schema.fields().len() {
            return internal_err!("a node plan has other columns than the statement");
        }
        let count = plan.output_partitioning().partition_count();
        if self.partitions() == 1 && count > 1 {
            // All of them at the same time.
            plan = Arc::new(CoalescePartitionsExec::new(plan));
        }
        let operators = (plan, self.work.context(context));
        *made = Some(operators.clone());
        Ok(operators)
    }
}

impl ExecutionPlan for LocalPlanExec {
    fn name(&self) -> &str {
        "LocalPlanExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(inputs)))
    }

    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(inputs)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let of_task = context;
        let (plan, context) = self.operators(&of_task)?;
        let count = plan.output_partitioning().partition_count();
        let mine = (partition..count).step_by(self.partitions().max(1));
        let streams = mine.map(|inner| plan.execute(inner, Arc::clone(&context)));
        let streams = streams.collect::<Result<Vec<_>>>()?;
        // The columns of a plan that was planned here may have other nullability.
        let schema = Arc::clone(&self.schema);
        let named = Arc::clone(&schema);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = futures::stream::iter(streams).flatten();
        let batches = batches.map_ok(move |batch| {
            metrics.record_output(batch.num_rows());
            futures::stream::iter(pieces(batch, Arc::clone(&named)))
        });
        let batches = batches.try_flatten();
        let batches = unless_given_up(batches, &of_task);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }
}

impl fmt::Debug for LocalPlanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalPlanExec")
            .field("shards", &self.work.shards)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for LocalPlanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalPlanExec: shards={:?}", self.work.shards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::benchmark_tables;
    use crate::map::{ClusterMap, Layout, NodeState, TableEntry};
    use crate::node::ShardHome;
    use crate::planner::{ClusterPlanner, VisibleTables};
    use crate::wire::NodePlanHeader;
    use datafusion::physical_plan::collect;
    use tierloom_memory::{FakeBackend, FakeNode, PageSize, Placement, fake_topology};
    use tierloom_topology::NodeId;
    use tierloom_workloads::ssb;

    fn node(name: &str) -> Node {
        let memory_bytes = 4 << 30;
        let machine = FakeNode {
            node: 0,
            cpus: 2,
            memory_bytes,
        };
        let home = ShardHome {
            topology: fake_topology(&[machine]).unwrap(),
            backend: Arc::new(FakeBackend::with_nodes(&[(0, memory_bytes)])),
            page_size: PageSize::Base,
            placement: Placement::bind(NodeId(0)),
        };
        Node::new(name, 1, home).unwrap()
    }

    /// Two nodes that hold the tables of SSB, and a planner that knows them.
    fn nodes_with_ssb() -> ([Arc<Node>; 2], ClusterPlanner) {
        let nodes = ["a", "b"].map(|name| Arc::new(node(name)));
        let mut map = ClusterMap::default();
        for table in benchmark_tables("ssb", 0.01, 2, 1).unwrap() {
            let holders = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
            let entry = TableEntry {
                generation: 1,
                source: table.source,
                layout: match table.by {
                    Some(by) => Layout::Sharded { by, holders },
                    None => Layout::Everywhere,
                },
            };
            nodes.iter().for_each(|node| node.load(&table.name, &entry));
            map.tables.insert(table.name, entry);
        }
        for node in &nodes {
            let state = NodeState {
                alive: true,
                silent_ms: 0,
                process: 1,
                threads: 1,
                address: String::new(),
                tables: node.held(),
                shuffle: None,
            };
            map.nodes.insert(node.name().into(), state);
        }
        let planner = ClusterPlanner::new(VisibleTables::of(&map)).unwrap();
        (nodes, planner)
    }

    #[test]
    fn nodes_run_all_queries_of_ssb_as_star_joins_and_again_with_the_same_rows() {
        // Each has half of the rows: with all of them, other sides of joins are chosen than on the
        // nodes of a cluster.
        let ([node, _], planner) = nodes_with_ssb();
        let mut with_rows = 0;
        for query in ssb::queries() {
            let logical = planner.logical(query.sql).unwrap();
            let planned = planner.distributed(logical, &|| false).unwrap();
            let part = &planned.plan.nodes[0];
            let header = NodePlanHeader {
                shards: vec![0],
                ..part.header.clone()
            };
            let work = LocalWork {
                node: Arc::clone(&node),
                plan: Arc::clone(&part.bytes),
                shards: [0].into(),
            };
            let plan = work.planned(&[]).unwrap();
            let said = notes(&plan);
            assert_eq!(said.len(), 1, "{}: {said:?}", query.id);
            let star = said[0].starts_with("fused: fact=lineorder,");
            assert!(star, "{}: {said:?}", query.id);
            let rows = || {
                let message = Message {
                    header: Header::NodePlan(header.clone()),
                    schema: part.plan.schema(),
                    plan: Arc::clone(&part.bytes),
                };
                let asked = asked_for(Arc::clone(&node), message).unwrap();
                let done = collect(asked, node.engine().context().task_ctx());
                let batches = node.engine().handle().block_on(done).unwrap();
                tierloom_engine::answer::to_text(&batches).unwrap()
            };
            let first = rows();
            with_rows += usize::from(first.lines().count() > 1);
            assert_eq!(rows(), first, "{}", query.id);
        }
        // A few select nothing at this scale.
        assert!(with_rows > 8, "{with_rows}");
    }
}
