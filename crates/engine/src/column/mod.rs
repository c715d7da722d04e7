//! A column whose values lie in memory regions: as Arrow buffers, or as narrow codes.

mod facts;

pub use facts::ColumnFacts;

use crate::EngineError;
use crate::coded::{CodedColumn, Domain};
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, DictionaryArray, PrimitiveArray, UInt32Array, make_array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, UInt8Type};
use std::sync::Arc;
use tierloom_kernels::codes::CodeWidth;
use tierloom_memory::{Placing, Region};

/// One column in placed memory.
///
/// ```text
///   plain   one region: the array's buffers one after the other, each at a multiple of 64 bytes
///   coded   one region: [codes; rows] and padding;       the domain, at most 65,536 values, is on the heap
/// ```
/// What a scan hands out borrows the regions through reference-counted owners wherever it can, so a result that still points into a
/// region keeps it mapped. Codes that are themselves an Arrow layout (the keys of a dictionary of strings, integers whose code
/// is the value) are handed out as they lie; all others are decoded batch by batch.
#[derive(Debug, Clone)]
pub struct PlacedColumn {
    name: String,
    store: Store,
    regions: Vec<Arc<Region>>,
    size_bytes: u64,
    facts: ColumnFacts,
}

#[derive(Debug, Clone)]
enum Store {
    Plain(ArrayRef),
    Coded {
        column: CodedColumn,
        /// The codes as an array of the column's type, where that is possible without a copy.
        view: Option<ArrayRef>,
    },
}

impl PlacedColumn {
    /// A column of `array`, whose buffers lie in `regions`.
    ///
    /// # Errors
    /// If a buffer lies elsewhere.
    pub fn plain(
        name: &str,
        array: ArrayRef,
        regions: Vec<Arc<Region>>,
        facts: ColumnFacts,
    ) -> Result<Self, EngineError> {
        let data = array.to_data();
        let mut size_bytes = 0;
        for_buffers(&data, &mut |address, len| {
            size_bytes += len as u64;
            let inside = |r: &Arc<Region>| r.contains(address) && r.contains(address + len - 1);
            if len == 0 || regions.iter().any(inside) {
                return Ok(());
            }
            Err(EngineError::Table {
                table: name.into(),
                problem: format!("has {len} bytes outside its regions"),
            })
        })?;
        Ok(PlacedColumn {
            name: name.into(),
            store: Store::Plain(array),
            regions,
            size_bytes,
            facts,
        })
    }

    /// A column of codes.
    ///
    /// # Errors
    /// Those of Arrow, if a code lies outside the dictionary.
    pub fn from_codes(
        name: &str,
        column: CodedColumn,
        facts: ColumnFacts,
    ) -> Result<Self, EngineError> {
        Ok(PlacedColumn {
            name: name.into(),
            regions: vec![Arc::clone(column.region())],
            size_bytes: (column.rows() * column.width().bytes()) as u64,
            store: Store::Coded {
                view: view(&column)?,
                column,
            },
            facts,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its Arrow type.
    pub fn data_type(&self) -> &DataType {
        match &self.store {
            Store::Plain(array) => array.data_type(),
            Store::Coded { column, .. } => column.data_type(),
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        match &self.store {
            Store::Plain(array) => array.len(),
            Store::Coded { column, .. } => column.rows(),
        }
    }

    /// Its codes, if that is how it is kept.
    pub fn coded(&self) -> Option<&CodedColumn> {
        match &self.store {
            Store::Plain(_) => None,
            Store::Coded { column, .. } => Some(column),
        }
    }

    /// Whether it has rows that are NULL.
    pub fn nullable(&self) -> bool {
        match &self.store {
            Store::Plain(array) => array.is_nullable(),
            Store::Coded { column, .. } => column.nullable(),
        }
    }

    /// Bytes of its values or codes in the regions (not rounded up to pages).
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of its values as a scan hands them out, shared payloads not counted: what operators above work on.
    pub fn output_bytes(&self) -> u64 {
        let Store::Coded { column, .. } = &self.store else {
            return self.size_bytes;
        };
        let slot = match column.data_type() {
            DataType::Dictionary(key, _) => key.primitive_width().unwrap_or(4),
            other => other.primitive_width().unwrap_or(16),
        };
        (column.rows() * slot) as u64
    }

    /// Bytes on the heap beside the regions: the values that codes stand for.
    pub fn domain_bytes(&self) -> u64 {
        match self.coded().map(CodedColumn::domain) {
            Some(Domain::Values(values)) => values.get_array_memory_size() as u64,
            _ => 0,
        }
    }

    /// How it is kept: "plain", or the bytes of a code and what it stands for.
    pub fn encoding(&self) -> String {
        match self.coded() {
            None => "plain".into(),
            Some(column) => format!(
                "{} B {}",
                column.width().bytes(),
                match column.domain() {
                    Domain::Offset { .. } => "offset",
                    Domain::Values(_) => "dictionary",
                }
            ),
        }
    }

    /// Whether it lies at the places of a class of operator memory, and stays there.
    pub fn is_of_class(&self) -> bool {
        let by_class = |region: &Arc<Region>| matches!(region.placing(), Placing::ByClass { .. });
        self.regions.iter().any(by_class)
    }

    /// The regions that hold it.
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// What the planner is told about it.
    pub fn facts(&self) -> &ColumnFacts {
        &self.facts
    }

    /// What its values say themselves; reads the whole column.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn measured_facts(&self) -> Result<ColumnFacts, EngineError> {
        match &self.store {
            Store::Plain(array) => ColumnFacts::of_array(array),
            Store::Coded { column, .. } => ColumnFacts::of_codes(column),
        }
    }

    /// Whether [`PlacedColumn::slice`] points into the regions (a string's or list's own payload included).
    pub fn is_zero_copy(&self) -> bool {
        matches!(
            &self.store,
            Store::Plain(_) | Store::Coded { view: Some(_), .. }
        )
    }

    /// Rows `start..start + len`: without a copy where [`PlacedColumn::is_zero_copy`] says so, else decoded into fresh memory.
    ///
    /// Slices of fixed width get a buffer of their own length: memory accounting that counts whole buffers would else charge
    /// the whole column for every batch.
    ///
    /// # Errors
    /// Those of Arrow.
    ///
    /// # Panics
    /// If the rows do not exist.
    pub fn slice(&self, start: usize, len: usize) -> Result<ArrayRef, EngineError> {
        let array = match &self.store {
            Store::Plain(array) => array,
            Store::Coded {
                view: Some(view), ..
            } => view,
            Store::Coded { column, .. } => return column.decode(start..start + len),
        };
        match (array.data_type().primitive_width(), self.regions.as_slice()) {
            (Some(width), [region]) if len > 0 => own_slice(array, width, region, start, len),
            _ => Ok(array.slice(start, len)),
        }
    }

    /// The rows `start + position` in fresh memory, each position below `len`.
    ///
    /// # Errors
    /// Those of Arrow.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn take(
        &self,
        start: usize,
        len: usize,
        positions: &[u32],
    ) -> Result<ArrayRef, EngineError> {
        match &self.store {
            Store::Plain(array) => taken(array, start, len, positions),
            Store::Coded {
                view: Some(view), ..
            } => taken(view, start, len, positions),
            Store::Coded { column, .. } => column.decode_at(start, positions),
        }
    }
}

/// The rows `start + position` of `array`, copied.
fn taken(
    array: &ArrayRef,
    start: usize,
    len: usize,
    positions: &[u32],
) -> Result<ArrayRef, EngineError> {
    let positions = UInt32Array::from(positions.to_vec());
    Ok(take(array.slice(start, len).as_ref(), &positions, None)?)
}

/// Rows of a fixed-width array that lies in `region`, in a buffer that is no longer than they are.
fn own_slice(
    array: &ArrayRef,
    width: usize,
    region: &Arc<Region>,
    start: usize,
    len: usize,
) -> Result<ArrayRef, EngineError> {
    let part = array.slice(start, len).to_data();
    let Some(buffer) = part.buffers().first() else {
        return Ok(array.slice(start, len));
    };
    // Arrow moves the buffer's start, not the offset, when it slices a fixed-width array.
    let from = buffer.as_ptr() as usize + part.offset() * width - region.address();
    let data = ArrayData::builder(part.data_type().clone())
        .len(len)
        .nulls(part.nulls().cloned())
        .add_buffer(buffer_of(region, from, len * width)?)
        .build()?;
    Ok(make_array(data))
}

/// `len` bytes of `region` from `start` on as an Arrow buffer that keeps the region alive.
pub(crate) fn buffer_of(
    region: &Arc<Region>,
    start: usize,
    len: usize,
) -> Result<Buffer, EngineError> {
    let part = region.slice(start..start + len)?;
    Ok(Buffer::from(bytes::Bytes::from_owner(part)))
}

/// Calls `see` with the address and length of every buffer of `data` and its children.
fn for_buffers(
    data: &ArrayData,
    see: &mut dyn FnMut(usize, usize) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    for buffer in data.buffers() {
        see(buffer.as_ptr() as usize, buffer.len())?;
    }
    if let Some(nulls) = data.nulls() {
        see(
            nulls.buffer().as_ptr() as usize,
            nulls.len().div_ceil(8).min(nulls.buffer().len()),
        )?;
    }
    // The values of a dictionary are few and shared by all batches: they stay where they are.
    if matches!(data.data_type(), DataType::Dictionary(..)) {
        return Ok(());
    }
    data.child_data()
        .iter()
        .try_for_each(|child| for_buffers(child, see))
}

/// The codes as an array of the column's type, if their bytes are that array's.
fn view(column: &CodedColumn) -> Result<Option<ArrayRef>, EngineError> {
    if column.nullable() || column.rows() == 0 || cfg!(target_endian = "big") {
        return Ok(None);
    }
    match (column.domain(), column.data_type()) {
        (Domain::Values(values), DataType::Dictionary(key, _))
            if **key == DataType::UInt8 && column.width() == CodeWidth::One =>
        {
            let keys = buffer_of(column.region(), 0, column.rows())?;
            let keys = PrimitiveArray::<UInt8Type>::try_new(
                ScalarBuffer::new(keys, 0, column.rows()),
                None,
            )?;
            let words = Arc::clone(values.as_any_dictionary().values());
            Ok(Some(Arc::new(DictionaryArray::try_new(keys, words)?)))
        }
        (Domain::Offset { base: 0, .. }, data_type)
            if data_type.primitive_width() == Some(column.width().bytes()) =>
        {
            let len = column.rows() * column.width().bytes();
            let data = ArrayData::builder(data_type.clone())
                .len(column.rows())
                .add_buffer(buffer_of(column.region(), 0, len)?)
                .build()?;
            Ok(Some(make_array(data)))
        }
        _ => Ok(None),
    }
}
