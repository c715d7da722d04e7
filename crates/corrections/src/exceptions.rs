//! DataFusion's logical rules that are right but for some plans, or work in vain on most.
//!
//! Rules of the second kind take operators apart and put them together again with names and schemas
//! that they compute anew, in each of up to three passes, before they know whether there is
//! anything to do. A look at the plan tells in a fraction of the time.

use super::{has_join, holds, is_subquery, operator_holds};
use crate::walk::{Walk, WalkAll};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether a rule must leave a plan alone.
type IsLeft = fn(&LogicalPlan) -> Result<bool>;

/// A rule of DataFusion that leaves the plans alone for which it is wrong.
#[derive(Debug)]
pub(crate) struct Except {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    is_left: IsLeft,
}

impl Except {
    /// The rules with exceptions.
    #[cfg(test)]
    pub(crate) fn names() -> [&'static str; EXCEPTIONS.len()] {
        EXCEPTIONS.map(|(name, _)| name)
    }

    /// `rule` with its exception, or `rule` itself if it has none.
    pub(crate) fn around(
        rule: Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        match EXCEPTIONS.iter().find(|(name, _)| *name == rule.name()) {
            Some((_, is_left)) => Arc::new(Except {
                rule,
                is_left: *is_left,
            }),
            None => rule,
        }
    }
}

const EXCEPTIONS: [(&str, IsLeft); 9] = [
    (
        "eliminate_group_by_constant",
        groups_by_columns_or_one_name_twice,
    ),
    ("eliminate_duplicated_expr", is_sort_or_has_no_duplicates),
    ("eliminate_cross_join", has_no_cross_join_or_null_equal_one),
    ("extract_equijoin_predicate", is_null_equal_join),
    ("eliminate_join", is_over_outer_join_of_joins),
    ("rewrite_set_comparison", has_no_set_comparison),
    ("decorrelate_predicate_subquery", has_no_subquery),
    ("scalar_subquery_to_join", has_no_subquery),
    ("simplify_expressions", is_simplified),
];

impl OptimizerRule for Except {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match (self.is_left)(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// Outer joins stay where joins are below them.
///
/// The rule of DataFusion 55 removes an outer join of which one side is not used, if the join finds
/// at most one row of that side for each of the other. It goes by the dependencies of
/// [`is_sort_or_has_no_duplicates`]: a column that was unique before an inner join is not unique
/// after it.
///
/// It looks at the operators above the join, which show what is used.
fn is_over_outer_join_of_joins(plan: &LogicalPlan) -> Result<bool> {
    plan.has(&mut |node| match node {
        LogicalPlan::Join(join) if join.join_type != JoinType::Inner => {
            Ok(has_join(&join.left)? || has_join(&join.right)?)
        }
        _ => Ok(false),
    })
}

/// Sorts keep all of their keys.
///
/// From a sort the rule of DataFusion 55 also removes expressions that are functionally dependent
/// on earlier ones, by dependencies that it propagates through joins. In `SELECT f.id, d.k FROM f,
/// (SELECT k FROM t GROUP BY k) d WHERE ... GROUP BY f.id, d.k ORDER BY d.k, f.id` it concludes
/// that `d.k`, unique before the join, determines `f.id`, and so leaves rows of one `d.k` in any
/// order.
///
/// Aggregates without a key twice it makes anew as they are.
fn is_sort_or_has_no_duplicates(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(matches!(plan, LogicalPlan::Sort(_)));
    };
    let mut keys = aggregate.group_expr.iter().enumerate();
    Ok(!keys.any(|(at, key)| aggregate.group_expr[..at].contains(key)))
}

/// Aggregates keep their keys where two have one name, and where all are columns, of which the rule
/// removes none.
///
/// The rule of DataFusion 55 removes keys that follow from others and adds a projection of all of
/// them. A cast has the name of what it casts, so that of `GROUP BY CAST(a AS DATE), a` the
/// projection is refused.
fn groups_by_columns_or_one_name_twice(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(false);
    };
    let is_column = |key: &Expr| matches!(key, Expr::Column(_));
    if aggregate.group_expr.iter().all(is_column) {
        return Ok(true);
    }
    let mut names = HashSet::new();
    let mut is_new = |key: &Expr| names.insert(key.schema_name().to_string());
    Ok(!aggregate.group_expr.iter().all(&mut is_new))
}

/// Inner joins for which NULL equals NULL stay together, and so do those that have keys and no
/// condition above.
///
/// The rule of DataFusion 55 takes chains of inner joins apart and puts them together with the
/// usual equality, so that `x.a IS NOT DISTINCT FROM y.a` lost the rows in which both are NULL. It
/// rewrites subqueries too. Where all joins have keys it finds no others, but gives up the order
/// that other rules chose in the pass before.
fn has_no_cross_join_or_null_equal_one(plan: &LogicalPlan) -> Result<bool> {
    let is_inner = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner);
    let (mut has_work, mut is_wrong) = (false, false);
    plan.each_of_all(&mut |node| {
        match node {
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                has_work |= join.on.is_empty();
                is_wrong |= null_equals_null(join);
            }
            LogicalPlan::Filter(filter) => has_work |= is_inner(&filter.input),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_wrong || !has_work)
}

fn has_no_set_comparison(plan: &LogicalPlan) -> Result<bool> {
    Ok(!holds(plan, |expr| matches!(expr, Expr::SetComparison(_)))?)
}

fn has_no_subquery(node: &LogicalPlan) -> Result<bool> {
    Ok(!operator_holds(node, is_subquery)?)
}

/// Whether all expressions of an operator are as simple as they can be.
fn is_simplified(node: &LogicalPlan) -> Result<bool> {
    let mut simple = true;
    node.each_expression(&mut |expr| {
        simple = is_simple(expr);
        Ok(match simple {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(simple)
}

/// Whether an expression is as simple as it can be: a column, an aggregate of columns, a comparison
/// of a column with a constant, or several of these on different columns.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => is_simple(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let plain = |arg: &Expr| matches!(arg, Expr::Column(_) | Expr::Literal(..));
            func.simplify().is_none()
                && !params.distinct
                && params.filter.is_none()
                && params.order_by.is_empty()
                && params.args.iter().all(plain)
        }
        _ => {
            let mut compared = Vec::new();
            are_comparisons(expr, &mut compared)
        }
    }
}

/// Whether an expression is a conjunction of comparisons of different columns with constants; their
/// columns are added to `compared`.
fn are_comparisons<'e>(expr: &'e Expr, compared: &mut Vec<&'e Expr>) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return false;
    };
    if *op == Operator::And {
        return are_comparisons(left, compared) && are_comparisons(right, compared);
    }
    let orders = matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
    );
    // Comparisons with NULL and with truth values become something else.
    let other = |value: &ScalarValue| !value.is_null() && !matches!(value, ScalarValue::Boolean(_));
    let (Expr::Column(_), Expr::Literal(value, _)) = (left.as_ref(), right.as_ref()) else {
        return false;
    };
    let is_new = !compared.contains(&left.as_ref());
    compared.push(left);
    orders && other(value) && is_new
}

/// Joins for which NULL equals NULL get no further keys.
///
/// The rule of DataFusion 55 makes a key of `x.b = y.b` too, for which NULL then equals NULL as
/// well.
fn is_null_equal_join(plan: &LogicalPlan) -> Result<bool> {
    Ok(matches!(plan, LogicalPlan::Join(join) if null_equals_null(join) && !join.on.is_empty()))
}

fn null_equals_null(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
}
