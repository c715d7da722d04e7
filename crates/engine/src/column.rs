//! A column whose values lie in memory regions, seen as an Arrow array without a copy.

use crate::EngineError;
use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int32Array, StringArray, StringViewArray, UInt8Array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{DataType, UInt8Type};
use std::sync::Arc;
use tierloom_memory::Region;

/// What the planner is told about a column, collected while it was loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnFacts {
    /// Smallest and largest value of an integer column.
    pub range: Option<(i32, i32)>,
    /// Number of distinct values, exact or an upper bound; `None` if not known.
    pub distinct: Option<u64>,
}

/// One column in placed memory.
///
/// ```text
///   Int32  one region:  [i32; rows]
///   Dict8  one region:  [u8 codes; rows]            + a small dictionary on the heap
///   Text   two regions: [16-byte views; rows], [payload bytes of strings longer than 12]
/// ```
/// The array borrows the regions through reference-counted owners, so a result that still points into a region keeps it mapped.
#[derive(Debug, Clone)]
pub struct PlacedColumn {
    name: String,
    array: ArrayRef,
    regions: Vec<Arc<Region>>,
    bytes: u64,
    facts: ColumnFacts,
}

impl PlacedColumn {
    /// An integer column over the first `rows * 4` bytes of `region`.
    pub fn int32(
        name: &str,
        region: Arc<Region>,
        rows: usize,
        facts: ColumnFacts,
    ) -> Result<Self, EngineError> {
        let values =
            Int32Array::try_new(ScalarBuffer::new(slice(&region, rows * 4)?, 0, rows), None)?;
        Ok(PlacedColumn {
            name: name.into(),
            array: Arc::new(values),
            regions: vec![region],
            bytes: rows as u64 * 4,
            facts,
        })
    }

    /// A dictionary column with one byte a row over the first `rows` bytes of `region`.
    ///
    /// # Errors
    /// If a code lies outside the dictionary.
    pub fn dict8(
        name: &str,
        region: Arc<Region>,
        rows: usize,
        dictionary: &[String],
    ) -> Result<Self, EngineError> {
        let codes = UInt8Array::try_new(ScalarBuffer::new(slice(&region, rows)?, 0, rows), None)?;
        let distinct = Some(dictionary.len() as u64);
        let array = DictionaryArray::<UInt8Type>::try_new(
            codes,
            Arc::new(StringArray::from_iter_values(dictionary)),
        )?;
        Ok(PlacedColumn {
            name: name.into(),
            array: Arc::new(array),
            regions: vec![region],
            bytes: rows as u64,
            facts: ColumnFacts {
                range: None,
                distinct,
            },
        })
    }

    /// A string column: views in `views`, payloads of long strings in `payload`.
    ///
    /// # Errors
    /// If a view points outside the payload or a string is not UTF-8.
    pub fn text(
        name: &str,
        views: Arc<Region>,
        rows: usize,
        payload: Option<(Arc<Region>, usize)>,
        distinct: Option<u64>,
    ) -> Result<Self, EngineError> {
        let mut bytes = rows as u64 * 16;
        let mut regions = vec![Arc::clone(&views)];
        let mut buffers = Vec::new();
        if let Some((region, len)) = payload {
            buffers.push(slice(&region, len)?);
            bytes += len as u64;
            regions.push(region);
        }
        let array = StringViewArray::try_new(
            ScalarBuffer::new(slice(&views, rows * 16)?, 0, rows),
            buffers,
            None,
        )?;
        Ok(PlacedColumn {
            name: name.into(),
            array: Arc::new(array),
            regions,
            bytes,
            facts: ColumnFacts {
                range: None,
                distinct,
            },
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its Arrow type.
    pub fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.array.len()
    }

    /// Bytes of its values (not rounded up to pages).
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }

    /// The regions that hold it.
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// What the planner is told about it.
    pub fn facts(&self) -> &ColumnFacts {
        &self.facts
    }

    /// Rows `start..start + len` without a copy.
    ///
    /// Integer slices get a buffer of their own length: memory accounting that counts whole buffers would else charge
    /// the whole column for every batch.
    pub fn slice(&self, start: usize, len: usize) -> ArrayRef {
        match self.array.as_any().downcast_ref::<Int32Array>() {
            Some(values) => {
                Arc::new(Int32Array::new(values.values().slice(start, len), None)) as ArrayRef
            }
            None => self.array.slice(start, len),
        }
    }
}

fn slice(region: &Arc<Region>, len: usize) -> Result<Buffer, EngineError> {
    let part = region.slice(0..len)?;
    Ok(Buffer::from(bytes::Bytes::from_owner(part)))
}
