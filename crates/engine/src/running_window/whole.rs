//! The physical operator of windows over whole partitions.

use super::exec::{goes_on, ranges, sorted};
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, WindowExpr};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Computes aggregates over whole partitions of sorted rows.
///
/// DataFusion's operator keeps all rows and evaluates every partition by itself; here partitions
/// are groups of one accumulator, and rows are kept until their partition ends.
#[derive(Debug)]
pub(crate) struct WholeWindowExec {
    /// The replaced operator, which answers the planner's questions.
    window: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl WholeWindowExec {
    /// The operator in place of `window`; `None` if that is another one, or has other functions.
    ///
    /// # Errors
    /// DataFusion's, from the types of expressions.
    pub(super) fn of(window: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some((input, expressions)) = sorted(window) else {
            return Ok(None);
        };
        let schema = input.schema();
        for key in partitions(expressions) {
            if key.data_type(&schema)?.is_nested() {
                return Ok(None);
            }
        }
        for expr in expressions {
            let Some(aggregate) = aggregate(expr) else {
                return Ok(None);
            };
            let total = aggregate.field();
            if total.data_type() != expr.field()?.data_type() || is_tagged(total.data_type()) {
                return Ok(None);
            }
        }
        Ok(Some(WholeWindowExec {
            window: Arc::clone(window),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// The window functions.
    pub(crate) fn window_expr(&self) -> &[Arc<dyn WindowExpr>] {
        sorted(&self.window).map_or(&[], |(_, expressions)| expressions)
    }

    fn remade(&self, window: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match Self::of(window)? {
            Some(whole) => Ok(Arc::new(whole)),
            None => internal_err!("{} cannot replace this window", self.name()),
        }
    }
}

/// Whether values of a type are stored as keys of words, which accumulators may return decoded.
fn is_tagged(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..)) || data_type.is_nested()
}

fn partitions(windows: &[Arc<dyn WindowExpr>]) -> &[Arc<dyn PhysicalExpr>] {
    windows.first().map_or(&[], |window| window.partition_by())
}

/// The aggregate of a window over whole partitions, if it can be computed for many at once.
fn aggregate(window: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let frame = window.get_window_frame();
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    let plain = window.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
    let aggregate = plain.get_aggregate_expr();
    let is_plain = aggregate.order_bys().is_empty() && !super::function::has_filter(window);
    (is_whole && is_plain && aggregate.groups_accumulator_supported()).then_some(aggregate)
}

impl ExecutionPlan for WholeWindowExec {
    fn name(&self) -> &str {
        "WholeWindowExec"
    }

    tierloom_corrections::planned_as!(window);

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.window.cardinality_effect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.remade(&Arc::clone(&self.window).replace_children(children, options)?)
    }

    tierloom_corrections::with_new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.remade(&Arc::clone(&self.window).reset_state()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some((input, expressions)) = sorted(&self.window) else {
            return internal_err!("{} without its window", self.name());
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let input = input.execute(partition, context)?;
        let aggregates = expressions.iter().filter_map(aggregate);
        let totals = aggregates.map(|aggregate| {
            Ok(PartitionTotals {
                arguments: aggregate.expressions(),
                accumulator: aggregate.create_groups_accumulator()?,
                last: None,
            })
        });
        let mut whole = WholeRun {
            schema: self.schema(),
            keys: partitions(expressions).to_vec(),
            totals: totals.collect::<Result<_>>()?,
            open: 0,
            kept: Vec::new(),
            last: None,
        };
        // One more element for the rows of the last partition.
        let input = input.map(|batch| batch.map(Some));
        let input = input.chain(futures::stream::iter([Ok(None)]));
        let batches = input.map(move |batch| {
            let timer = metrics.elapsed_compute().timer();
            let batches = match batch? {
                Some(batch) => whole.next(batch),
                None => whole.finish(EmitTo::All),
            }?;
            timer.done();
            for batch in &batches {
                metrics.record_output(batch.num_rows());
            }
            Ok::<_, DataFusionError>(futures::stream::iter(batches.into_iter().map(Ok)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches.try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl DisplayAs for WholeWindowExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.window_expr().iter().map(|expr| expr.name()).collect();
        write!(f, "WholeWindowExec: wdw=[{}]", names.join(", "))
    }
}

/// An aggregate of the partitions that have rows which were not returned yet.
struct PartitionTotals {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    accumulator: Box<dyn GroupsAccumulator>,
    /// The total of the partition before those of the accumulator, of which there may be rows in
    /// the last batch.
    last: Option<ArrayRef>,
}

/// A batch whose last partition may have more rows.
struct KeptBatch {
    batch: RecordBatch,
    partitions: Vec<Range<usize>>,
    /// Whether its first partition is the one before those of the accumulators.
    begins_before: bool,
}

/// One execution over one partition of the input.
struct WholeRun {
    schema: SchemaRef,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    totals: Vec<PartitionTotals>,
    /// The group of the last row in the accumulators, if there are kept batches.
    open: usize,
    /// Batches with rows of the last partition. Only the first of them can have others.
    kept: Vec<KeptBatch>,
    /// The keys of the last row.
    last: Option<Vec<ArrayRef>>,
}

impl WholeRun {
    /// The rows that are complete with those of `batch`.
    fn next(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(Vec::new());
        }
        let keys = evaluate_expressions_to_arrays(&self.keys, &batch)?;
        let partitions = ranges(&keys, rows)?;
        let continues = match &self.last {
            Some(last) => goes_on(last, &keys, keys.len())?,
            None => false,
        };
        self.last = Some(keys.iter().map(|key| key.slice(rows - 1, 1)).collect());
        let first = match (continues, self.kept.is_empty()) {
            (true, _) | (_, true) => self.open,
            (false, false) => self.open + 1,
        };
        let end = first + partitions.len();
        let mut groups = Vec::with_capacity(rows);
        for (rows, group) in partitions.iter().zip(first..) {
            groups.extend(std::iter::repeat_n(group, rows.len()));
        }
        for totals in &mut self.totals {
            let arguments = evaluate_expressions_to_arrays(&totals.arguments, &batch)?;
            let accumulator = &mut totals.accumulator;
            accumulator.update_batch(&arguments, &groups, None, end)?;
        }
        let closes = !self.kept.is_empty() && end - 1 > self.open;
        let complete = match closes {
            true => self.finish(EmitTo::First(self.open + 1))?,
            false => Vec::new(),
        };
        let emitted = if closes { self.open + 1 } else { 0 };
        self.kept.push(KeptBatch {
            batch,
            partitions,
            begins_before: first < emitted,
        });
        self.open = end - 1 - emitted;
        Ok(complete)
    }

    /// The kept rows, whose partitions are complete: those up to the last of `which`.
    fn finish(&mut self, which: EmitTo) -> Result<Vec<RecordBatch>> {
        if self.kept.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<ArrayRef> = Vec::with_capacity(self.totals.len());
        for totals in &mut self.totals {
            let next = totals.accumulator.evaluate(which)?;
            let all = match totals.last.take().filter(|_| self.kept[0].begins_before) {
                Some(last) => concat(&[last.as_ref(), next.as_ref()])?,
                None => next,
            };
            totals.last = Some(all.slice(all.len() - 1, 1));
            values.push(all);
        }
        let mut first = 0;
        let mut complete = Vec::with_capacity(self.kept.len());
        for kept in self.kept.drain(..) {
            let mut sources: Vec<u32> = Vec::with_capacity(kept.batch.num_rows());
            for (rows, source) in kept.partitions.iter().zip(first..) {
                sources.extend(std::iter::repeat_n(source, rows.len()));
            }
            first += kept.partitions.len() as u32 - 1;
            let sources = UInt32Array::from(sources);
            let mut columns = kept.batch.columns().to_vec();
            for values in &values {
                columns.push(take(values, &sources, None)?);
            }
            complete.push(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        }
        Ok(complete)
    }
}
