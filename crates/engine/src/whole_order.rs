//! Sorting by all that `ORDER BY` names.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule that takes double expressions out, for all nodes but sorts.
///
/// From a sort the rule of DataFusion 55 also takes the expressions that earlier ones determine, by
/// dependencies that it carries through joins: in `SELECT f.id, d.k FROM f, (SELECT k FROM t GROUP
/// BY k) d WHERE ... GROUP BY f.id, d.k ORDER BY d.k, f.id` it holds that `d.k`, unique before the
/// join, determines `f.id`, and leaves rows of one `d.k` in any order.
#[derive(Debug, Default)]
pub struct WholeOrders(EliminateDuplicatedExpr);

impl WholeOrders {
    /// `rules` with this one in the place of DataFusion's.
    #[must_use]
    pub fn among(
        rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    ) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
        let own: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(WholeOrders::default());
        let replaced = rules.into_iter().map(|rule| match rule.name() {
            name if name == own.name() => Arc::clone(&own),
            _ => rule,
        });
        replaced.collect()
    }
}

impl OptimizerRule for WholeOrders {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Sort(_) => Ok(Transformed::no(plan)),
            other => self.0.rewrite(other, config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::optimizer::Optimizer;

    #[test]
    fn the_rule_that_is_replaced_is_still_called_as_it_was() {
        let rules = Optimizer::new().rules;
        let own = WholeOrders::default();
        assert_eq!(rules.iter().filter(|r| r.name() == own.name()).count(), 1);
        assert_eq!(WholeOrders::among(rules.clone()).len(), rules.len());
    }
}
