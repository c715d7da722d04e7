//! Reads CSV files: infers types, maps NULL texts, and explains bad values.
//!
//! Types are inferred from the first rows of each file and widened across files. A value that does
//! not fit the inferred type is an error with line, column and remedy, not NULL.

use super::instants;
use super::{BATCH_ROWS, Batches, CsvOptions, FileSummary, SourceFormat, broken, unreadable};
use crate::error::SqlError;
use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use regex::Regex;
use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Fields per batch, unless that is fewer rows than [`FEWEST_ROWS`].
const MOST_FIELDS: usize = 4 << 20;
const FEWEST_ROWS: usize = 1024;

fn format(path: &Path, options: &CsvOptions) -> Format {
    let tabs = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("tsv"));
    let delimiter = options.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
    let format = Format::default()
        .with_header(options.header)
        .with_delimiter(delimiter);
    match null_texts(&options.nulls) {
        Some(texts) => format.with_null_regex(texts),
        None => format,
    }
}

/// A pattern of the fields that are NULL; `None` for empty fields only, the reader's default.
fn null_texts(nulls: &[String]) -> Option<Regex> {
    if nulls.is_empty() {
        return None;
    }
    let texts: Vec<String> = nulls.iter().map(|text| regex::escape(text)).collect();
    // Escaped texts always form a valid pattern; only one beyond the size limit could fail, which
    // nobody types.
    Regex::new(&format!("^(?:|{})$", texts.join("|"))).ok()
}

pub(super) fn inspect(path: &Path, options: &CsvOptions) -> Result<FileSummary, SqlError> {
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    let file_bytes = file.metadata().map_err(|e| unreadable(path, &e))?.len();
    let rows = (options.infer_rows > 0).then_some(options.infer_rows);
    let (schema, _) = format(path, options)
        .infer_schema(BufReader::new(file), rows)
        .map_err(|e| broken(path, SourceFormat::Csv, e))?;
    if schema.fields().is_empty() {
        return Err(broken(
            path,
            SourceFormat::Csv,
            "it is empty; expected a line of names",
        ));
    }
    if let Some(twice) = repeated(&schema) {
        return Err(broken(
            path,
            SourceFormat::Csv,
            format!("two columns are named {twice:?} in line 1"),
        ));
    }
    Ok(FileSummary {
        schema: Arc::new(schema),
        // Text fields and arrays of numbers are of the same order of size.
        array_bytes: file_bytes,
        file_bytes,
        rows: None,
    })
}

fn repeated(schema: &Schema) -> Option<&String> {
    let mut seen = HashSet::new();
    let mut names = schema.fields().iter().map(|f| f.name());
    names.find(|name| !seen.insert(*name))
}

/// The type that holds the values of two types inferred for one column.
pub(super) fn wider(a: &DataType, b: &DataType) -> DataType {
    match (a, b) {
        _ if a == b => a.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => {
            DataType::Float64
        }
        // Text holds any value as it was written.
        _ => DataType::Utf8,
    }
}

/// A column without any value becomes text.
pub(super) fn settled(field: &Field) -> Field {
    match field.data_type() {
        DataType::Null => field.clone().with_data_type(DataType::Utf8),
        _ => field.clone(),
    }
}

pub(super) fn read(
    path: &Path,
    schema: &SchemaRef,
    options: &CsvOptions,
) -> Result<Batches, SqlError> {
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    let file_bytes = file.metadata().map_err(|e| unreadable(path, &e))?.len();
    let reader = ReaderBuilder::new(instants::as_text(schema))
        .with_format(format(path, options))
        .with_batch_size(batch_rows(schema.fields().len(), file_bytes))
        .build(file)
        .map_err(|e| broken(path, SourceFormat::Csv, e))?;
    let (path, schema) = (path.to_owned(), Arc::clone(schema));
    let options = options.clone();
    let mut row = usize::from(options.header);
    Ok(Box::new(reader.map(move |batch| {
        let bad = |problem: ValueProblem| {
            broken(
                &path,
                SourceFormat::Csv,
                explain(&problem, &schema, &options),
            )
        };
        let batch = batch.map_err(|e| {
            let message = e.to_string();
            match value_problem(&message) {
                Some(problem) => bad(problem),
                None => broken(&path, SourceFormat::Csv, message),
            }
        })?;
        let first = row;
        row += batch.num_rows();
        let columns = instants::converted(&batch, &schema).map_err(|(column, at, value)| {
            bad(ValueProblem {
                value,
                column,
                line: (first + at) as u64 + 1,
            })
        })?;
        RecordBatch::try_new(Arc::clone(&schema), columns)
            .map_err(|e| broken(&path, SourceFormat::Csv, e))
    })))
}

/// Rows per batch.
///
/// The reader allocates 16 bytes for every field of a batch before it reads one, 1 MiB per column
/// at [`BATCH_ROWS`]. The batch therefore has no more fields than the file can (each takes at least
/// a byte), and fewer rows the more columns there are.
fn batch_rows(columns: usize, file_bytes: u64) -> usize {
    let columns = columns.max(1);
    let in_file = usize::try_from(file_bytes).unwrap_or(usize::MAX) / columns + 1;
    (MOST_FIELDS / columns)
        .clamp(FEWEST_ROWS, BATCH_ROWS)
        .min(in_file)
}

/// The message about a value that does not fit its column: place, type and a remedy.
fn explain(problem: &ValueProblem, schema: &Schema, options: &CsvOptions) -> String {
    let column = schema.fields().get(problem.column);
    let advice = if options.infer_rows > 0 {
        format!(
            "; the type comes from the first {} rows: correct the value, infer from all rows \
             (--csv-infer-rows 0), or, if it stands for a missing value, say so (--csv-null {:?})",
            options.infer_rows, problem.value
        )
    } else {
        String::new()
    };
    format!(
        "line {}: {:?} in column {} is no {}{advice}",
        problem.line,
        problem.value,
        column.map_or("?", |c| c.name()),
        column.map_or(String::new(), |c| c.data_type().to_string()),
    )
}

/// A value that is not of its column's type.
struct ValueProblem {
    value: String,
    column: usize,
    line: u64,
}

/// Parses the reader's message about a value that does not fit its type.
///
/// The form is "Error while parsing value 'x' as type 'T' for column C at line L. Row data: ...",
/// with lines counted from 0.
fn value_problem(message: &str) -> Option<ValueProblem> {
    let (_, rest) = message.split_once("while parsing value '")?;
    let (value, rest) = rest.split_once("' as type '")?;
    let (_, rest) = rest.split_once("for column ")?;
    let (column, rest) = rest.split_once(" at line ")?;
    let line: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(ValueProblem {
        value: value.to_owned(),
        column: column.parse().ok()?,
        line: line.parse::<u64>().ok()? + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_no_more_fields_than_the_file_can_have_or_memory_should() {
        assert_eq!(batch_rows(17, 1 << 40), BATCH_ROWS);
        assert_eq!(batch_rows(0, 10), 11);
        // A file with one row of many columns.
        assert_eq!(batch_rows(20_000, 150_000), 8);
        assert_eq!(batch_rows(1000, 1 << 40), (4 << 20) / 1000);
        assert_eq!(batch_rows(20_000, 1 << 40), FEWEST_ROWS);
    }

    #[test]
    fn a_bad_value_is_told_with_line_and_the_columns_name() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Float64, true),
        ]);
        let reported = "Parser error: Error while parsing value 'x y' as type 'Float64' for \
                        column 1 at line 7. Row data: '[1,x y]'";
        let problem = value_problem(reported).unwrap();
        let shown = explain(&problem, &schema, &CsvOptions::default());
        assert!(
            shown.starts_with("line 8: \"x y\" in column b is no Float64"),
            "{shown}"
        );
        assert!(shown.contains("--csv-infer-rows 0"), "{shown}");
        assert!(value_problem("something else").is_none());
    }

    #[test]
    fn words_for_missing_values_are_null_whole_and_nothing_else_is() {
        let texts = null_texts(&["NA".into(), "-".into(), "n.a".into()]).unwrap();
        for null in ["", "NA", "-", "n.a"] {
            assert!(texts.is_match(null), "{null}");
        }
        for value in ["NAN", "XNA", "-1", "nxa", " "] {
            assert!(!texts.is_match(value), "{value}");
        }
    }

    #[test]
    fn types_of_parts_widen_to_one_that_holds_all_values() {
        use DataType::{Boolean, Float64, Int64, Null, Utf8};
        for (a, b, both) in [
            (Int64, Int64, Int64),
            (Int64, Float64, Float64),
            (Null, Boolean, Boolean),
            (Int64, Boolean, Utf8),
            (Utf8, Float64, Utf8),
        ] {
            assert_eq!(wider(&a, &b), both);
            assert_eq!(wider(&b, &a), both);
        }
    }
}
