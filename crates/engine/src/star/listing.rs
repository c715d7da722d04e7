//! Values of a fact column that are few enough to evaluate an expression on each.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::universe::{FactColumn, Listing, fact_column};
use crate::calendar::constant_seconds;
use crate::coded::{MAX_LISTED_CODES, Unit};
use arrow::array::{ArrayRef, Int64Array, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_corrections::ticks_per_second;
use tierloom_star::Spans;

impl Arithmetic<'_> {
    /// The values of fact column `column`, which is the only one that `expr` reads; of timestamps,
    /// those of the spans within which `expr` does not change.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn listing(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        column: usize,
    ) -> Result<Listing, NotFused> {
        let fact = fact_column(self.lowered, column)?;
        let nullable = fact.coded.nullable();
        let listed = match fact.coded.listed()? {
            Some(values) => Some((column, values)),
            None => self.spans_of(expr, column, &fact)?,
        };
        let Some((plan_column, values)) = listed else {
            return NotFused::because(format!("{} has too many values for {expr}", fact.name));
        };
        Ok(Listing {
            read: column,
            column: plan_column,
            values,
            nullable,
        })
    }

    /// The column of the plan with the spans of a timestamp column in which `expr` is the same, and
    /// the first time of each; `None` if there are none, or too many.
    fn spans_of(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        column: usize,
        fact: &FactColumn<'_>,
    ) -> Result<Option<(usize, ArrayRef)>, NotFused> {
        let DataType::Timestamp(time_unit, None) = fact.coded.data_type() else {
            return Ok(None);
        };
        let Some((base, Unit::Times(step))) = fact.coded.offset() else {
            return Ok(None);
        };
        let unit = Unit::Times(step);
        let second = ticks_per_second(*time_unit);
        let constant = constant_seconds(expr).and_then(|seconds| seconds.checked_mul(second));
        let Some(ticks) = constant.filter(|ticks| ticks % step == 0) else {
            return Ok(None);
        };
        let first = i64::from(fact.coded.nullable());
        let begin = base.wrapping_add(first);
        let (length, codes) = (ticks / step, fact.coded.code_count() as i64 - first);
        let offset = begin.rem_euclid(length);
        let count = (codes - 1 + offset) / length + 1;
        let fits = u32::try_from(codes + first + offset).is_ok() && length > 1;
        if !fits || count + first > i64::from(MAX_LISTED_CODES) {
            return Ok(None);
        }
        let starts = (0..count).map(|span| begin - offset + span * length);
        let mut values = unit.values(starts.collect::<Int64Array>(), fact.coded.data_type())?;
        if first == 1 {
            values = concat(&[&new_null_array(values.data_type(), 1), &values])?;
        }
        let spans = Spans {
            column,
            nullable: first == 1,
            offset: offset as u32,
            length: length as u32,
        };
        let mut known = self.spans.borrow_mut();
        let at = known.iter().position(|other| *other == spans);
        let at = at.unwrap_or_else(|| {
            known.push(spans);
            known.len() - 1
        });
        Ok(Some((self.lowered.fact_columns.len() + at, values)))
    }
}
