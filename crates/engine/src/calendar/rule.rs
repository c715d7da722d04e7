//! Puts the functions into plans.

use super::functions::{date_of, earlier, later, quick_cut, quick_part};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tierloom_corrections::{Walk, operator_holds};

/// Computes parts of timestamps by arithmetic where values are made: in outputs, keys of groups and
/// joins and arguments of aggregates. Conditions stay as other rules know them.
#[derive(Debug)]
pub(crate) struct CalendarFunctions {
    part: Arc<ScalarUDF>,
    cut: Arc<ScalarUDF>,
    date: Arc<ScalarUDF>,
    later: Arc<ScalarUDF>,
    earlier: Arc<ScalarUDF>,
}

impl Default for CalendarFunctions {
    fn default() -> Self {
        CalendarFunctions {
            part: Arc::new(quick_part()),
            cut: Arc::new(quick_cut()),
            date: Arc::new(date_of()),
            later: Arc::new(later()),
            earlier: Arc::new(earlier()),
        }
    }
}

impl OptimizerRule for CalendarFunctions {
    fn name(&self) -> &str {
        "tierloom_calendar_functions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let has_values = matches!(
            plan,
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Join(_)
        );
        // Most operators have none, and the optimizer asks in every pass.
        if !has_values || !operator_holds(&plan, is_candidate)? {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let quick = |expr: Expr| expr.up(&mut |expr| Ok(self.quick(expr, &schema)));
        let LogicalPlan::Join(mut join) = plan else {
            return plan.map_expressions(quick);
        };
        let mut is_changed = false;
        for key in join.on.iter_mut().flat_map(|(left, right)| [left, right]) {
            // Keys that are casts to dates get a name of their own from the planner.
            if matches!(key, Expr::Cast(_)) {
                continue;
            }
            let made = quick(std::mem::take(key))?;
            is_changed |= made.transformed;
            *key = made.data;
        }
        let join = LogicalPlan::Join(join);
        Ok(Transformed::new(
            join,
            is_changed,
            TreeNodeRecursion::Continue,
        ))
    }
}

impl CalendarFunctions {
    fn quick(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let type_of = |arg: &Expr| match arg {
            Expr::Literal(..) => None,
            arg => arg.get_type(schema).ok(),
        };
        let has_date = |arg: &Expr| type_of(arg) == Some(DataType::Date32);
        let is_known = |arg: &Expr| matches!(type_of(arg), Some(DataType::Timestamp(_, None)));
        match expr {
            Expr::BinaryExpr(sum) if is_shift(&sum) && is_known(&sum.left) => {
                let quick = match sum.op {
                    Operator::Minus => &self.earlier,
                    _ => &self.later,
                };
                let args = vec![*sum.left, *sum.right];
                let quick = ScalarFunction::new_udf(Arc::clone(quick), args);
                Transformed::yes(Expr::ScalarFunction(quick))
            }
            Expr::Cast(cast) if is_date(cast.field.data_type()) && is_known(&cast.expr) => {
                let args = vec![*cast.expr];
                let date = ScalarFunction::new_udf(Arc::clone(&self.date), args);
                Transformed::yes(Expr::ScalarFunction(date))
            }
            Expr::ScalarFunction(call) => {
                let of = call.args.get(1);
                let quick = match call.func.name() {
                    "date_part" if of.is_some_and(|of| is_known(of) || has_date(of)) => &self.part,
                    "date_trunc" if of.is_some_and(is_known) => &self.cut,
                    _ => return Transformed::no(Expr::ScalarFunction(call)),
                };
                let quick = ScalarFunction::new_udf(Arc::clone(quick), call.args);
                Transformed::yes(Expr::ScalarFunction(quick))
            }
            other => Transformed::no(other),
        }
    }
}

fn is_date(data_type: &DataType) -> bool {
    *data_type == DataType::Date32
}

/// Whether a constant interval without months is added or subtracted.
fn is_shift(sum: &BinaryExpr) -> bool {
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), _) = sum.right.as_ref() else {
        return false;
    };
    by.months == 0 && matches!(sum.op, Operator::Plus | Operator::Minus)
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(sum) => is_shift(sum),
        Expr::Cast(cast) => is_date(cast.field.data_type()),
        Expr::ScalarFunction(call) => ["date_part", "date_trunc"].contains(&call.func.name()),
        _ => false,
    }
}
