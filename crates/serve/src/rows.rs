//! Rows of the engine as those of the protocol.

use super::copy::CopyFormat;
use super::errors::error;
use super::pg_catalog::VECTOR;
use super::running::{Encode, Give, Unsent};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_pg::datatypes::{arrow_schema_to_pg_fields, field_into_pg_type};
use arrow_pg::encoder::{Encoder, encode_value};
use pgwire::api::portal::Format;
use pgwire::api::results::{CopyEncoder, DataRowEncoder, FieldInfo};
use pgwire::error::PgWireResult;
use pgwire::messages::copy::CopyData;
use pgwire::messages::data::DataRow;
use std::sync::Arc;
use tierloom_sql::{Flow, SqlError};

/// How rows leave the server.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// As rows of a result, with a format per column.
    Rows(Format),
    /// As data of `COPY ... TO STDOUT`.
    Copy(CopyFormat),
}

/// Some rows, encoded.
pub(crate) enum Encoded {
    Rows(Vec<DataRow>),
    Copy(Vec<CopyData>),
}

/// Encodes the batches of one statement.
pub(crate) struct Rows {
    shape: Shape,
    /// The columns as they are sent: types that the protocol does not have are text.
    pub schema: SchemaRef,
    pub fields: Arc<Vec<FieldInfo>>,
    /// Whether the header of a copy was sent.
    begun: bool,
}

/// Rows that are encoded before some are sent.
const AT_ONCE: usize = 1024;

/// Encodes the rows of a statement, whose columns are known when it runs.
pub(crate) struct PgRows {
    shape: Shape,
    /// Columns that the client was told, if it was.
    described: Option<SchemaRef>,
    rows: Option<Rows>,
}

impl PgRows {
    pub fn new(shape: Shape, described: Option<SchemaRef>) -> Self {
        PgRows {
            shape,
            described,
            rows: None,
        }
    }
}

impl Encode for PgRows {
    type Columns = Arc<Vec<FieldInfo>>;
    type Rows = Encoded;

    fn begin(&mut self, schema: &SchemaRef) -> PgWireResult<Self::Columns> {
        let rows = Rows::new(self.shape.clone(), schema, self.described.as_ref())?;
        let fields = Arc::clone(&rows.fields);
        self.rows = Some(rows);
        Ok(fields)
    }

    fn rows(&mut self, batch: &RecordBatch, give: &mut Give<'_, Encoded>) -> Result<Flow, Unsent> {
        let Some(rows) = &mut self.rows else {
            return Err(Unsent::Failed(SqlError::failed("rows without columns")));
        };
        let columns = rows.fitted(batch).map_err(Unsent::Refused)?;
        for from in (0..batch.num_rows()).step_by(AT_ONCE) {
            let to = batch.num_rows().min(from + AT_ONCE);
            let encoded = rows.encode(&columns, from, to).map_err(Unsent::Refused)?;
            if give(encoded).map_err(Unsent::Failed)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    fn last(&self) -> Option<Encoded> {
        let last = self.rows.as_ref().map(Rows::last).unwrap_or_default();
        (!last.is_empty()).then_some(Encoded::Copy(last))
    }
}

/// The schema that clients see: types without a counterpart in PostgreSQL are text.
pub(crate) fn visible(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| -> FieldRef {
        match field_into_pg_type(field) {
            Ok(_) if !is_vector(field) => Arc::clone(field),
            _ => Arc::new(Field::new(
                field.name(),
                DataType::Utf8,
                field.is_nullable(),
            )),
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether clients get a list as a text with spaces.
fn is_vector(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(_)) && field.metadata().contains_key(VECTOR)
}

/// Lists as texts with spaces between their elements.
fn spaced(lists: &ListArray) -> PgWireResult<ArrayRef> {
    let options = FormatOptions::default();
    let mut texts = StringBuilder::new();
    for list in lists.iter() {
        let Some(list) = list else {
            texts.append_null();
            continue;
        };
        let elements = ArrayFormatter::try_new(list.as_ref(), &options);
        let elements = elements.map_err(|e| error("XX000", e))?;
        let elements = (0..list.len()).map(|at| elements.value(at).to_string());
        texts.append_value(elements.collect::<Vec<_>>().join(" "));
    }
    Ok(Arc::new(texts.finish()))
}

/// The columns as the protocol describes them.
///
/// # Errors
/// Formats for another number of columns.
pub(crate) fn fields(schema: &Schema, format: &Format) -> PgWireResult<Vec<FieldInfo>> {
    if let Format::Individual(formats) = format
        && formats.len() != schema.fields().len()
    {
        return Err(error(
            "08P01",
            format!(
                "there are {} formats for {} columns",
                formats.len(),
                schema.fields().len()
            ),
        ));
    }
    arrow_schema_to_pg_fields(schema, format, None)
}

impl Rows {
    /// For rows of `schema`; `described` is what the client was told before, if it was.
    pub fn new(
        shape: Shape,
        schema: &SchemaRef,
        described: Option<&SchemaRef>,
    ) -> PgWireResult<Self> {
        let schema = match described {
            Some(described) if described.fields().len() == schema.fields().len() => {
                Arc::clone(described)
            }
            Some(_) => {
                return Err(error(
                    "0A000",
                    "cached plan must not change result type: prepare the statement again",
                ));
            }
            None => visible(schema),
        };
        let format = match &shape {
            Shape::Rows(format) => format.clone(),
            Shape::Copy(CopyFormat::Binary) => Format::UnifiedBinary,
            Shape::Copy(_) => Format::UnifiedText,
        };
        Ok(Rows {
            fields: Arc::new(fields(&schema, &format)?),
            schema,
            shape,
            begun: false,
        })
    }

    /// Encodes rows `from..to` of a batch whose columns were [fitted](Rows::fitted).
    pub fn encode(
        &mut self,
        columns: &[ArrayRef],
        from: usize,
        to: usize,
    ) -> PgWireResult<Encoded> {
        match self.shape.clone() {
            Shape::Rows(_) => Ok(Encoded::Rows(self.rows_of(columns, from, to)?)),
            Shape::Copy(format) => {
                let encoder = format.encoder(Arc::clone(&self.fields));
                let mut items = self.items(encoder, columns, from, to)?;
                if format == CopyFormat::Binary
                    && std::mem::replace(&mut self.begun, true)
                    && let Some(first) = items.first_mut()
                {
                    // Every encoder begins with the header, which belongs to the first row alone.
                    *first = CopyData::new(first.data.slice(CopyFormat::HEADER_BYTES..));
                }
                Ok(Encoded::Copy(items))
            }
        }
    }

    /// Rows `from..to` as those of a result.
    pub fn rows_of(
        &self,
        columns: &[ArrayRef],
        from: usize,
        to: usize,
    ) -> PgWireResult<Vec<DataRow>> {
        let encoder = DataRowEncoder::new(Arc::clone(&self.fields));
        self.items(encoder, columns, from, to)
    }

    fn items<E: Encoder>(
        &self,
        mut encoder: E,
        columns: &[ArrayRef],
        from: usize,
        to: usize,
    ) -> PgWireResult<Vec<E::Item>> {
        let mut items = Vec::with_capacity(to - from);
        for row in from..to {
            for (index, column) in columns.iter().enumerate() {
                let (field, info) = (self.schema.field(index), &self.fields[index]);
                encode_value(&mut encoder, column, row, field, info)?;
            }
            items.push(encoder.take_row());
        }
        Ok(items)
    }

    /// The columns of a batch in the types that are sent.
    pub fn fitted(&self, batch: &RecordBatch) -> PgWireResult<Vec<ArrayRef>> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let fitted = columns.map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(Arc::clone(column));
            }
            if let (DataType::List(_), DataType::Utf8) = (column.data_type(), field.data_type()) {
                return spaced(column.as_list());
            }
            cast(column, field.data_type()).map_err(|e| error("XX000", e))
        });
        fitted.collect()
    }

    /// What a copy ends with, and begins with if it has no rows.
    pub fn last(&self) -> Vec<CopyData> {
        let Shape::Copy(CopyFormat::Binary) = &self.shape else {
            return Vec::new();
        };
        let end = CopyEncoder::finish_copy_binary();
        if self.begun {
            return vec![end];
        }
        // In one message, as PostgreSQL sends them: drivers read the first one as a whole.
        let mut both = CopyFormat::binary_header();
        both.extend_from_slice(&end.data);
        vec![CopyData::new(both.into())]
    }
}
