//! Correlated subqueries that return a row for no input row.

use super::correlated::{Site, check, constant_value, with_distinct_names};
use super::null_rules::gives_one_row;
use super::{has_operator, is_subquery, rewrite_expressions};
use crate::walk::{Walk, WalkAll};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::cell::Cell;
use std::sync::Arc;

/// Corrects correlated subqueries over an aggregate without keys, which has one row always.
///
/// DataFusion 55 joins `EXISTS` and `IN` over them on the groups that there are, so that rows
/// without partner were lost; it forgets that rows without partner have values where an output has
/// no aggregate in it; and it leaves out a `HAVING` that is true of no rows. `EXISTS` is true here,
/// `IN` an equality, `HAVING` of a scalar subquery a `CASE`, and an output without an aggregate is
/// computed outside. The rest is refused, and so are all other correlated subqueries that
/// DataFusion is not known to answer (see [`check()`]).
#[derive(Debug, Default)]
pub(crate) struct OneRowSubqueries;

impl AnalyzerRule for OneRowSubqueries {
    fn name(&self) -> &str {
        "tierloom_one_row_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let has_subquery = |node: &LogicalPlan| matches!(node, LogicalPlan::Subquery(_));
        if !has_operator(&plan, has_subquery)? {
            return Ok(plan);
        }
        let mut changed = false;
        let renamed = Cell::new(0);
        let plan = plan.up_all(&mut |node| {
            // All subqueries come by, those of expressions before their operator.
            if let LogicalPlan::Subquery(subquery) = node {
                let subquery = with_distinct_names(subquery, &renamed)?;
                changed |= subquery.transformed;
                return Ok(subquery.update_data(LogicalPlan::Subquery));
            }
            if let LogicalPlan::Join(join) = &node {
                for side in [&join.left, &join.right] {
                    if let LogicalPlan::Subquery(lateral) = without_alias(side) {
                        check(Site::Lateral, lateral)?;
                        check_outputs(lateral)?;
                    }
                }
            }
            if let LogicalPlan::Aggregate(_) = &node {
                refuse_joins(&node)?;
            }
            let node = rewrite_expressions(node, is_subquery, corrected)?;
            changed |= node.transformed;
            // What was never NULL may be now, there and in the columns computed from it.
            match changed {
                true => node.map_data(LogicalPlan::recompute_schema),
                false => Ok(node),
            }
        })?;
        Ok(plan.data)
    }
}

/// Refuses correlated scalar subqueries with joins among the keys and arguments of aggregates.
///
/// DataFusion 55 takes those that occur twice out of the aggregate too late, groups the subquery by
/// columns of its inside, and returns rows of the outer table several times.
fn refuse_joins(aggregate: &LogicalPlan) -> Result<()> {
    let mut is_join = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Join(_)));
    let mut found = false;
    aggregate.each_expression(&mut |expr| {
        expr.each(&mut |expr| {
            if let Expr::ScalarSubquery(subquery) = expr {
                found |= is_correlated(subquery) && subquery.subquery.has(&mut is_join)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match found {
        true => not_impl_err!(
            "a correlated subquery with a join inside of GROUP BY or an aggregate; compute it in \
             a subquery of FROM"
        ),
        false => Ok(()),
    }
}

fn is_correlated(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

fn corrected(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Exists(exists) if is_correlated(&exists.subquery) => {
            match gives_one_row(&exists.subquery.subquery) {
                true => Transformed::yes(lit(!exists.negated)),
                false => {
                    check(Site::Exists, &exists.subquery)?;
                    Transformed::no(Expr::Exists(exists))
                }
            }
        }
        Expr::InSubquery(found) if is_one_row(&found.subquery) => {
            let InSubquery {
                expr,
                subquery,
                negated,
            } = found;
            let op = if negated {
                Operator::NotEq
            } else {
                Operator::Eq
            };
            Transformed::yes(compared(expr, op, subquery)?)
        }
        Expr::SetComparison(found) if is_one_row(&found.subquery) => {
            let SetComparison {
                expr, subquery, op, ..
            } = found;
            Transformed::yes(compared(expr, op, subquery)?)
        }
        Expr::InSubquery(found) => {
            check(Site::Set, &found.subquery)?;
            Transformed::no(Expr::InSubquery(found))
        }
        Expr::SetComparison(found) => {
            check(Site::Set, &found.subquery)?;
            Transformed::no(Expr::SetComparison(found))
        }
        Expr::ScalarSubquery(subquery) if is_correlated(&subquery) => {
            match without_having(&subquery)? {
                Some((having, value)) => {
                    let when = (Box::new(value_of(having)?), Box::new(value_of(value)?));
                    Transformed::yes(Expr::Case(Case::new(None, vec![when], None)))
                }
                None => {
                    let value = value_of(subquery)?;
                    let changed = !matches!(value, Expr::ScalarSubquery(_));
                    Transformed::new_transformed(value, changed)
                }
            }
        }
        other => Transformed::no(other),
    })
}

/// A correlated scalar subquery, or its value where that is the same for all rows.
fn value_of(subquery: Subquery) -> Result<Expr> {
    check(Site::Value, &subquery)?;
    let constant = constant_value(&subquery)?;
    Ok(constant.unwrap_or(Expr::ScalarSubquery(subquery)))
}

fn is_one_row(subquery: &Subquery) -> bool {
    is_correlated(subquery) && gives_one_row(&subquery.subquery)
}

fn compared(expr: Box<Expr>, op: Operator, subquery: Subquery) -> Result<Expr> {
    let value = Box::new(value_of(subquery)?);
    Ok(Expr::BinaryExpr(BinaryExpr::new(expr, op, value)))
}

/// The condition and the value of a scalar subquery with `HAVING` over an aggregate without keys,
/// as two subqueries.
fn without_having(subquery: &Subquery) -> Result<Option<(Subquery, Subquery)>> {
    let LogicalPlan::Projection(projection) = &*subquery.subquery else {
        return Ok(None);
    };
    let LogicalPlan::Filter(having) = &*projection.input else {
        return Ok(None);
    };
    if !is_correlated(subquery) || !is_one_group(&having.input) {
        return Ok(None);
    }
    let of = |output: Vec<Expr>| -> Result<Subquery> {
        let plan = LogicalPlanBuilder::from(Arc::clone(&having.input));
        Ok(Subquery {
            subquery: Arc::new(plan.project(output)?.build()?),
            ..subquery.clone()
        })
    };
    Ok(Some((
        of(vec![having.predicate.clone()])?,
        of(projection.expr.clone())?,
    )))
}

fn without_alias(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => without_alias(&alias.input),
        other => other,
    }
}

fn is_one_group(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty())
}

/// Refuses outputs of a `LATERAL` subquery without an aggregate over an aggregate without keys.
fn check_outputs(lateral: &Subquery) -> Result<()> {
    match is_correlated(lateral) && constant_value(lateral)?.is_some() {
        true => not_impl_err!(
            "an output without an aggregate beside aggregates in a correlated subquery; put it \
             outside of the subquery"
        ),
        false => Ok(()),
    }
}
