//! The operator that drops rows before a sort.

use super::best::Best;
use crate::bigjoin::{Groups, can_group};
use crate::breakdown::guarded;
use crate::ranks::{has_ranks, ranks};
use crate::scan::{LastRank, RankBound};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{BatchCoalescer, filter_record_batch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, StatisticsArgs,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Rows after which the operator may let everything through.
const TRIAL_ROWS: usize = 256 << 10;
/// Windows per row, in percent, from which it does: most of them are too small to lose rows.
const TINY_PERCENT: usize = 90;
/// Rows that it must have dropped, in percent, once windows have many more rows than are kept.
const WORTH_PERCENT: usize = 20;
/// Memory of one partition's groups beyond which it lets everything through.
const MAX_BYTES: usize = 256 << 20;

/// Which rows of a window are first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct First {
    /// How many rows of each window to keep.
    pub keep: usize,
    /// The window of a row; none if there is only one window.
    pub partition: Vec<Arc<dyn PhysicalExpr>>,
    /// The first key of the order in a window.
    pub order: PhysicalSortExpr,
}

impl First {
    /// Whether the operator knows the types of the keys, which are the same each time.
    ///
    /// # Errors
    /// DataFusion's, from the types of expressions.
    pub fn is_supported(&self, input: &dyn ExecutionPlan) -> Result<bool> {
        let schema = input.schema();
        let mut keys = self.partition.iter().chain([&self.order.expr]);
        if keys.any(is_volatile) {
            return Ok(false);
        }
        for key in &self.partition {
            if !can_group(&key.data_type(&schema)?) {
                return Ok(false);
            }
        }
        Ok(has_ranks(&self.order.expr.data_type(&schema)?))
    }
}

/// Drops rows that come after `keep` others of the same window and partition.
#[derive(Debug)]
pub(crate) struct WindowTopExec {
    input: Arc<dyn ExecutionPlan>,
    first: First,
    /// Tells a scan below which rows are not needed any more.
    bound: Option<Arc<RankBound>>,
    metrics: ExecutionPlanMetricsSet,
}

impl WindowTopExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, first: First) -> Self {
        Self {
            input,
            first,
            bound: None,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let mut top = Self::new(input, self.first.clone());
        top.bound.clone_from(&self.bound);
        Arc::new(top)
    }

    /// The same over an input with a scan that leaves out rows beyond `bound`. There must be only
    /// one window.
    pub fn with_bound(mut self, input: Arc<dyn ExecutionPlan>, bound: Arc<RankBound>) -> Self {
        debug_assert!(self.first.partition.is_empty());
        (self.input, self.bound) = (input, Some(bound));
        self
    }

    /// What tells a scan below which rows are not needed any more.
    pub fn bound(&self) -> Option<&Arc<RankBound>> {
        self.bound.as_ref()
    }

    /// What it keeps.
    pub fn first(&self) -> &First {
        &self.first
    }
}

impl DisplayAs for WindowTopExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let First {
            keep,
            partition,
            order,
        } = &self.first;
        let partition: Vec<String> = partition.iter().map(ToString::to_string).collect();
        let partition = partition.join(", ");
        write!(
            f,
            "WindowTopExec: keep={keep}, partition=[{partition}], order=[{order}]"
        )
    }
}

impl ExecutionPlan for WindowTopExec {
    fn name(&self) -> &'static str {
        "WindowTopExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut goes_on = TreeNodeRecursion::Continue;
        for key in self.first.partition.iter().chain([&self.first.order.expr]) {
            goes_on = goes_on.visit_sibling(|| f(key))?;
        }
        Ok(goes_on)
    }

    tierloom_corrections::with_one_input!(input, over);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let keys = self.first.partition.iter();
        let types = keys.map(|key| key.data_type(&schema));
        let types = types.collect::<Result<Vec<_>>>()?;
        let rows = context.session_config().batch_size().max(1);
        let top = Top {
            first: self.first.clone(),
            groups: (!types.is_empty()).then(|| Groups::new(types)),
            best: Best::new(self.first.keep),
            last: self.bound.as_ref().map(|bound| bound.run(&context)),
            seen: 0,
            kept: 0,
            reservation: MemoryConsumer::new(self.name()).register(context.memory_pool()),
            is_done: false,
        };
        let state = TopStream {
            input: self.input.execute(partition, context)?,
            top,
            output: BatchCoalescer::new(Arc::clone(&schema), rows)
                .with_biggest_coalesce_batch_size(Some(rows / 2)),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            is_over: false,
        };
        let batches = futures::stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::new(Statistics::clone(input).to_inexact())),
            _ => internal_err!("WindowTopExec has one input"),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }
}

struct TopStream {
    input: SendableRecordBatchStream,
    top: Top,
    output: BatchCoalescer,
    metrics: BaselineMetrics,
    is_over: bool,
}

impl TopStream {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.output.next_completed_batch() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if self.is_over {
                return Ok(None);
            }
            let batch = self.input.next().await.transpose()?;
            let elapsed = self.metrics.elapsed_compute().clone();
            let _timer = elapsed.timer();
            match batch {
                Some(batch) => {
                    let kept = guarded("WindowTopExec", || self.top.keep(batch))?;
                    self.output.push_batch(kept)?;
                }
                None => {
                    self.is_over = true;
                    self.output.finish_buffered_batch()?;
                }
            }
        }
    }
}

/// What is known of the rows of one partition.
struct Top {
    first: First,
    /// None if all rows are of one window.
    groups: Option<Groups>,
    best: Best,
    /// The last rank that any partition needs, if there is one window and a scan wants to know.
    last: Option<Arc<LastRank>>,
    seen: usize,
    kept: usize,
    reservation: MemoryReservation,
    /// Everything is let through from here on.
    is_done: bool,
}

impl Top {
    /// The rows of `batch` that may be among the first of their window.
    fn keep(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        if self.is_done || rows == 0 {
            return Ok(batch);
        }
        let mut groups = Vec::new();
        match &mut self.groups {
            Some(known) => {
                let keys = evaluate_expressions_to_arrays(&self.first.partition, &batch)?;
                known.assign(&keys, &mut groups)?;
                self.best.grow(known.len());
            }
            None => {
                groups.resize(rows, 0);
                self.best.grow(1);
            }
        }
        let order = self.first.order.expr.evaluate(&batch)?.into_array(rows)?;
        let ranks = ranks(&order, self.first.order.options)?;
        let rows_and_ranks = groups.into_iter().zip(ranks);
        let kept = rows_and_ranks.map(|(group, rank)| Some(self.best.admit(group, rank)));
        let kept: BooleanArray = kept.collect();
        if let Some((last, rank)) = self.last.as_ref().zip(self.best.last(0)) {
            last.lower(rank);
        }
        self.seen += rows;
        self.kept += kept.true_count();
        self.look_at_worth();
        Ok(filter_record_batch(&batch, &kept)?)
    }

    /// Gives up if it drops few rows, or needs too much memory for it.
    fn look_at_worth(&mut self) {
        let (windows, table) = match &self.groups {
            Some(groups) => (groups.len(), groups.size_bytes()),
            None => (1, 0),
        };
        let bytes = table + self.best.size_bytes();
        let percent = |rows: usize| rows.saturating_mul(100) / self.seen;
        let is_tried = self.seen >= TRIAL_ROWS;
        let are_tiny = percent(windows) >= TINY_PERCENT;
        let are_full = self.seen / 4 >= windows.saturating_mul(self.first.keep);
        let few = percent(self.seen - self.kept) < WORTH_PERCENT;
        if is_tried && (are_tiny || are_full && few)
            || bytes > MAX_BYTES
            || self.reservation.try_resize(bytes).is_err()
        {
            self.is_done = true;
            self.groups = None;
            self.best = Best::new(0);
            self.reservation.free();
        }
    }
}
