//! Integer arithmetic whose result leaves its type: DataFusion 55 wraps around, so that the largest
//! `BIGINT` plus 1 is the smallest.

mod bits;
mod constants;
mod operators;
mod windows;

pub(super) use constants::CheckedConstants;
pub(super) use operators::CheckedArithmetic;
pub(super) use windows::WindowArguments;

use datafusion::logical_expr::Operator;

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
}
