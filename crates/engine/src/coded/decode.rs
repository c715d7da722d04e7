//! Decodes codes to Arrow arrays.
//!
//! Integers of every width, dates, times and decimals are written once, straight from the codes.
//! So are floats that are kept as decimals. Strings and dictionaries go through Arrow's `take` on
//! the column's values; for string views that copies 16 bytes per row and shares the payload.

use super::unit::reinterpreted;
use super::{CodedColumn, Domain, Unit};
use crate::EngineError;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray,
    UInt32Array, new_empty_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::CodeValue;
use tierloom_kernels::codes::Codes;

/// A selection of rows.
#[derive(Debug, Clone)]
pub(crate) enum RowSet<'a> {
    Range(Range<usize>),
    /// Row `start + position` for each position.
    At {
        start: usize,
        positions: &'a [u32],
    },
}

impl RowSet<'_> {
    fn len(&self) -> usize {
        match self {
            RowSet::Range(range) => range.len(),
            RowSet::At { positions, .. } => positions.len(),
        }
    }

    fn offsets<T: CodeValue>(&self, codes: &Codes<'_>, base: i64) -> Vec<T> {
        match self {
            RowSet::Range(range) => codes.offsets(range.clone(), base),
            RowSet::At { start, positions } => codes.offsets_at(*start, positions, base),
        }
    }

    fn multiples(&self, codes: &Codes<'_>, base: i64, step: i64) -> Vec<i64> {
        match self {
            RowSet::Range(range) => codes.multiples(range.clone(), base, step),
            RowSet::At { start, positions } => codes.multiples_at(*start, positions, base, step),
        }
    }

    fn decimals(&self, codes: &Codes<'_>, base: i64, digits: u8) -> Vec<f64> {
        match self {
            RowSet::Range(range) => codes.decimals(range.clone(), base, digits),
            RowSet::At { start, positions } => codes.decimals_at(*start, positions, base, digits),
        }
    }

    fn looked_up<T: Copy>(&self, codes: &Codes<'_>, first: u32, table: &[T]) -> Vec<T> {
        match self {
            RowSet::Range(range) => codes.looked_up(range.clone(), first, table),
            RowSet::At { start, positions } => codes.looked_up_at(*start, positions, first, table),
        }
    }

    /// Validity of the rows; `None` if no row is NULL.
    fn nulls(&self, codes: &Codes<'_>) -> Option<NullBuffer> {
        let nulls = match self {
            RowSet::Range(range) => {
                let (bits, zeros) = codes.non_zero_bits(range.clone());
                let bits = BooleanBuffer::new(Buffer::from_vec(bits), 0, range.len());
                (zeros > 0).then(|| NullBuffer::new(bits))
            }
            RowSet::At { start, positions } => {
                let valid: NullBuffer = codes
                    .offsets_at::<u32>(*start, positions, 0)
                    .into_iter()
                    .map(|code| code != 0)
                    .collect();
                Some(valid)
            }
        };
        nulls.filter(|n| n.null_count() > 0)
    }
}

/// Decodes rows to an array of the column's type.
pub(super) fn decode(column: &CodedColumn, rows: &RowSet<'_>) -> Result<ArrayRef, EngineError> {
    if rows.len() == 0 {
        return Ok(new_empty_array(column.data_type()));
    }
    if let Domain::Values(values) = column.domain()
        && values.is_empty()
    {
        // All rows are NULL: there is no value to look up.
        return Ok(new_null_array(column.data_type(), rows.len()));
    }
    let nulls = if column.nullable() {
        rows.nulls(&column.codes())
    } else {
        None
    };
    match (column.offset(), column.domain()) {
        (Some((base, Unit::Decimal(digits))), _) => {
            let floats = rows.decimals(&column.codes(), base, digits);
            return Ok(Arc::new(Float64Array::new(floats.into(), nulls)));
        }
        (Some((base, Unit::Times(step))), _) if step > 1 => {
            let integers = rows.multiples(&column.codes(), base, step);
            return reinterpreted(Int64Array::new(integers.into(), nulls), column.data_type());
        }
        (None, Domain::Values(values)) if *column.data_type() == DataType::Float64 => {
            let table = values.as_primitive::<Float64Type>().values();
            let first = u32::from(column.nullable());
            let floats = rows.looked_up(&column.codes(), first, table);
            return Ok(Arc::new(Float64Array::new(floats.into(), nulls)));
        }
        _ => {}
    }
    match integers(column, rows, nulls.clone()) {
        Some(array) => Ok(array),
        None => taken(column, rows, nulls),
    }
}

/// Decodes a type represented by integers; `None` for other types.
fn integers(
    column: &CodedColumn,
    rows: &RowSet<'_>,
    nulls: Option<NullBuffer>,
) -> Option<ArrayRef> {
    macro_rules! of {
        ($($pattern:pat => $physical:ty),* $(,)?) => {
            match column.data_type() {
                $($pattern => Some(primitive::<$physical>(column, rows, nulls)),)*
                _ => None,
            }
        };
    }
    of! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt64 => UInt64Type,
        DataType::Date32 => Date32Type,
        DataType::Date64 => Date64Type,
        DataType::Time32(TimeUnit::Second) => Time32SecondType,
        DataType::Time32(_) => Time32MillisecondType,
        DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
        DataType::Time64(_) => Time64NanosecondType,
        DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        DataType::Duration(TimeUnit::Second) => DurationSecondType,
        DataType::Duration(TimeUnit::Millisecond) => DurationMillisecondType,
        DataType::Duration(TimeUnit::Microsecond) => DurationMicrosecondType,
        DataType::Duration(TimeUnit::Nanosecond) => DurationNanosecondType,
        DataType::Decimal128(..) => Decimal128Type,
    }
}

fn primitive<T: ArrowPrimitiveType>(
    column: &CodedColumn,
    rows: &RowSet<'_>,
    nulls: Option<NullBuffer>,
) -> ArrayRef
where
    T::Native: CodeValue,
{
    let first = u32::from(column.nullable());
    let values: Vec<T::Native> = match column.domain() {
        Domain::Offset { base, .. } => {
            // Wrapping as in `CodedColumn::offset`.
            rows.offsets(&column.codes(), base.wrapping_sub(i64::from(first)))
        }
        Domain::Values(values) => {
            let table = values.as_primitive::<T>().values();
            rows.looked_up(&column.codes(), first, table)
        }
    };
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    // Restores what the physical type lacks: time zone, precision, scale.
    Arc::new(array.with_data_type(column.data_type().clone()))
}

fn taken(
    column: &CodedColumn,
    rows: &RowSet<'_>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, EngineError> {
    let Domain::Values(values) = column.domain() else {
        return Err(EngineError::Table {
            table: "of codes".into(),
            problem: format!("has offsets that are no {}", column.data_type()),
        });
    };
    let positions: Vec<u32> = if column.nullable() {
        // The position of a NULL row is arbitrary, because `take` does not read it.
        let listed = rows.offsets::<u32>(&column.codes(), -1);
        listed
            .into_iter()
            .map(|at| if at == u32::MAX { 0 } else { at })
            .collect()
    } else {
        rows.offsets(&column.codes(), 0)
    };
    Ok(take(
        values.as_ref(),
        &UInt32Array::new(positions.into(), nulls),
        None,
    )?)
}
