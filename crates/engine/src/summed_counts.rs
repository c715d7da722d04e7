//! Counts that are sums of counts of parts.

use datafusion::common::{DFSchema, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, lit};
use std::sync::Arc;

/// The columns of `groups` with the names of `schema`; those that `are_counts` says are sums of
/// counts, which are 0 for no rows.
pub(crate) fn summed_counts(
    groups: Aggregate,
    schema: &DFSchema,
    are_counts: impl Iterator<Item = bool>,
) -> Result<LogicalPlan> {
    let outputs = schema.iter().zip(groups.schema.columns()).zip(are_counts);
    let outputs = outputs.map(|(((qualifier, field), column), is_count)| {
        let column = Expr::Column(column);
        let value = match is_count {
            true => coalesce(vec![column, lit(0_i64)]),
            false => column,
        };
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let outputs = outputs.collect();
    let groups = Arc::new(LogicalPlan::Aggregate(groups));
    Ok(LogicalPlan::Projection(Projection::try_new(
        outputs, groups,
    )?))
}
