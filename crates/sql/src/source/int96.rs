//! INT96, Parquet's old timestamp type: days and nanoseconds of the day.
//!
//! The reader converts it to 64-bit nanoseconds, which silently wrap beyond the year 2262. These
//! columns are therefore read a second time as milliseconds, which hold every INT96 day, and
//! checked.

use super::{BATCH_ROWS, SourceFormat, broken, unreadable};
use crate::error::SqlError;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, TimestampMillisecondType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Largest number of milliseconds that fits 64-bit nanoseconds.
const MOST_MILLIS: u64 = (i64::MAX / 1_000_000) as u64 - 1;

/// A second reader of a file's INT96 columns, in step with its rows.
pub(super) struct Instants {
    reader: ParquetRecordBatchReader,
}

impl Instants {
    /// Opens the INT96 columns of `path`; `None` if it has none.
    ///
    /// # Errors
    /// If the file cannot be read, or has INT96 inside lists or structs.
    pub fn of(path: &Path) -> Result<Option<Self>, SqlError> {
        let open = || File::open(path).map_err(|e| unreadable(path, &e));
        let failed = |e| broken(path, SourceFormat::Parquet, e);
        let plain = ParquetRecordBatchReaderBuilder::try_new(open()?).map_err(failed)?;
        let columns = plain.parquet_schema().columns().iter().enumerate();
        let old = columns.filter(|(_, c)| c.physical_type() == Type::INT96);
        let leaves: Vec<usize> = old.map(|(leaf, _)| leaf).collect();
        if leaves.is_empty() {
            return Ok(None);
        }
        // Leaves are columns of Parquet, roots are columns of Arrow.
        let roots: Vec<usize> = leaves
            .iter()
            .map(|leaf| plain.parquet_schema().get_column_root_idx(*leaf))
            .collect();
        let mut fields: Vec<Field> = Vec::new();
        for (root, field) in plain.schema().fields().iter().enumerate() {
            let field = field.as_ref().clone();
            fields.push(match field.data_type() {
                _ if !roots.contains(&root) => field,
                DataType::Timestamp(_, zone) => {
                    let millis = DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
                    field.with_data_type(millis)
                }
                nested => {
                    return Err(broken(
                        path,
                        SourceFormat::Parquet,
                        format!("column {} has INT96 inside of {nested}", field.name()),
                    ));
                }
            });
        }
        // The requested schema makes the reader convert to milliseconds.
        let wide = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new_with_metadata(
            fields,
            plain.schema().metadata().clone(),
        )));
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(open()?, wide);
        let builder = builder.map_err(failed)?;
        let mask = ProjectionMask::leaves(builder.parquet_schema(), leaves);
        let reader = builder
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(failed)?;
        Ok(Some(Instants { reader }))
    }

    /// Checks the rows of the next batch.
    ///
    /// # Errors
    /// A timestamp that 64-bit nanoseconds cannot hold.
    pub fn check_next(&mut self, path: &Path) -> Result<(), SqlError> {
        let Some(batch) = self.reader.next() else {
            return Ok(());
        };
        let batch = batch.map_err(|e| broken(path, SourceFormat::Parquet, e))?;
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let Some(values) = column.as_primitive_opt::<TimestampMillisecondType>() else {
                continue;
            };
            let beyond = |v: &i64| v.unsigned_abs() > MOST_MILLIS;
            if let Some(row) = values.iter().position(|v| v.as_ref().is_some_and(beyond)) {
                return Err(broken(
                    path,
                    SourceFormat::Parquet,
                    format!(
                        "column {} has an instant outside of the years 1678 to 2261 ({}), which \
                         INT96 is read as; write it as TIMESTAMP(MICROS)",
                        field.name(),
                        shown(values.value(row))
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// A timestamp for messages; plain milliseconds if it is outside the calendar.
fn shown(millis: i64) -> String {
    let instant = arrow::temporal_conversions::timestamp_ms_to_datetime(millis);
    instant.map_or_else(|| format!("{millis} ms"), |i| i.to_string())
}
