//! Values on their way into a column of another type, as PostgreSQL assigns them.
//!
//! Numbers are rounded, never cut, and one that does not fit is an error, never NULL. Text goes
//! into a column of any type if it reads as a value of it, and a value of any type into text.
//! Numbers, truth values, dates, times and intervals do not become each other.

use super::super::error::SqlError;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Float32Type, Float64Type,
};
use std::sync::Arc;

/// `values` as those of a column; the result has a NULL where they have one.
///
/// # Errors
/// Bad input that names the column: types of different kinds, or a value that does not fit.
pub(in super::super) fn assigned(
    values: &ArrayRef,
    column: &str,
    data_type: &DataType,
) -> Result<ArrayRef, SqlError> {
    if values.data_type() == data_type {
        return Ok(Arc::clone(values));
    }
    if values.data_type() == &DataType::Null {
        return Ok(new_null_array(data_type, values.len()));
    }
    if !converts(values.data_type(), data_type) {
        return Err(SqlError::input(format!(
            "column {column} is of type {}, and the value is of type {}; convert it with CAST",
            shown(data_type),
            shown(values.data_type())
        )));
    }
    converted(values, data_type).map_err(|error| {
        SqlError::input(format!(
            "{}: the value cannot be converted to the type {} of column {column}",
            reason(&error),
            shown(data_type)
        ))
    })
}

/// A type without what only storage knows of it.
fn shown(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, words) => shown(words),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        other => other.to_string(),
    }
}

fn reason(error: &str) -> &str {
    let kinds = ["Cast error: ", "Parser error: ", "Invalid argument error: "];
    let inner = kinds.iter().find_map(|kind| error.strip_prefix(kind));
    inner.unwrap_or(error)
}

/// Kinds of types, between which nothing is assigned.
#[derive(PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Truth,
    /// Dates and timestamps.
    Day,
    Time,
    Interval,
    Bytes,
    Nested,
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Dictionary(_, words) => kind(words),
        DataType::RunEndEncoded(_, values) => kind(values.data_type()),
        text if text.is_string() => Kind::Text,
        number if number.is_numeric() => Kind::Number,
        DataType::Boolean => Kind::Truth,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Day,
        DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
        DataType::Duration(_) | DataType::Interval(_) => Kind::Interval,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Kind::Bytes,
        _ => Kind::Nested,
    }
}

fn converts(from: &DataType, to: &DataType) -> bool {
    let (a, b) = (kind(from), kind(to));
    a == b || ((a == Kind::Text || b == Kind::Text) && a != Kind::Nested && b != Kind::Nested)
}

fn converted(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let values = match values.data_type() {
        DataType::Dictionary(_, words) => cast(values, words)?,
        _ => Arc::clone(values),
    };
    let made = match to {
        // Keys of one byte may be too few; the table gets wider ones then.
        DataType::Dictionary(_, words) => {
            let words = converted(&values, words)?;
            let wide = DataType::Dictionary(
                Box::new(DataType::Int32),
                Box::new(words.data_type().clone()),
            );
            return cast(&words, &wide);
        }
        whole if whole.is_integer() && values.data_type().is_floating() => {
            cast(&rounded(&values), whole)?
        }
        whole if whole.is_integer() && values.data_type().is_decimal() => {
            cast(&whole_decimals(&values)?, whole)?
        }
        DataType::Float32 if values.data_type() == &DataType::Float64 => narrowed(&values)?,
        to => cast(&values, to)?,
    };
    // A cast that gives up on a value instead of failing would lose it silently.
    match made.logical_null_count() == values.logical_null_count() {
        true => Ok(made),
        false => Err("a value is out of range".to_owned()),
    }
}

fn cast(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(values, to, &options).map_err(|e| e.to_string())
}

/// Floats as whole numbers; halves go to the even one, as PostgreSQL rounds.
fn rounded(values: &ArrayRef) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(
        values: &ArrayRef,
        round: impl Fn(T::Native) -> T::Native,
    ) -> ArrayRef {
        let rounded: PrimitiveArray<T> = values.as_primitive::<T>().unary(round);
        Arc::new(rounded)
    }
    match values.data_type() {
        DataType::Float32 => of::<Float32Type>(values, f32::round_ties_even),
        DataType::Float64 => of::<Float64Type>(values, f64::round_ties_even),
        _ => Arc::clone(values),
    }
}

/// Decimals without digits after the point; Arrow rounds them between decimals, and cuts them on
/// the way to whole numbers.
fn whole_decimals(values: &ArrayRef) -> Result<ArrayRef, String> {
    let whole = match values.data_type() {
        DataType::Decimal256(_, scale) if *scale > 0 => {
            DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0)
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
            if *scale > 0 =>
        {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)
        }
        _ => return Ok(Arc::clone(values)),
    };
    cast(values, &whole)
}

/// Doubles as floats; Arrow makes infinities of those that are too large.
fn narrowed(values: &ArrayRef) -> Result<ArrayRef, String> {
    let narrow = cast(values, &DataType::Float32)?;
    let before = values.as_primitive::<Float64Type>().iter().flatten();
    let after = narrow.as_primitive::<Float32Type>().iter().flatten();
    match before
        .zip(after)
        .find(|(b, a)| b.is_finite() && !a.is_finite())
    {
        Some((value, _)) => Err(format!("{value} is out of range")),
        None => Ok(narrow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
    };
    use arrow::datatypes::{Int8Type, Int32Type, TimeUnit};

    fn array(values: impl Array + 'static) -> ArrayRef {
        Arc::new(values)
    }

    fn refused(values: impl Array + 'static, to: &DataType) -> String {
        assigned(&array(values), "c", to).unwrap_err().to_string()
    }

    #[test]
    fn numbers_are_rounded_on_the_way_to_whole_ones() {
        let doubles = Float64Array::from(vec![Some(0.5), Some(1.5), Some(-2.5), Some(2.6), None]);
        let made = assigned(&array(doubles), "c", &DataType::Int32).unwrap();
        let made: Vec<_> = made.as_primitive::<Int32Type>().iter().collect();
        assert_eq!(made, [Some(0), Some(2), Some(-2), Some(3), None]);
        let decimals = Decimal128Array::from(vec![25, -25, 24, -26]);
        let decimals = decimals.with_precision_and_scale(4, 1).unwrap();
        let made = assigned(&array(decimals), "c", &DataType::Int8).unwrap();
        assert_eq!(made.as_primitive::<Int8Type>().values(), &[3, -3, 2, -3]);
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_not_null() {
        let cases = [
            refused(Int64Array::from(vec![1, 300]), &DataType::Int8),
            refused(Float64Array::from(vec![1e10]), &DataType::Int32),
            refused(Float64Array::from(vec![f64::NAN]), &DataType::Int64),
            refused(Float64Array::from(vec![1e300]), &DataType::Float32),
            refused(
                Float64Array::from(vec![1234.5]),
                &DataType::Decimal128(4, 1),
            ),
            refused(Int64Array::from(vec![-1]), &DataType::UInt16),
            refused(StringArray::from(vec!["1", "x"]), &DataType::Int32),
            refused(StringArray::from(vec!["2020-02-30"]), &DataType::Date32),
            refused(
                Date32Array::from(vec![4_000_000]),
                &DataType::Timestamp(TimeUnit::Nanosecond, None),
            ),
        ];
        for message in cases {
            assert!(message.contains("of column c"), "{message}");
            assert!(message.contains("cannot be converted"), "{message}");
        }
    }

    #[test]
    fn kinds_of_values_stay_apart_except_through_text() {
        let numbers = || Int64Array::from(vec![1]);
        for (message, part) in [
            (refused(numbers(), &DataType::Date32), "Int64"),
            (refused(numbers(), &DataType::Boolean), "Boolean"),
            (
                refused(BooleanArray::from(vec![true]), &DataType::Int32),
                "CAST",
            ),
        ] {
            assert!(message.contains(part), "{message}");
        }
        let text = assigned(&array(numbers()), "c", &DataType::Utf8).unwrap();
        assert_eq!(text.as_string::<i32>().value(0), "1");
        let words = array(StringArray::from(vec![Some("7"), None]));
        let made = assigned(&words, "c", &DataType::Int32).unwrap();
        assert_eq!((made.len(), made.null_count()), (2, 1));
    }
}
