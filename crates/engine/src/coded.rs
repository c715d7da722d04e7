//! Columns stored as narrow codes.
//!
//! ```text
//!   rows        codes (0 to 4 bytes)  domain: the value of a code
//!   1994-01-03    2                   Offset: base + code, in units    (dates, keys, decimals)
//!   1994-01-01    0                   Values: values[code], ascending  (strings, sparse integers)
//!   NULL          0 in a nullable column; its values start at code 1
//! ```
//! The unit of an offset is mostly 1. It is a second for timestamps of whole seconds in a type of
//! microseconds, and a cent for 64-bit floats that are amounts: all floats of a column that are
//! nearest to decimals of a few digits are kept as these decimals ([`Unit::Decimal`]).
//!
//! Codes have the order of the values, so a range of values is a range of codes.

mod decode;
mod unit;
mod zones;

pub use unit::Unit;
pub(crate) use zones::{ZONE_ROWS, zones_of};

use crate::EngineError;
use arrow::array::{Array, ArrayRef, Int64Array, make_comparator, new_null_array};
use arrow::compute::{SortOptions, cast, concat};
use arrow::datatypes::DataType;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::codes::{CodeWidth, Codes};
use tierloom_memory::Region;
use zones::Zones;

/// Largest domain that is materialised as an array.
pub const MAX_LISTED_CODES: u32 = 1 << 16;

/// The mapping from codes to values.
#[derive(Debug, Clone)]
pub enum Domain {
    /// Integers, dates, timestamps, decimals (unscaled) and floats that are decimals: the value is
    /// `base + code` units.
    Offset {
        /// Value of the first code, in units.
        base: i64,
        /// Value of the last code, in units.
        last: i64,
        /// What is counted.
        unit: Unit,
    },
    /// The distinct values in the column's type, strictly ascending and without NULL.
    Values(ArrayRef),
}

/// A column of codes in a region.
#[derive(Debug, Clone)]
pub struct CodedColumn {
    /// The type that SQL sees.
    data_type: DataType,
    region: Arc<Region>,
    width: CodeWidth,
    rows: usize,
    /// Whether code 0 is NULL; values then start at code 1.
    nullable: bool,
    domain: Domain,
    zones: Arc<Zones>,
}

impl CodedColumn {
    /// Creates a column of the first `rows` codes of `region`.
    ///
    /// # Errors
    /// If the region is too short for the codes and their padding, there are more than 2^32 codes,
    /// the domain's values are not strictly ascending, or its unit is not one of the type.
    pub fn new(
        name: &str,
        data_type: DataType,
        region: Arc<Region>,
        rows: usize,
        nullable: bool,
        domain: Domain,
    ) -> Result<Self, EngineError> {
        let wrong = |problem: String| EngineError::Table {
            table: name.into(),
            problem,
        };
        let values = match &domain {
            Domain::Offset { base, last, unit } => {
                if let Some(why) = unit.mismatch(&data_type) {
                    return Err(wrong(why));
                }
                u64::try_from(i128::from(*last) - i128::from(*base))
                    .map(|d| d.saturating_add(1))
                    .map_err(|_| wrong("has a range of values that is upside down".into()))?
            }
            Domain::Values(values) => {
                if values.data_type() != &data_type || !ascending(values)? {
                    return Err(wrong(format!(
                        "has values of type {} for {data_type} that do not ascend one by one",
                        values.data_type()
                    )));
                }
                values.len() as u64
            }
        };
        // An empty domain without NULL has no code; its width is that of code 0.
        let max_code = (values + u64::from(nullable)).saturating_sub(1);
        let max_code = u32::try_from(max_code)
            .map_err(|_| wrong(format!("has {values} values, too many for codes")))?;
        let width = CodeWidth::for_max(max_code);
        // Checks the length once, so that `codes` cannot fail later.
        Codes::new(region.as_slice(), width, rows).map_err(|e| wrong(e.to_string()))?;
        Ok(CodedColumn {
            data_type,
            region,
            width,
            rows,
            nullable,
            domain,
            zones: Arc::new(Zones::new(rows)),
        })
    }

    /// The codes with their width, for the kernels.
    pub fn codes(&self) -> Codes<'_> {
        Codes::new(self.region.as_slice(), self.width, self.rows)
            .unwrap_or_else(|e| unreachable!("checked when the column was made: {e}"))
    }

    /// The type that SQL sees.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The region that holds the codes.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Bytes per code, derived from the size of the domain.
    pub fn width(&self) -> CodeWidth {
        self.width
    }

    /// Number of rows, NULLs included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether code 0 is NULL.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The mapping from codes to values.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Number of codes, that of NULL included: one more than the largest code.
    pub fn code_count(&self) -> u64 {
        let values = match &self.domain {
            Domain::Offset { base, last, .. } => {
                (*last as u64).wrapping_sub(*base as u64).saturating_add(1)
            }
            Domain::Values(values) => values.len() as u64,
        };
        values.saturating_add(u64::from(self.nullable))
    }

    /// The `base` for which every value is `base + code` of the unit; `None` for a listed domain.
    pub fn offset(&self) -> Option<(i64, Unit)> {
        match &self.domain {
            // Wrapping: NULL's code has no value, and adding any other code wraps back into range.
            Domain::Offset { base, unit, .. } => {
                Some((base.wrapping_sub(i64::from(self.nullable)), *unit))
            }
            Domain::Values(_) => None,
        }
    }

    /// The value of every code in the column's type, NULL first if there is one.
    ///
    /// `None` if there are more than [`MAX_LISTED_CODES`].
    ///
    /// # Errors
    /// Arrow's, from casting to the column's type.
    pub fn listed(&self) -> Result<Option<ArrayRef>, EngineError> {
        let count = self.code_count();
        if count > u64::from(MAX_LISTED_CODES) {
            return Ok(None);
        }
        let values = match &self.domain {
            Domain::Offset { base, last, unit } => {
                unit.values(Int64Array::from_iter_values(*base..=*last), &self.data_type)?
            }
            Domain::Values(values) => Arc::clone(values),
        };
        Ok(Some(if self.nullable {
            concat(&[&new_null_array(values.data_type(), 1), &values])?
        } else {
            values
        }))
    }

    /// The value of one code as an array of one row; NULL for the code of NULL.
    ///
    /// # Errors
    /// Arrow's, from casting to the column's type.
    pub fn value(&self, code: u32) -> Result<ArrayRef, EngineError> {
        let first = u32::from(self.nullable);
        if code < first {
            return Ok(new_null_array(&self.data_type, 1));
        }
        match &self.domain {
            Domain::Offset { base, unit, .. } => {
                let value = base.wrapping_add(i64::from(code - first));
                unit.values(Int64Array::from(vec![value]), &self.data_type)
            }
            Domain::Values(values) => Ok(values.slice((code - first) as usize, 1)),
        }
    }

    /// Decodes `rows` to an Arrow array of the column's type on the heap.
    ///
    /// # Errors
    /// Arrow's, from building the array.
    ///
    /// # Panics
    /// If the rows are out of range.
    pub fn decode(&self, rows: Range<usize>) -> Result<ArrayRef, EngineError> {
        decode::decode(self, &decode::RowSet::Range(rows))
    }

    /// Decodes the rows `start + position` to an Arrow array of the column's type on the heap.
    ///
    /// # Errors
    /// Arrow's, from building the array.
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn decode_at(&self, start: usize, positions: &[u32]) -> Result<ArrayRef, EngineError> {
        decode::decode(self, &decode::RowSet::At { start, positions })
    }
}

/// Whether the values are strictly ascending without NULL.
///
/// Then every value has one code, and a range of values is a range of codes.
fn ascending(values: &ArrayRef) -> Result<bool, EngineError> {
    let compare = make_comparator(values, values, SortOptions::default())?;
    let ascends = (1..values.len()).all(|i| compare(i - 1, i) == Ordering::Less);
    Ok(values.logical_null_count() == 0 && ascends)
}

/// Reinterprets integers as values of `data_type`.
///
/// They become unscaled decimals, days, or counts of the type's time unit.
pub(crate) fn from_integers(
    integers: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, EngineError> {
    match data_type {
        DataType::Decimal128(precision, scale) => {
            // A cast to the final scale would multiply the values, but only the type has to change.
            let plain = cast(integers, &DataType::Decimal128(38, 0))?;
            let data = plain
                .to_data()
                .into_builder()
                .data_type(DataType::Decimal128(*precision, *scale))
                .build()?;
            Ok(arrow::array::make_array(data))
        }
        DataType::Date32 | DataType::Time32(_) => {
            let days = cast(integers, &DataType::Int32)?;
            Ok(cast(&days, data_type)?)
        }
        other => Ok(cast(integers, other)?),
    }
}
