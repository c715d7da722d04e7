//! Tables of the cluster as the client's planner sees them.

use crate::map::Layout;
use crate::wire::{ScanHeader, TableRef};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::TableType;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use std::fmt;
use std::sync::Arc;
use tierloom_corrections::Walk;
use tierloom_engine::scan_at_once;

/// A table of the cluster in the client's catalog.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClusterTable {
    /// The table and its load.
    pub table: TableRef,
    /// Its columns.
    pub schema: SchemaRef,
    /// Where its rows are.
    pub layout: Arc<Layout>,
    /// Number of its rows.
    pub rows: u64,
    /// Bytes of its columns on all nodes together, each shard counted once.
    pub size_bytes: u64,
}

impl ClusterTable {
    fn plan_scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&projection)?);
        let share = projection.len() as f64 / self.schema.fields().len().max(1) as f64;
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = Precision::Exact(self.rows as usize);
        let bytes = (self.size_bytes as f64 * share) as usize;
        statistics.total_byte_size = Precision::Inexact(bytes);
        let header = ScanHeader {
            table: self.table.clone(),
            projection,
            limit,
        };
        Ok(Arc::new(TableScanExec {
            header,
            layout: Some(Arc::clone(&self.layout)),
            statistics: Arc::new(statistics),
            properties: leaf_properties(&schema),
            schema,
        }))
    }
}

impl TableProvider for ClusterTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    scan_at_once!();
}

/// Properties of a leaf with one partition.
fn leaf_properties(schema: &SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// A scan in a plan that was not yet given to a node.
#[derive(Debug)]
pub(crate) struct TableScanExec {
    /// What it reads.
    pub header: ScanHeader,
    /// Where the rows are; `None` in a plan that came over the network.
    pub layout: Option<Arc<Layout>>,
    schema: SchemaRef,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

/// The place of a node plan's results in a final plan.
#[derive(Debug)]
pub(crate) struct InputExec {
    /// Which node plan.
    pub index: usize,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl TableScanExec {
    /// Its columns.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }
}

impl InputExec {
    /// The place of node plan `index`, whose rows have the columns `schema`.
    pub fn new(index: usize, schema: SchemaRef) -> Self {
        InputExec {
            index,
            properties: leaf_properties(&schema),
            schema,
        }
    }
}

/// The final plan `last` with what `input` gives in the place of its inputs.
///
/// # Errors
/// Those of `input`.
pub(crate) fn with_inputs(
    last: &Arc<dyn ExecutionPlan>,
    mut input: impl FnMut(&InputExec) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(last).up(&mut |node| match node.downcast_ref::<InputExec>() {
        Some(place) => input(place).map(Transformed::yes),
        None => Ok(Transformed::no(node)),
    });
    replaced.data()
}

/// The parts of an operator without inputs that cannot run where it is.
macro_rules! leaf_of_a_plan {
    ($name:literal) => {
        fn name(&self) -> &str {
            $name
        }

        fn schema(&self) -> SchemaRef {
            Arc::clone(&self.schema)
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        tierloom_corrections::without_inputs!();

        fn execute(
            &self,
            _partition: usize,
            _context: Arc<TaskContext>,
        ) -> Result<SendableRecordBatchStream> {
            internal_err!("{} runs on the nodes of a cluster only", $name)
        }
    };
}
impl ExecutionPlan for TableScanExec {
    leaf_of_a_plan!("TableScanExec");

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}

impl ExecutionPlan for InputExec {
    leaf_of_a_plan!("InputExec");

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }
}

impl DisplayAs for TableScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|c| c.name().as_str())
            .collect();
        write!(
            f,
            "TableScanExec: {}, columns=[{}]",
            self.header.table.name,
            names.join(", ")
        )
    }
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputExec: results of node plan {}", self.index + 1)
    }
}
