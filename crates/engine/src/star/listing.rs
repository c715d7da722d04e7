//! Values of a fact column that are few enough to evaluate an expression on each.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::universe::{FactColumn, Listing, bounds_of_words, fact_column, placed_column};
use crate::calendar::constant_seconds;
use crate::coded::{MAX_LISTED_CODES, Unit};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_corrections::ticks_per_second;
use tierloom_star::{SpanParts, Spans};

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
        if placed_column(self.lowered, column).has_words() {
            return self.spans_of_words(expr, column);
        }
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
        let parts = SpanParts::Codes {
            offset: offset as u32,
            length: length as u32,
        };
        Ok(Some((self.span_column(column, first == 1, parts), values)))
    }

    /// The same of a timestamp column that has no codes.
    fn spans_of_words(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        column: usize,
    ) -> Result<Listing, NotFused> {
        let placed = placed_column(self.lowered, column);
        if *placed.data_type() == DataType::Boolean {
            return self.booleans(column, placed.nullable());
        }
        let refused = || NotFused(format!("{} has too many values for {expr}", placed.name()));
        let DataType::Timestamp(time_unit, None) = placed.data_type() else {
            return Err(refused());
        };
        let (low, high) = bounds_of_words(placed).ok_or_else(refused)?;
        let second = ticks_per_second(*time_unit);
        let length = constant_seconds(expr).and_then(|seconds| seconds.checked_mul(second));
        let length = length.ok_or_else(refused)?;
        // All words of the first span, so that their difference to `begin` is never negative.
        let begin = low
            .checked_sub(low.rem_euclid(length))
            .ok_or_else(refused)?;
        let count = high.checked_sub(begin).ok_or_else(refused)? / length + 1;
        let nullable = placed.nullable();
        if count + i64::from(nullable) > i64::from(MAX_LISTED_CODES) {
            return Err(refused());
        }
        let starts = (0..count).map(|span| begin + span * length);
        let mut values = cast(&starts.collect::<Int64Array>(), placed.data_type())?;
        if nullable {
            values = concat(&[&new_null_array(values.data_type(), 1), &values])?;
        }
        let parts = SpanParts::Words { begin, length };
        Ok(Listing {
            read: column,
            column: self.span_column(column, nullable, parts),
            values,
            nullable,
        })
    }

    /// The values of a column of booleans: NULL if some are, false and true.
    fn booleans(&self, column: usize, nullable: bool) -> Result<Listing, NotFused> {
        let nulls = nullable.then_some(None);
        let values = nulls.into_iter().chain([Some(false), Some(true)]);
        let parts = SpanParts::Words {
            begin: 0,
            length: 1,
        };
        Ok(Listing {
            read: column,
            column: self.span_column(column, nullable, parts),
            values: Arc::new(values.collect::<BooleanArray>()),
            nullable,
        })
    }

    /// The column of the plan that has these spans of another one.
    fn span_column(&self, column: usize, nullable: bool, parts: SpanParts) -> usize {
        let spans = Spans {
            column,
            nullable,
            parts,
        };
        let mut known = self.spans.borrow_mut();
        let at = known.iter().position(|other| *other == spans);
        let at = at.unwrap_or_else(|| {
            known.push(spans);
            known.len() - 1
        });
        self.lowered.fact_columns.len() + at
    }
}
