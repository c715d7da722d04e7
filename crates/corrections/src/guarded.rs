//! Conditions that a `CASE` guards.

use super::{operator_holds, rewrite_whole_expressions};
use crate::walk::Walk;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Keeps a `CASE` of conditions one where evaluating a branch for other rows could fail.
///
/// The simplifier of DataFusion 55 makes `AND` and `OR` of it, which evaluate their sides for all
/// rows: `CASE WHEN n = 0 THEN false ELSE 1 / n > 0 END` failed for 0. A `CASE` of numbers is left
/// alone, so the conditions become numbers. The rule must run before the simplifier.
#[derive(Debug, Default)]
pub(crate) struct GuardedConditions;

impl OptimizerRule for GuardedConditions {
    fn name(&self) -> &str {
        "tierloom_guarded_conditions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // Most operators have none, and the optimizer asks in every pass.
        if !operator_holds(&plan, |expr| matches!(expr, Expr::Case(_)))? {
            return Ok(Transformed::no(plan));
        }
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&scan.projected_schema);
        }
        rewrite_whole_expressions(plan, |expr| {
            expr.up(&mut |expr| match expr {
                Expr::Case(case) => guarded(case, &schema),
                other => Ok(Transformed::no(other)),
            })
        })
    }
}

fn guarded(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_condition = case.expr.is_none()
        && case
            .when_then_expr
            .first()
            .is_some_and(|(_, then)| matches!(then.get_type(schema), Ok(DataType::Boolean)));
    if !is_condition {
        return Ok(Transformed::no(Expr::Case(case)));
    }
    // The first condition is evaluated for all rows in any case.
    let later = case.when_then_expr.iter().skip(1).map(|(when, _)| when);
    let branches = case.when_then_expr.iter().map(|(_, then)| then);
    let mut behind_guards = later.chain(branches).chain(&case.else_expr);
    if !behind_guards.any(|expr| may_fail(expr, schema)) {
        return Ok(Transformed::no(Expr::Case(case)));
    }
    let number = |condition: Box<Expr>| Box::new(cast(*condition, DataType::Int8));
    let pairs = case.when_then_expr.into_iter();
    let numbers = Case {
        expr: None,
        when_then_expr: pairs.map(|(when, then)| (when, number(then))).collect(),
        else_expr: case.else_expr.map(number),
    };
    // Not a comparison: the simplifier moves those into the branches and has conditions again.
    let condition = cast(Expr::Case(numbers), DataType::Boolean);
    Ok(Transformed::yes(condition))
}

/// Whether evaluating an expression can fail for some values.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let mut fails = |expr: &Expr| {
        Ok(match expr {
            Expr::BinaryExpr(binary) => binary.op.is_numerical_operators(),
            Expr::Negative(_) | Expr::ScalarFunction(_) => true,
            Expr::Cast(cast) => match cast.expr.get_type(schema) {
                Ok(from) => !is_total(&from, cast.field.data_type()),
                Err(_) => true,
            },
            _ => false,
        })
    };
    expr.has(&mut fails).unwrap_or(true)
}

/// Whether a cast has a result for every value.
fn is_total(from: &DataType, to: &DataType) -> bool {
    let widens = match (from.primitive_width(), to.primitive_width()) {
        (Some(from), Some(to)) => from < to,
        _ => false,
    };
    let counts = from.is_integer() && to.is_integer() && widens && !to.is_unsigned_integer();
    counts
        || from == to
        || to.is_string()
        || (to.is_floating() && (from.is_integer() || from.is_floating()))
        || (from == &DataType::Boolean && to.is_integer())
}
