//! Outer joins with `USING` and `NATURAL`.

use crate::walk::WalkAll;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinConstraint, JoinType, Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Refuses `RIGHT` and `FULL JOIN` with `USING`, and so with `NATURAL`.
///
/// The one column that such a join has for both sides must be the right side's where the left one
/// has no row. DataFusion 55 takes the left side's, which is NULL there, and once a query is a plan
/// nobody can tell `id` from `l.id`.
#[derive(Debug, Default)]
pub struct NoMergedOuterColumns;

impl AnalyzerRule for NoMergedOuterColumns {
    fn name(&self) -> &str {
        "tierloom_no_merged_outer_columns"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_of_all(&mut |node| match node {
            LogicalPlan::Join(join)
                if join.join_constraint == JoinConstraint::Using
                    && matches!(join.join_type, JoinType::Right | JoinType::Full) =>
            {
                plan_err!(
                    "a RIGHT or FULL JOIN with USING or NATURAL would lose values of the shared \
                     columns; write ON l.id = r.id, and coalesce(l.id, r.id) for the column"
                )
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })?;
        Ok(plan)
    }
}
