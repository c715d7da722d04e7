//! Equalities that become keys of a join.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's `ExtractEquijoinPredicate`, except that joins for which NULL equals NULL get no
/// further keys.
///
/// The rule of DataFusion 55 makes a key of `x.b = y.b` too, for which NULL then equals NULL as
/// well.
#[derive(Debug, Default)]
pub(crate) struct EquiJoins(ExtractEquijoinPredicate);

impl OptimizerRule for EquiJoins {
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
        match &plan {
            LogicalPlan::Join(join)
                if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty() =>
            {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}
