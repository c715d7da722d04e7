//! Types of the columns of an outer query, as its rows will have them.

use super::{holds, is_subquery, operator_holds};
use crate::walk::{Walk, WalkAll};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, DataFusionError, ExprSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// Gives columns of the outer query the types in subqueries that they have outside.
///
/// DataFusion 55 notes the type when it reads the text. Those of a `UNION` and of a `CASE` may be
/// widened later: then the subquery compared values of two types, which failed while it was planned
/// or while it ran. The rule must run before types are coerced.
#[derive(Debug, Default)]
pub(crate) struct OuterTypes;

impl AnalyzerRule for OuterTypes {
    fn name(&self) -> &str {
        "tierloom_outer_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !holds(&plan, is_subquery)? {
            return Ok(plan);
        }
        plan.up_all(&mut |node| {
            let widened = is_correlated(&node)?
                && node.inputs().into_iter().try_fold(false, |found, input| {
                    Ok::<_, DataFusionError>(found || may_widen(input)?)
                })?;
            if !widened {
                return Ok(Transformed::no(node));
            }
            let inputs = node.inputs().into_iter();
            let inputs = inputs.map(|input| TypeCoercion::new().analyze(input.clone(), config));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let schema = merge_schema(&inputs.iter().collect::<Vec<_>>());
            node.change_subqueries(&mut |subquery| match subquery {
                LogicalPlan::Subquery(subquery) => {
                    retyped(subquery, &schema).map(|s| s.update_data(LogicalPlan::Subquery))
                }
                other => Ok(Transformed::no(other)),
            })
        })
        .data()
    }
}

/// Whether a subquery in an expression of `node` uses columns of its inputs.
fn is_correlated(node: &LogicalPlan) -> Result<bool> {
    operator_holds(node, |expr| match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        Expr::Exists(found) => !found.subquery.outer_ref_columns.is_empty(),
        Expr::InSubquery(found) => !found.subquery.outer_ref_columns.is_empty(),
        Expr::SetComparison(found) => !found.subquery.outer_ref_columns.is_empty(),
        _ => false,
    })
}

/// Whether columns of a plan may get other types when types are coerced.
fn may_widen(plan: &LogicalPlan) -> Result<bool> {
    Ok(
        plan.has(&mut |node| Ok(matches!(node, LogicalPlan::Union(_))))?
            || holds(plan, |expr| matches!(expr, Expr::Case(_)))?,
    )
}

/// The subquery, and those in it, with the types of `schema` for its columns.
fn retyped(subquery: Subquery, schema: &DFSchema) -> Result<Transformed<Subquery>> {
    let mut retype = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(field, column) => {
            let now = schema.field_from_column(&column).ok();
            let now = now.filter(|now| now.data_type() != field.data_type());
            Ok(match now {
                Some(now) => Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column)),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            })
        }
        other => Ok(Transformed::no(other)),
    };
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let plan = plan.up_all(&mut |node| {
        let node = match node {
            LogicalPlan::Subquery(mut inner) => {
                let outer = inner.outer_ref_columns.into_iter();
                let outer = outer.map(|expr| expr.up(&mut retype).data());
                inner.outer_ref_columns = outer.collect::<Result<_>>()?;
                LogicalPlan::Subquery(inner)
            }
            other => other,
        };
        node.change_expressions(&mut |expr| expr.up(&mut retype))
    })?;
    let outer = subquery.outer_ref_columns.into_iter();
    let outer = outer.map(|expr| expr.up(&mut retype).data());
    Ok(Transformed::yes(Subquery {
        subquery: Arc::new(plan.data),
        outer_ref_columns: outer.collect::<Result<_>>()?,
        spans: subquery.spans,
    }))
}
