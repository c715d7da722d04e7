//! What the scheduler sees of a statement: node plans as leaves, and the final plan above them.
//!
//! A node plan looks like a scan of files, one file per shard. The scheduler knows how to give such
//! a leaf to several tasks; a leaf of another kind would be read by each task as a whole. Its files
//! are never opened: on an executor the leaf is replaced, see `local`.

use crate::wire::{Header, Message, NodePlanHeader};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Name of the pretended file of a node plan over tables that are everywhere.
const EVERYWHERE: &str = "everywhere";

/// The source of a node plan's pretended files.
#[derive(Clone)]
struct NodePlanSource {
    header: NodePlanHeader,
    plan: Arc<Vec<u8>>,
    columns: TableSchema,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for NodePlanSource {
    fn create_file_opener(
        &self,
        _object_store: Arc<dyn ObjectStore>,
        _base_config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        internal_err!("a node plan runs on the executors of a cluster only")
    }

    fn table_schema(&self) -> &TableSchema {
        &self.columns
    }

    fn with_batch_size(&self, _batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "shards"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<&str> = self.header.tables.iter().map(|t| t.name.as_str()).collect();
        write!(f, ", tables=[{}]", tables.join(", "))
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn repartitioned(
        &self,
        _: usize,
        _: usize,
        _: Option<LexOrdering>,
        _: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// The leaf for a node plan over the shards in `header`.
pub(crate) fn node_plan(
    header: NodePlanHeader,
    schema: SchemaRef,
    plan: Arc<Vec<u8>>,
) -> Arc<dyn ExecutionPlan> {
    let file = |name: String| FileGroup::new(vec![PartitionedFile::new(name, 1)]);
    let groups = match header.holders.is_empty() {
        true => vec![file(EVERYWHERE.into())],
        false => header.shards.iter().map(|s| file(s.to_string())).collect(),
    };
    let source = NodePlanSource {
        header,
        plan,
        columns: TableSchema::from(schema),
        metrics: ExecutionPlanMetricsSet::new(),
    };
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file_groups(groups)
        .build();
    DataSourceExec::from_data_source(config)
}

/// The node plan of which `leaf` is the leaf, with the shards that are left of it; `None` for other
/// operators.
pub(crate) fn node_plan_of(leaf: &dyn ExecutionPlan) -> Option<Message> {
    let exec = leaf.downcast_ref::<DataSourceExec>()?;
    let data: &dyn Any = exec.data_source().as_ref();
    let config = data.downcast_ref::<FileScanConfig>()?;
    let source = config.file_source().downcast_ref::<NodePlanSource>()?;
    let files = config.file_groups.iter().flat_map(FileGroup::iter);
    let names = files.map(|file| file.object_meta.location.to_string().parse::<u32>());
    let header = NodePlanHeader {
        shards: names.filter_map(Result::ok).collect(),
        ..source.header.clone()
    };
    Some(Message {
        header: Header::NodePlan(header),
        schema: Arc::clone(source.columns.table_schema()),
        plan: Arc::clone(&source.plan),
    })
}

/// The node plan among the operators of a stage, whose partitions are those of the stage.
pub(crate) fn node_plan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<NodePlanHeader> {
    if let Some(message) = node_plan_of(plan.as_ref()) {
        return match message.header {
            Header::NodePlan(header) => Some(header),
            _ => None,
        };
    }
    // Partitions are the same only along operators with one input.
    match plan.children().as_slice() {
        [one] => node_plan_below(one),
        _ => None,
    }
}

/// What is done with the results of all node plans, in one task.
#[derive(Debug)]
pub(crate) struct FinalPlanExec {
    plan: Arc<Vec<u8>>,
    schema: SchemaRef,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl FinalPlanExec {
    /// A final plan over the results of node plans.
    pub fn new(
        plan: Arc<Vec<u8>>,
        schema: SchemaRef,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> FinalPlanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        FinalPlanExec {
            plan,
            schema,
            inputs,
            properties: Arc::new(properties),
        }
    }

    /// The message with which it travels; its inputs travel by themselves.
    pub fn message(&self) -> Message {
        Message {
            header: Header::FinalPlan,
            schema: Arc::clone(&self.schema),
            plan: Arc::clone(&self.plan),
        }
    }
}

/// All partitions of a leaf as one: a border of stages for the scheduler.
pub(crate) fn collected(leaf: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(CoalescePartitionsExec::new(leaf))
}

impl ExecutionPlan for FinalPlanExec {
    fn name(&self) -> &str {
        "FinalPlanExec"
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
        let (plan, schema) = (Arc::clone(&self.plan), Arc::clone(&self.schema));
        Ok(Arc::new(FinalPlanExec::new(plan, schema, inputs)))
    }

    tierloom_corrections::with_new_children!();

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        internal_err!("a final plan runs on the executors of a cluster only")
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }
}

impl DisplayAs for FinalPlanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FinalPlanExec: inputs={}", self.inputs.len())
    }
}
