//! Rows out: CSV, JSON, Arrow IPC and Parquet, to a stream or to a file that appears whole or not at all.

use super::error::SqlError;
use arrow::array::RecordBatch;
use arrow::csv::{Writer as CsvWriter, WriterBuilder as CsvBuilder};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::json::writer::{JsonArray, LineDelimited, Writer as JsonWriter, WriterBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// A format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names; NULL is an empty field, and so is an empty string.
    Csv,
    /// One array of objects; NULL is `null`.
    Json,
    /// One object a line.
    JsonLines,
    /// Arrow IPC: the stream format on a stream, the file format in a file.
    Arrow,
    /// Parquet.
    Parquet,
}

/// Names of all formats, as they are typed.
const NAMES: [(&str, Format); 5] = [
    ("csv", Format::Csv),
    ("json", Format::Json),
    ("jsonl", Format::JsonLines),
    ("arrow", Format::Arrow),
    ("parquet", Format::Parquet),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(text));
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("no format is named {text:?}; expected {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, format)| format == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl Format {
    /// The format that a file's name stands for.
    ///
    /// # Errors
    /// A name that stands for none.
    pub fn of_path(path: &str) -> Result<Self, String> {
        let ending = Path::new(path)
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase())
            .unwrap_or_default();
        match ending.as_str() {
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            "jsonl" | "ndjson" => Ok(Format::JsonLines),
            "arrow" | "arrows" | "ipc" | "feather" => Ok(Format::Arrow),
            "parquet" | "pq" => Ok(Format::Parquet),
            _ => Err(format!(
                "the name {path:?} does not tell the format; add (FORMAT csv), or json, jsonl, arrow, parquet"
            )),
        }
    }
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// The format.
    pub format: Format,
    /// Between fields of CSV.
    pub delimiter: u8,
    /// Whether CSV begins with a line of names.
    pub header: bool,
    /// Whether the bytes go to a file: Arrow then has its file format, which can be read from any place.
    pub to_file: bool,
}

impl WriteOptions {
    /// The format with a comma and a header where they matter.
    pub fn new(format: Format, to_file: bool) -> Self {
        WriteOptions {
            format,
            delimiter: b',',
            header: true,
            to_file,
        }
    }

    /// Whether results that follow one another on a stream need an empty line between them to be told apart.
    pub fn parted(&self) -> bool {
        self.format == Format::Csv
    }
}

enum Writer<W: Write + Send> {
    Csv(CsvWriter<W>),
    Json(JsonWriter<W, JsonArray>),
    JsonLines(JsonWriter<W, LineDelimited>),
    ArrowStream(StreamWriter<W>),
    ArrowFile(FileWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

/// Writes batches of one schema.
pub struct BatchWriter<W: Write + Send> {
    writer: Writer<W>,
    header_due: Option<SchemaRef>,
}

impl<W: Write + Send> BatchWriter<W> {
    /// Begins to write rows of `schema` to `to`.
    ///
    /// # Errors
    /// A column that the format has no form for, or the writer's own.
    pub fn new(to: W, schema: &SchemaRef, options: WriteOptions) -> Result<Self, SqlError> {
        check(schema, options.format)?;
        let mut header_due = None;
        let writer = match options.format {
            Format::Csv => {
                header_due = options.header.then(|| Arc::clone(schema));
                let builder = CsvBuilder::new()
                    .with_header(options.header)
                    .with_delimiter(options.delimiter);
                Writer::Csv(builder.build(to))
            }
            Format::Json => Writer::Json(json().build::<_, JsonArray>(to)),
            Format::JsonLines => Writer::JsonLines(json().build::<_, LineDelimited>(to)),
            Format::Arrow if options.to_file => {
                Writer::ArrowFile(FileWriter::try_new(to, schema).map_err(failed)?)
            }
            Format::Arrow => {
                Writer::ArrowStream(StreamWriter::try_new(to, schema).map_err(failed)?)
            }
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .build();
                let writer = ArrowWriter::try_new(to, Arc::clone(schema), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(SqlError::failed)?))
            }
        };
        Ok(BatchWriter { writer, header_due })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// Those of the stream below.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        self.header_due = None;
        match &mut self.writer {
            Writer::Csv(w) => w.write(batch).map_err(failed),
            Writer::Json(w) => w.write(batch).map_err(failed),
            Writer::JsonLines(w) => w.write(batch).map_err(failed),
            Writer::ArrowStream(w) => w.write(batch).map_err(failed),
            Writer::ArrowFile(w) => w.write(batch).map_err(failed),
            Writer::Parquet(w) => w.write(batch).map_err(SqlError::failed),
        }
    }

    /// Writes what belongs at the end and gives the stream back.
    ///
    /// # Errors
    /// Those of the stream below.
    pub fn finish(mut self) -> Result<W, SqlError> {
        if let Some(schema) = self.header_due.take() {
            // Names are due also where no row came.
            self.write(&RecordBatch::new_empty(schema))?;
        }
        match self.writer {
            Writer::Csv(w) => Ok(w.into_inner()),
            Writer::Json(mut w) => w.finish().map(|()| w.into_inner()).map_err(failed),
            Writer::JsonLines(mut w) => w.finish().map(|()| w.into_inner()).map_err(failed),
            Writer::ArrowStream(w) => w.into_inner().map_err(failed),
            Writer::ArrowFile(w) => w.into_inner().map_err(failed),
            Writer::Parquet(w) => w.into_inner().map_err(SqlError::failed),
        }
    }
}

fn json() -> WriterBuilder {
    // A field that is left out could as well be misspelt.
    WriterBuilder::new().with_explicit_nulls(true)
}

fn failed(error: ArrowError) -> SqlError {
    match error {
        ArrowError::IoError(_, source) => SqlError::failed(format!("cannot write: {source}")),
        other => SqlError::failed(other),
    }
}

/// Whether every column of `schema` can be written.
fn check(schema: &Schema, format: Format) -> Result<(), SqlError> {
    let instead = match format {
        Format::Csv => "write json, arrow or parquet instead, or take its parts as columns",
        _ => return Ok(()),
    };
    match schema.fields().iter().find(|f| is_nested(f.data_type())) {
        Some(field) => Err(SqlError::input(format!(
            "column {} has type {}, which {format} has no form for; {instead}",
            field.name(),
            field.data_type()
        ))),
        None => Ok(()),
    }
}

fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested() && !matches!(data_type, DataType::Dictionary(_, _))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int32Array, StringArray};
    use arrow::datatypes::Field;

    fn batch() -> RecordBatch {
        let money = Decimal128Array::from(vec![Some(-125), None, Some(1)]);
        let money = money.with_precision_and_scale(10, 2).unwrap();
        RecordBatch::try_from_iter_with_nullable([
            (
                "n",
                Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as _,
                true,
            ),
            (
                "s",
                Arc::new(StringArray::from(vec![Some("ä,\"x\""), None, Some("")])) as _,
                true,
            ),
            ("d", Arc::new(money) as _, true),
        ])
        .unwrap()
    }

    fn written(format: Format, batches: &[RecordBatch]) -> Vec<u8> {
        let options = WriteOptions::new(format, true);
        let mut writer = BatchWriter::new(Vec::new(), &batch().schema(), options).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap()
    }

    fn text(format: Format, batches: &[RecordBatch]) -> String {
        String::from_utf8(written(format, batches)).unwrap()
    }

    #[test]
    fn nulls_quotes_and_decimals_keep_their_value_in_text() {
        assert_eq!(
            text(Format::Csv, &[batch()]),
            "n,s,d\n1,\"ä,\"\"x\"\"\",-1.25\n,,\n3,,0.01\n"
        );
        assert_eq!(
            text(Format::JsonLines, &[batch()]),
            "{\"n\":1,\"s\":\"ä,\\\"x\\\"\",\"d\":-1.25}\n{\"n\":null,\"s\":null,\"d\":null}\n{\"n\":3,\"s\":\"\",\"d\":0.01}\n"
        );
    }

    #[test]
    fn no_rows_are_still_a_document() {
        assert_eq!(text(Format::Csv, &[]), "n,s,d\n");
        assert_eq!(text(Format::Json, &[]), "[]");
        assert_eq!(text(Format::JsonLines, &[]), "");
        assert!(written(Format::Arrow, &[]).starts_with(b"ARROW1"));
        assert!(written(Format::Parquet, &[]).starts_with(b"PAR1"));
    }

    #[test]
    fn nested_columns_are_refused_where_the_format_has_no_form_for_them() {
        let list = DataType::new_list(DataType::Int32, true);
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("l", list, true)]));
        let begin = |format| BatchWriter::new(Vec::new(), &schema, WriteOptions::new(format, true));
        let refused = begin(Format::Csv).err().unwrap().to_string();
        assert!(
            refused.contains("column l") && refused.contains("json"),
            "{refused}"
        );
        assert!(begin(Format::Json).is_ok());
    }

    #[test]
    fn names_of_files_tell_formats_and_unknown_ones_are_refused() {
        assert_eq!(Format::of_path("a/b.PARQUET").unwrap(), Format::Parquet);
        assert_eq!(Format::of_path("x.ndjson").unwrap(), Format::JsonLines);
        for bad in ["x", "x.csv.gz", "dir/"] {
            assert!(Format::of_path(bad).unwrap_err().contains("FORMAT csv"));
        }
        assert!("xml".parse::<Format>().unwrap_err().contains("csv, json"));
    }
}
