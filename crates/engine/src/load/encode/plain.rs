//! Columns kept as Arrow buffers in one region.
//!
//! ```text
//!   fixed width   [values][validity]
//!   booleans      [bits][validity]
//!   string views  [16-byte views][payload of strings > 12 bytes, at most 1 GiB a
//! buffer]...[validity]
//!   others        every buffer of the concatenated array and its children
//! ```
//! Every part starts at a multiple of 64 bytes. Validity is only stored if there are NULLs. Scans
//! hand out slices of these buffers without a copy.

use crate::EngineError;
use crate::column::buffer_of;
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder, MAX_INLINE_VIEW_LEN, make_array,
    new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;
use tierloom_memory::Region;

/// Alignment of the parts of a column: a cache line, and what Arrow recommends.
const ALIGNMENT_BYTES: usize = 64;

/// Payload bytes per buffer: view offsets have 32 bits, and some readers take them as signed.
const MOST_PAYLOAD_BYTES: usize = 1 << 30;

/// Positions of a column's parts in its region.
pub(super) struct Layout {
    data_type: DataType,
    rows: usize,
    parts: Vec<Range<usize>>,
    /// Byte range of the validity bits.
    validity: Option<Range<usize>>,
    end: usize,
    kind: Kind,
}

enum Kind {
    Fixed { width: usize },
    Bits,
    Views,
    Whole(ArrayData),
}

/// Computes the positions of the column's parts; returns the chunks if they are still needed.
pub(super) fn layout(
    data_type: &DataType,
    chunks: Vec<ArrayRef>,
) -> Result<(Layout, Vec<ArrayRef>), EngineError> {
    let rows = chunks.iter().map(|c| c.len()).sum();
    let mut layout = Layout {
        data_type: data_type.clone(),
        rows,
        parts: Vec::new(),
        validity: None,
        end: 0,
        kind: Kind::Bits,
    };
    match (data_type, data_type.primitive_width()) {
        (_, Some(width)) => {
            layout.kind = Kind::Fixed { width };
            layout.part(rows * width);
        }
        (DataType::Boolean, _) => layout.part(rows.div_ceil(8)),
        (DataType::Utf8View | DataType::BinaryView, _) => {
            layout.kind = Kind::Views;
            layout.part(rows * 16);
            payload_sizes(&chunks)
                .into_iter()
                .for_each(|bytes| layout.part(bytes));
        }
        _ => {
            // The sizes of the buffers of other types depend on all chunks, so these are
            // concatenated first.
            let whole = concatenated(data_type, chunks)?.to_data();
            for_parts(&whole, &mut |bytes| layout.part(bytes.len()));
            layout.kind = Kind::Whole(whole);
            return Ok((layout, Vec::new()));
        }
    }
    if chunks.iter().any(|c| c.null_count() > 0) {
        layout.part(rows.div_ceil(8));
        // Validity is addressed separately; `parts` keeps the data buffers only.
        layout.validity = layout.parts.pop();
    }
    Ok((layout, chunks))
}

fn concatenated(data_type: &DataType, chunks: Vec<ArrayRef>) -> Result<ArrayRef, EngineError> {
    let borrowed: Vec<&dyn Array> = chunks.iter().map(|c| c.as_ref()).collect();
    match borrowed.as_slice() {
        [] => Ok(new_empty_array(data_type)),
        several => Ok(concat(several)?),
    }
}

impl Layout {
    pub fn size_bytes(&self) -> usize {
        self.end
    }

    fn part(&mut self, bytes: usize) {
        let start = self.end.next_multiple_of(ALIGNMENT_BYTES);
        self.end = start + bytes;
        self.parts.push(start..self.end);
    }

    /// Copies the values to the start of `out`.
    pub fn write(&self, chunks: &[ArrayRef], out: &mut [u8]) {
        if let Some(range) = self.validity.clone() {
            let bits = joined(chunks, |chunk| chunk.nulls().map(|n| n.inner().clone()));
            copy_to(&mut out[range], bits.values());
        }
        match &self.kind {
            Kind::Fixed { width } => {
                let mut at = self.parts[0].start;
                for chunk in chunks {
                    let data = chunk.to_data();
                    // A sliced chunk starts at an offset in its buffer.
                    let from = data.offset() * width;
                    let bytes = &data.buffers()[0].as_slice()[from..from + data.len() * width];
                    copy_to(&mut out[at..], bytes);
                    at += bytes.len();
                }
            }
            Kind::Bits => {
                let bits = joined(chunks, |c| c.as_boolean_opt().map(|b| b.values().clone()));
                copy_to(&mut out[self.parts[0].clone()], bits.values());
            }
            Kind::Views => self.write_views(chunks, out),
            Kind::Whole(whole) => {
                let mut parts = self.parts.iter();
                for_parts(whole, &mut |bytes| {
                    if let Some(range) = parts.next() {
                        copy_to(&mut out[range.clone()], bytes);
                    }
                });
            }
        }
    }

    fn write_views(&self, chunks: &[ArrayRef], out: &mut [u8]) {
        let mut slot = self.parts[0].start;
        let mut payload = Payload::default();
        for chunk in chunks {
            if let Some(views) = inline_views(chunk) {
                copy_to(&mut out[slot..], &views);
                slot += views.len();
                continue;
            }
            for_views(chunk, &mut |view, bytes| {
                let placed = match bytes {
                    None => view,
                    Some(bytes) => {
                        let (buffer, offset) = payload.take(bytes.len());
                        // Part 0 has the views.
                        let start = self.parts[1 + buffer].start + offset;
                        copy_to(&mut out[start..], bytes);
                        // A long view has 32 bits each of length, prefix, buffer index and offset.
                        (view & u128::from(u64::MAX))
                            | (buffer as u128) << 64
                            | (offset as u128) << 96
                    }
                };
                copy_to(&mut out[slot..], &placed.to_le_bytes());
                slot += 16;
            });
        }
    }

    /// The array over the bytes that [`Layout::write`] wrote.
    ///
    /// # Errors
    /// Arrow's, whose validation reads every value once.
    pub fn array(&self, region: &Arc<Region>) -> Result<ArrayRef, EngineError> {
        if let Kind::Whole(whole) = &self.kind {
            let mut parts = self.parts.iter().cloned();
            return Ok(make_array(rebuilt(whole, &mut parts, region)?));
        }
        let mut data = ArrayData::builder(self.data_type.clone()).len(self.rows);
        for part in &self.parts {
            data = data.add_buffer(buffer_of(region, part.start, part.len())?);
        }
        if let Some(range) = &self.validity {
            let bits = buffer_of(region, range.start, range.len())?;
            let nulls = NullBuffer::new(BooleanBuffer::new(bits, 0, self.rows));
            data = data.nulls(Some(nulls));
        }
        Ok(make_array(data.build()?))
    }
}

fn copy_to(out: &mut [u8], bytes: &[u8]) {
    let len = bytes.len().min(out.len());
    out[..len].copy_from_slice(&bytes[..len]);
}

/// Concatenates the bits of all chunks; 1 for chunks without any.
fn joined(
    chunks: &[ArrayRef],
    bits_of: impl Fn(&ArrayRef) -> Option<BooleanBuffer>,
) -> BooleanBuffer {
    let mut joined = BooleanBufferBuilder::new(chunks.iter().map(|c| c.len()).sum());
    for chunk in chunks {
        match bits_of(chunk) {
            Some(bits) => joined.append_buffer(&bits),
            None => joined.append_n(chunk.len(), true),
        }
    }
    joined.finish()
}

/// Assigns payload positions: a string that would make a buffer too large starts the next one.
#[derive(Default)]
struct Payload {
    sizes: Vec<usize>,
}

impl Payload {
    fn take(&mut self, bytes: usize) -> (usize, usize) {
        match self.sizes.last_mut() {
            Some(size) if *size + bytes <= MOST_PAYLOAD_BYTES => {
                let offset = *size;
                *size += bytes;
                (self.sizes.len() - 1, offset)
            }
            _ => {
                self.sizes.push(bytes);
                (self.sizes.len() - 1, 0)
            }
        }
    }
}

fn payload_sizes(chunks: &[ArrayRef]) -> Vec<usize> {
    let mut payload = Payload::default();
    for chunk in chunks.iter().filter(|chunk| inline_views(chunk).is_none()) {
        for_views(chunk, &mut |_, bytes| {
            if let Some(bytes) = bytes {
                payload.take(bytes.len());
            }
        });
    }
    payload.sizes
}

/// The views of a chunk if they hold all of its strings and none is NULL.
fn inline_views(chunk: &ArrayRef) -> Option<Buffer> {
    let data = chunk.to_data();
    let views = data.buffers()[0].slice_with_length(data.offset() * 16, data.len() * 16);
    let lengths = views
        .as_chunks::<16>()
        .0
        .iter()
        .map(|v| u32::from_le_bytes([v[0], v[1], v[2], v[3]]));
    let inline = lengths.fold(0, u32::max) <= MAX_INLINE_VIEW_LEN;
    (inline && chunk.null_count() == 0).then_some(views)
}

/// Calls `see` with every view and, if it is long, its string; NULLs become empty views.
fn for_views(chunk: &ArrayRef, see: &mut dyn FnMut(u128, Option<&[u8]>)) {
    let data = chunk.to_data();
    let views = &data.buffers()[0].as_slice()[data.offset() * 16..][..data.len() * 16];
    for (row, view) in views.as_chunks::<16>().0.iter().enumerate() {
        if chunk.is_null(row) {
            see(0, None);
            continue;
        }
        let view = u128::from_le_bytes(*view);
        // The low 32 bits of a view are the length of the string.
        let len = view as u32;
        if len <= MAX_INLINE_VIEW_LEN {
            see(view, None);
            continue;
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
        let bytes = &data.buffers()[1 + buffer].as_slice()[offset..offset + len as usize];
        see(view, Some(bytes));
    }
}

/// Calls `see` with every buffer of `data` and its children, in the order of [`rebuilt`].
fn for_parts(data: &ArrayData, see: &mut dyn FnMut(&[u8])) {
    data.buffers().iter().for_each(|b| see(b.as_slice()));
    if let Some(nulls) = data.nulls() {
        see(nulls.buffer().as_slice());
    }
    data.child_data()
        .iter()
        .for_each(|child| for_parts(child, see));
}

/// Rebuilds `data` on its copied buffers in `region`.
fn rebuilt(
    data: &ArrayData,
    parts: &mut dyn Iterator<Item = Range<usize>>,
    region: &Arc<Region>,
) -> Result<ArrayData, EngineError> {
    let mut next = || {
        let range = parts.next().unwrap_or(0..0);
        buffer_of(region, range.start, range.len())
    };
    let buffers = data
        .buffers()
        .iter()
        .map(|_| next())
        .collect::<Result<Vec<_>, _>>()?;
    let nulls = match data.nulls() {
        Some(nulls) => {
            let bits = BooleanBuffer::new(next()?, nulls.offset(), nulls.len());
            Some(NullBuffer::new(bits))
        }
        None => None,
    };
    let children = data
        .child_data()
        .iter()
        .map(|child| rebuilt(child, parts, region))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .buffers(buffers)
        .nulls(nulls)
        .child_data(children)
        .build()?)
}
