//! Integers that represent values: integers themselves, days, unscaled decimals.

use super::NotFused;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_kernels::words::word;

/// The values of an array of integers, 0 for NULL, and the rows that are not NULL if some are.
///
/// # Errors
/// A value that is not a 64-bit integer.
pub(super) fn with_nulls(array: &ArrayRef) -> Result<(Vec<i64>, Option<Arc<CodeSet>>), NotFused> {
    let mut values: Vec<i64> = Vec::with_capacity(array.len());
    let fit = all_integers(array, |value| {
        let value = i64::try_from(value.unwrap_or(0));
        value.map(|value| values.push(value)).is_ok()
    })?;
    if !fit {
        return NotFused::because("a value does not fit 64 bits");
    }
    Ok((values, valid_rows(array)))
}

/// The bits of floats, of 0 for NULL.
pub(super) fn bits_of_floats(floats: &Float64Array) -> Vec<i64> {
    floats.iter().map(|v| word(v.unwrap_or(0.0))).collect()
}

/// The rows that are not NULL, if some are.
pub(super) fn valid_rows(array: &ArrayRef) -> Option<Arc<CodeSet>> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    nulls.map(|nulls| {
        let mut valid = CodeSet::new(nulls.len() as u64);
        nulls
            .valid_indices()
            .for_each(|row| valid.insert(row as u32));
        Arc::new(valid)
    })
}

/// Whether `each` returns true for all integers that represent an array's values.
///
/// # Errors
/// An array of another type.
pub(super) fn all_integers(
    array: &ArrayRef,
    mut each: impl FnMut(Option<i128>) -> bool,
) -> Result<bool, NotFused> {
    // Most are of these types, and need not be widened to an array first.
    if let Some(plain) = array.as_primitive_opt::<Int32Type>() {
        return Ok(plain.iter().all(|value| each(value.map(i128::from))));
    }
    if let Some(plain) = array.as_primitive_opt::<Int64Type>() {
        return Ok(plain.iter().all(|value| each(value.map(i128::from))));
    }
    Ok(integers(array)?.into_iter().all(each))
}

/// The integers that represent an array's values: integers, days, unscaled decimals.
///
/// # Errors
/// An array of another type.
pub(super) fn integers(array: &ArrayRef) -> Result<Vec<Option<i128>>, NotFused> {
    match array.data_type() {
        DataType::Decimal128(_, _) => Ok(array.as_primitive::<Decimal128Type>().iter().collect()),
        DataType::Date32 | DataType::Time32(_) => integers(&cast(array, &DataType::Int32)?),
        DataType::Dictionary(_, value) if value.is_integer() => integers(&cast(array, value)?),
        DataType::UInt64 => Ok(array
            .as_primitive::<arrow::datatypes::UInt64Type>()
            .iter()
            .map(|v| v.map(i128::from))
            .collect()),
        t if t.is_integer()
            || matches!(
                t,
                DataType::Timestamp(..) | DataType::Date64 | DataType::Boolean
            ) =>
        {
            let wide = cast(array, &DataType::Int64)?;
            let wide = wide.as_primitive::<Int64Type>();
            Ok(wide.iter().map(|v| v.map(i128::from)).collect())
        }
        other => NotFused::because(format!("{other} is not an integer type")),
    }
}
