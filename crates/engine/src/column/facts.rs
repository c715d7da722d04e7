//! Statistics of a column for the query planner.
//!
//! They are exact where that is cheap: coded columns get bounds, NULL and distinct counts from
//! their codes. Plain columns get bounds only for types that DataFusion orders in the same way.

use crate::EngineError;
use crate::coded::{CodedColumn, Domain};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

/// Up to this many codes are counted exactly, by a bitmap of at most 16 MiB.
const MOST_COUNTED_CODES: u64 = 1 << 27;

/// Statistics of a column's values.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnFacts {
    /// Smallest value, exact; `None` if unknown or if all rows are NULL.
    pub min: Option<ScalarValue>,
    /// Largest value, exact; `None` as for `min`.
    pub max: Option<ScalarValue>,
    /// Number of rows that are NULL, exact.
    pub null_count: u64,
    /// Number of distinct values without NULL; exact if they were counted.
    pub distinct: Precision<usize>,
}

impl ColumnFacts {
    /// Computes the statistics from all codes of `column`.
    ///
    /// # Errors
    /// A code without a value, or Arrow's errors.
    pub fn of_codes(column: &CodedColumn) -> Result<Self, EngineError> {
        let first = u32::from(column.nullable());
        let (range, nulls) = column.range();
        let count = column.code_count();
        // A code without a value would index past the domain when it is decoded.
        if let Some((_, high)) = range.filter(|(_, high)| u64::from(*high) >= count) {
            return Err(EngineError::Table {
                table: "of codes".into(),
                problem: format!("has the code {high}, but only {count} codes have a value"),
            });
        }
        let distinct = match range {
            None => Precision::Exact(0),
            Some(_) if count <= MOST_COUNTED_CODES => {
                Precision::Exact(column.codes().distinct(first, count as u32) as usize)
            }
            Some((low, high)) => {
                // An upper bound: no more distinct values than codes in the range, or than rows.
                let span = (high - low) as usize + 1;
                Precision::Inexact(span.min(column.rows() - nulls))
            }
        };
        let of = |code: u32| -> Result<Option<ScalarValue>, EngineError> {
            // Floats that are kept as codes are neither NaN nor -0.
            if !has_bounds(column.data_type()) && *column.data_type() != DataType::Float64 {
                return Ok(None);
            }
            let value = match column.domain() {
                Domain::Values(values) => {
                    ScalarValue::try_from_array(values, (code - first) as usize)
                }
                Domain::Offset { .. } => ScalarValue::try_from_array(&column.value(code)?, 0),
            };
            value
                .map(Some)
                .map_err(EngineError::datafusion("reading a column's bounds"))
        };
        let (min, max) = match range {
            Some((low, high)) => (of(low)?, of(high)?),
            None => (None, None),
        };
        Ok(ColumnFacts {
            min,
            max,
            null_count: nulls as u64,
            distinct,
        })
    }

    /// Computes what is cheap for an array: its NULLs, and the bounds of integers.
    ///
    /// # Errors
    /// DataFusion's, from computing the bounds.
    pub fn of_array(array: &ArrayRef) -> Result<Self, EngineError> {
        let data_type = array.data_type();
        let (min, max) = if has_bounds(data_type) && data_type.primitive_width().is_some() {
            bounds(array).map_err(EngineError::datafusion("reading a column's bounds"))?
        } else {
            (None, None)
        };
        Ok(ColumnFacts {
            min,
            max,
            null_count: array.logical_null_count() as u64,
            // Counting would need a hash set of all values.
            distinct: Precision::Absent,
        })
    }

    /// Converts to DataFusion's statistics, for a column of `rows` rows and `size_bytes` bytes.
    ///
    /// A bound whose negation overflows is left out. DataFusion 55 fails to plan `-x > 5` if `x` is
    /// said to have it, and the smallest value of a type says nothing as a bound.
    pub fn statistics(&self, rows: usize, size_bytes: u64) -> ColumnStatistics {
        let bound = |value: &Option<ScalarValue>| match value {
            Some(value) if value.arithmetic_negate().is_ok() || !is_signed(value) => {
                Precision::Exact(value.clone())
            }
            _ => Precision::Absent,
        };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = Precision::Exact(self.null_count as usize);
        statistics.min_value = bound(&self.min);
        statistics.max_value = bound(&self.max);
        statistics.distinct_count = match self.distinct {
            Precision::Inexact(count) => Precision::Inexact(count.min(rows)),
            known => known,
        };
        statistics.byte_size = Precision::Exact(size_bytes as usize);
        statistics
    }
}

/// Whether a value is of a type that SQL can negate.
fn is_signed(value: &ScalarValue) -> bool {
    let data_type = value.data_type();
    data_type.is_signed_integer() || matches!(data_type, DataType::Decimal128(..))
}

/// Smallest and largest value that is not NULL.
fn bounds(array: &ArrayRef) -> Result<(Option<ScalarValue>, Option<ScalarValue>), DataFusionError> {
    let (mut min, mut max) = (
        MinAccumulator::try_new(array.data_type())?,
        MaxAccumulator::try_new(array.data_type())?,
    );
    min.update_batch(std::slice::from_ref(array))?;
    max.update_batch(std::slice::from_ref(array))?;
    let known = |value: ScalarValue| (!value.is_null()).then_some(value);
    Ok((known(min.evaluate()?), known(max.evaluate()?)))
}

/// Whether a type has one agreed order.
///
/// Floats have NaN; dictionaries are ordered by key here and by value in DataFusion.
fn has_bounds(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Decimal128(..)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
        )
}
