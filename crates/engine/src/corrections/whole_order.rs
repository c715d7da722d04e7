//! Restores the complete sort key of `ORDER BY`, against a rule of DataFusion 55.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's `EliminateDuplicatedExpr`, except that it leaves sorts alone.
///
/// From a sort the rule of DataFusion 55 also removes expressions that are functionally dependent
/// on earlier ones, by dependencies that it propagates through joins. In `SELECT f.id, d.k FROM f,
/// (SELECT k FROM t GROUP BY k) d WHERE ... GROUP BY f.id, d.k ORDER BY d.k, f.id` it concludes
/// that `d.k`, unique before the join, determines `f.id`, and so leaves rows of one `d.k` in any
/// order.
#[derive(Debug, Default)]
pub(crate) struct WholeOrders(EliminateDuplicatedExpr);

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
