//! The physical operator of the sort.

use super::keys::{can_lead, sorted};
use crate::breakdown::guarded;
use crate::concatenated::concatenated;
use crate::replaced;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Sorts each partition of its input; see the module documentation.
#[derive(Debug)]
pub(crate) struct BigSortExec {
    /// The replaced `SortExec`; answers the planner's questions and runs where memory is limited.
    sort: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl BigSortExec {
    /// The operator in place of `sort`; `None` if that is another one, or has a limit.
    ///
    /// # Errors
    /// DataFusion's, from the types of expressions.
    pub(super) fn of(sort: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(plain) = sort.downcast_ref::<SortExec>() else {
            return Ok(None);
        };
        let first = plain.expr().first();
        let leads = can_lead(&first.expr.data_type(&plain.input().schema())?);
        Ok((leads && plain.fetch().is_none()).then(|| Self {
            sort: Arc::clone(sort),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// The replaced sort.
    ///
    /// # Errors
    /// None in practice: the operator is only made of a `SortExec`.
    pub(crate) fn sort(&self) -> Result<&SortExec> {
        match self.sort.downcast_ref::<SortExec>() {
            Some(sort) => Ok(sort),
            None => internal_err!("{} replaces a SortExec only", self.name()),
        }
    }

    fn remade(&self, sort: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match Self::of(sort)? {
            Some(sort) => Ok(Arc::new(sort)),
            None => internal_err!("{} cannot replace this sort", self.name()),
        }
    }
}

impl ExecutionPlan for BigSortExec {
    fn name(&self) -> &'static str {
        "BigSortExec"
    }

    tierloom_corrections::planned_as!(sort);

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.sort.benefits_from_input_partitioning()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.sort.cardinality_effect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.remade(&Arc::clone(&self.sort).replace_children(children, options)?)
    }

    tierloom_corrections::with_new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.remade(&Arc::clone(&self.sort).reset_state()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        // This operator cannot spill; DataFusion's can.
        if replaced::has_to_run(&context, &self.metrics, partition) {
            return self.sort.execute(partition, context);
        }
        let sort = self.sort()?;
        // DataFusion's own consumer name, so that memory errors read the same.
        let reservation = MemoryConsumer::new(format!("ExternalSorter[{partition}]"))
            .register(context.memory_pool());
        let stream = SortStream {
            input: sort.input().execute(partition, Arc::clone(&context))?,
            schema: self.schema(),
            order: sort.expr().clone(),
            batch_rows: context.session_config().batch_size().max(1),
            sorted: None,
            reservation,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::try_unfold(stream, |mut stream| async move {
            Ok(stream.next().await?.map(|batch| (batch, stream)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(replaced::metrics_with(&self.metrics, self.sort.as_ref()))
    }

    tierloom_corrections::estimated_as!(sort);
}

impl DisplayAs for BigSortExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SortExec's own text with the other name.
        let text = replaced::text(self.sort.as_ref(), t);
        match text.strip_prefix("SortExec") {
            Some(rest) => write!(f, "BigSortExec{rest}"),
            None => write!(f, "{text}"),
        }
    }
}

struct SortStream {
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    order: LexOrdering,
    batch_rows: usize,
    /// Known when all input was read.
    sorted: Option<Sorted>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

/// All rows, and their order.
struct Sorted {
    columns: Vec<ArrayRef>,
    order: UInt32Array,
    sent: usize,
}

impl SortStream {
    /// The next rows in order.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.sorted.is_none() {
            let mut batches = Vec::new();
            let mut rows = 0;
            while let Some(batch) = self.input.next().await.transpose()? {
                // The batch, its copy in one piece, and keys with their rows.
                let size_bytes = 2 * get_record_batch_memory_size(&batch);
                self.reservation
                    .try_grow(size_bytes + batch.num_rows() * KEY_BYTES)?;
                rows += batch.num_rows();
                batches.push(batch);
            }
            if rows >= u32::MAX as usize {
                return exec_err!("a sort has {rows} rows in a partition, more than 2^32 - 2");
            }
            let elapsed = self.metrics.elapsed_compute().clone();
            let _timer = elapsed.timer();
            self.sorted = Some(guarded("BigSortExec", || self.sort(batches))?);
        }
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let Some(sorted) = &mut self.sorted else {
            return Ok(None);
        };
        let rows = self.batch_rows.min(sorted.order.len() - sorted.sent);
        if rows == 0 {
            sorted.columns.clear();
            self.reservation.free();
            return Ok(None);
        }
        let part = sorted.order.slice(sorted.sent, rows);
        sorted.sent += rows;
        let columns = sorted
            .columns
            .iter()
            .map(|column| take(column, &part, None));
        let columns = columns.collect::<std::result::Result<_, _>>()?;
        self.metrics.record_output(rows);
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns,
        )?))
    }

    fn sort(&self, batches: Vec<RecordBatch>) -> Result<Sorted> {
        if batches.is_empty() {
            return Ok(Sorted {
                columns: Vec::new(),
                order: UInt32Array::from(Vec::<u32>::new()),
                sent: 0,
            });
        }
        let columns = (0..self.schema.fields().len()).map(|index| {
            let parts = batches.iter().map(|batch| batch.column(index).as_ref());
            concatenated(&parts.collect::<Vec<_>>())
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        drop(batches);
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let by = self.order.iter().map(|by| {
            Ok(SortColumn {
                values: by.expr.evaluate(&rows)?.into_array(rows.num_rows())?,
                options: Some(by.options),
            })
        });
        let order = sorted(&by.collect::<Result<Vec<_>>>()?)?;
        Ok(Sorted {
            columns: rows.columns().to_vec(),
            order: UInt32Array::from(order),
            sent: 0,
        })
    }
}

/// Memory of the key of a row while it is sorted: twice 16 bytes, and its codes.
const KEY_BYTES: usize = 48;
