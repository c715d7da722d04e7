//! Compiles predicates to tests on codes.
//!
//! Codes follow the order of the values, so a comparison is a range of codes. A column with a
//! listable domain takes any predicate, which is evaluated once per code.

use super::NotFused;
use super::lower::narrowed;
use super::universe::FactColumn;
use crate::comparisons::{Compared, compared};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
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
            let (low, high) = match compared(predicate, fact.coded) {
                None => {
                    return NotFused::because(format!(
                        "{predicate} is not a comparison that can be made on the codes of {}",
                        fact.name
                    ));
                }
                Some(Compared::Range(low, high)) => (low, high),
                Some(Compared::Codes(codes)) => {
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
