//! The scan operator: hands out slices of placed columns, morsel by morsel, and decodes what is kept as codes.

use crate::EngineError;
use crate::table::PlacedTable;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Scans columns of a [`PlacedTable`].
///
/// All partitions draw their next morsel (`batch_size` rows) from one shared cursor, so that a thread that is slowed
/// down leaves work to the others. With [`crate::Staging::WorkingBuffer`] every batch is first copied into fresh heap memory, which
/// the kernel puts on the DRAM node of the running thread: the TIER placement of Huang et al., "Bandwidth Expansion via CXL" (ADMS 2024).
pub struct PlacedScanExec {
    table: Arc<PlacedTable>,
    projection: Vec<usize>,
    schema: SchemaRef,
    rows: usize,
    morsel_rows: usize,
    properties: Arc<PlanProperties>,
    round: Mutex<Round>,
    metrics: ExecutionPlanMetricsSet,
}

/// One execution of all partitions: they share `next`; a partition that starts a second time opens a new round.
#[derive(Default)]
struct Round {
    next: Arc<AtomicUsize>,
    started: Vec<bool>,
}

impl PlacedScanExec {
    /// A scan of the columns `projection` (all if `None`), at most `limit` rows, over at most `partitions` partitions.
    pub fn new(
        table: Arc<PlacedTable>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        partitions: usize,
        morsel_rows: usize,
    ) -> Result<Self> {
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..table.columns().len()).collect());
        let schema = Arc::new(table.schema().project(&projection)?);
        let rows = limit.map_or(table.rows(), |limit| limit.min(table.rows()));
        let partitions = rows
            .div_ceil(morsel_rows.max(1))
            .clamp(1, partitions.max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(PlacedScanExec {
            table,
            projection,
            schema,
            rows,
            morsel_rows: morsel_rows.max(1),
            properties: Arc::new(properties),
            round: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The table it reads.
    pub fn table(&self) -> &Arc<PlacedTable> {
        &self.table
    }

    /// Indices of the columns it reads.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// Whether it stops before the table's last row.
    pub fn is_limited(&self) -> bool {
        self.rows < self.table.rows()
    }

    fn cursor(&self, partition: usize) -> Arc<AtomicUsize> {
        // A poisoned lock only means that another partition panicked; the cursor itself is always whole.
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let partitions = self.properties.output_partitioning().partition_count();
        if round.started.get(partition).copied().unwrap_or(true) {
            *round = Round {
                next: Arc::default(),
                started: vec![false; partitions],
            };
        }
        round.started[partition] = true;
        Arc::clone(&round.next)
    }
}

/// What one partition needs to produce its batches.
struct Morsels {
    table: Arc<PlacedTable>,
    projection: Vec<usize>,
    schema: SchemaRef,
    rows: usize,
    morsel_rows: usize,
    next: Arc<AtomicUsize>,
    metrics: BaselineMetrics,
}

impl Morsels {
    fn batch(&self) -> Option<Result<RecordBatch>> {
        let start = self.next.fetch_add(self.morsel_rows, Ordering::Relaxed);
        if start >= self.rows {
            return None;
        }
        let timer = self.metrics.elapsed_compute().timer();
        let len = self.morsel_rows.min(self.rows - start);
        let columns: Result<Vec<ArrayRef>> = self
            .projection
            .iter()
            .map(|&index| self.column(index, start, len))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let batch = columns.and_then(|columns| {
            Ok(RecordBatch::try_new_with_options(
                Arc::clone(&self.schema),
                columns,
                &options,
            )?)
        });
        timer.done();
        self.metrics.record_output(len);
        Some(batch)
    }

    fn column(&self, index: usize, start: usize, len: usize) -> Result<ArrayRef> {
        let column = &self.table.columns()[index];
        let external = |e: EngineError| DataFusionError::External(Box::new(e));
        let view = column.slice(start, len).map_err(external)?;
        // What is decoded is a copy already.
        if self.table.is_staged(index) && column.is_zero_copy() {
            // `concat` of one array would hand back the same buffers; an empty second one makes it copy.
            let nothing = view.slice(0, 0);
            Ok(concat(&[&view, &nothing])?)
        } else {
            Ok(view)
        }
    }
}

impl ExecutionPlan for PlacedScanExec {
    fn name(&self) -> &str {
        "PlacedScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(PlacedScanExec {
            table: Arc::clone(&self.table),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            rows: self.rows,
            morsel_rows: self.morsel_rows,
            properties: Arc::clone(&self.properties),
            round: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.properties.output_partitioning().partition_count() {
            return internal_err!(
                "partition {partition} of a scan of {} does not exist",
                self.table.name()
            );
        }
        let morsels = Morsels {
            table: Arc::clone(&self.table),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            rows: self.rows,
            morsel_rows: self.morsel_rows,
            next: self.cursor(partition),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::iter(std::iter::from_fn(move || morsels.batch()));
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = self
            .table
            .statistics()
            .as_ref()
            .clone()
            .project(Some(&self.projection));
        if self.rows < self.table.rows() || partition.is_some() {
            let share = if partition.is_some() {
                self.rows / self.properties.output_partitioning().partition_count()
            } else {
                self.rows
            };
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Inexact(share);
        }
        Ok(Arc::new(statistics))
    }
}

impl DisplayAs for PlacedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self
            .projection
            .iter()
            .map(|&i| self.table.columns()[i].name())
            .collect();
        write!(
            f,
            "PlacedScanExec: table={}, columns=[{}], rows={}",
            self.table.name(),
            columns.join(", "),
            self.rows
        )?;
        if self.projection.iter().any(|&i| self.table.is_staged(i)) {
            write!(f, ", through a DRAM working buffer")?;
        }
        Ok(())
    }
}

impl fmt::Debug for PlacedScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacedScanExec")
            .field("table", &self.table.name())
            .field("projection", &self.projection)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
