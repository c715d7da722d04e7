//! Dates and timestamps in CSV files.
//!
//! The CSV reader drops what a type cannot hold: the time of day in a column of dates, fractions of
//! a second in one of whole seconds. Such columns are read as text here, checked, and converted.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// Whether columns of a type are read as text.
fn is_checked(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(..))
}

/// The schema with columns of dates and timestamps as text.
pub(super) fn as_text(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let field = Field::clone(field);
        match is_checked(field.data_type()) {
            true => field.with_data_type(DataType::Utf8),
            false => field,
        }
    });
    let fields: Vec<Field> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The columns with the types of `schema`; or the first value that is not of its column's type or
/// finer than it: column, row and text.
pub(super) fn converted(
    batch: &RecordBatch,
    schema: &Schema,
) -> Result<Vec<ArrayRef>, (usize, usize, String)> {
    let columns = schema.fields().iter().zip(batch.columns()).enumerate();
    let columns = columns.map(|(index, (field, column))| {
        let data_type = field.data_type();
        if !is_checked(data_type) {
            return Ok(ArrayRef::clone(column));
        }
        let texts = column.as_string::<i32>();
        // What cannot be parsed becomes NULL.
        let parsed = cast_with_options(column, data_type, &CastOptions::default())
            .unwrap_or_else(|_| new_null_array(data_type, texts.len()));
        let is_bad = |row: &usize| {
            texts.is_valid(*row) && !(parsed.is_valid(*row) && fits(texts.value(*row), data_type))
        };
        match (0..texts.len()).find(is_bad) {
            Some(row) => Err((index, row, texts.value(row).to_owned())),
            None => Ok(parsed),
        }
    });
    columns.collect()
}

/// Whether a text has nothing but zeros where `data_type` holds nothing.
fn fits(text: &str, data_type: &DataType) -> bool {
    let lost = match data_type {
        DataType::Date32 => text
            .trim()
            .split_once([' ', 'T', 't'])
            .map(|(_, time)| time),
        DataType::Timestamp(unit, _) => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
            let end = fraction.find(|c: char| !c.is_ascii_digit());
            fraction[..end.unwrap_or(fraction.len())].get(digits..)
        }
        _ => None,
    };
    lost.is_none_or(|lost| !lost.contains(|c: char| c.is_ascii_digit() && c != '0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_cannot_hold_does_not_fit_it() {
        let timestamp = |unit| DataType::Timestamp(unit, None);
        for (text, data_type, right) in [
            ("2020-01-01", DataType::Date32, true),
            ("2020-01-01 00:00:00", DataType::Date32, true),
            ("2020-01-01 12:30:00", DataType::Date32, false),
            ("2020-01-01T00:00:01", DataType::Date32, false),
            ("2020-01-01 00:00:00", timestamp(TimeUnit::Second), true),
            ("2020-01-01 00:00:00.000", timestamp(TimeUnit::Second), true),
            ("2020-01-01 00:00:00.75", timestamp(TimeUnit::Second), false),
            (
                "2020-01-01 00:00:00.75",
                timestamp(TimeUnit::Millisecond),
                true,
            ),
            (
                "2020-01-01 00:00:00.7501",
                timestamp(TimeUnit::Millisecond),
                false,
            ),
            (
                "2020-01-01 00:00:00.750100+02:00",
                timestamp(TimeUnit::Microsecond),
                true,
            ),
            (
                "2020-01-01 00:00:00.7501001Z",
                timestamp(TimeUnit::Microsecond),
                false,
            ),
        ] {
            assert_eq!(fits(text, &data_type), right, "{text} {data_type}");
        }
    }
}
