//! Conditions above aggregates and windows that are not conditions on their input.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's `PushDownFilter`, except that conditions without columns stay above aggregates, and
/// those that differ from call to call above windows too.
///
/// The rule of DataFusion 55 pushes a condition below an aggregate if all its columns are group
/// keys. One without any column (`HAVING (SELECT max(a) FROM t) > 5`) meets that, but an aggregate
/// without keys returns a row for no input too: `SELECT count(*) ... HAVING false` was 0.
#[derive(Debug, Default)]
pub(crate) struct GroupFilters(PushDownFilter);

impl GroupFilters {
    /// The name of DataFusion's rule, in whose place this one is.
    pub(crate) const NAME: &str = "push_down_filter";
}

impl OptimizerRule for GroupFilters {
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
        let LogicalPlan::Filter(filter) = &plan else {
            return self.0.rewrite(plan, config);
        };
        let (conditions, input) = all_conditions(filter);
        let stays: fn(&Expr) -> bool = match &*input {
            LogicalPlan::Aggregate(_) => |c| c.column_refs().is_empty() || c.is_volatile(),
            LogicalPlan::Window(_) => |c| c.is_volatile(),
            _ => return self.0.rewrite(plan, config),
        };
        let (kept, pushed): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(stays);
        let Some(kept) = conjunction(kept) else {
            return self.0.rewrite(plan, config);
        };
        let below = match conjunction(pushed) {
            Some(pushed) => {
                let pushed = LogicalPlan::Filter(Filter::try_new(pushed, input)?);
                self.0.rewrite(pushed, config)?
            }
            None => Transformed::no(Arc::unwrap_or_clone(input)),
        };
        // One filter, so that the next pass finds the plan as it is now.
        let (kept, below_kept) = match below.data {
            LogicalPlan::Filter(left) => (kept.and(left.predicate), left.input),
            other => (kept, Arc::new(other)),
        };
        let kept = LogicalPlan::Filter(Filter::try_new(kept, below_kept)?);
        Ok(Transformed::new_transformed(kept, below.transformed))
    }
}

/// The conditions of a filter and of the filters right below it, and what they filter.
fn all_conditions(filter: &Filter) -> (Vec<Expr>, Arc<LogicalPlan>) {
    let mut conditions = split_conjunction_owned(filter.predicate.clone());
    let mut input = &filter.input;
    while let LogicalPlan::Filter(inner) = &**input {
        conditions.extend(split_conjunction_owned(inner.predicate.clone()));
        input = &inner.input;
    }
    (conditions, Arc::clone(input))
}
