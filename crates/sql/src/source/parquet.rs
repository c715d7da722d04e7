//! Reads Parquet files, and estimates their size in memory.
//!
//! The schema and row counts come from the footer. Columns of the old INT96 timestamps are checked
//! by a second reader.

use super::views::in_views;
use super::{BATCH_ROWS, Batches, FileSummary, SourceFormat, broken, int96, unreadable};
use crate::error::SqlError;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Bytes that a string takes besides its payload: a view, or offsets and overhead.
const STRING_BYTES: u64 = 16;

type Builder = ParquetRecordBatchReaderBuilder<File>;

fn builder(path: &Path) -> Result<Builder, SqlError> {
    let open = || File::open(path).map_err(|e| unreadable(path, &e));
    let failed = |e| broken(path, SourceFormat::Parquet, e);
    let builder = Builder::try_new(open()?).map_err(failed)?;
    let Some(readable) = readable(builder.schema()) else {
        return Ok(builder);
    };
    let options = ArrowReaderOptions::new().with_schema(readable);
    Builder::try_new_with_options(open()?, options).map_err(failed)
}

/// The schema to read a file of this schema with; `None` if that is the same.
///
/// A file keeps the Arrow types that it was written from. The reader panics where a batch has more
/// words than the keys of a dictionary can count, and has no dictionaries but of strings and bytes.
fn readable(schema: &SchemaRef) -> Option<SchemaRef> {
    let fields = schema.fields().iter().map(|field| {
        let DataType::Dictionary(_, words) = field.data_type() else {
            return Arc::clone(field);
        };
        let is_text = matches!(
            **words,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        );
        let read = match is_text {
            true => DataType::Dictionary(Box::new(DataType::Int32), words.clone()),
            false => DataType::clone(words),
        };
        Arc::new(field.as_ref().clone().with_data_type(read))
    });
    let fields: Vec<FieldRef> = fields.collect();
    let read = Schema::new_with_metadata(fields, schema.metadata().clone());
    (read != **schema).then(|| Arc::new(read))
}

pub(super) fn inspect(path: &Path) -> Result<FileSummary, SqlError> {
    let file_bytes = std::fs::metadata(path)
        .map_err(|e| unreadable(path, &e))?
        .len();
    let builder = builder(path)?;
    let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    Ok(FileSummary {
        schema: Arc::clone(builder.schema()),
        array_bytes: array_bytes(&builder, rows),
        file_bytes,
        rows: Some(rows),
    })
}

/// Approximate bytes as Arrow arrays.
///
/// Fixed widths are exact; others are at most the uncompressed pages, or more if a dictionary is
/// expanded.
fn array_bytes(builder: &Builder, rows: u64) -> u64 {
    let pages = |index: usize| -> u64 {
        let groups = builder.metadata().row_groups().iter();
        let sizes = groups.filter_map(|g| g.columns().get(index));
        sizes
            .map(|c| u64::try_from(c.uncompressed_size()).unwrap_or(0))
            .sum()
    };
    let flat = builder.schema().fields().len() == builder.parquet_schema().num_columns();
    if !flat {
        return (0..builder.parquet_schema().num_columns()).map(pages).sum();
    }
    let of = |(index, data_type): (usize, &DataType)| match data_type.primitive_width() {
        Some(width) => rows * width as u64,
        None => pages(index) + rows * STRING_BYTES,
    };
    let types = builder.schema().fields().iter().map(|f| f.data_type());
    types.enumerate().map(of).sum()
}

pub(super) fn read(path: &Path, schema: &SchemaRef) -> Result<Batches, SqlError> {
    let reader = builder(path)?
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|e| broken(path, SourceFormat::Parquet, e))?;
    let mut instants = int96::Instants::of(path)?;
    let (path, schema) = (path.to_owned(), Arc::clone(schema));
    Ok(Box::new(reader.map(move |batch| {
        let batch = batch.map_err(|e| broken(&path, SourceFormat::Parquet, e))?;
        if let Some(instants) = &mut instants {
            instants.check_next(&path)?;
        }
        in_views(&batch, &schema).map_err(|e| broken(&path, SourceFormat::Parquet, e))
    })))
}
