//! `EXISTS` and `IN` over a subquery as values: in an output, or in the argument of an aggregate.

use super::{holds, operator_holds};
use crate::walk::{Walk, WalkAll};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::fmt;
use std::sync::Arc;

/// Computes such values by joins below their operator.
///
/// DataFusion 55 joins them in `WHERE` and `HAVING` alone, and has no plan for `SELECT EXISTS
/// (SELECT ...)`. Its rule for conditions is given one here, and what becomes of it (a join that
/// marks rows, and a condition on the mark) is taken apart.
pub(crate) struct ValueSubqueries(pub Arc<dyn OptimizerRule + Send + Sync>);

impl ValueSubqueries {
    /// The rule of DataFusion that joins subqueries of conditions.
    pub const BEFORE: &str = "decorrelate_predicate_subquery";

    /// The operator with marks in the place of its subqueries; unchanged if one cannot be joined.
    fn with_marks(
        &self,
        node: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !takes_marks(&node) || !operator_holds(&node, is_condition)? {
            return Ok(Transformed::no(node));
        }
        let mut input = node.inputs()[0].clone();
        let mut complete = true;
        let names = NamePreserver::new(&node);
        let mut expressions = Vec::new();
        for expr in node.expressions() {
            let name = names.save(&expr);
            let marked = expr.up(&mut |expr| {
                if !is_condition(&expr) {
                    return Ok(Transformed::no(expr));
                }
                match self.marked(expr.clone(), &input, config)? {
                    Some((mark, with_mark)) => {
                        input = with_mark;
                        Ok(Transformed::yes(mark))
                    }
                    None => {
                        complete = false;
                        Ok(Transformed::no(expr))
                    }
                }
            })?;
            expressions.push(name.restore(marked.data));
        }
        match complete {
            true => node
                .with_new_exprs(expressions, vec![input])
                .map(Transformed::yes),
            false => Ok(Transformed::no(node)),
        }
    }

    /// The value of a condition, and `input` joined with what it is computed from.
    fn marked(
        &self,
        condition: Expr,
        input: &LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<(Expr, LogicalPlan)>> {
        // Below another expression it becomes a mark, and not a join that drops rows.
        let filter = Filter::try_new(condition.is_true(), Arc::new(input.clone()))?;
        let joined = self.0.rewrite(LogicalPlan::Filter(filter), config)?.data;
        let joined = match joined {
            LogicalPlan::Projection(original) => Arc::unwrap_or_clone(original.input),
            other => other,
        };
        let LogicalPlan::Filter(filter) = joined else {
            return Ok(None);
        };
        if filter.predicate.has(&mut |expr| Ok(is_condition(expr)))? {
            return Ok(None);
        }
        Ok(Some((filter.predicate, Arc::unwrap_or_clone(filter.input))))
    }
}

/// Whether the operator ignores columns that are added to its input.
fn takes_marks(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(_) => true,
        LogicalPlan::Aggregate(aggregate) => {
            // Sets of keys are more than their expressions.
            let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
            !aggregate.group_expr.iter().any(is_set)
        }
        _ => false,
    }
}

fn is_condition(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_))
}

impl fmt::Debug for ValueSubqueries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl OptimizerRule for ValueSubqueries {
    fn name(&self) -> &str {
        "tierloom_value_subqueries"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // To look takes a fraction of the time of rewriting.
        if !holds(&plan, is_condition)? {
            return Ok(Transformed::no(plan));
        }
        plan.up_all(&mut |node| self.with_marks(node, config))
    }

    fn supports_rewrite(&self) -> bool {
        true
    }
}
