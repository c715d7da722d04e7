//! Strings of files become views, which queries move without copying their bytes.
//!
//! DataFusion reads files in the same way by default.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// The columns of a table with those of `schema`, which its files have.
pub fn with_views(schema: &SchemaRef) -> SchemaRef {
    let viewed = |field: &Arc<Field>| match view_of(field.data_type()) {
        Some(view) => Arc::new(field.as_ref().clone().with_data_type(view)),
        None => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().map(viewed).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn view_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    }
}

/// Rows of a file with the columns of `schema`, which may be views, or have a type where the file
/// has Null.
///
/// # Errors
/// Arrow's, for columns that do not fit.
pub fn in_views(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        let has = column.data_type();
        match *has == DataType::Null || view_of(has).as_ref() == Some(field.data_type()) {
            true => cast(column, field.data_type()),
            false => Ok(Arc::clone(column)),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
