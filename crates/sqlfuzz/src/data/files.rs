//! Writes tables as files for Tierloom to load.

use crate::FuzzError;
use crate::table::{FileKind, Table};
use crate::value::Value;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Writes a table's files below `folder` and returns the path to load: of one file, or of a folder
/// with several.
///
/// # Errors
/// If its kind of file cannot store the table.
pub fn write(table: &Table, folder: &Path) -> Result<PathBuf, FuzzError> {
    let ending = table.kind.name();
    let batches = table.batches()?;
    if let [only] = batches.as_slice() {
        let path = folder.join(format!("{}.{ending}", table.name));
        write_file(table, 0, only, &path)?;
        return Ok(path);
    }
    let path = folder.join(&table.name);
    std::fs::create_dir(&path).map_err(FuzzError::io("folder of a table"))?;
    let mut first = 0;
    for (index, batches) in batches.iter().enumerate() {
        write_file(
            table,
            first,
            batches,
            &path.join(format!("part{index}.{ending}")),
        )?;
        first += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    Ok(path)
}

/// Writes one file, whose first row is row `first` of the table.
fn write_file(
    table: &Table,
    first: usize,
    batches: &[RecordBatch],
    path: &Path,
) -> Result<(), FuzzError> {
    let schema = table.schema();
    let create = || File::create(path).map_err(FuzzError::io("file of a table"));
    match table.kind {
        FileKind::Arrow => {
            // An Arrow file cannot replace dictionaries between batches, so several batches with
            // dictionaries become a stream.
            let dictionaries = schema
                .fields()
                .iter()
                .any(|f| matches!(f.data_type(), DataType::Dictionary(..)));
            let mut writer = FileWriter::try_new(create()?, &schema)?;
            if dictionaries && batches.len() > 1 {
                drop(writer);
                return stream(create()?, &schema, batches);
            }
            batches.iter().try_for_each(|b| writer.write(b))?;
            writer.finish()?;
        }
        FileKind::Stream => stream(create()?, &schema, batches)?,
        FileKind::Parquet => {
            let mut writer = ArrowWriter::try_new(create()?, schema, None)?;
            for batch in batches {
                writer.write(batch)?;
                // Each batch becomes a row group.
                writer.flush()?;
            }
            writer.close()?;
        }
        FileKind::Csv => {
            let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            csv(table, first..first + rows, path)?;
        }
    }
    Ok(())
}

fn stream(
    file: File,
    schema: &arrow::datatypes::SchemaRef,
    batches: &[RecordBatch],
) -> Result<(), FuzzError> {
    let mut writer = StreamWriter::try_new(file, schema)?;
    batches.iter().try_for_each(|b| writer.write(b))?;
    Ok(writer.finish()?)
}

fn csv(table: &Table, rows: std::ops::Range<usize>, path: &Path) -> Result<(), FuzzError> {
    let broken = |e: csv::Error| FuzzError::Case(format!("{}: {e}", path.display()));
    let mut writer = csv::WriterBuilder::new()
        .quote_style(csv::QuoteStyle::Necessary)
        .from_path(path)
        .map_err(broken)?;
    writer
        .write_record(table.columns.iter().map(|c| &c.name))
        .map_err(broken)?;
    for row in rows {
        let fields = table.columns.iter().map(|c| match &c.values[row] {
            Value::Null | Value::Bytes(_) => String::new(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => format!("{value:?}"),
            Value::Text(value) => value.clone(),
        });
        writer
            .write_record(fields.collect::<Vec<_>>())
            .map_err(broken)?;
    }
    writer.flush().map_err(FuzzError::io("file of a table"))
}
