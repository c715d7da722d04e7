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
    let floor = |constant: &Arc<dyn PhysicalExpr>| {
        let (floor, is_exact) = unit.floor(constant_of(constant, coded)?)?;
        Some((floor - i128::from(base), is_exact))
    };
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        if list.negated() || list.expr().downcast_ref::<Column>().is_none() {
            return None;
        }
        let codes: Option<Vec<_>> = list.list().iter().map(floor).collect();
        let inside = codes?
            .into_iter()
            .filter(|(code, is_exact)| *is_exact && (first..=last).contains(code));
        return Some(Compared::Codes(
            inside.map(|(code, _)| code as u32).collect(),
        ));
    }
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    let ((floor, is_exact), op) = if binary.left().downcast_ref::<Column>().is_some() {
        (floor(binary.right())?, *binary.op())
    } else {
        binary.right().downcast_ref::<Column>()?;
        (floor(binary.left())?, binary.op().swap()?)
    };
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
    let of_constant = |constant: &Arc<dyn PhysicalExpr>| {
        let value = constant.downcast_ref::<Literal>()?.value();
        if value.data_type() != *data_type {
            return None;
        }
        // SQL takes both zeros as equal.
        match value {
            ScalarValue::Float64(Some(v)) if *v == 0.0 => {
                let zero = |v: f64| rank_of(&ScalarValue::Float64(Some(v)));
                Some((zero(-0.0)?, zero(0.0)?))
            }
            ScalarValue::Float32(Some(v)) if *v == 0.0 => {
                let zero = |v: f32| rank_of(&ScalarValue::Float32(Some(v)));
                Some((zero(-0.0)?, zero(0.0)?))
            }
            ScalarValue::Float64(Some(v)) if v.is_nan() => None,
            ScalarValue::Float32(Some(v)) if v.is_nan() => None,
            value => rank_of(value).map(|rank| (rank, rank)),
        }
    };
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        if list.negated() || list.expr().downcast_ref::<Column>().is_none() {
            return None;
        }
        let ranks: Option<Vec<_>> = list.list().iter().map(of_constant).collect();
        return ranks?
            .into_iter()
            .reduce(|(low, high), (a, b)| (low.min(a), high.max(b)));
    }
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    let ((low, high), op) = if binary.left().downcast_ref::<Column>().is_some() {
        (of_constant(binary.right())?, *binary.op())
    } else {
        binary.right().downcast_ref::<Column>()?;
        (of_constant(binary.left())?, binary.op().swap()?)
    };
    match op {
        Operator::Eq => Some((low, high)),
        Operator::Lt | Operator::LtEq => Some((0, high)),
        Operator::Gt | Operator::GtEq => Some((low, u64::MAX)),
        _ => None,
    }
}

/// The rank of a value that is not NULL in an ascending order.
pub(crate) fn rank_of(value: &ScalarValue) -> Option<u64> {
    if value.is_null() || !has_ranks(&value.data_type()) {
        return None;
    }
    ascending(&value.to_array().ok()?).ok()?.first().copied()
}

/// A constant of the column's own type.
///
/// The planner casts constants to the column's type. If it did not, the integers have different
/// scales.
fn constant_of<'a>(
    expr: &'a Arc<dyn PhysicalExpr>,
    coded: &CodedColumn,
) -> Option<&'a ScalarValue> {
    let value = expr.downcast_ref::<Literal>()?.value();
    (value.data_type() == *coded.data_type()).then_some(value)
}
