//! Joins on `IS NOT DISTINCT FROM` beside cross joins.

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's `EliminateCrossJoin`, except that it leaves plans alone that have inner joins for
/// which NULL equals NULL.
///
/// The rule of DataFusion 55 takes chains of inner joins apart and puts them together with the
/// usual equality, so that `x.a IS NOT DISTINCT FROM y.a` lost the rows in which both are NULL.
#[derive(Debug, Default)]
pub(crate) struct CrossJoins(EliminateCrossJoin);

impl OptimizerRule for CrossJoins {
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
        let mut found = false;
        // The rule rewrites subqueries too.
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Join(join) = node {
                let inner = join.join_type == JoinType::Inner;
                found |= inner && join.null_equality == NullEquality::NullEqualsNull;
            }
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        match found {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}
