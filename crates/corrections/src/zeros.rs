//! 0.0 and -0.0, which are one value.

use super::null_rules::{Known, column_statistics, is_known};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, InList, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, SortExpr, Window,
    lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Makes -0.0 the value 0.0 in keys of windows, and in keys of sorts that others follow.
///
/// DataFusion 55 orders floats by their bits, in which -0.0 is less than 0.0. They were two
/// partitions of a window, had two ranks, and further keys did not decide between them.
#[derive(Debug, Default)]
pub(crate) struct OneZero;

impl AnalyzerRule for OneZero {
    fn name(&self) -> &str {
        "tierloom_one_zero"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        super::rewrite_if_any(plan, has_keys, |node| match node {
            LogicalPlan::Sort(mut sort) => {
                let changed = in_first_keys(&mut sort.expr, &sort.input)?;
                Ok(Transformed::new_transformed(
                    LogicalPlan::Sort(sort),
                    changed,
                ))
            }
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                let changed = match &mut on.sort_expr {
                    Some(keys) => in_first_keys(keys, &on.input)?,
                    None => false,
                };
                let node = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::new_transformed(node, changed))
            }
            LogicalPlan::Window(Window { ref input, .. })
            | LogicalPlan::Aggregate(Aggregate { ref input, .. }) => {
                let input = Arc::clone(input);
                super::rewrite_expressions(node, is_ordered, |expr| in_function(expr, &input))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Has 0.0 and -0.0 in lists of floats that have one of them.
///
/// DataFusion 55 looks floats up by their bits in lists of more than three constants.
#[derive(Debug, Default)]
pub(crate) struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &str {
        "tierloom_both_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        super::rewrite_expressions(plan, has_zero, |expr| match expr {
            Expr::InList(list) => Ok(with_both_zeros(list)),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Whether an operator may have keys that [`OneZero`] looks at.
fn has_keys(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Sort(sort) => sort.expr.len() > 1,
        LogicalPlan::Aggregate(_) => super::operator_holds(node, is_ordered).unwrap_or(true),
        LogicalPlan::Distinct(Distinct::On(_)) | LogicalPlan::Window(_) => true,
        _ => false,
    }
}

/// Whether the expression is a function with keys.
fn is_ordered(expr: &Expr) -> bool {
    super::is_window_function(expr) || super::is_ordered_aggregate(expr)
}

/// Whether the expression is a list with a float that is 0.
fn has_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::InList(list) if list.list.iter().any(|item| other_zero(item).is_some()))
}

fn other_zero(item: &Expr) -> Option<Expr> {
    match item {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) if *number == 0.0 => {
            Some(lit(-number))
        }
        Expr::Literal(ScalarValue::Float32(Some(number)), _) if *number == 0.0 => {
            Some(lit(-number))
        }
        _ => None,
    }
}

fn with_both_zeros(mut list: InList) -> Transformed<Expr> {
    let mut zeros = list.list.iter().filter_map(other_zero);
    // With both in the list, each is the other zero of one.
    let missing = zeros.find(|zero| !list.list.contains(zero));
    let changed = missing.is_some();
    list.list.extend(missing);
    Transformed::new_transformed(Expr::InList(list), changed)
}

/// Changes the keys of a window function, or the order of an aggregate.
fn in_function(mut expr: Expr, input: &LogicalPlan) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::WindowFunction(function) => in_window(function, input)?,
        Expr::AggregateFunction(AggregateFunction { params, .. }) => {
            in_first_keys(&mut params.order_by, input)?
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn in_window(function: &mut WindowFunction, input: &LogicalPlan) -> Result<bool> {
    let params = &mut function.params;
    let order = params.order_by.iter_mut().map(|key| &mut key.expr);
    in_each(params.partition_by.iter_mut().chain(order), input)
}

/// Changes all keys but the last: rows with equal keys have no order.
fn in_first_keys(keys: &mut [SortExpr], input: &LogicalPlan) -> Result<bool> {
    let first = keys.len().saturating_sub(1);
    in_each(keys[..first].iter_mut().map(|key| &mut key.expr), input)
}

fn in_each<'e>(exprs: impl Iterator<Item = &'e mut Expr>, input: &LogicalPlan) -> Result<bool> {
    let mut changed = false;
    for expr in exprs {
        if matches!(expr, Expr::Column(column) if has_one_zero(input, column)) {
            continue;
        }
        if let Some(one) = with_one_zero(expr, input.schema())? {
            *expr = one;
            changed = true;
        }
    }
    Ok(changed)
}

/// Whether a column is one of a table that has no -0.0, as its smallest or largest value shows.
fn has_one_zero(input: &LogicalPlan, column: &Column) -> bool {
    let is_above = |value: &ScalarValue| match value {
        ScalarValue::Float64(Some(least)) => least.is_sign_positive() && !least.is_nan(),
        _ => false,
    };
    let is_below =
        |value: &ScalarValue| matches!(value, ScalarValue::Float64(Some(most)) if *most < 0.0);
    let known = Known {
        in_table: &|scan, name| {
            column_statistics(scan, name).is_some_and(|of_column| {
                matches!(&of_column.min_value, Precision::Exact(least) if is_above(least))
                    || matches!(&of_column.max_value, Precision::Exact(most) if is_below(most))
            })
        },
        of_constant: &|value| is_above(value) || is_below(value),
    };
    is_known(input, column, &known)
}

/// The expression with 0.0 for -0.0; `None` if it is not of floats, or has no -0.0 already.
pub(super) fn with_one_zero(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let zero = match expr.get_type(schema)? {
        DataType::Float32 => lit(0.0f32),
        DataType::Float64 => lit(0.0f64),
        _ => return Ok(None),
    };
    let is_done = matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Plus, right, .. })
        if **right == zero);
    Ok((!is_done).then(|| expr.clone() + zero))
}
