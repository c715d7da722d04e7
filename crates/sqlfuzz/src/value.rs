//! Values of cells, as a case file writes them, and arrays made of them.

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

/// One cell. Dates, times and points in time are whole numbers in the unit of their type, decimals
/// are unscaled.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// Whole numbers, and what is kept as one.
    Int(i128),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// As a case file has it: numbers that JSON cannot hold are text.
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

    /// Reads what [`Value::to_json`] wrote for a column of `data_type`.
    ///
    /// # Errors
    /// A value that the type cannot have.
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
            Kept::Text => Ok(Value::Text(text)),
            Kept::Float => text.parse().map(Value::Float).map_err(|_| wrong()),
            Kept::Int => text.parse().map(Value::Int).map_err(|_| wrong()),
            Kept::Bytes => (0..text.len() / 2)
                .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16))
                .collect::<Result<_, _>>()
                .map(Value::Bytes)
                .map_err(|_| wrong()),
            Kept::Bool | Kept::Nothing => Err(wrong()),
        }
    }
}

/// How cells of a type are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Type Null.
    Nothing,
    /// As booleans.
    Bool,
    /// As whole numbers.
    Int,
    /// As floats.
    Float,
    /// As text.
    Text,
    /// As bytes.
    Bytes,
}

/// How cells of type `data_type` are kept.
pub fn kept_as(data_type: &DataType) -> Kept {
    match data_type {
        DataType::Null => Kept::Nothing,
        DataType::Boolean => Kept::Bool,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Kept::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kept::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kept::Bytes,
        DataType::Dictionary(_, values) => kept_as(values),
        _ => Kept::Int,
    }
}

/// The array of `values`; dictionaries are made elsewhere.
///
/// # Errors
/// A value that does not fit into the type.
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
        (Kept::Nothing, _) => return Ok(Arc::new(NullArray::new(values.len()))),
        (Kept::Bool, _) => Arc::new(BooleanArray::from_iter(values.iter().map(|v| match v {
            Value::Bool(b) => Some(*b),
            _ => None,
        }))),
        (Kept::Float, _) => Arc::new(Float64Array::from_iter(values.iter().map(|v| match v {
            Value::Float(f) => Some(*f),
            _ => None,
        }))),
        (Kept::Text, _) => Arc::new(StringArray::from_iter(values.iter().map(|v| match v {
            Value::Text(t) => Some(t.as_str()),
            _ => None,
        }))),
        (Kept::Bytes, _) => {
            let mut builder = BinaryBuilder::new();
            for value in values {
                match value {
                    Value::Bytes(bytes) => builder.append_value(bytes),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        (Kept::Int, DataType::Decimal128(p, s)) => {
            return Ok(Arc::new(
                Decimal128Array::from_iter(ints()).with_precision_and_scale(*p, *s)?,
            ));
        }
        (Kept::Int, DataType::Decimal256(p, s)) => {
            let wide = ints().map(|v| v.map(i256::from_i128));
            return Ok(Arc::new(
                Decimal256Array::from_iter(wide).with_precision_and_scale(*p, *s)?,
            ));
        }
        (Kept::Int, DataType::UInt64) => {
            let values = ints().map(|v| v.map(|v| v as u64));
            return Ok(Arc::new(arrow::array::UInt64Array::from_iter(values)));
        }
        (Kept::Int, _) => Arc::new(Int64Array::from_iter(ints().map(|v| v.map(|v| v as i64)))),
    };
    if values.is_empty() {
        return Ok(new_null_array(data_type, 0));
    }
    let narrow = match data_type {
        // Days and seconds of 32 bits come from numbers of 32 bits.
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
