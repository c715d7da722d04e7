//! Arrays over the bytes of a column's regions.

use super::buffer_of;
use crate::EngineError;
use crate::coded::{CodedColumn, Domain, Unit};
use crate::pooled::Guarded;
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, DictionaryArray, PrimitiveArray, make_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, UInt8Type};
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::codes::CodeWidth;

/// An array over bytes of the regions.
#[derive(Debug, Clone)]
pub(super) enum Values {
    Array(ArrayRef),
    Guarded(Arc<Guarded>),
}

impl Values {
    pub fn data_type(&self) -> &DataType {
        match self {
            Values::Array(array) => array.data_type(),
            Values::Guarded(array) => array.data_type(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Values::Array(array) => array.len(),
            Values::Guarded(array) => array.len(),
        }
    }

    /// The array, of which `rows` can be used.
    pub fn rows(&self, rows: Range<usize>) -> Result<&ArrayRef, EngineError> {
        match self {
            Values::Array(array) => Ok(array),
            Values::Guarded(array) => array.rows(rows),
        }
    }
}

/// Whether the bytes of the codes are the layout of the column's type.
pub(super) fn has_view(column: &CodedColumn) -> bool {
    // NULL takes code 0 and shifts the others, and codes are stored in little-endian order.
    if column.nullable() || column.rows() == 0 || cfg!(target_endian = "big") {
        return false;
    }
    match (column.domain(), column.data_type()) {
        (Domain::Values(_), DataType::Dictionary(key, _)) => {
            **key == DataType::UInt8 && column.width() == CodeWidth::One
        }
        (
            Domain::Offset {
                base: 0,
                unit: Unit::ONE,
                ..
            },
            data_type,
        ) => data_type.primitive_width() == Some(column.width().bytes()),
        _ => false,
    }
}

/// The codes as an array of the column's type, if their bytes are that array's layout.
pub(crate) fn view(column: &CodedColumn) -> Result<Option<ArrayRef>, EngineError> {
    if !has_view(column) {
        return Ok(None);
    }
    let len = column.rows() * column.width().bytes();
    let codes = buffer_of(column.region(), 0, len)?;
    if let Domain::Values(values) = column.domain() {
        let keys = ScalarBuffer::new(codes, 0, column.rows());
        let keys = PrimitiveArray::<UInt8Type>::try_new(keys, None)?;
        let words = Arc::clone(values.as_any_dictionary().values());
        return Ok(Some(Arc::new(DictionaryArray::try_new(keys, words)?)));
    }
    let data = ArrayData::builder(column.data_type().clone())
        .len(column.rows())
        .add_buffer(codes)
        .build()?;
    Ok(Some(make_array(data)))
}
