//! Values of cells: their form in case files, and Arrow arrays of them.

use crate::FuzzError;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanArray, Float64Array, Int64Array, NullArray, StringArray,
    new_null_array,
};
use arrow::array::{Decimal128Array, Decimal256Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, i256};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The value of one cell.
///
/// Dates, times and timestamps are integers in the unit of their type, decimals are unscaled.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL, of any type.
    Null,
    /// A Boolean.
    Bool(bool),
    /// An integer, or a value that is stored as one.
    Int(i128),
    /// A floating-point number of any width.
    Float(f64),
    /// Text of any string type.
    Text(String),
    /// Bytes of any binary type.
    Bytes(Vec<u8>),
}

impl Value {
    /// The value in a case file: numbers that JSON cannot represent exactly are text.
    pub fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(value) => json!(value),
            Value::Int(value) => match i64::try_from(*value) {
                Ok(small) if small.unsigned_abs() < 1 << 53 => json!(small),
                _ => json!(value.to_string()),
            },
            Value::Float(value) => json!(format!("{value:?}")),
            Value::Text(value) => json!(value),
            Value::Bytes(value) => {
                let hex: String = value.iter().map(|b| format!("{b:02x}")).collect();
                json!(hex)
            }
        }
    }

    /// Parses what [`Value::to_json`] wrote for a column of `data_type`.
    ///
    /// # Errors
    /// If the type cannot have such a value.
    pub fn from_json(json: &Json, data_type: &DataType) -> Result<Value, FuzzError> {
        let wrong = || FuzzError::Case(format!("{json} is no value of type {data_type}"));
        let text = match json {
            Json::Null => return Ok(Value::Null),
            Json::Bool(value) => return Ok(Value::Bool(*value)),
            Json::Number(number) => number.to_string(),
            Json::String(text) => text.clone(),
            _ => return Err(wrong()),
        };
        match kept_as(data_type) {
            StoredAs::Text => Ok(Value::Text(text)),
            StoredAs::Float => text.parse().map(Value::Float).map_err(|_| wrong()),
            StoredAs::Int => text.parse().map(Value::Int).map_err(|_| wrong()),
            StoredAs::Bytes => (0..text.len() / 2)
                .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16))
                .collect::<Result<_, _>>()
                .map(Value::Bytes)
                .map_err(|_| wrong()),
            StoredAs::Bool | StoredAs::Nothing => Err(wrong()),
        }
    }
}

/// How values of a type are stored in a [`Value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredAs {
    /// Only NULL, for the type Null.
    Nothing,
    /// Booleans, as [`Value::Bool`].
    Bool,
    /// Integers, decimals, dates, times and timestamps, as [`Value::Int`].
    Int,
    /// Floating-point numbers, as [`Value::Float`].
    Float,
    /// Strings of any type, as [`Value::Text`].
    Text,
    /// Binary values of any type, as [`Value::Bytes`].
    Bytes,
}

/// How values of `data_type` are stored.
pub fn kept_as(data_type: &DataType) -> StoredAs {
    match data_type {
        DataType::Null => StoredAs::Nothing,
        DataType::Boolean => StoredAs::Bool,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => StoredAs::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => StoredAs::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => StoredAs::Bytes,
        DataType::Dictionary(_, values) => kept_as(values),
        _ => StoredAs::Int,
    }
}

/// An array of `values`. Dictionary arrays are built by [`Column`](crate::table::Column).
///
/// # Errors
/// If a value does not fit the type.
pub fn array(data_type: &DataType, values: &[Value]) -> Result<ArrayRef, FuzzError> {
    let ints = || {
        values.iter().map(|v| {
            if let Value::Int(i) = v {
                Some(*i)
            } else {
                None
            }
        })
    };
    let array: ArrayRef = match (kept_as(data_type), data_type) {
        (StoredAs::Nothing, _) => return Ok(Arc::new(NullArray::new(values.len()))),
        (StoredAs::Bool, _) => Arc::new(BooleanArray::from_iter(values.iter().map(|v| match v {
            Value::Bool(b) => Some(*b),
            _ => None,
        }))),
        (StoredAs::Float, _) => Arc::new(Float64Array::from_iter(values.iter().map(|v| match v {
            Value::Float(f) => Some(*f),
            _ => None,
        }))),
        (StoredAs::Text, _) => Arc::new(StringArray::from_iter(values.iter().map(|v| match v {
            Value::Text(t) => Some(t.as_str()),
            _ => None,
        }))),
        (StoredAs::Bytes, _) => {
            let mut builder = BinaryBuilder::new();
            for value in values {
                match value {
                    Value::Bytes(bytes) => builder.append_value(bytes),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        (StoredAs::Int, DataType::Decimal128(p, s)) => {
            return Ok(Arc::new(
                Decimal128Array::from_iter(ints()).with_precision_and_scale(*p, *s)?,
            ));
        }
        (StoredAs::Int, DataType::Decimal256(p, s)) => {
            let wide = ints().map(|v| v.map(i256::from_i128));
            return Ok(Arc::new(
                Decimal256Array::from_iter(wide).with_precision_and_scale(*p, *s)?,
            ));
        }
        (StoredAs::Int, DataType::UInt64) => {
            let values = ints().map(|v| v.map(|v| v as u64));
            return Ok(Arc::new(arrow::array::UInt64Array::from_iter(values)));
        }
        (StoredAs::Int, _) => Arc::new(Int64Array::from_iter(ints().map(|v| v.map(|v| v as i64)))),
    };
    if values.is_empty() {
        return Ok(new_null_array(data_type, 0));
    }
    let narrow = match data_type {
        // Arrow casts to 32-bit dates and times only from 32-bit integers.
        DataType::Date32 | DataType::Time32(_) => cast(&array, &DataType::Int32)?,
        _ => array,
    };
    let made = cast(&narrow, data_type)?;
    if made.null_count() > narrow.null_count() {
        return Err(FuzzError::Case(format!(
            "a value does not fit into {data_type}"
        )));
    }
    Ok(made)
}
