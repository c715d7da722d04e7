//! Rows of the catalog's tables, made of the few columns that say something here.

use arrow::array::{ArrayRef, BooleanArray, ListArray, RecordBatch, StringArray};
use arrow::array::{Float64Array, Int16Array, Int32Array, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int16Type, Int32Type, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Columns by name.
pub(super) type Columns = BTreeMap<&'static str, ArrayRef>;

/// A batch of `count` rows: a column that is not among `given` is NULL, or false, 0 or empty where
/// it cannot be.
pub(super) fn filled(schema: &SchemaRef, count: usize, given: &Columns) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| -> Result<ArrayRef> {
        if let Some(column) = given.get(field.name().as_str()) {
            return Ok(Arc::clone(column));
        }
        Ok(match field.data_type() {
            any if field.is_nullable() => new_null_array(any, count),
            DataType::Boolean => Arc::new(BooleanArray::from(vec![false; count])),
            DataType::Int16 => Arc::new(Int16Array::from(vec![0; count])),
            DataType::Int32 => Arc::new(Int32Array::from(vec![0; count])),
            DataType::Float64 => Arc::new(Float64Array::from(vec![0.0; count])),
            DataType::Utf8 => text(vec![""; count]),
            other => return exec_err!("no value for {} of type {other}", field.name()),
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// The batch with other columns of these names.
pub(super) fn with(batch: &RecordBatch, given: Columns) -> Result<RecordBatch> {
    let fields = batch.schema_ref().fields().iter().zip(batch.columns());
    let columns = fields.map(|(field, column)| {
        let other = given.get(field.name().as_str());
        Arc::clone(other.unwrap_or(column))
    });
    Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
}

/// The rows of several batches of a schema.
pub(super) fn together(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    Ok(concat_batches(schema, batches)?)
}

/// The key of what marks a list that clients get as a text with spaces, as PostgreSQL writes its
/// vectors of numbers.
pub(crate) const VECTOR: &str = "tierloom.vector";

/// The schema with lists of numbers in the place of texts of these names, which the catalog's own
/// files have; as vectors or as they are.
pub(super) fn with_lists(
    schema: &Schema,
    lists: &[(&str, DataType)],
    are_vectors: bool,
) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        match lists.iter().find(|(name, _)| name == field.name()) {
            Some((name, item)) => {
                let item = Field::new_list_field(item.clone(), true);
                let mark = are_vectors.then(|| (VECTOR.to_owned(), String::new()));
                let list = Field::new_list(*name, item, true);
                Arc::new(list.with_metadata(mark.into_iter().collect()))
            }
            None => Arc::clone(field),
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub(super) fn text<T: AsRef<str>>(values: Vec<T>) -> ArrayRef {
    let values: StringArray = values.iter().map(|value| Some(value.as_ref())).collect();
    Arc::new(values)
}

pub(super) fn numbers(values: Vec<i32>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

pub(super) fn shorts(values: Vec<i16>) -> ArrayRef {
    Arc::new(Int16Array::from(values))
}

pub(super) fn flags(values: Vec<bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(values))
}

/// Lists of positions of columns.
pub(super) fn positions(lists: Vec<Vec<i16>>) -> ArrayRef {
    let lists = lists.into_iter();
    let lists = lists.map(|list| Some(list.into_iter().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(lists))
}

/// Lists of numbers of objects.
pub(super) fn number_lists(lists: Vec<Vec<i32>>) -> ArrayRef {
    let lists = lists.into_iter();
    let lists = lists.map(|list| Some(list.into_iter().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
}
