//! Integer arithmetic whose result leaves its type: DataFusion 55 wraps around, so that the largest
//! `BIGINT` plus 1 is the smallest.

mod bits;
mod constants;
mod operators;
mod windows;

pub(super) use constants::CheckedConstants;
pub(super) use operators::CheckedArithmetic;
pub(super) use windows::WindowArguments;

use datafusion::logical_expr::{Expr, Operator};

/// Whether the expression itself computes: `+`, `-` or `*`, or the opposite.
fn computes(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_arithmetic(binary.op),
        Expr::Negative(_) => true,
        _ => false,
    }
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
}
