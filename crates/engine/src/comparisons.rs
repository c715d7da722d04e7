//! Comparisons of a column with constants as ranges of its codes or ranks.
//!
//! Codes follow the order of the values, so a column of any number of values takes them.

use crate::coded::CodedColumn;
use crate::ranks::{ascending, has_ranks};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// The codes for which a comparison is true; that of NULL is never one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Codes from the first to the second, both inclusive; never empty.
    Range(u32, u32),
    Codes(Vec<u32>),
}

/// What a predicate compares a column with.
enum Constants<'a> {
    /// The column is one of these, `IN`.
    Listed(Vec<&'a ScalarValue>),
    /// The column is on the left of the operator.
    One(Operator, &'a ScalarValue),
}

/// The constants that `predicate`, which reads one column alone, compares that column with; `None`
/// if it is no such comparison, or a constant is not of the column's type.
///
/// The planner casts constants to the column's type. If it did not, integers have different scales.
fn constants<'a>(
    predicate: &'a Arc<dyn PhysicalExpr>,
    data_type: &DataType,
) -> Option<Constants<'a>> {
    let of_type = |expr: &'a Arc<dyn PhysicalExpr>| {
        let value = expr.downcast_ref::<Literal>()?.value();
        (value.data_type() == *data_type).then_some(value)
    };
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        if list.negated() || list.expr().downcast_ref::<Column>().is_none() {
            return None;
        }
        let values: Option<Vec<_>> = list.list().iter().map(of_type).collect();
        return values.map(Constants::Listed);
    }
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    let (op, constant) = if binary.left().downcast_ref::<Column>().is_some() {
        (*binary.op(), binary.right())
    } else {
        binary.right().downcast_ref::<Column>()?;
        (binary.op().swap()?, binary.left())
    };
    Some(Constants::One(op, of_type(constant)?))
}

/// The codes of `coded` for which `predicate`, which reads that column alone, is true.
///
/// `None` if it does not compare the column with constants of its own type, or if the values of the
/// codes are listed and no integers.
pub(crate) fn compared(predicate: &Arc<dyn PhysicalExpr>, coded: &CodedColumn) -> Option<Compared> {
    let (base, unit) = coded.offset()?;
    let first = i128::from(coded.nullable());
    let last = i128::from(coded.code_count()) - 1;
    // The largest code of a value up to that of a constant, and whether it is that; it may be
    // outside the column's codes.
    let floor = |constant: &ScalarValue| {
        let (floor, is_exact) = unit.floor(constant)?;
        Some((floor - i128::from(base), is_exact))
    };
    let (op, constant) = match constants(predicate, coded.data_type())? {
        Constants::Listed(values) => {
            let codes: Option<Vec<_>> = values.into_iter().map(floor).collect();
            let inside = codes?
                .into_iter()
                .filter(|(code, is_exact)| *is_exact && (first..=last).contains(code));
            return Some(Compared::Codes(
                inside.map(|(code, _)| code as u32).collect(),
            ));
        }
        Constants::One(op, constant) => (op, constant),
    };
    let (floor, is_exact) = floor(constant)?;
    // The last code of a smaller value, and the first of one that is not smaller.
    let below = if is_exact { floor - 1 } else { floor };
    let (low, high) = match op {
        Operator::Eq => (below + 1, floor),
        Operator::Lt => (first, below),
        Operator::LtEq => (first, floor),
        Operator::Gt => (floor + 1, last),
        Operator::GtEq => (below + 1, last),
        // Otherwise these are two ranges.
        Operator::NotEq if !is_exact => (first, last),
        _ => return None,
    };
    let (low, high) = (low.max(first), high.min(last));
    Some(match low > high {
        true => Compared::Codes(Vec::new()),
        false => Compared::Range(low as u32, high as u32),
    })
}

/// The ranks in an ascending order that a column of type `data_type` may have where `predicate`,
/// which reads that column alone, is true.
///
/// `None` if it does not compare the column with constants of its own type.
pub(crate) fn compared_ranks(
    predicate: &Arc<dyn PhysicalExpr>,
    data_type: &DataType,
) -> Option<(u64, u64)> {
    match constants(predicate, data_type)? {
        Constants::Listed(values) => {
            let ranks: Option<Vec<_>> = values.into_iter().map(equal_ranks).collect();
            ranks?
                .into_iter()
                .reduce(|(low, high), (a, b)| (low.min(a), high.max(b)))
        }
        Constants::One(op, constant) => {
            let (low, high) = equal_ranks(constant)?;
            match op {
                Operator::Eq => Some((low, high)),
                Operator::Lt | Operator::LtEq => Some((0, high)),
                Operator::Gt | Operator::GtEq => Some((low, u64::MAX)),
                _ => None,
            }
        }
    }
}

/// The smallest and the largest rank of values that SQL takes as equal to a constant: both zeros
/// are. `None` for NULL and NaN.
fn equal_ranks(value: &ScalarValue) -> Option<(u64, u64)> {
    let both = |zeros: [ScalarValue; 2]| Some((rank_of(&zeros[0])?, rank_of(&zeros[1])?));
    match value {
        ScalarValue::Float64(Some(v)) if *v == 0.0 => {
            both([-0.0, 0.0].map(|v| ScalarValue::Float64(Some(v))))
        }
        ScalarValue::Float32(Some(v)) if *v == 0.0 => {
            both([-0.0, 0.0].map(|v| ScalarValue::Float32(Some(v))))
        }
        ScalarValue::Float64(Some(v)) if v.is_nan() => None,
        ScalarValue::Float32(Some(v)) if v.is_nan() => None,
        value => rank_of(value).map(|rank| (rank, rank)),
    }
}

/// The rank of a value that is not NULL in an ascending order.
pub(crate) fn rank_of(value: &ScalarValue) -> Option<u64> {
    if value.is_null() || !has_ranks(&value.data_type()) {
        return None;
    }
    ascending(&value.to_array().ok()?).ok()?.first().copied()
}
