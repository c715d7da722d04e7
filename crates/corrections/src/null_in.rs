//! `IN` over a subquery inside a larger condition, with NULL as its third value.

use super::constants::simplified;
use super::null_rules::has_no_nulls;
use super::{holds, operator_holds, rewrite_whole_expressions};
use crate::Walk;
use crate::walk::WalkAll;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Writes such conditions out as a `CASE` over `EXISTS`.
///
/// `a IN (SELECT b ...)` is NULL if there is no match but a NULL among the `b`, or if `a` is NULL
/// and there is any row. DataFusion 55 joins such subqueries in a way that gives true and false
/// alone, so that `NOT (a IN (...)) OR c`, `(a IN (...)) IS NULL` and the like kept rows that they
/// must drop. As a whole condition of `WHERE` both forms have joins that are right, except for `NOT
/// IN` over a correlated subquery, whose join takes a NULL of any row for one of the rows that
/// belong together, and for `5 NOT IN (...)`, which becomes a filter. `IN` below `AND` and `OR`
/// alone is right too: a condition that is NULL drops its row as one that is false. Outputs and
/// arguments of aggregates are written out too, for [`super::value_subqueries`].
#[derive(Debug, Default)]
pub(crate) struct ThreeValuedIn;

impl AnalyzerRule for ThreeValuedIn {
    fn name(&self) -> &str {
        "tierloom_three_valued_in"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let such = |expr: &Expr| matches!(expr, Expr::InSubquery(_) | Expr::SetComparison(_));
        if !holds(&plan, such)? {
            return Ok(plan);
        }
        let plan = plan.up_all(&mut |node| {
            if let LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) = &node
                && operator_holds(&node, such)?
            {
                let input = node.inputs()[0].clone();
                return rewrite_whole_expressions(node, |value| {
                    let value = value.up(&mut as_in)?;
                    value.transform_data(|value| written_out(value, &input, false))
                });
            }
            let LogicalPlan::Filter(filter) = node else {
                return Ok(Transformed::no(node));
            };
            let conditions = split_conjunction_owned(filter.predicate.clone());
            let written = conditions
                .into_iter()
                .map(
                    |condition| match is_whole(&condition, filter.input.schema()) {
                        true => Ok(Transformed::no(condition)),
                        false => written_out(condition, &filter.input, true),
                    },
                )
                .collect::<Result<Vec<_>>>()?;
            if written.iter().all(|condition| !condition.transformed) {
                return Ok(Transformed::no(LogicalPlan::Filter(filter)));
            }
            let predicate = conjunction(written.into_iter().map(|condition| condition.data));
            let predicate = predicate.unwrap_or_else(|| lit(true));
            let filter = Filter::try_new(predicate, filter.input)?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        })?;
        Ok(plan.data)
    }
}

/// `= ANY` and `<> ALL` as the `IN` and `NOT IN` that they are.
fn as_in(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::SetComparison(set) = expr else {
        return Ok(Transformed::no(expr));
    };
    let negated = match (set.op, &set.quantifier) {
        (Operator::Eq, SetQuantifier::Any) => false,
        (Operator::NotEq, SetQuantifier::All) => true,
        _ => return Ok(Transformed::no(Expr::SetComparison(set))),
    };
    Ok(Transformed::yes(Expr::InSubquery(InSubquery {
        expr: set.expr,
        subquery: set.subquery,
        negated,
    })))
}

/// Whether a condition is `IN` or `NOT IN` itself, of which the planner makes the right join.
fn is_whole(condition: &Expr, schema: &DFSchemaRef) -> bool {
    // `CASE WHEN false THEN a END` has a column, but not when the planner makes the join.
    let is_join = |found: &InSubquery| {
        found.subquery.outer_ref_columns.is_empty()
            && !simplified(&found.expr, schema).column_refs().is_empty()
    };
    match condition {
        Expr::InSubquery(found) => !found.negated || is_join(found),
        Expr::Not(inner) => match &**inner {
            Expr::InSubquery(found) => found.negated || is_join(found),
            _ => false,
        },
        _ => false,
    }
}

/// `expr` with the `IN`s below it written out; `null_is_false` where nothing above tells them
/// apart.
fn written_out(expr: Expr, input: &LogicalPlan, null_is_false: bool) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InSubquery(found) => {
            let alike = null_is_false && !found.negated;
            // A NULL-aware join has one key, and a correlated `NOT IN` has several.
            let one_key = !found.negated || found.subquery.outer_ref_columns.is_empty();
            if alike || one_key && cannot_be_null(&found, input) {
                return Ok(Transformed::no(Expr::InSubquery(found)));
            }
            Ok(Transformed::yes(with_null(found)?))
        }
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            let left = written_out(*binary.left, input, null_is_false)?;
            let right = written_out(*binary.right, input, null_is_false)?;
            let transformed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let binary = Expr::BinaryExpr(BinaryExpr::new(left, binary.op, right));
            Ok(match transformed {
                true => Transformed::yes(binary),
                false => Transformed::no(binary),
            })
        }
        other => other.change_children(&mut |child| written_out(child, input, false)),
    }
}

/// Whether neither side of an `IN` can be NULL.
fn cannot_be_null(found: &InSubquery, input: &LogicalPlan) -> bool {
    let outer = match &*found.expr {
        Expr::Column(column) => has_no_nulls(input, column),
        Expr::Literal(value, _) => !value.is_null(),
        _ => false,
    };
    let rows = &found.subquery.subquery;
    outer && has_no_nulls(rows, &Column::from(rows.schema().qualified_field(0)))
}

fn with_null(found: InSubquery) -> Result<Expr> {
    let rows = Arc::clone(&found.subquery.subquery);
    let value = Expr::Column(Column::from(rows.schema().qualified_field(0)));
    let nulls = LogicalPlanBuilder::from(Arc::clone(&rows))
        .filter(value.is_null())?
        .build()?;
    let exists = |rows: Arc<LogicalPlan>| {
        Expr::Exists(Exists {
            subquery: Subquery {
                subquery: rows,
                ..found.subquery.clone()
            },
            negated: false,
        })
    };
    let outer_is_null = found.expr.as_ref().clone().is_null();
    let unknown = outer_is_null.and(exists(rows)).or(exists(Arc::new(nulls)));
    let negated = found.negated;
    let matches = Expr::InSubquery(InSubquery {
        negated: false,
        ..found
    });
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    let branches = vec![
        (Box::new(matches), Box::new(lit(!negated))),
        (Box::new(unknown), Box::new(null)),
    ];
    let otherwise = Some(Box::new(lit(negated)));
    Ok(Expr::Case(Case::new(None, branches, otherwise)))
}
