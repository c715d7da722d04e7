//! Arrow types and arrays of generated columns.

use crate::EngineError;
use crate::coded::Domain;
use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, StringArray, StringViewArray, UInt8Array,
};
use arrow::datatypes::{DataType, UInt8Type};
use std::sync::Arc;
use tierloom_workloads::ssb::{ColumnType, ColumnValues};

/// The Arrow type of a generated column; text of few values is a dictionary with one-byte keys.
pub(super) fn data_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Dict8 => {
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
        }
        ColumnType::Text => DataType::Utf8View,
    }
}

pub(super) fn array(values: ColumnValues) -> Result<ArrayRef, EngineError> {
    Ok(match values {
        ColumnValues::Int32(values) => Arc::new(Int32Array::from(values)),
        ColumnValues::Dict8 { codes, values } => Arc::new(DictionaryArray::<UInt8Type>::try_new(
            UInt8Array::from(codes),
            Arc::new(StringArray::from_iter_values(values)),
        )?),
        ColumnValues::Text(text) => Arc::new(StringViewArray::from_iter_values(text.iter())),
    })
}

/// The values of a dictionary column as a domain of the same type.
pub(super) fn words(words: &[&str]) -> Result<Domain, EngineError> {
    let keys = UInt8Array::from_iter_values((0..words.len()).map(|at| at as u8));
    let words = Arc::new(StringArray::from_iter_values(words));
    let listed = DictionaryArray::<UInt8Type>::try_new(keys, words)?;
    Ok(Domain::Values(Arc::new(listed)))
}
