//! Columns that `CREATE EXTERNAL TABLE` declares for files, and those that folders are named after.

use super::SourceFormat;
use crate::change::assigned;
use crate::error::SqlError;
use arrow::array::{Array, new_null_array};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::path::Path;
use std::sync::Arc;

/// What a statement says of the files of a table.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    /// The columns of the files; `None` for those that they have.
    pub columns: Option<SchemaRef>,
    /// Columns whose values are in the names of folders.
    pub partitions: Vec<FieldRef>,
}

/// How batches of files become rows of the table.
#[derive(Debug)]
pub(super) struct Shape {
    columns: Option<SchemaRef>,
    partitions: Vec<FieldRef>,
    /// The columns of the table: those of files, then partitions.
    schema: SchemaRef,
}

impl Shape {
    /// The shape of a table whose files have the columns `of_files`.
    pub fn new(declared: Declared, of_files: &SchemaRef) -> Result<Shape, SqlError> {
        let columns = declared.columns.as_ref().unwrap_or(of_files);
        for partition in &declared.partitions {
            if columns
                .fields()
                .iter()
                .any(|f| f.name() == partition.name())
            {
                return Err(SqlError::input(format!(
                    "the files have a column {} themselves, so it is no partition",
                    partition.name()
                )));
            }
        }
        let fields = columns.fields().iter().chain(&declared.partitions);
        // A declaration of NOT NULL is checked here; to the planner every column may be NULL.
        let fields = fields.map(|f| f.as_ref().clone().with_nullable(true));
        Ok(Shape {
            schema: Arc::new(Schema::new(fields.collect::<Vec<Field>>())),
            columns: declared.columns,
            partitions: declared.partitions,
        })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch of `file` with the columns of the table; `values` are those of the partitions.
    pub fn rows(
        &self,
        file: &Path,
        batch: &RecordBatch,
        values: &[Option<String>],
    ) -> Result<RecordBatch, SqlError> {
        let named = |error: SqlError| SqlError::input(format!("{}: {error}", file.display()));
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = match &self.columns {
            None => batch.columns().to_vec(),
            Some(declared) => {
                let column = |field: &FieldRef| declared_column(field, batch);
                let columns = declared.fields().iter().map(column);
                columns.collect::<Result<_, _>>().map_err(named)?
            }
        };
        for (field, value) in self.partitions.iter().zip(values) {
            let text: ArrayRef = Arc::new(StringArray::from(vec![value.as_deref()]));
            let one = assigned(&text, field.name(), field.data_type()).map_err(named)?;
            let all = take(&one, &UInt32Array::from(vec![0; rows]), None);
            columns.push(all.map_err(SqlError::failed)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        // Dictionaries may have got wider keys; the loader makes its own in any case.
        let fields = self.schema.fields().iter().zip(&columns);
        let fields = fields.map(|(f, c)| f.as_ref().clone().with_data_type(c.data_type().clone()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(SqlError::failed)
    }
}

/// The values of `batch` for a declared column, NULL if it has none of that name.
fn declared_column(field: &FieldRef, batch: &RecordBatch) -> Result<ArrayRef, SqlError> {
    if let Some(DataType::Struct(found)) = batch.column_by_name(field.name()).map(|c| c.data_type())
        && let DataType::Struct(wanted) = field.data_type()
        && !wanted
            .iter()
            .any(|w| found.iter().any(|f| f.name() == w.name()))
    {
        return Err(SqlError::input(format!(
            "column {} has none of the declared fields",
            field.name()
        )));
    }
    let made = match batch.column_by_name(field.name()) {
        Some(values) => assigned(values, field.name(), field.data_type())?,
        None => new_null_array(field.data_type(), batch.num_rows()),
    };
    match field.is_nullable() || made.logical_null_count() == 0 {
        true => Ok(made),
        false => Err(SqlError::input(format!(
            "column {} is declared NOT NULL, and a row has no value for it",
            field.name()
        ))),
    }
}

/// The columns that a CSV file is read with: those declared, in the order of its first line if this
/// has all of their names, else in the declared order.
pub(super) fn of_csv(
    file: &Path,
    first_line: &Schema,
    header: bool,
    declared: &Schema,
) -> Result<SchemaRef, SqlError> {
    let found = first_line.fields().len();
    if found != declared.fields().len() {
        return Err(SqlError::input(format!(
            "{} has {found} columns, and {} are declared",
            file.display(),
            declared.fields().len()
        )));
    }
    let by_name = |field: &FieldRef| {
        let mut all = declared.fields().iter();
        all.find(|d| d.name().eq_ignore_ascii_case(field.name()))
    };
    let fields: Option<Vec<&FieldRef>> = first_line.fields().iter().map(by_name).collect();
    let fields = fields.filter(|_| header);
    let fields = fields.unwrap_or_else(|| declared.fields().iter().collect());
    let fields = fields.into_iter().map(|field| {
        let read_as = match is_read(field.data_type()) {
            true => field.data_type().clone(),
            false => DataType::Utf8,
        };
        Field::new(field.name(), read_as, true)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Whether the CSV reader makes values of a type; others are read as text and converted.
fn is_read(data_type: &DataType) -> bool {
    let float = matches!(data_type, DataType::Float32 | DataType::Float64);
    float
        || data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Decimal128(..)
                | DataType::Utf8
        )
}

/// Refuses columns that files of a format cannot be matched with.
pub(super) fn check(
    kind: SourceFormat,
    of_files: &Schema,
    declared: &Schema,
    file: &Path,
) -> Result<(), SqlError> {
    let known = |name: &str| of_files.fields().iter().any(|f| f.name() == name);
    if kind == SourceFormat::Csv || declared.fields().iter().any(|f| known(f.name())) {
        return Ok(());
    }
    let names = |schema: &Schema| {
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        names.join(", ")
    };
    Err(SqlError::input(format!(
        "{} has none of the declared columns {}; it has {}",
        file.display(),
        names(declared),
        names(of_files)
    )))
}
