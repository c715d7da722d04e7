//! Correlated subqueries that return a row for no input row.

use super::null_rules::gives_one_row;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, Expr, FetchType, LogicalPlan, Operator, SkipType, Subquery, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Corrects correlated subqueries over an aggregate without keys, which has one row always.
///
/// DataFusion 55 joins `EXISTS` and `IN` over them on the groups that there are, so that rows
/// without partner were lost; and it forgets that rows without partner have values where an output
/// has no aggregate in it. `EXISTS` is true here and `IN` an equality; the rest is refused, and so
/// is `OFFSET` in `EXISTS`, which DataFusion leaves out.
#[derive(Debug, Default)]
pub(crate) struct OneRowSubqueries;

impl AnalyzerRule for OneRowSubqueries {
    fn name(&self) -> &str {
        "tierloom_one_row_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            if let LogicalPlan::Subquery(lateral) = &node {
                check_outputs(lateral)?;
            }
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr
                    .transform_up(corrected)?
                    .update_data(|e| name.restore(e)))
            })
        })?;
        Ok(plan.data)
    }
}

fn is_correlated(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

fn corrected(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Exists(exists) if is_correlated(&exists.subquery) => {
            if skips_rows(&exists.subquery.subquery) {
                return not_impl_err!("OFFSET in a correlated EXISTS");
            }
            match gives_one_row(&exists.subquery.subquery) {
                true => Transformed::yes(lit(!exists.negated)),
                false => Transformed::no(Expr::Exists(exists)),
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
            Transformed::yes(compared(expr, op, subquery))
        }
        Expr::SetComparison(found) if is_one_row(&found.subquery) => {
            let SetComparison {
                expr, subquery, op, ..
            } = found;
            Transformed::yes(compared(expr, op, subquery))
        }
        Expr::ScalarSubquery(subquery) => {
            if is_correlated(&subquery) {
                check_outputs(&subquery)?;
            }
            Transformed::no(Expr::ScalarSubquery(subquery))
        }
        other => Transformed::no(other),
    })
}

fn is_one_row(subquery: &Subquery) -> bool {
    is_correlated(subquery) && gives_one_row(&subquery.subquery)
}

fn compared(expr: Box<Expr>, op: Operator, subquery: Subquery) -> Expr {
    let value = Box::new(Expr::ScalarSubquery(subquery));
    Expr::BinaryExpr(BinaryExpr::new(expr, op, value))
}

/// Whether the outermost operators leave out the first rows.
fn skips_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Limit(limit) => {
            let none = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
            let all = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0))));
            !none || all || skips_rows(&limit.input)
        }
        LogicalPlan::Projection(projection) => skips_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => skips_rows(&alias.input),
        LogicalPlan::Sort(sort) => skips_rows(&sort.input),
        _ => false,
    }
}

/// Refuses outputs without an aggregate over an aggregate without keys.
fn check_outputs(subquery: &Subquery) -> Result<()> {
    let mut plan = &*subquery.subquery;
    while let LogicalPlan::SubqueryAlias(alias) = plan {
        plan = &alias.input;
    }
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(());
    };
    let below = match &*projection.input {
        LogicalPlan::Filter(having) => &having.input,
        other => other,
    };
    let one_row = match below {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    };
    let is_constant = |output: &Expr| output.column_refs().is_empty();
    if one_row && is_correlated(subquery) && projection.expr.iter().any(is_constant) {
        return not_impl_err!(
            "an output without an aggregate beside aggregates in a correlated subquery; put it \
             outside of the subquery"
        );
    }
    Ok(())
}
