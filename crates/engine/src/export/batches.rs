//! Converts generated columns to Arrow batches.
//!
//! Types are those that other engines read without a cast. The fact table is converted a few chunks
//! at a time.

use crate::EngineError;
use arrow::array::{ArrayRef, DictionaryArray, Int32Array, StringArray, UInt8Array};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use std::ops::Range;
use std::sync::Arc;
use tierloom_workloads::ssb::{
    self, ColumnType, ColumnValues, Lineorder, LineorderColumns, SsbConfig, TableSpec, TextColumn,
};

/// Column names and types of a table. No column is nullable.
pub fn schema(spec: &TableSpec) -> SchemaRef {
    let field = |column: &ssb::ColumnSpec| {
        let ty = match column.ty {
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Dict8 => {
                DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
            }
            ColumnType::Text => DataType::Utf8,
        };
        Field::new(column.name, ty, false)
    };
    Arc::new(Schema::new(
        spec.columns.iter().map(field).collect::<Vec<_>>(),
    ))
}

/// A whole dimension as one batch.
///
/// # Errors
/// An unknown table, or columns that do not match the schema.
pub fn dimension_batch(config: &SsbConfig, spec: &TableSpec) -> Result<RecordBatch, EngineError> {
    let columns = ssb::dimension(config, spec.name)?
        .into_iter()
        .map(array)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema(spec), columns)?)
}

/// The rows of some chunks of the fact table as one batch.
///
/// # Errors
/// Columns that do not match the schema.
pub fn lineorder_batch(
    lineorder: &Lineorder,
    spec: &TableSpec,
    chunks: Range<usize>,
) -> Result<RecordBatch, EngineError> {
    let rows: usize = chunks.clone().map(|c| lineorder.chunk_rows(c).len()).sum();
    let texts = spec.columns.iter().filter(|c| c.ty == ColumnType::Dict8);
    let texts = texts.count();
    // The generator fills all columns of a chunk together, in separate buffers by type.
    let mut int32 = vec![vec![0i32; rows]; spec.columns.len() - texts];
    let mut dict8 = vec![vec![0u8; rows]; texts];
    let mut start = 0;
    for chunk in chunks {
        let end = start + lineorder.chunk_rows(chunk).len();
        let mut part = LineorderColumns {
            int32: int32.iter_mut().map(|c| &mut c[start..end]).collect(),
            dict8: dict8.iter_mut().map(|c| &mut c[start..end]).collect(),
        };
        lineorder.fill_chunk(chunk, &mut part)?;
        start = end;
    }
    let (mut int32, mut dict8) = (int32.into_iter(), dict8.into_iter());
    let columns = spec
        .columns
        .iter()
        .filter_map(|column| match lineorder.dictionaries(column.name) {
            Some(words) => dict8
                .next()
                .map(|codes| dictionary(codes, words.iter().copied())),
            None => int32
                .next()
                .map(|values| Ok(Arc::new(Int32Array::from(values)) as ArrayRef)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema(spec), columns)?)
}

fn array(values: ColumnValues) -> Result<ArrayRef, ArrowError> {
    match values {
        ColumnValues::Int32(values) => Ok(Arc::new(Int32Array::from(values))),
        ColumnValues::Dict8 { codes, values } => {
            dictionary(codes, values.iter().map(String::as_str))
        }
        ColumnValues::Text(text) => text_array(text),
    }
}

fn dictionary<'a>(
    codes: Vec<u8>,
    words: impl Iterator<Item = &'a str>,
) -> Result<ArrayRef, ArrowError> {
    let words = StringArray::from_iter_values(words);
    let coded = DictionaryArray::try_new(UInt8Array::from(codes), Arc::new(words))?;
    Ok(Arc::new(coded))
}

/// Converts text without copying its characters.
fn text_array(text: TextColumn) -> Result<ArrayRef, ArrowError> {
    // Arrow's `Utf8` has 32-bit offsets.
    let offsets = text
        .offsets
        .into_iter()
        .map(i32::try_from)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| ArrowError::OffsetOverflowError(text.bytes.len()))?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let strings = StringArray::try_new(offsets, Buffer::from_vec(text.bytes), None)?;
    Ok(Arc::new(strings))
}
