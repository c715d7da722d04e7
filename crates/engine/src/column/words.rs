//! Columns whose values are words of 64 bits, as star joins read them.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use tierloom_star::{Bits, WordColumn};

/// The values of a column that has no codes, and which are NULL.
#[derive(Debug, Clone)]
pub(crate) struct ColumnWords {
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
}

impl ColumnWords {
    /// Whether values of this type are words.
    pub fn has(data_type: &DataType) -> bool {
        use DataType::{Float64, Int64, Timestamp};
        matches!(data_type, Float64 | Int64 | Timestamp(..))
    }

    /// The words of `array`; `None` if its values are none.
    pub fn of(array: &ArrayRef) -> Option<Self> {
        if !Self::has(array.data_type()) {
            return None;
        }
        let data = array.to_data();
        let buffer = data.buffers().first()?.clone();
        Some(ColumnWords {
            values: ScalarBuffer::new(buffer, data.offset(), data.len()),
            nulls: array.nulls().filter(|n| n.null_count() > 0).cloned(),
        })
    }

    /// The words of all rows.
    pub fn words(&self) -> WordColumn<'_> {
        let valid = self.nulls.as_ref().map(|nulls| Bits {
            bytes: nulls.inner().values(),
            offset: nulls.inner().offset(),
        });
        WordColumn {
            words: &self.values,
            valid,
        }
    }
}
