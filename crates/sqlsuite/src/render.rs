//! Formats values as the text that the test files contain.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Schema,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use bigdecimal::BigDecimal;
use sqllogictest::ColumnType;
use std::str::FromStr;

/// The type of a column, as the one letter in a `query` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Truth values, letter `B`.
    Boolean,
    /// Dates and times of day, letter `D`.
    Date,
    /// Integers of any width, letter `I`.
    Integer,
    /// Timestamps with or without a time zone, letter `P`.
    Timestamp,
    /// Floating-point numbers and decimals, letter `R`.
    Real,
    /// Text, also in dictionaries, letter `T`.
    Text,
    /// Any other type, letter `?`. Unknown letters are read as this too.
    Other,
}

const LETTERS: [(char, ColumnKind); 7] = [
    ('B', ColumnKind::Boolean),
    ('D', ColumnKind::Date),
    ('I', ColumnKind::Integer),
    ('P', ColumnKind::Timestamp),
    ('R', ColumnKind::Real),
    ('T', ColumnKind::Text),
    ('?', ColumnKind::Other),
];

impl ColumnType for ColumnKind {
    fn from_char(letter: char) -> Option<Self> {
        let known = LETTERS.iter().find(|(l, _)| *l == letter);
        Some(known.map_or(ColumnKind::Other, |(_, column)| *column))
    }

    fn to_char(&self) -> char {
        let known = LETTERS.iter().find(|(_, column)| column == self);
        known.map_or('?', |(letter, _)| *letter)
    }
}

/// The types of the columns of `schema`.
pub fn column_kinds(schema: &Schema) -> Vec<ColumnKind> {
    let kind = |data_type: &DataType| match data_type {
        DataType::Boolean => ColumnKind::Boolean,
        t if t.is_integer() => ColumnKind::Integer,
        t if t.is_floating() || t.is_decimal() => ColumnKind::Real,
        t if t.is_string() => ColumnKind::Text,
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
            ColumnKind::Date
        }
        DataType::Timestamp(..) => ColumnKind::Timestamp,
        DataType::Dictionary(_, values) if values.is_string() => ColumnKind::Text,
        _ => ColumnKind::Other,
    };
    let fields = schema.fields().iter();
    fields.map(|field| kind(field.data_type())).collect()
}

/// The rows of `batches` with their cells as text.
///
/// # Errors
/// If Arrow cannot format a value.
pub fn text_rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<Vec<String>> = columns
            .map(|column| cells(column.as_ref()))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let row = columns.iter().map(|column| column[row].clone()).collect();
            push_lines(row, &mut rows);
        }
    }
    Ok(rows)
}

/// Appends a row. If its last cell has several lines (such as a plan), the lines become rows.
///
/// The test files have one line for each, with its number, and with hyphens for the blanks at its
/// beginning.
fn push_lines(mut row: Vec<String>, rows: &mut Vec<Vec<String>>) {
    match row.pop() {
        Some(last) if last.contains('\n') => {
            rows.push(row);
            for (index, line) in last.split('\n').enumerate() {
                let text = line.trim_start();
                let indent = "-".repeat(line.len() - text.len());
                rows.push(vec![format!("{:02}){indent}{text}", index + 1)]);
            }
        }
        last => {
            row.extend(last);
            rows.push(row);
        }
    }
}

fn cells(column: &dyn Array) -> Result<Vec<String>, ArrowError> {
    let present = |cell: &dyn Fn(usize) -> String| -> Vec<String> {
        let rows = 0..column.len();
        rows.map(|row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => cell(row),
        })
        .collect()
    };
    Ok(match column.data_type() {
        DataType::Null => vec!["NULL".to_owned(); column.len()],
        DataType::Float16 => {
            let values = column.as_primitive::<Float16Type>();
            present(&|row| float(values.value(row).to_f64(), &values.value(row).to_string()))
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>();
            present(&|row| float(values.value(row).into(), &values.value(row).to_string()))
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>();
            present(&|row| float(values.value(row), &values.value(row).to_string()))
        }
        DataType::Decimal32(_, scale) => {
            present(&|row| decimal::<Decimal32Type>(column, row, *scale))
        }
        DataType::Decimal64(_, scale) => {
            present(&|row| decimal::<Decimal64Type>(column, row, *scale))
        }
        DataType::Decimal128(_, scale) => {
            present(&|row| decimal::<Decimal128Type>(column, row, *scale))
        }
        DataType::Decimal256(_, scale) => {
            present(&|row| decimal::<Decimal256Type>(column, row, *scale))
        }
        DataType::Utf8 => present(&|row| text(column.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => present(&|row| text(column.as_string::<i64>().value(row))),
        DataType::Utf8View => present(&|row| text(column.as_string_view().value(row))),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let values = cells(dictionary.values().as_ref())?;
            let keys = if column.is_empty() || values.is_empty() {
                vec![0; column.len()]
            } else {
                dictionary.normalized_keys()
            };
            present(&|row| values[keys[row]].clone())
        }
        _ => {
            let options = FormatOptions::default()
                .with_null("NULL")
                .with_duration_format(DurationFormat::Pretty);
            let formatter = ArrayFormatter::try_new(column, &options)?;
            present(&|row| formatter.value(row).to_string())
        }
    })
}

fn text(value: &str) -> String {
    if value.is_empty() {
        return "(empty)".to_owned();
    }
    value.trim_end_matches('\n').replace('\0', "\\0")
}

/// Formats a floating-point number. `shown` is the shortest text that parses back to `value`.
fn float(value: f64, shown: &str) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}Infinity")
    } else {
        rounded(shown, 12)
    }
}

fn decimal<T: DecimalType>(column: &dyn Array, row: usize, scale: i8) -> String {
    let value = column.as_primitive::<T>().value(row);
    // The precision is larger than that of any type, so the text is not truncated.
    rounded(&T::format_decimal(value, u8::MAX, scale), scale.into())
}

/// A number with at most `digits` digits after the point and no trailing zeros.
fn rounded(number: &str, digits: i64) -> String {
    match BigDecimal::from_str(number) {
        Ok(number) => number.round(digits).normalized().to_plain_string(),
        Err(_) => number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
        StringArray,
    };
    use arrow::datatypes::Int32Type;
    use std::sync::Arc;

    fn shown(column: impl Array + 'static) -> Vec<String> {
        let column: ArrayRef = Arc::new(column);
        let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap();
        text_rows(&[batch]).unwrap().concat()
    }

    #[test]
    fn floats_are_rounded_to_twelve_digits_and_have_no_exponent() {
        let values = [
            0.1 + 0.2,
            1e20,
            -0.0,
            1.0,
            f64::NAN,
            f64::NEG_INFINITY,
            2e-13,
        ];
        let expected = [
            "0.3",
            "100000000000000000000",
            "0",
            "1",
            "NaN",
            "-Infinity",
            "0",
        ];
        assert_eq!(shown(Float64Array::from(values.to_vec())), expected);
    }

    #[test]
    fn decimals_keep_their_digits_and_lose_zeros_at_the_end() {
        let values = Decimal128Array::from(vec![Some(1_230), None, Some(-5)]);
        let values = values.with_precision_and_scale(38, 3).unwrap();
        assert_eq!(shown(values), ["1.23", "NULL", "-0.005"]);
        let negative = Decimal128Array::from(vec![12]);
        let negative = negative.with_precision_and_scale(10, -2).unwrap();
        assert_eq!(shown(negative), ["1200"]);
    }

    #[test]
    fn texts_and_dictionaries_show_what_is_empty_and_what_is_null() {
        let texts = StringArray::from(vec![Some(""), None, Some("a\n"), Some("b\0c")]);
        assert_eq!(shown(texts), ["(empty)", "NULL", "a", "b\\0c"]);
        let words: DictionaryArray<Int32Type> = [Some("x"), None, Some("")].into_iter().collect();
        assert_eq!(shown(words), ["x", "NULL", "(empty)"]);
        let nulls: DictionaryArray<Int32Type> = [None::<&str>, None].into_iter().collect();
        assert_eq!(shown(nulls), ["NULL", "NULL"]);
    }

    #[test]
    fn a_last_cell_of_several_lines_becomes_numbered_rows() {
        let plan = StringArray::from(vec!["Sort\n  Scan: t"]);
        let kind = StringArray::from(vec!["plan"]);
        let batch = RecordBatch::try_from_iter([
            ("kind", Arc::new(kind) as ArrayRef),
            ("plan", Arc::new(plan) as ArrayRef),
        ])
        .unwrap();
        let rows = text_rows(&[batch]).unwrap();
        assert_eq!(rows, [vec!["plan"], vec!["01)Sort"], vec!["02)--Scan: t"]]);
    }

    #[test]
    fn kinds_of_columns_are_letters() {
        let batch = RecordBatch::try_from_iter([
            ("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
            ("b", Arc::new(BooleanArray::from(vec![true])) as ArrayRef),
            ("c", Arc::new(Float64Array::from(vec![1.0])) as ArrayRef),
        ])
        .unwrap();
        let letters: String = column_kinds(&batch.schema())
            .iter()
            .map(ColumnKind::to_char)
            .collect();
        assert_eq!(letters, "IBR");
        assert_eq!(ColumnKind::from_char('X'), Some(ColumnKind::Other));
    }
}
