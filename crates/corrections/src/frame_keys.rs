//! Frames that count in values of a key.

use super::{is_window, is_window_function, rewrite_expressions, rewrite_if_any};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Gives the key of `RANGE BETWEEN n PRECEDING ...` a type that has all of its differences.
///
/// DataFusion 55 adds the distance to a dictionary's value and compares the sum, which is no
/// dictionary, with the other values: all are equal. For unsigned integers it takes 0 for each
/// difference below, and so finds the zeros in frames that end before them. The rule must run
/// before distances get the type of the key.
#[derive(Debug, Default)]
pub(crate) struct FrameKeys;

impl AnalyzerRule for FrameKeys {
    fn name(&self) -> &str {
        "tierloom_frame_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_if_any(plan, is_window, |node| {
            let LogicalPlan::Window(window) = &node else {
                return Ok(Transformed::no(node));
            };
            let input = window.input.schema().clone();
            rewrite_expressions(node, is_window_function, |expr| match expr {
                Expr::WindowFunction(mut function) => {
                    let changed = widen(&mut function, &input)?;
                    let function = Expr::WindowFunction(function);
                    Ok(match changed {
                        true => Transformed::yes(function),
                        false => Transformed::no(function),
                    })
                }
                other => Ok(Transformed::no(other)),
            })
        })
    }
}

/// Whether a bound of the frame is a distance from the current row.
pub(super) fn counts(frame: &WindowFrame) -> bool {
    let is_distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            !distance.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    is_distance(&frame.start_bound) || is_distance(&frame.end_bound)
}

/// Casts the key if its type needs it; whether it did.
fn widen(function: &mut WindowFunction, input: &DFSchema) -> Result<bool> {
    let WindowFunctionParams {
        order_by,
        window_frame: frame,
        ..
    } = &mut function.params;
    // Such a frame has one key.
    let [key] = order_by.as_mut_slice() else {
        return Ok(false);
    };
    if frame.units != WindowFrameUnits::Range || !counts(frame) {
        return Ok(false);
    }
    let found = key.expr.get_type(input)?;
    let wider = with_differences(&found);
    if wider == found {
        return Ok(false);
    }
    key.expr = cast(key.expr.clone(), wider);
    Ok(true)
}

/// The type of the values, or a signed one for those without a sign.
fn with_differences(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => with_differences(values),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        other => other.clone(),
    }
}
