//! The operator in each place of a subplan that runs once.

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, reset_plan_states};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, collect_partitioned,
};
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A subplan that several places of a plan read.
#[derive(Debug)]
pub(super) struct SharedSubplan {
    /// Never executed itself: each execution has a copy without any state.
    subplan: Arc<dyn ExecutionPlan>,
    /// Says in `EXPLAIN` which places belong together.
    number: usize,
    places: usize,
    runs: Mutex<Vec<(Weak<TaskContext>, Weak<SharedRun>)>>,
}

/// Rows by partition; `None` if there was no memory to keep them.
type Rows = Option<Arc<Kept>>;
type SharedRows = futures::future::Shared<BoxFuture<'static, Result<Rows, Arc<DataFusionError>>>>;

/// The rows of a subplan, and the memory reserved for them.
#[derive(Debug)]
struct Kept {
    partitions: Vec<Vec<RecordBatch>>,
    _memory: MemoryReservation,
}

/// One execution of a subplan.
struct SharedRun {
    subplan: Arc<dyn ExecutionPlan>,
    /// `None` once all have read them.
    rows: Mutex<Option<SharedRows>>,
    /// Streams that have not ended yet, or not begun.
    readers: AtomicUsize,
}

impl fmt::Debug for SharedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRun").finish_non_exhaustive()
    }
}

impl SharedSubplan {
    pub fn new(subplan: Arc<dyn ExecutionPlan>, number: usize, places: usize) -> Self {
        SharedSubplan {
            subplan,
            number,
            places,
            runs: Mutex::default(),
        }
    }

    /// The execution of `context`, which begins with the first place that asks for it.
    fn run(&self, context: &Arc<TaskContext>) -> Result<Arc<SharedRun>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|(context, run)| context.strong_count() > 0 && run.strong_count() > 0);
        let of = Arc::downgrade(context);
        let known = runs.iter().find(|(context, _)| context.ptr_eq(&of));
        if let Some(run) = known.and_then(|(_, run)| run.upgrade()) {
            return Ok(run);
        }
        let subplan = reset_plan_states(Arc::clone(&self.subplan))?;
        let partitions = subplan.properties().output_partitioning().partition_count();
        let rows = collected(Arc::clone(&subplan), Arc::clone(context));
        let run = Arc::new(SharedRun {
            subplan,
            rows: Mutex::new(Some(rows.boxed().shared())),
            readers: AtomicUsize::new(partitions * self.places),
        });
        runs.push((of, Arc::downgrade(&run)));
        Ok(run)
    }
}

/// Runs a subplan and keeps its rows.
async fn collected(
    subplan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Rows, Arc<DataFusionError>> {
    let memory = MemoryConsumer::new("SharedExec").register(context.memory_pool());
    let partitions = collect_partitioned(subplan, context)
        .await
        .map_err(Arc::new)?;
    let bytes = partitions
        .iter()
        .flatten()
        .map(RecordBatch::get_array_memory_size);
    let kept = memory.try_grow(bytes.sum()).is_ok().then(|| Kept {
        partitions,
        _memory: memory,
    });
    Ok(kept.map(Arc::new))
}

/// A reader of a run; the last one that ends frees the rows.
struct Reader(Arc<SharedRun>);

impl Reader {
    fn rows(&self) -> Option<SharedRows> {
        self.0
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.0.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.0.rows.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Returns the rows of a subplan that runs once for all places.
#[derive(Debug)]
pub(super) struct SharedExec {
    shared: Arc<SharedSubplan>,
    /// Whether the subplan is shown below it: once, although there are several places.
    is_first: bool,
    /// The run that it read from, so that it stays there for the other places.
    run: OnceLock<Arc<SharedRun>>,
    /// The subplan of this place alone, where rows cannot be kept.
    alone: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    pub fn new(shared: Arc<SharedSubplan>, is_first: bool) -> Self {
        SharedExec {
            shared,
            is_first,
            run: OnceLock::new(),
            alone: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn shown(&self) -> &Arc<dyn ExecutionPlan> {
        self.run
            .get()
            .map_or(&self.shared.subplan, |run| &run.subplan)
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedSubplan { number, places, .. } = *self.shared;
        match self.is_first {
            true => write!(f, "SharedExec: no. {number}, runs once for {places} places"),
            false => write!(f, "SharedExec: rows of no. {number}"),
        }
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.shared.subplan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match self.is_first {
            true => vec![self.shown()],
            false => vec![],
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// The same operator without any state: the subplan of all places stays what it is.
    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.shared), self.is_first)))
    }

    tierloom_corrections::with_new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.shared), self.is_first)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let run = match self.run.get() {
            Some(run) => Arc::clone(run),
            None => {
                let run = self.shared.run(&context)?;
                Arc::clone(self.run.get_or_init(|| run))
            }
        };
        let (shared, alone) = (Arc::clone(&self.shared), Arc::clone(&self.alone));
        let schema = self.schema();
        let reader = Reader(run);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = async move {
            let rows = match reader.rows() {
                Some(rows) => rows.await.map_err(DataFusionError::Shared)?,
                None => None,
            };
            let Some(rows) = rows else {
                let subplan = reset_plan_states(Arc::clone(&shared.subplan))?;
                return alone.get_or_init(|| subplan).execute(partition, context);
            };
            let batches = rows.partitions[partition].clone();
            // The rows are there as long as their reader.
            let batches = futures::stream::iter(batches).map(move |batch| {
                let _reader = &reader;
                metrics.record_output(batch.num_rows());
                Ok(batch)
            });
            let batches: SendableRecordBatchStream =
                Box::pin(RecordBatchStreamAdapter::new(schema, batches));
            Ok(batches)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::once(batches).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.shared.subplan.as_ref(), args)
    }
}
