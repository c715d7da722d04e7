//! An operator wrapper that accounts memory to the operator's class.
//!
//! All other methods delegate, so other rules and `EXPLAIN` see the inner operator.

use super::operator::Operator;
use super::stream::RoutedStream;
use crate::counting::{self, Counting, Tallies, with_counts};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, InvariantLevel, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SortOrderPushdownResult,
};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tierloom_memory::router::Class;

/// What the operator at the root of `plan` was counted with, if it was.
pub(crate) fn tallies_of(plan: &dyn ExecutionPlan) -> Option<(&Arc<Counting>, &Tallies)> {
    let tallies = RoutedExec::of(plan)?.operator().tallies();
    Some((tallies.counting()?, tallies))
}

/// Wraps an operator; see the module documentation.
#[derive(Debug)]
pub(super) struct RoutedExec {
    inner: Arc<dyn ExecutionPlan>,
    operator: Arc<Operator>,
    /// The parent's class after this node has returned rows; see [`RoutedStream`].
    parent_after: Option<Class>,
}

impl RoutedExec {
    pub(super) fn wrap(
        inner: Arc<dyn ExecutionPlan>,
        class: Class,
        parent_after: Option<Class>,
    ) -> Arc<dyn ExecutionPlan> {
        let operator = Operator::new(inner.name(), class);
        Arc::new(RoutedExec {
            inner,
            operator,
            parent_after,
        })
    }

    /// The wrapper, if `plan` is one.
    pub(super) fn of(plan: &dyn ExecutionPlan) -> Option<&RoutedExec> {
        (plan as &dyn Any).downcast_ref()
    }

    pub(super) fn operator(&self) -> &Operator {
        &self.operator
    }

    /// The same wrapper around another version of the node.
    fn around(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        // A rewrite may return a node that is already wrapped.
        if RoutedExec::of(inner.as_ref()).is_some() {
            return inner;
        }
        Arc::new(RoutedExec {
            inner,
            operator: Arc::clone(&self.operator),
            parent_after: self.parent_after,
        })
    }
}

impl DisplayAs for RoutedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for RoutedExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    // Lets other code downcast to the inner operator through the wrapper.
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn schema(&self) -> arrow::datatypes::SchemaRef {
        self.inner.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        self.inner.check_invariants(check)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.dynamic_expressions_produced()
    }

    // Deprecated, but an operator may implement only this one.
    #[allow(deprecated)]
    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.inner.required_input_distribution()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.inner.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.inner.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = Arc::clone(&self.inner).replace_children(children, options)?;
        Ok(self.around(inner))
    }

    tierloom_corrections::with_new_children!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    /// A new account for each execution.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = Arc::clone(&self.inner).reset_state()?;
        Ok(RoutedExec::wrap(
            inner,
            self.operator.class(),
            self.parent_after,
        ))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let plan = self.inner.repartitioned(target_partitions, config)?;
        Ok(plan.map(|inner| self.around(inner)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let counting = context.session_config().get_extension::<Counting>();
        let stream = {
            let _counted = counting.as_ref().map(|counting| {
                self.operator.tallies().counted_with(counting);
                counting::enter(counting, self.operator.tallies())
            });
            // `execute` itself may allocate or spawn tasks, not only the stream that it returns.
            let _scope = tierloom_memory::router::enter(self.operator.scope());
            self.inner.execute(partition, context)?
        };
        Ok(Box::pin(RoutedStream::new(
            Arc::clone(&self.operator),
            stream,
            self.parent_after,
            counting,
        )))
    }

    /// With what was counted, if it was.
    fn metrics(&self) -> Option<MetricsSet> {
        with_counts(self.inner.metrics(), self.operator.tallies())
    }

    #[allow(deprecated)]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.inner.partition_statistics(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.inner.supports_limit_pushdown()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.with_fetch(limit)?;
        Some(self.around(plan))
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.inner.cardinality_effect()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        self.inner.try_swapping_with_projection(projection)
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.inner
            .gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let found = self
            .inner
            .handle_child_pushdown_result(phase, result, config)?;
        Ok(FilterPushdownPropagation {
            filters: found.filters,
            updated_node: found.updated_node.map(|inner| self.around(inner)),
        })
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        let inner = self.inner.with_new_state(state)?;
        Some(self.around(inner))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        Ok(match self.inner.try_pushdown_sort(order)? {
            SortOrderPushdownResult::Exact { inner } => SortOrderPushdownResult::Exact {
                inner: self.around(inner),
            },
            SortOrderPushdownResult::Inexact { inner } => SortOrderPushdownResult::Inexact {
                inner: self.around(inner),
            },
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn ExecutionPlan>> {
        let inner = self.inner.with_preserve_order(preserve_order)?;
        Some(self.around(inner))
    }
}
