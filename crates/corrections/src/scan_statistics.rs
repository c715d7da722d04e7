//! Aggregates that are read off statistics instead of computed.

use super::filter_fence::Fenced;
use crate::Walk;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use std::sync::Arc;

/// DataFusion's rule that answers `count(*)`, `min` and `max` from statistics, for aggregates of
/// whole tables only.
///
/// Above a filter or a join the statistics of DataFusion 55 are estimates, some of which it calls
/// exact: a filter `k = 2` that keeps "about one row" has "exactly one" distinct `k`, also where no
/// row has that value, and joins pass this on. `SELECT count(DISTINCT a), count(DISTINCT b) FROM t
/// WHERE a = 2 AND b = 9` was 1, 1 for a table without such rows.
#[derive(Debug, Default)]
pub(crate) struct ScanStatistics(AggregateStatistics);

impl ScanStatistics {
    /// DataFusion's physical rules with this one in the place of its own, and with fences.
    #[must_use]
    pub(crate) fn among_defaults() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
        let own: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(Self::default());
        let rules = PhysicalOptimizer::new().rules.into_iter();
        let replaced = rules.map(|rule| match rule.name() {
            name if name == own.name() => Arc::clone(&own),
            _ => Fenced::around(rule),
        });
        replaced.collect()
    }
}

impl PhysicalOptimizerRule for ScanStatistics {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<AggregateExec>() && is_whole_table(&plan) {
            return self.0.optimize(plan, config);
        }
        let mut below = |child| self.optimize(child, config).map(Transformed::yes);
        plan.change_children(&mut below).data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a plan reads all rows of one table and drops none.
fn is_whole_table(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    match children.as_slice() {
        // What a source calls exact is; a scan that filters calls nothing so.
        [] => true,
        [child] => {
            // A group-by has other rows than its table.
            let ungrouped = plan
                .downcast_ref::<AggregateExec>()
                .is_some_and(|a| a.group_expr().is_empty());
            let keeps_rows = ungrouped
                || plan.is::<ProjectionExec>()
                || plan.is::<CoalescePartitionsExec>()
                || plan.is::<RepartitionExec>();
            keeps_rows && is_whole_table(child)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_that_is_replaced_is_still_called_as_it_was() {
        let own = ScanStatistics::default();
        let rules = PhysicalOptimizer::new().rules;
        assert_eq!(rules.iter().filter(|r| r.name() == own.name()).count(), 1);
        let pushing = |name: &str| rules.iter().filter(|r| r.name().starts_with(name)).count();
        assert_eq!(pushing(Fenced::FILTERS), 2);
        assert!(pushing(Fenced::PROJECTIONS) > 0);
        assert_eq!(ScanStatistics::among_defaults().len(), rules.len());
    }
}
