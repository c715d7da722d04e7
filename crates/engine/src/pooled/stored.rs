//! Arrow arrays as positions of buffers in a column's bytes.

use super::content::contradiction;
use crate::EngineError;
use crate::breakdown::caught;
use crate::column::buffer_of;
use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use tierloom_memory::Region;

/// Alignment of buffers: a cache line, and what Arrow recommends.
const ALIGNMENT_BYTES: u64 = 64;

/// An array, or a child of one; positions are those in its column.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredArray {
    /// Number of values, and the one that the buffers begin with.
    len: u64,
    offset: u64,
    buffers: Vec<Range<u64>>,
    nulls: Option<StoredBits>,
    children: Vec<StoredArray>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredBits {
    bytes: Range<u64>,
    /// In bits.
    offset: u64,
    len: u64,
}

/// Lays buffers one after the other.
#[derive(Default)]
pub(crate) struct Positions {
    end: u64,
    /// The buffers, with their start.
    pub buffers: Vec<(u64, Buffer)>,
}

impl Positions {
    /// Bytes up to the end of the last buffer.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn add(&mut self, buffer: &Buffer) -> Range<u64> {
        let start = self.end.next_multiple_of(ALIGNMENT_BYTES);
        self.end = start + buffer.len() as u64;
        self.buffers.push((start, buffer.clone()));
        start..self.end
    }
}

impl StoredArray {
    /// Assigns positions to all buffers of `data` and its children.
    pub fn of(data: &ArrayData, positions: &mut Positions) -> Self {
        let buffers = data.buffers().iter().map(|buffer| positions.add(buffer));
        let buffers = buffers.collect();
        let nulls = data.nulls().map(|nulls| StoredBits {
            bytes: positions.add(nulls.buffer()),
            offset: nulls.offset() as u64,
            len: nulls.len() as u64,
        });
        let children = data.child_data().iter();
        Self {
            len: data.len() as u64,
            offset: data.offset() as u64,
            buffers,
            nulls,
            children: children.map(|child| Self::of(child, positions)).collect(),
        }
    }

    /// Number of values.
    pub fn rows(&self) -> usize {
        self.len as usize
    }

    /// Where the first row begins and how many bytes each has, if rows of a column are at fixed
    /// positions.
    pub fn fixed(&self, data_type: &DataType) -> Option<(u64, u64)> {
        let width = data_type.primitive_width()? as u64;
        let values = self.buffers.first()?;
        let skipped = self.offset.checked_mul(width)?;
        Some((values.start.checked_add(skipped)?, width))
    }

    /// The validity bits, which Arrow counts when the array is made.
    pub fn validity(&self) -> Option<Range<u64>> {
        self.nulls.as_ref().map(|nulls| nulls.bytes.clone())
    }

    /// The array over the bytes of `region`. Arrow reads and checks what it has to.
    ///
    /// # Errors
    /// Arrow's, for bytes that are no array of the type.
    pub fn array(
        &self,
        data_type: &DataType,
        region: &Arc<Region>,
    ) -> Result<ArrayRef, EngineError> {
        // Arrow panics over some positions that no writer gives.
        let made = caught(|| Ok(make_array(self.data(data_type, region)?)));
        made.unwrap_or_else(|said| {
            Err(contradiction(&format!(
                "has a column that is no {data_type} ({said})"
            )))
        })
    }

    fn data(&self, data_type: &DataType, region: &Arc<Region>) -> Result<ArrayData, EngineError> {
        let buffers = self.buffers.iter().map(|bytes| buffer(region, bytes));
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        let types = child_types(data_type);
        if types.len() != self.children.len() {
            return Err(contradiction("has a column with too few or too many parts"));
        }
        let children = types.into_iter().zip(&self.children);
        let children = children.map(|(data_type, child)| child.data(data_type, region));
        let nulls = self.nulls.as_ref().map(|nulls| nulls.read(region));
        let data = ArrayData::builder(data_type.clone())
            .len(self.len as usize)
            .offset(self.offset as usize)
            .buffers(buffers)
            .nulls(nulls.transpose()?)
            .child_data(children.collect::<Result<_, _>>()?);
        Ok(data.build()?)
    }
}

impl StoredBits {
    fn read(&self, region: &Arc<Region>) -> Result<NullBuffer, EngineError> {
        let bits = buffer(region, &self.bytes)?;
        let end = self.offset.checked_add(self.len);
        if end.is_none_or(|end| end > bits.len() as u64 * 8) {
            return Err(contradiction("has a column with too few validity bits"));
        }
        let bits = BooleanBuffer::new(bits, self.offset as usize, self.len as usize);
        Ok(NullBuffer::new(bits))
    }
}

fn buffer(region: &Arc<Region>, bytes: &Range<u64>) -> Result<Buffer, EngineError> {
    let inside = bytes.start <= bytes.end && bytes.end <= region.size_bytes() as u64;
    if !inside || !bytes.start.is_multiple_of(ALIGNMENT_BYTES) {
        return Err(contradiction("has a buffer outside of its column"));
    }
    let len = (bytes.end - bytes.start) as usize;
    buffer_of(region, bytes.start as usize, len)
}

/// The types of an array's children, in order.
fn child_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, f)| f.data_type()).collect(),
        DataType::Dictionary(_, values) => vec![values],
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}
