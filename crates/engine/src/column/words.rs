//! Columns whose values are words of 64 bits, or bits, as star joins read them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Float32Type};
use tierloom_star::{Bits, WordColumn, WordValues};

/// The values of a column that has no codes, and which are NULL.
#[derive(Debug, Clone)]
pub(crate) struct ColumnWords {
    values: Words,
    nulls: Option<NullBuffer>,
}

#[derive(Debug, Clone)]
enum Words {
    Whole(ScalarBuffer<i64>),
    Floats(ScalarBuffer<f32>),
    Bits(BooleanBuffer),
}

impl ColumnWords {
    /// Whether values of this type are words.
    pub fn has(data_type: &DataType) -> bool {
        use DataType::{Boolean, Float32, Float64, Int64, Timestamp};
        matches!(
            data_type,
            Boolean | Float32 | Float64 | Int64 | Timestamp(..)
        )
    }

    /// The words of `array`; `None` if its values are none.
    pub fn of(array: &ArrayRef) -> Option<Self> {
        if !Self::has(array.data_type()) {
            return None;
        }
        let values = if let Some(booleans) = array.as_boolean_opt() {
            Words::Bits(booleans.values().clone())
        } else if let Some(floats) = array.as_primitive_opt::<Float32Type>() {
            Words::Floats(floats.values().clone())
        } else {
            let data = array.to_data();
            let buffer = data.buffers().first()?.clone();
            Words::Whole(ScalarBuffer::new(buffer, data.offset(), data.len()))
        };
        Some(ColumnWords {
            values,
            nulls: array.nulls().filter(|n| n.null_count() > 0).cloned(),
        })
    }

    /// The words of all rows.
    pub fn words(&self) -> WordColumn<'_> {
        WordColumn {
            values: match &self.values {
                Words::Whole(words) => WordValues::Words(words),
                Words::Floats(floats) => WordValues::Floats(floats),
                Words::Bits(bits) => WordValues::Bits(bits_of(bits)),
            },
            valid: self.nulls.as_ref().map(|nulls| bits_of(nulls.inner())),
        }
    }
}

fn bits_of(bits: &BooleanBuffer) -> Bits<'_> {
    Bits {
        bytes: bits.values(),
        offset: bits.offset(),
    }
}
