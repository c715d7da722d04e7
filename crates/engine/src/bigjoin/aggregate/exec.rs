//! The physical operator of the group-by.
//!
//! It wraps the `AggregateExec` that it replaces and answers all planning questions from it. With a
//! finite memory limit it runs that operator, because DataFusion's can spill and this one cannot.

use super::codes::is_supported;
use super::groups::Groups;
use super::stream::{Aggregate, AggregatePlan, AggregateStream, SkipWhen};
use crate::replaced;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode, aggregate_expressions,
};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode};
use std::fmt;
use std::sync::Arc;

/// A group-by with many groups; see the module documentation.
pub struct BigAggregateExec {
    /// The replaced aggregation; answers the planner's questions and runs where memory is limited.
    aggregate: Arc<dyn ExecutionPlan>,
    why: String,
    metrics: ExecutionPlanMetricsSet,
}

impl BigAggregateExec {
    /// Replaces `aggregate` (an `AggregateExec`); `why` is shown in `EXPLAIN`.
    ///
    /// # Errors
    /// If the operator cannot do this aggregation; [`super::BigAggregateRule`] checks first.
    pub fn try_new(aggregate: Arc<dyn ExecutionPlan>, why: String) -> Result<Self> {
        let made = Self {
            aggregate,
            why,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        // Rewrites after the rule may have changed the aggregation, so every new node is checked.
        if let Some(reason) = unsupported(made.aggregate()?)? {
            return internal_err!("BigAggregateExec cannot replace this aggregation: {reason}");
        }
        Ok(made)
    }

    /// The aggregation that this operator replaces.
    ///
    /// # Errors
    /// None in practice: the operator is only built from an `AggregateExec`.
    pub fn aggregate(&self) -> Result<&AggregateExec> {
        match self.aggregate.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(aggregate),
            None => internal_err!("BigAggregateExec replaces an AggregateExec only"),
        }
    }

    /// Why the aggregation was replaced, as shown in `EXPLAIN`.
    pub fn why(&self) -> &str {
        &self.why
    }

    fn plan(&self, context: &TaskContext) -> Result<AggregatePlan> {
        let aggregate = self.aggregate()?;
        let mode = aggregate.mode();
        let keys = aggregate.group_expr().input_exprs();
        let input = aggregate.input().schema();
        let key_types = keys
            .iter()
            .map(|key| key.data_type(&input))
            .collect::<Result<Vec<_>>>()?;
        let options = &context.session_config().options().execution;
        // The thresholds of DataFusion's own operator. Only partial results may be passed on
        // ungrouped.
        let skip = (*mode == AggregateMode::Partial).then_some(SkipWhen {
            rows: options.skip_partial_aggregation_probe_rows_threshold,
            groups_per_row: options.skip_partial_aggregation_probe_ratio_threshold,
        });
        Ok(AggregatePlan {
            schema: self.schema(),
            keys,
            key_types,
            merges: mode.input_mode() == AggregateInputMode::Partial,
            finishes: mode.output_mode() == AggregateOutputMode::Final,
            skip,
            batch_rows: context.session_config().batch_size().max(1),
        })
    }

    fn aggregates(&self) -> Result<Vec<Aggregate>> {
        let aggregate = self.aggregate()?;
        let keys = aggregate.group_expr().num_group_exprs();
        let arguments = aggregate_expressions(aggregate.aggr_expr(), aggregate.mode(), keys)?;
        let raw = aggregate.mode().input_mode() == AggregateInputMode::Raw;
        aggregate
            .aggr_expr()
            .iter()
            .zip(arguments)
            .zip(aggregate.filter_expr())
            .map(|((function, arguments), filter)| {
                Ok(Aggregate {
                    accumulator: function.create_groups_accumulator()?,
                    arguments,
                    // States of an earlier aggregation were already filtered when they were made.
                    filter: filter.clone().filter(|_| raw),
                })
            })
            .collect()
    }
}

impl ExecutionPlan for BigAggregateExec {
    fn name(&self) -> &'static str {
        super::NAME
    }

    tierloom_corrections::planned_as!(aggregate);

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.aggregate.required_input_ordering()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.aggregate.cardinality_effect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = Arc::clone(&self.aggregate).replace_children(children, options)?;
        Ok(Arc::new(Self::try_new(aggregate, self.why.clone())?))
    }

    tierloom_corrections::with_new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = Arc::clone(&self.aggregate).reset_state()?;
        Ok(Arc::new(Self::try_new(aggregate, self.why.clone())?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        // This operator cannot spill; DataFusion's can.
        if replaced::has_to_run(&context, &self.metrics, partition) {
            return self.aggregate.execute(partition, context);
        }
        let plan = self.plan(&context)?;
        let groups = Groups::new(plan.key_types.clone());
        // DataFusion's own consumer name, so that memory errors read the same.
        let reservation = MemoryConsumer::new(format!("GroupedHashAggregateStream[{partition}]"))
            .register(context.memory_pool());
        let skipped =
            MetricBuilder::new(&self.metrics).counter("skipped_aggregation_rows", partition);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let aggregates = self.aggregates()?;
        let input = self.aggregate()?.input().execute(partition, context)?;
        let aggregation = AggregateStream::new(
            plan,
            input,
            aggregates,
            groups,
            reservation,
            skipped,
            metrics,
        );
        let batches = futures::stream::try_unfold(aggregation, |mut aggregation| async move {
            Ok(aggregation.next().await?.map(|batch| (batch, aggregation)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let replaced = self.aggregate.as_ref();
        Some(replaced::metrics_with(&self.metrics, replaced))
    }

    tierloom_corrections::estimated_as!(aggregate);
}

impl DisplayAs for BigAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // AggregateExec's own text, with the other name and the reason appended.
        let text = replaced::text(self.aggregate.as_ref(), t);
        match text.strip_prefix("AggregateExec") {
            Some(rest) => write!(f, "BigAggregateExec{rest}, group table: {}", self.why),
            None => writeln!(f, "{}\n{}", text.trim_end(), self.why),
        }
    }
}

impl fmt::Debug for BigAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigAggregateExec")
            .field("aggregate", &self.aggregate)
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}

/// Why [`BigAggregateExec`] cannot replace `aggregate`; `None` if it can.
pub(super) fn unsupported(aggregate: &AggregateExec) -> Result<Option<String>> {
    let keys = aggregate.group_expr();
    if !keys.is_single() || keys.has_grouping_set() {
        return Ok(Some("it has grouping sets".into()));
    }
    if keys.expr().is_empty() {
        return Ok(Some("it has one group".into()));
    }
    if *aggregate.mode() == AggregateMode::PartialReduce {
        return Ok(Some("it only combines states".into()));
    }
    if aggregate.limit_options().is_some() {
        return Ok(Some("it ends after a number of groups".into()));
    }
    // For ordered input DataFusion's operator emits finished groups early, and this one would not.
    if *aggregate.input_order_mode() != InputOrderMode::Linear {
        return Ok(Some("its input is ordered by the keys".into()));
    }
    // This operator does not update dynamic filters.
    if !aggregate.dynamic_expressions_produced().is_empty() {
        return Ok(Some("its values filter a scan".into()));
    }
    let input = aggregate.input().schema();
    for key in keys.input_exprs() {
        let data_type = key.data_type(&input)?;
        if !is_supported(&data_type) {
            return Ok(Some(format!("a group column of type {data_type}")));
        }
    }
    for function in aggregate.aggr_expr() {
        if !function.groups_accumulator_supported() || !function.order_bys().is_empty() {
            return Ok(Some(format!("{} works group by group", function.name())));
        }
    }
    Ok(None)
}
