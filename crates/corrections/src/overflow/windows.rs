//! Arithmetic in the expressions of windows.

use super::computes;
use crate::walk::Walk;
use crate::{is_window, rewrite_if_any};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Window};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Computes the integer arithmetic in arguments, partitions and orders of windows below them, where
/// [`CheckedArithmetic`](super::CheckedArithmetic) checks it; expressions of windows cannot be
/// replaced.
#[derive(Debug, Default)]
pub(crate) struct WindowArguments;

impl AnalyzerRule for WindowArguments {
    fn name(&self) -> &str {
        "tierloom_window_arguments"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_if_any(plan, is_window, |node| match node {
            LogicalPlan::Window(window) => below(window),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// The window over a projection with its arithmetic, and a projection that drops that again.
fn below(window: Window) -> Result<Transformed<LogicalPlan>> {
    let input = window.input.schema();
    let mut computed: Vec<Expr> = Vec::new();
    let name = |at: usize| format!("__window_argument_{at}");
    let mut pull = |expr: Expr| {
        if !is_computed(&expr, input)? {
            return Ok(Transformed::no(expr));
        }
        // Windows of one sort share its keys, so the same arithmetic is one column.
        let known = computed.iter().position(|known| *known == expr);
        let at = known.unwrap_or_else(|| {
            computed.push(expr);
            computed.len() - 1
        });
        let column = Expr::Column(Column::new_unqualified(name(at)));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    };
    let exprs = window.window_expr.iter().map(|expr| {
        let name = expr.schema_name().to_string();
        let pulled = expr.clone().down(&mut pull)?;
        pulled.data.alias_if_changed(name)
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let kept = input.columns().into_iter().map(Expr::Column);
    let computed = computed.into_iter().enumerate();
    let computed = computed.map(|(at, expr)| expr.alias(name(at)));
    let input = Projection::try_new(kept.chain(computed).collect(), window.input)?;
    let over = Window::try_new(exprs, Arc::new(LogicalPlan::Projection(input)))?;
    let outputs = window.schema.columns().into_iter().map(Expr::Column);
    let over = Arc::new(LogicalPlan::Window(over));
    let dropped = Projection::try_new(outputs.collect(), over)?;
    Ok(Transformed::yes(LogicalPlan::Projection(dropped)))
}

/// Whether an expression is integer arithmetic over columns of the input.
fn is_computed(expr: &Expr, input: &DFSchema) -> Result<bool> {
    // What has a NULL is NULL, and some functions ask for a constant.
    let mut is_null = |e: &Expr| Ok(matches!(e, Expr::Literal(value, _) if value.is_null()));
    if !computes(expr)
        || expr.is_volatile()
        || expr.column_refs().is_empty()
        || expr.has(&mut is_null)?
    {
        return Ok(false);
    }
    Ok(expr.get_type(input)?.is_integer())
}
