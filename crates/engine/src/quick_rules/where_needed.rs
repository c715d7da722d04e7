//! Rules that are run only on plans that they may change.
//!
//! DataFusion runs each logical rule up to three times on every query, and rules take plans apart
//! and build them again to find that nothing is to be done. Looking at a plan takes a fraction of
//! that time.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Whether a rule may change a plan; for rules that are given one operator after the other, whether
/// it may change the operator.
type MayChange = fn(&LogicalPlan) -> Result<bool>;

/// By the names of DataFusion's rules, the plans that they may change.
const LOGICAL: [(&str, MayChange); 5] = [
    ("rewrite_set_comparison", has_set_comparison),
    ("simplify_expressions", is_to_simplify),
    ("decorrelate_predicate_subquery", has_subquery),
    ("eliminate_duplicated_expr", has_duplicates),
    ("eliminate_cross_join", has_join_to_make),
];

/// A logical rule that leaves other plans as they are.
#[derive(Debug)]
struct WhereNeeded {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    may_change: MayChange,
}

/// The rule, run only where it may change something if that is known of it.
pub(crate) fn logical(
    rule: Arc<dyn OptimizerRule + Send + Sync>,
) -> Arc<dyn OptimizerRule + Send + Sync> {
    let known = LOGICAL.iter().find(|(name, _)| *name == rule.name());
    match known {
        Some((_, may_change)) => Arc::new(WhereNeeded {
            rule,
            may_change: *may_change,
        }),
        None => rule,
    }
}

impl OptimizerRule for WhereNeeded {
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
        match (self.may_change)(&plan)? {
            true => self.rule.rewrite(plan, config),
            false => Ok(Transformed::no(plan)),
        }
    }
}

/// Whether an operator of the plan, those of subqueries included, is `such`.
fn has_operator(plan: &LogicalPlan, such: impl Fn(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = such(node)?;
        Ok(go_on_unless(found))
    })?;
    Ok(found)
}

/// Whether an expression of the operator is `such`.
fn has_expression(node: &LogicalPlan, such: impl Fn(&Expr) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = such(expr)?;
        Ok(go_on_unless(found))
    })?;
    Ok(found)
}

fn go_on_unless(found: bool) -> TreeNodeRecursion {
    match found {
        true => TreeNodeRecursion::Stop,
        false => TreeNodeRecursion::Continue,
    }
}

fn has_set_comparison(plan: &LogicalPlan) -> Result<bool> {
    let is_comparison = |expr: &Expr| Ok(matches!(expr, Expr::SetComparison(_)));
    has_operator(plan, |node| {
        has_expression(node, |expr| expr.exists(is_comparison))
    })
}

fn has_subquery(node: &LogicalPlan) -> Result<bool> {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
        ))
    };
    has_expression(node, |expr| expr.exists(is_subquery))
}

/// Whether a sort or a group-by may have an expression twice.
fn has_duplicates(node: &LogicalPlan) -> Result<bool> {
    Ok(match node {
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.iter().enumerate();
            let mut groups = groups.map(|(at, group)| (group, &aggregate.group_expr[..at]));
            groups.any(|(group, before)| before.contains(group))
        }
        other => matches!(other, LogicalPlan::Sort(_)),
    })
}

/// Whether there is an inner join without keys, or one below a filter that may have keys for it.
fn has_join_to_make(plan: &LogicalPlan) -> Result<bool> {
    let is_inner = |node: &LogicalPlan| match node {
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
        _ => false,
    };
    has_operator(plan, |node| {
        Ok(match node {
            LogicalPlan::Join(join) => join.on.is_empty() && is_inner(node),
            LogicalPlan::Filter(filter) => is_inner(&filter.input),
            _ => false,
        })
    })
}

fn is_to_simplify(node: &LogicalPlan) -> Result<bool> {
    has_expression(node, |expr| Ok(!is_simple(expr)))
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
