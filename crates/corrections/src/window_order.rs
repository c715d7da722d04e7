//! Windows that are ordered by what they are partitioned by.

use super::frame_keys::counts;
use super::{is_window, is_window_function, rewrite_expressions, rewrite_if_any};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFrameUnits};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Leaves keys out of the order of a window that are the same for all rows of a partition.
///
/// DataFusion 55 plans `PARTITION BY a ORDER BY a DESC, b` with a sort by `a` in one direction and
/// a window that asks for the other, and then refuses its own plan. One key stays, since a window
/// without order has another frame, and all where the frame counts in values of the key.
#[derive(Debug, Default)]
pub(crate) struct WindowOrder;

impl AnalyzerRule for WindowOrder {
    fn name(&self) -> &str {
        "tierloom_window_order"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_if_any(plan, is_window, |node| {
            let LogicalPlan::Window(window) = &node else {
                return Ok(Transformed::no(node));
            };
            // Two that become equal would be taken for a common part of expressions.
            let mut taken: Vec<Expr> = window.window_expr.clone();
            rewrite_expressions(node, is_window_function, |expr| {
                let Expr::WindowFunction(function) = &expr else {
                    return Ok(Transformed::no(expr));
                };
                let mut shorter = function.clone();
                let shorter = shorten(&mut shorter).then_some(Expr::WindowFunction(shorter));
                Ok(match shorter.filter(|shorter| !taken.contains(shorter)) {
                    Some(shorter) => {
                        taken.push(shorter.clone());
                        Transformed::yes(shorter)
                    }
                    None => Transformed::no(expr),
                })
            })
        })
    }
}

/// Removes the superfluous keys; whether there were some.
fn shorten(function: &mut WindowFunction) -> bool {
    let WindowFunctionParams {
        partition_by,
        order_by,
        window_frame: frame,
        ..
    } = &mut function.params;
    let counts_values = frame.units != WindowFrameUnits::Rows && counts(frame);
    let decides = |key: &Expr| !partition_by.contains(key);
    if counts_values || !order_by.iter().any(|key| decides(&key.expr)) {
        return false;
    }
    let before = order_by.len();
    order_by.retain(|key| decides(&key.expr));
    order_by.len() < before
}
