//! Values as 64-bit integers, equal where the values are.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, exec_err, internal_err};
use std::sync::Arc;

/// Whether columns of this type can be keys of a join: integers of up to 64 bits, dates and
/// timestamps.
pub(crate) fn is_key_type(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    data_type.is_integer() || matches!(data_type, Date32 | Date64 | Timestamp(_, _))
}

/// Whether columns of this type can be integers; more types than joins have as keys.
pub(crate) fn is_integer_like(data_type: &DataType) -> bool {
    use DataType::{Boolean, Decimal128, Duration, Time32, Time64};
    is_key_type(data_type)
        || match data_type {
            Boolean | Time32(_) | Time64(_) | Duration(_) => true,
            Decimal128(digits, _) => *digits <= MAX_DIGITS,
            _ => false,
        }
}

/// Decimal digits that fit into 64 bits.
pub(crate) const MAX_DIGITS: u8 = 18;

/// The integer type that values of a type are stored as.
fn stored_as(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => DataType::Int64,
        other => other.clone(),
    }
}

/// The same values with another type that is stored alike.
fn retyped(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data().into_builder();
    Ok(make_array(data.data_type(data_type.clone()).build()?))
}

/// The values of a column of such a type; any integer for NULL.
///
/// # Errors
/// If the type is another, or a decimal has more digits than its type.
pub(crate) fn integers(array: &ArrayRef) -> Result<Vec<i64>> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> i64) -> Vec<i64> {
        let values = array.as_primitive::<T>().values();
        values.iter().map(|v| widen(*v)).collect()
    }
    let stored = retyped(array, &stored_as(array.data_type()))?;
    let array = &stored;
    Ok(match array.data_type() {
        DataType::Int8 => of::<Int8Type>(array, i64::from),
        DataType::Int16 => of::<Int16Type>(array, i64::from),
        DataType::Int32 => of::<Int32Type>(array, i64::from),
        DataType::Int64 => of::<Int64Type>(array, |v| v),
        DataType::UInt8 => of::<UInt8Type>(array, i64::from),
        DataType::UInt16 => of::<UInt16Type>(array, i64::from),
        DataType::UInt32 => of::<UInt32Type>(array, i64::from),
        // Only equality matters, so the bits may be reinterpreted.
        DataType::UInt64 => of::<UInt64Type>(array, |v| v as i64),
        DataType::Boolean => array.as_boolean().values().iter().map(i64::from).collect(),
        DataType::Decimal128(_, _) => {
            let values = array.as_primitive::<Decimal128Type>();
            let fits = |v: i128| i64::try_from(v).is_ok();
            if let Some(value) = values.iter().flatten().find(|v| !fits(*v)) {
                return exec_err!("a decimal of at most {MAX_DIGITS} digits is {value}");
            }
            of::<Decimal128Type>(array, |v| v as i64)
        }
        other => return internal_err!("{other} is no type of an integer key"),
    })
}

/// An array of `data_type` with these values; the inverse of [`integers`].
///
/// # Errors
/// If the type is another.
pub(crate) fn array_of(
    data_type: &DataType,
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(
        values: Vec<i64>,
        nulls: Option<NullBuffer>,
        narrow: impl Fn(i64) -> T::Native,
    ) -> ArrayRef {
        let values = values.into_iter().map(narrow).collect();
        Arc::new(PrimitiveArray::<T>::new(values, nulls))
    }
    // The values came from columns of this type, so narrowing loses nothing.
    let array = match stored_as(data_type) {
        DataType::Int8 => of::<Int8Type>(values, nulls, |v| v as i8),
        DataType::Int16 => of::<Int16Type>(values, nulls, |v| v as i16),
        DataType::Int32 => of::<Int32Type>(values, nulls, |v| v as i32),
        DataType::Int64 => of::<Int64Type>(values, nulls, |v| v),
        DataType::UInt8 => of::<UInt8Type>(values, nulls, |v| v as u8),
        DataType::UInt16 => of::<UInt16Type>(values, nulls, |v| v as u16),
        DataType::UInt32 => of::<UInt32Type>(values, nulls, |v| v as u32),
        DataType::UInt64 => of::<UInt64Type>(values, nulls, |v| v as u64),
        DataType::Boolean => {
            let values = values.into_iter().map(|v| v != 0).collect();
            Arc::new(BooleanArray::new(values, nulls))
        }
        DataType::Decimal128(_, _) => of::<Decimal128Type>(values, nulls, i128::from),
        other => return internal_err!("{other} is no type of an integer key"),
    };
    retyped(&array, data_type)
}

/// A value for each string of an array, or NULL; none if it has no strings.
pub(crate) fn of_strings<R>(array: &ArrayRef, of: impl Fn(Option<&str>) -> R) -> Option<Vec<R>> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(of).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(of).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(of).collect(),
        _ => return None,
    })
}
