//! Puts the functions into plans.

use super::functions::{date_of, quick_cut, quick_part};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tierloom_corrections::{Walk, operator_holds};

/// Computes parts of timestamps by arithmetic where values are made: in outputs, keys of groups and
/// arguments of aggregates. Conditions stay as other rules know them.
#[derive(Debug)]
pub(crate) struct CalendarFunctions {
    part: Arc<ScalarUDF>,
    cut: Arc<ScalarUDF>,
    date: Arc<ScalarUDF>,
}

impl Default for CalendarFunctions {
    fn default() -> Self {
        CalendarFunctions {
            part: Arc::new(quick_part()),
            cut: Arc::new(quick_cut()),
            date: Arc::new(date_of()),
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
        if !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        // Most operators have none, and the optimizer asks in every pass.
        if !operator_holds(&plan, is_candidate)? {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| expr.up(&mut |expr| Ok(self.quick(expr, &schema))))
    }
}

impl CalendarFunctions {
    fn quick(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let is_known = |arg: &Expr| {
            let is_constant = matches!(arg, Expr::Literal(..));
            !is_constant && matches!(arg.get_type(schema), Ok(DataType::Timestamp(_, None)))
        };
        match expr {
            Expr::Cast(cast) if is_date(cast.field.data_type()) && is_known(&cast.expr) => {
                let args = vec![*cast.expr];
                let date = ScalarFunction::new_udf(Arc::clone(&self.date), args);
                Transformed::yes(Expr::ScalarFunction(date))
            }
            Expr::ScalarFunction(call) => {
                let quick = match call.func.name() {
                    "date_part" => &self.part,
                    "date_trunc" => &self.cut,
                    _ => return Transformed::no(Expr::ScalarFunction(call)),
                };
                if !call.args.get(1).is_some_and(is_known) {
                    return Transformed::no(Expr::ScalarFunction(call));
                }
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

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_date(cast.field.data_type()),
        Expr::ScalarFunction(call) => ["date_part", "date_trunc"].contains(&call.func.name()),
        _ => false,
    }
}
