//! The physical operator of running windows.

use super::by_value::places;
use super::function::Function;
use super::kinds::PeerGroups;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, concat, concat_batches, partition};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PhysicalExpr,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Computes window functions over sorted rows: from the first row of a partition to the current
/// one, or over so many rows around that.
#[derive(Debug)]
pub(crate) struct RunningWindowExec {
    /// The replaced operator, which answers the planner's questions.
    window: Arc<dyn ExecutionPlan>,
    functions: Vec<Function>,
    metrics: ExecutionPlanMetricsSet,
}

impl RunningWindowExec {
    /// The operator in place of `window`; `None` if that is another one, or has other functions.
    ///
    /// # Errors
    /// DataFusion's, from the types of expressions.
    pub(super) fn of(window: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some((input, expressions)) = sorted(window) else {
            return Ok(None);
        };
        let schema = input.schema();
        let types = keys(expressions).map(|key| key.data_type(&schema));
        let is_flat = !types
            .collect::<Result<Vec<_>>>()?
            .iter()
            .any(DataType::is_nested);
        if !is_flat {
            return Ok(None);
        }
        let functions = expressions.iter();
        let functions = functions.map(|expr| Function::of(expr, &schema));
        let functions: Option<Vec<Function>> = functions.collect::<Result<_>>()?;
        Ok(functions.map(|functions| RunningWindowExec {
            window: Arc::clone(window),
            functions,
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// The window functions.
    pub(crate) fn window_expr(&self) -> &[Arc<dyn WindowExpr>] {
        sorted(&self.window).map_or(&[], |(_, expressions)| expressions)
    }

    /// The function whose number or rank of a row is in this column of the output.
    pub(super) fn ranks_in(&self, column: usize) -> Option<&Arc<dyn WindowExpr>> {
        let first = self.schema().fields().len() - self.functions.len();
        let index = column.checked_sub(first)?;
        self.functions.get(index)?.ranks().then_some(())?;
        self.window_expr().get(index)
    }

    fn remade(&self, window: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match Self::of(window)? {
            Some(running) => Ok(Arc::new(running)),
            None => internal_err!("{} cannot replace this window", self.name()),
        }
    }
}

/// The input of an operator and its functions.
pub(super) type Parts<'a> = (&'a Arc<dyn ExecutionPlan>, &'a [Arc<dyn WindowExpr>]);

/// The parts of an operator of DataFusion over sorted partitions; `None` for other operators.
pub(super) fn sorted(window: &Arc<dyn ExecutionPlan>) -> Option<Parts<'_>> {
    if let Some(bounded) = window.downcast_ref::<BoundedWindowAggExec>() {
        let is_sorted = bounded.input_order_mode == InputOrderMode::Sorted;
        return (is_sorted && bounded.state_observer().is_none())
            .then(|| (bounded.input(), bounded.window_expr()));
    }
    let plain = window.downcast_ref::<WindowAggExec>()?;
    let sorted_by = plain.partition_by_sort_keys().ok()?.len();
    let partitions = plain.window_expr().first()?.partition_by().len();
    (sorted_by == partitions).then(|| (plain.input(), plain.window_expr()))
}

/// The keys of partitions, then those of the order in them.
fn keys(windows: &[Arc<dyn WindowExpr>]) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
    let first = windows.first().into_iter();
    first.flat_map(|window| {
        let order = window.order_by().iter().map(|by| &by.expr);
        window.partition_by().iter().chain(order)
    })
}

impl ExecutionPlan for RunningWindowExec {
    fn name(&self) -> &str {
        "RunningWindowExec"
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
        let window = expressions.first();
        let partitions = window.map_or(0, |window| window.partition_by().len());
        let mut running = Running {
            schema: self.schema(),
            functions: self.functions.clone(),
            keys: keys(expressions).cloned().collect(),
            partitions,
            by_value: self
                .functions
                .iter()
                .any(Function::by_value)
                .then(|| window?.order_by().first().map(|by| by.options))
                .flatten(),
            waiting: Vec::new(),
            kept_back: 0,
            last: None,
        };
        // One more element for the rows that were kept back.
        let input = input.map(|batch| batch.map(Some));
        let input = input.chain(futures::stream::iter([Ok(None)]));
        let batches = input.map(move |batch| {
            let timer = metrics.elapsed_compute().timer();
            let batch = running.next(batch?);
            timer.done();
            if let Ok(Some(batch)) = &batch {
                metrics.record_output(batch.num_rows());
            }
            batch
        });
        let batches = batches.try_filter_map(|batch| std::future::ready(Ok(batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl DisplayAs for RunningWindowExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.window_expr().iter().map(|expr| expr.name()).collect();
        write!(f, "RunningWindowExec: wdw=[{}]", names.join(", "))
    }
}

/// One execution over one partition of the input.
struct Running {
    schema: SchemaRef,
    functions: Vec<Function>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// How many of the keys are those of partitions.
    partitions: usize,
    /// The order of the key, if a function has frames by value.
    by_value: Option<SortOptions>,
    /// Rows that came since: first those whose last peer, or another row that they need, had not
    /// come yet.
    waiting: Vec<RecordBatch>,
    /// How many those first rows are.
    kept_back: usize,
    /// The keys of the last row before those of the next batch.
    last: Option<Vec<ArrayRef>>,
}

impl Running {
    /// The rows that can be completed with those of `batch`; with `None` all that are left.
    fn next(&mut self, batch: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        let is_last = batch.is_none();
        self.waiting
            .extend(batch.filter(|batch| batch.num_rows() > 0));
        // What is kept is copied for each batch, so the more there is, the more are taken at once.
        let kept = self.functions.iter().map(Function::kept).max();
        let kept = self.kept_back + kept.unwrap_or(0);
        let rows: usize = self.waiting.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 || !is_last && rows - self.kept_back < kept {
            return Ok(None);
        }
        let batch = match &self.waiting[..] {
            [batch] => batch.clone(),
            batches => concat_batches(&batches[0].schema(), batches)?,
        };
        self.waiting.clear();
        let rows = batch.num_rows();
        let keys = evaluate_expressions_to_arrays(&self.keys, &batch)?;
        let places = match self.by_value {
            Some(order) => places(&keys[self.partitions], order)?,
            None => Vec::new(),
        };
        let mut peers = ranges(&keys, rows)?;
        let partitions = ranges(&keys[..self.partitions], rows)?;
        let done = match is_last {
            true => rows,
            false => self.complete(&peers, &places, &partitions),
        };
        self.kept_back = rows - done;
        if done < rows {
            self.waiting.push(batch.slice(done, rows - done));
        }
        if done == 0 {
            return Ok(None);
        }
        peers.truncate(peers.partition_point(|peers| peers.start < done));
        if let Some(last) = peers.last_mut() {
            last.end = last.end.min(done);
        }
        let goes_on = |count| match &self.last {
            Some(last) => goes_on(last, &keys, count),
            None => Ok(false),
        };
        let same_partition = goes_on(self.partitions)?;
        let continues = same_partition && goes_on(keys.len())?;
        let mut starts = partitions.iter().map(|range| range.start).peekable();
        let begins = peers.iter().map(|peers| {
            let is_start = starts.next_if_eq(&peers.start).is_some();
            is_start && !(peers.start == 0 && same_partition)
        });
        let begins: Vec<bool> = begins.collect();
        let groups = PeerGroups {
            peers: &peers,
            begins: &begins,
            continues,
            places: &places,
            partitions: &partitions,
            same_partition,
        };
        let mut columns = batch.slice(0, done).columns().to_vec();
        for function in &mut self.functions {
            columns.push(function.values(&batch, &groups)?);
        }
        self.last = Some(keys.iter().map(|key| key.slice(done - 1, 1)).collect());
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns,
        )?))
    }

    /// How many rows have all values that their functions ask for, where others may come after the
    /// last partition.
    fn complete(
        &self,
        peers: &[Range<usize>],
        places: &[i128],
        partitions: &[Range<usize>],
    ) -> usize {
        let Some(last) = partitions.last() else {
            return 0;
        };
        let complete = |function: &Function| function.complete(places, last);
        let done = self.functions.iter().map(complete).min();
        let done = done.unwrap_or(last.end);
        if !self.functions.iter().any(|function| function.by_peers) {
            return done;
        }
        let open = peers.partition_point(|peers| peers.end <= done);
        let open = peers.get(open).or(peers.last());
        open.map_or(0, |peers| peers.start)
    }
}

/// Whether the first row has the same first `count` keys as the row before it, which has `last`.
pub(super) fn goes_on(last: &[ArrayRef], keys: &[ArrayRef], count: usize) -> Result<bool> {
    let pairs = last.iter().zip(keys).take(count);
    let pairs = pairs.map(|(last, key)| concat(&[last.as_ref(), key.slice(0, 1).as_ref()]));
    let pairs: Vec<ArrayRef> = pairs.collect::<std::result::Result<_, _>>()?;
    Ok(ranges(&pairs, 2)?.len() == 1)
}

/// The ranges of rows with the same keys.
pub(super) fn ranges(keys: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
    match keys {
        [] => Ok(std::iter::once(0..rows).collect()),
        keys => Ok(partition(keys)?.ranges()),
    }
}
