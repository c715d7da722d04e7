//! Whether a part of a plan may be done twice.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use tierloom_corrections::{Walk, WalkAll};

/// Whether `plan` gives the same rows each time: without functions that do not, without subqueries
/// of a row outside it, and without the first rows of a table, which may be others.
pub(crate) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut is_volatile = false;
    plan.each(&mut |node| {
        node.each_expression(&mut |expr| {
            is_volatile |= expr.is_volatile() || has_subquery(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        is_volatile |= matches!(node, LogicalPlan::TableScan(scan) if scan.fetch.is_some());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(!is_volatile)
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.has(&mut |part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::OuterReferenceColumn(..)
        ))
    })
}
