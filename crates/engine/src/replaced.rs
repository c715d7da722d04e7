//! What operators share that stand for one of DataFusion's, which can spill.

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::fmt;
use std::sync::Arc;

/// Whether the replaced operator has to run because memory is limited; `metrics` say so then.
pub(crate) fn has_to_run(
    context: &TaskContext,
    metrics: &ExecutionPlanMetricsSet,
    partition: usize,
) -> bool {
    let is_limited = matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_));
    if is_limited {
        let left = MetricBuilder::new(metrics).counter("left_to_datafusion", partition);
        left.add(1);
    }
    is_limited
}

/// The metrics of an operator and of the one that it replaces: where that one ran, its are the ones
/// with values.
pub(crate) fn metrics_with(
    own: &ExecutionPlanMetricsSet,
    replaced: &dyn ExecutionPlan,
) -> MetricsSet {
    let mut all = own.clone_inner();
    for metric in replaced.metrics().iter().flat_map(MetricsSet::iter) {
        all.push(Arc::clone(metric));
    }
    all
}

/// The text of an operator in plans.
pub(crate) fn text(plan: &dyn ExecutionPlan, format: DisplayFormatType) -> String {
    struct Shown<'a>(&'a dyn ExecutionPlan, DisplayFormatType);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt_as(self.1, f)
        }
    }
    Shown(plan, format).to_string()
}
