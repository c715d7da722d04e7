//! What a pool keeps about a table besides the bytes of its columns.
//!
//! The content is JSON; what has an Arrow type is in the attachment, as Arrow IPC streams.

use super::stored::StoredArray;
use crate::EngineError;
use crate::coded::Unit;
use crate::column::ColumnFacts;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Number of the format of columns in a pool, as written; earlier ones can be read. A table of a
/// later one has to be loaded again.
pub const COLUMN_FORMAT: u32 = 2;

/// Formats that can be read.
pub(super) const READ_FORMATS: RangeInclusive<u32> = 1..=COLUMN_FORMAT;

/// The content of a table's manifest.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Content {
    /// [`COLUMN_FORMAT`] of its writer.
    pub column_format: u32,
    /// Version of its writer, for people.
    pub tierloom: String,
    pub rows: u64,
    /// Where the attachment has the types of all columns.
    pub schema: Range<u64>,
    /// Where it has the bounds of those that have any.
    pub bounds: Option<Range<u64>>,
    pub columns: Vec<StoredColumn>,
    /// What the caller says about the table, such as the files that it was loaded from.
    pub note: Value,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredColumn {
    pub name: String,
    pub nullable: bool,
    /// As [`PlacedColumn::size_bytes`](crate::PlacedColumn::size_bytes).
    pub size_bytes: u64,
    /// Its bytes in the table's data, whole pages.
    pub bytes: Range<u64>,
    pub form: StoredForm,
    pub null_count: u64,
    pub distinct: DistinctCount,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredForm {
    Plain(StoredArray),
    Codes(StoredDomain),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredDomain {
    Offset {
        base: i64,
        last: i64,
        /// There from format 2 on.
        #[serde(default)]
        unit: Unit,
    },
    /// Where the attachment has the values.
    Values(Range<u64>),
}

/// A number of distinct values.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DistinctCount {
    Exact(u64),
    Inexact(u64),
    Absent,
}

impl DistinctCount {
    pub fn of(count: Precision<usize>) -> Self {
        match count {
            Precision::Exact(count) => Self::Exact(count as u64),
            Precision::Inexact(count) => Self::Inexact(count as u64),
            Precision::Absent => Self::Absent,
        }
    }

    fn count(self) -> Precision<usize> {
        match self {
            Self::Exact(count) => Precision::Exact(count as usize),
            Self::Inexact(count) => Precision::Inexact(count as usize),
            Self::Absent => Precision::Absent,
        }
    }
}

/// Appends one array as an IPC stream; returns where it is.
pub(super) fn append(
    array: &ArrayRef,
    attachment: &mut Vec<u8>,
) -> Result<Range<u64>, EngineError> {
    let field = Field::new("values", array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    append_batch(
        &RecordBatch::try_new(schema, vec![Arc::clone(array)])?,
        attachment,
    )
}

/// Reads an array that [`append`] wrote.
pub(super) fn array(attachment: &[u8], at: &Range<u64>) -> Result<ArrayRef, EngineError> {
    let batch = batch(attachment, at)?;
    let first = batch.columns().first().map(Arc::clone);
    first.ok_or_else(|| contradiction("has an attachment without the values of a column"))
}

fn append_batch(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<Range<u64>, EngineError> {
    let schema = batch.schema();
    append_stream(&schema, Some(batch), out)
}

fn append_stream(
    schema: &SchemaRef,
    batch: Option<&RecordBatch>,
    out: &mut Vec<u8>,
) -> Result<Range<u64>, EngineError> {
    // Arrow's messages are aligned to 8 bytes of the stream.
    out.resize(out.len().next_multiple_of(8), 0);
    let start = out.len() as u64;
    let mut writer = StreamWriter::try_new(&mut *out, schema)?;
    if let Some(batch) = batch {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    Ok(start..out.len() as u64)
}

fn reader<'a>(
    attachment: &'a [u8],
    at: &Range<u64>,
) -> Result<StreamReader<&'a [u8]>, EngineError> {
    let bytes = attachment.get(at.start as usize..at.end as usize);
    let bytes = bytes.ok_or_else(|| contradiction("has a part outside of its attachment"))?;
    Ok(StreamReader::try_new(bytes, None)?)
}

fn batch(attachment: &[u8], at: &Range<u64>) -> Result<RecordBatch, EngineError> {
    match reader(attachment, at)?.next() {
        Some(batch) => Ok(batch?),
        None => Err(contradiction("has an empty part in its attachment")),
    }
}

/// Appends the types of all columns; returns where.
///
/// # Errors
/// [`EngineError::Table`] for a type that Arrow IPC does not give back as it was.
pub(super) fn append_schema(
    table: &str,
    schema: &SchemaRef,
    attachment: &mut Vec<u8>,
) -> Result<Range<u64>, EngineError> {
    for field in schema.fields() {
        // Alone, so that an error names its column.
        let one = Arc::new(Schema::new(vec![Arc::clone(field)]));
        let mut stream = Vec::new();
        let read = append_stream(&one, None, &mut stream).and_then(|at| schema_at(&stream, &at));
        let why = match read {
            Ok(read) if read.field(0).data_type() == field.data_type() => continue,
            Ok(read) => format!("Arrow IPC gives back {}", read.field(0).data_type()),
            Err(error) => error.to_string(),
        };
        return Err(EngineError::Table {
            table: table.to_owned(),
            problem: format!(
                "cannot be kept in a pool: column {} of type {}: {why}",
                field.name(),
                field.data_type()
            ),
        });
    }
    append_stream(schema, None, attachment)
}

/// Reads what [`append_schema`] wrote.
pub(super) fn schema_at(attachment: &[u8], at: &Range<u64>) -> Result<SchemaRef, EngineError> {
    Ok(reader(attachment, at)?.schema())
}

/// Appends the smallest and largest values of the columns that have them, in two rows; returns
/// where. The columns are named by their number.
pub(super) fn append_bounds(
    facts: &[ColumnFacts],
    attachment: &mut Vec<u8>,
) -> Result<Option<Range<u64>>, EngineError> {
    let known = facts.iter().enumerate();
    let known = known.filter_map(|(index, facts)| Some((index, facts.min.clone()?, facts)));
    let columns = known.map(|(index, min, facts)| {
        let max = facts.max.clone().unwrap_or_else(|| min.clone());
        let array = ScalarValue::iter_to_array([min, max]);
        let array = array.map_err(EngineError::datafusion("keeping a column's bounds"))?;
        Ok((index.to_string(), array))
    });
    let columns = columns.collect::<Result<Vec<_>, EngineError>>()?;
    if columns.is_empty() {
        return Ok(None);
    }
    append_batch(&RecordBatch::try_from_iter(columns)?, attachment).map(Some)
}

/// Smallest and largest value.
pub(super) type Bounds = Option<(ScalarValue, ScalarValue)>;

/// The smallest and largest values of each of `columns` columns.
pub(super) fn bounds_at(
    attachment: &[u8],
    at: Option<&Range<u64>>,
    columns: usize,
) -> Result<Vec<Bounds>, EngineError> {
    let Some(at) = at else {
        return Ok(vec![None; columns]);
    };
    let batch = batch(attachment, at)?;
    if batch.num_rows() != 2 {
        return Err(contradiction("has bounds of another form"));
    }
    let bounds = (0..columns).map(|index| {
        let Some(both) = batch.column_by_name(&index.to_string()) else {
            return Ok(None);
        };
        let value = |row| {
            ScalarValue::try_from_array(both, row)
                .map_err(EngineError::datafusion("reading a column's bounds"))
        };
        Ok(Some((value(0)?, value(1)?)))
    });
    bounds.collect()
}

impl StoredColumn {
    pub fn facts(&self, bounds: Bounds) -> ColumnFacts {
        let (min, max) = bounds.unzip();
        ColumnFacts {
            min,
            max,
            null_count: self.null_count,
            distinct: self.distinct.count(),
        }
    }
}

/// The error for a table whose content cannot be what a writer of this format wrote.
pub(super) fn contradiction(problem: &str) -> EngineError {
    EngineError::Table {
        table: "of the pool".into(),
        problem: problem.into(),
    }
}
