//! Compiles predicates to tests on codes.
//!
//! Codes follow the order of the values, so a comparison is a range of codes. A column with a
//! listable domain takes any predicate, which is evaluated once per code.

use super::NotFused;
use super::lower::narrowed;
use super::universe::FactColumn;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::Test;

/// Evaluates `expr`, which reads one column, over `values` of that column.
pub(super) fn over_values(
    expr: &Arc<dyn PhysicalExpr>,
    column: usize,
    values: ArrayRef,
) -> Result<ArrayRef, NotFused> {
    let narrow = narrowed(expr, &[column])?;
    let field = Field::new("value", values.data_type().clone(), true);
    let rows = values.len();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values])?;
    Ok(narrow.evaluate(&batch)?.into_array(rows)?)
}

/// The test of `predicate` on the codes of its only column, and the share of codes that pass.
///
/// The test is `None` if every code passes. A column whose codes can be listed takes any predicate,
/// evaluated once per code; on others only comparisons with constants are supported.
///
/// # Errors
/// A predicate on several columns, or one on a wide column that is not a comparison.
pub(super) fn test_of(
    predicate: &Arc<dyn PhysicalExpr>,
    fact: &FactColumn<'_>,
    column: usize,
) -> Result<(Option<Test>, f64), NotFused> {
    let count = fact.coded.code_count();
    let set = match fact.coded.listed()? {
        Some(values) => passing(predicate, column, values, true)?,
        None => {
            let (low, high) = match compared(predicate, fact)? {
                Compared::Range(low, high) => (low, high),
                Compared::Codes(codes) => {
                    let mut set = CodeSet::new(count);
                    codes.into_iter().for_each(|c| set.insert(c));
                    return Ok(shape(&Arc::new(set), count));
                }
            };
            // Without a list of values, assume that they are spread evenly over the codes.
            let share = (f64::from(high) - f64::from(low) + 1.0).max(0.0) / count as f64;
            return Ok((Some(Test::Range { low, high }), share.min(1.0)));
        }
    };
    Ok(shape(&Arc::new(set), count))
}

/// The simplest test that passes the codes of `set`, and their share; `None` if all pass.
pub(super) fn shape(set: &Arc<CodeSet>, count: u64) -> (Option<Test>, f64) {
    let passing = set.len();
    let share = passing as f64 / count.max(1) as f64;
    if passing == count {
        return (None, 1.0);
    }
    match set.as_range() {
        Some((low, high)) => (Some(Test::Range { low, high }), share),
        None => (Some(Test::Set(Arc::clone(set))), share),
    }
}

/// The codes whose value in `values` makes `predicate`, which reads one column, true, or false if
/// it is `wanted` to be.
pub(super) fn passing(
    predicate: &Arc<dyn PhysicalExpr>,
    column: usize,
    values: ArrayRef,
    wanted: bool,
) -> Result<CodeSet, NotFused> {
    let passes = over_values(predicate, column, values)?;
    let codes = (0..passes.len()).map(|code| Some(code as u32));
    codes_where(predicate, &passes, wanted, passes.len() as u64, codes)
}

/// Those of `codes`, out of `count` codes, at which the values of `predicate` are true, or false if
/// they are `wanted` to be.
pub(super) fn codes_where(
    predicate: &Arc<dyn PhysicalExpr>,
    values: &ArrayRef,
    wanted: bool,
    count: u64,
    codes: impl Iterator<Item = Option<u32>>,
) -> Result<CodeSet, NotFused> {
    let Some(values) = values.as_boolean_opt() else {
        return NotFused::because(format!("{predicate} is not a condition"));
    };
    let mut set = CodeSet::new(count);
    for (code, value) in codes.zip(values) {
        if let (Some(code), true) = (code, value == Some(wanted)) {
            set.insert(code);
        }
    }
    Ok(set)
}

enum Compared {
    /// Codes from the first to the second, both inclusive; never empty.
    Range(u32, u32),
    Codes(Vec<u32>),
}

/// A comparison of a wide column with constants, in terms of codes.
fn compared(
    predicate: &Arc<dyn PhysicalExpr>,
    fact: &FactColumn<'_>,
) -> Result<Compared, NotFused> {
    let too_wide = || {
        NotFused(format!(
            "{predicate} is not a comparison that can be made on the codes of {}",
            fact.name
        ))
    };
    let Some(base) = fact.coded.integer_base() else {
        return Err(too_wide());
    };
    let first = i128::from(fact.coded.nullable());
    let last = i128::from(fact.coded.code_count()) - 1;
    // The code of a value; it may be outside the column's codes.
    let code = |value: i128| value - i128::from(base);
    let range = |low: i128, high: i128| {
        let (low, high) = (low.max(first), high.min(last));
        if low > high {
            Compared::Codes(Vec::new())
        } else {
            Compared::Range(low as u32, high as u32)
        }
    };
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        if list.negated() || list.expr().downcast_ref::<Column>().is_none() {
            return Err(too_wide());
        }
        let values: Option<Vec<i128>> = list.list().iter().map(|e| constant(e, fact)).collect();
        let codes = values.ok_or_else(too_wide)?.into_iter().map(code);
        let inside = codes
            .filter(|c| (first..=last).contains(c))
            .map(|c| c as u32);
        return Ok(Compared::Codes(inside.collect()));
    }
    let Some(binary) = predicate.downcast_ref::<BinaryExpr>() else {
        return Err(too_wide());
    };
    let (value, op) = if binary.left().downcast_ref::<Column>().is_some() {
        (constant(binary.right(), fact), Some(*binary.op()))
    } else if binary.right().downcast_ref::<Column>().is_some() {
        (constant(binary.left(), fact), binary.op().swap())
    } else {
        return Err(too_wide());
    };
    let (Some(value), Some(op)) = (value, op) else {
        return Err(too_wide());
    };
    let at = code(value);
    Ok(match op {
        Operator::Eq => range(at, at),
        Operator::Lt => range(i128::MIN, at - 1),
        Operator::LtEq => range(i128::MIN, at),
        Operator::Gt => range(at + 1, i128::MAX),
        Operator::GtEq => range(at, i128::MAX),
        _ => return Err(too_wide()),
    })
}

/// A constant of the column's own type as the integer that codes are offsets of.
fn constant(expr: &Arc<dyn PhysicalExpr>, fact: &FactColumn<'_>) -> Option<i128> {
    let value = expr.downcast_ref::<Literal>()?.value();
    // The planner casts constants to the column's type. If it did not, the integers have different
    // scales.
    if value.data_type() != *fact.coded.data_type() {
        return None;
    }
    super::integers::integers(&value.to_array().ok()?)
        .ok()?
        .first()
        .copied()?
}
