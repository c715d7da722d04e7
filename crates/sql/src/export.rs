//! Writes result rows as CSV, JSON, Arrow IPC or Parquet, to a stream or a file.
//!
//! The writers are Arrow's; this module chooses among them, converts types that a format lacks
//! ([`super::forms`]) and refuses what cannot be written.

use super::calendar::check_calendar;
use super::error::SqlError;
use super::format::{Format, WriteOptions};
use super::forms::{self, FloatsWithNames};
use arrow::array::RecordBatch;
use arrow::csv::{Writer as CsvWriter, WriterBuilder as CsvBuilder};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::json::writer::{JsonArray, LineDelimited, Writer as JsonWriter, WriterBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::sync::Arc;

enum FormatWriter<W: Write + Send> {
    Csv(CsvWriter<W>),
    Json(JsonWriter<W, JsonArray>),
    JsonLines(JsonWriter<W, LineDelimited>),
    ArrowStream(StreamWriter<W>),
    ArrowFile(FileWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

/// Writes batches of one schema.
pub struct BatchWriter<W: Write + Send> {
    writer: FormatWriter<W>,
    /// Schema that rows are written with, after conversion to types that the format supports.
    schema: SchemaRef,
    // Set until the first batch is written: an empty result still needs a header.
    header_due: Option<SchemaRef>,
}

impl<W: Write + Send> BatchWriter<W> {
    /// Starts writing rows of `schema` to `to`.
    ///
    /// # Errors
    /// A column that the format cannot represent, or a failed write of the header.
    pub fn new(to: W, schema: &SchemaRef, options: WriteOptions) -> Result<Self, SqlError> {
        check(schema, options.format)?;
        let schema = &forms::written(schema, options);
        let mut header_due = None;
        let writer = match options.format {
            Format::Csv => {
                header_due = options.header.then(|| Arc::clone(schema));
                let builder = CsvBuilder::new()
                    .with_header(options.header)
                    .with_delimiter(options.delimiter);
                FormatWriter::Csv(builder.build(to))
            }
            Format::Json => FormatWriter::Json(json().build::<_, JsonArray>(to)),
            Format::JsonLines => FormatWriter::JsonLines(json().build::<_, LineDelimited>(to)),
            Format::Arrow if options.to_file => {
                FormatWriter::ArrowFile(FileWriter::try_new(to, schema).map_err(failed)?)
            }
            Format::Arrow => {
                FormatWriter::ArrowStream(StreamWriter::try_new(to, schema).map_err(failed)?)
            }
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .build();
                let writer = ArrowWriter::try_new(to, Arc::clone(schema), Some(properties));
                FormatWriter::Parquet(Box::new(writer.map_err(SqlError::failed)?))
            }
        };
        Ok(BatchWriter {
            writer,
            schema: Arc::clone(schema),
            header_due,
        })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// A failed write.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        self.header_due = None;
        let batch = &forms::recast(batch, &self.schema).map_err(failed)?;
        if matches!(
            self.writer,
            FormatWriter::Csv(_) | FormatWriter::Json(_) | FormatWriter::JsonLines(_)
        ) {
            check_calendar(batch)?;
        }
        match &mut self.writer {
            FormatWriter::Csv(w) => w.write(batch).map_err(failed),
            FormatWriter::Json(w) => w.write(batch).map_err(failed),
            FormatWriter::JsonLines(w) => w.write(batch).map_err(failed),
            FormatWriter::ArrowStream(w) => w.write(batch).map_err(failed),
            FormatWriter::ArrowFile(w) => w.write(batch).map_err(failed),
            FormatWriter::Parquet(w) => w.write(batch).map_err(SqlError::failed),
        }
    }

    /// Writes the footer and returns the underlying writer.
    ///
    /// # Errors
    /// A failed write.
    pub fn finish(mut self) -> Result<W, SqlError> {
        if let Some(schema) = self.header_due.take() {
            // Write the header even if there was no row.
            self.write(&RecordBatch::new_empty(schema))?;
        }
        match self.writer {
            FormatWriter::Csv(w) => Ok(w.into_inner()),
            FormatWriter::Json(mut w) => w.finish().map(|()| w.into_inner()).map_err(failed),
            FormatWriter::JsonLines(mut w) => w.finish().map(|()| w.into_inner()).map_err(failed),
            // `into_inner` of the Arrow and Parquet writers writes the footer.
            FormatWriter::ArrowStream(w) => w.into_inner().map_err(failed),
            FormatWriter::ArrowFile(w) => w.into_inner().map_err(failed),
            FormatWriter::Parquet(w) => w.into_inner().map_err(SqlError::failed),
        }
    }
}

fn json() -> WriterBuilder {
    // An omitted field would be indistinguishable from a misspelt one for readers of the file.
    WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_encoder_factory(Arc::new(FloatsWithNames))
}

fn failed(error: ArrowError) -> SqlError {
    match error {
        ArrowError::IoError(_, source) => SqlError::failed(format!("cannot write: {source}")),
        other => SqlError::failed(other),
    }
}

/// Checks that `format` can represent every column of `schema`.
fn check(schema: &Schema, format: Format) -> Result<(), SqlError> {
    let instead = match format {
        Format::Csv => "write json, arrow or parquet instead, or take its parts as columns",
        Format::Json | Format::JsonLines => return forms::check_keys(schema.fields()),
        Format::Arrow | Format::Parquet => return Ok(()),
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
    use arrow::array::{
        ArrayRef, AsArray, Date64Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array,
        StringArray, Time32SecondArray, TimestampSecondArray,
    };
    use arrow::datatypes::{Field, Int32Type};
    use arrow::ipc::reader::FileReader;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use std::io::Cursor;

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

    fn of_one(format: Format, name: &str, batches: &[ArrayRef]) -> Vec<u8> {
        let batches: Vec<RecordBatch> = batches
            .iter()
            .map(|a| RecordBatch::try_from_iter([(name, Arc::clone(a))]).unwrap())
            .collect();
        let options = WriteOptions::new(format, true);
        let mut writer = BatchWriter::new(Vec::new(), &batches[0].schema(), options).unwrap();
        for batch in &batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn json_has_a_value_for_every_float_and_valid_numbers_for_every_decimal() {
        let floats = [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        let floats: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        let text = String::from_utf8(of_one(Format::JsonLines, "x", &[floats])).unwrap();
        assert_eq!(
            text,
            "{\"x\":1.5}\n{\"x\":\"NaN\"}\n{\"x\":\"Infinity\"}\n{\"x\":\"-Infinity\"}\n{\"x\":-0.0}\n"
        );
        let hundreds = Decimal128Array::from(vec![0, 7, -12]);
        let hundreds: ArrayRef = Arc::new(hundreds.with_precision_and_scale(38, -2).unwrap());
        let text = String::from_utf8(of_one(Format::JsonLines, "d", &[hundreds])).unwrap();
        assert_eq!(text, "{\"d\":0}\n{\"d\":700}\n{\"d\":-1200}\n");
    }

    #[test]
    fn json_objects_never_have_a_key_twice() {
        let field = |name: &str| Field::new(name, DataType::Int32, true);
        let schema: SchemaRef = Arc::new(Schema::new(vec![field("a"), field("b"), field("a")]));
        for format in [Format::Json, Format::JsonLines] {
            let begun = BatchWriter::new(Vec::new(), &schema, WriteOptions::new(format, true));
            let refused = begun.err().unwrap().to_string();
            assert!(refused.contains("named a"), "{refused}");
        }
    }

    #[test]
    fn an_arrow_file_takes_batches_with_dictionaries_of_their_own() {
        let words =
            |all: [&str; 2]| -> ArrayRef { Arc::new(DictionaryArray::<Int32Type>::from_iter(all)) };
        let written = of_one(Format::Arrow, "w", &[words(["a", "b"]), words(["c", "a"])]);
        let reader = FileReader::try_new(Cursor::new(written), None).unwrap();
        let read: Vec<String> = reader
            .flat_map(|batch| {
                let batch = batch.unwrap();
                let words = batch.column(0).as_string::<i32>().iter();
                words.map(|w| w.unwrap().to_owned()).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(read, ["a", "b", "c", "a"]);
    }

    #[test]
    fn parquet_has_types_of_its_own_for_times_in_seconds_and_dates_in_milliseconds() {
        let columns: [(&str, ArrayRef); 3] = [
            (
                "t",
                Arc::new(TimestampSecondArray::from(vec![Some(7), None])),
            ),
            ("h", Arc::new(Time32SecondArray::from(vec![3600, 1]))),
            (
                "d",
                Arc::new(Date64Array::from(vec![86_400_000, -86_400_000])),
            ),
        ];
        for (name, array) in columns {
            let bytes = of_one(Format::Parquet, name, &[array]);
            let metadata = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            let schema = metadata.metadata().file_metadata().schema_descr_ptr();
            assert!(schema.column(0).logical_type_ref().is_some(), "{name}");
        }
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
