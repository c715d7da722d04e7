//! Forms of strings that consumers of Arrow data take: not all read views or dictionaries.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// The form of strings in results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strings {
    /// As the engine has them.
    #[default]
    Stored,
    Utf8,
    View,
    Dictionary,
}

impl Strings {
    /// The form of that name.
    ///
    /// # Errors
    /// A sentence with the names there are.
    pub fn named(name: &str) -> Result<Strings, String> {
        match name {
            "utf8" => Ok(Strings::Utf8),
            "view" => Ok(Strings::View),
            "dictionary" => Ok(Strings::Dictionary),
            _ => Err(format!(
                "strings cannot be {name:?}; expected \"utf8\", \"view\" or \"dictionary\""
            )),
        }
    }

    /// `schema` with its strings in this form.
    pub fn of(self, schema: &SchemaRef) -> SchemaRef {
        let form = match self {
            Strings::Stored => return Arc::clone(schema),
            Strings::Utf8 => DataType::Utf8,
            Strings::View => DataType::Utf8View,
            Strings::Dictionary => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
        };
        with_types(schema, |_, data_type| {
            is_string(data_type).then(|| form.clone())
        })
    }
}

/// `schema` with its strings in the forms of `wanted`, as far as that has strings in their places.
/// What else a consumer requests is its own to convert, as the Arrow project says.
pub fn requested(schema: &SchemaRef, wanted: &Schema) -> SchemaRef {
    if wanted.fields().len() != schema.fields().len() {
        return Arc::clone(schema);
    }
    with_types(schema, |index, data_type| {
        let other = wanted.field(index).data_type();
        (is_string(data_type) && is_string(other)).then(|| other.clone())
    })
}

fn with_types(schema: &SchemaRef, of: impl Fn(usize, &DataType) -> Option<DataType>) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(index, field)| match of(index, field.data_type()) {
        Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        None => Arc::clone(field),
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_string(values),
        _ => false,
    }
}

/// `batch` with the types of `schema`; columns that have them already are not copied.
///
/// # Errors
/// A column that cannot be cast, which only a string too long for its form is.
pub fn batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        cast(column, field.data_type())
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.collect::<Result<_, _>>()?,
        &options,
    )
}
