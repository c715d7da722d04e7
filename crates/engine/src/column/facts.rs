//! What the planner is told about a column.

use crate::EngineError;
use crate::coded::{CodedColumn, Domain};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

/// Codes are counted one by one in a bitmap of up to 16 MiB.
const MOST_COUNTED_CODES: u64 = 1 << 27;

/// What is known about a column's values.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnFacts {
    /// Smallest value, exact; `None` if not known, or if every row is NULL.
    pub min: Option<ScalarValue>,
    /// Largest value, exact.
    pub max: Option<ScalarValue>,
    /// Rows that are NULL.
    pub null_count: u64,
    /// Number of distinct values, NULL not counted.
    pub distinct: Precision<usize>,
}

impl ColumnFacts {
    /// Reads all codes of `column`.
    ///
    /// # Errors
    /// A code that stands for nothing, and those of Arrow.
    pub fn of_codes(column: &CodedColumn) -> Result<Self, EngineError> {
        let first = u32::from(column.nullable());
        let (range, nulls) = column.codes().range(first);
        let count = column.code_count();
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
                let span = (high - low) as usize + 1;
                Precision::Inexact(span.min(column.rows() - nulls))
            }
        };
        let of = |code: u32| -> Result<Option<ScalarValue>, EngineError> {
            if !has_bounds(column.data_type()) {
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

    /// What is cheap to know of an array: its NULLs, and the bounds of integers.
    ///
    /// # Errors
    /// Those of Arrow.
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
            distinct: Precision::Absent,
        })
    }

    /// DataFusion's form, for a column of `rows` rows and `size_bytes` bytes.
    pub fn statistics(&self, rows: usize, size_bytes: u64) -> ColumnStatistics {
        let bound =
            |value: &Option<ScalarValue>| value.clone().map_or(Precision::Absent, Precision::Exact);
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

/// Types whose order is the same for everybody: floats have NaN, and dictionaries compare by keys here and by values there.
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
