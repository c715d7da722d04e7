//! Rows of a statement as messages of Flight.
//!
//! Columns leave in types that every client reads: dictionaries and views as plain text and bytes.
//! That is done on the thread of the statement; the encoder then copies each batch once, into its
//! message.

use super::super::errors::error;
use super::super::running::{Encode, Give, Part, Running, Unsent};
use super::status::{internal, status};
use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use pgwire::error::PgWireResult;
use std::pin::Pin;
use std::sync::Arc;
use tierloom_engine::rows_at_once;
use tierloom_sql::{Flow, SqlError};
use tonic::Status;

/// Messages of a result.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Bytes of the columns in one message; clients take 4 MiB at least.
const MESSAGE: u64 = 2 << 20;

/// The columns as clients get them.
pub(super) fn plain(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(plain_field);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The same where what is bound to parameters decides whether a column has NULLs.
pub(super) fn plain_and_nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(plain_field);
    let fields = fields.map(|field| Arc::unwrap_or_clone(field).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let data_type = plain_type(field.data_type());
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(inner) | DataType::LargeList(inner) => DataType::List(plain_field(inner)),
        DataType::ListView(inner) | DataType::LargeListView(inner) => {
            DataType::List(plain_field(inner))
        }
        DataType::FixedSizeList(inner, size) => DataType::FixedSizeList(plain_field(inner), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(inner, sorted) => DataType::Map(plain_field(inner), *sorted),
        other => other.clone(),
    }
}

/// A schema as bytes.
pub(super) fn encoded(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    message.map(|message| message.0).map_err(internal)
}

/// Takes the batches of a statement apart.
pub(super) struct Batches {
    /// The columns that were announced; `None` for a statement whose rows nobody reads.
    pub announced: Option<SchemaRef>,
}

impl Encode for Batches {
    type Columns = ();
    type Rows = RecordBatch;

    fn begin(&mut self, schema: &SchemaRef) -> PgWireResult<()> {
        match &self.announced {
            Some(announced) if announced.fields().len() != schema.fields().len() => Err(error(
                "55000",
                "the columns have changed since they were announced; ask again",
            )),
            _ => Ok(()),
        }
    }

    fn rows(
        &mut self,
        batch: &RecordBatch,
        give: &mut Give<'_, RecordBatch>,
    ) -> Result<Flow, Unsent> {
        let Some(announced) = &self.announced else {
            return Ok(Flow::More);
        };
        let batch = fitted(batch, announced).map_err(Unsent::Refused)?;
        let rows = rows_at_once(&batch, MESSAGE);
        for from in (0..batch.num_rows()).step_by(rows) {
            let part = batch.slice(from, rows.min(batch.num_rows() - from));
            if give(part).map_err(Unsent::Failed)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    fn last(&self) -> Option<RecordBatch> {
        None
    }
}

/// The batch with the columns that were announced.
fn fitted(batch: &RecordBatch, announced: &SchemaRef) -> PgWireResult<RecordBatch> {
    let columns = batch.columns().iter().zip(announced.fields());
    let columns = columns.map(|(column, field)| match field.data_type() {
        wanted if column.data_type() == wanted => Ok(Arc::clone(column)),
        wanted => cast(column, wanted),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let fitted = columns.and_then(|columns| {
        RecordBatch::try_new_with_options(Arc::clone(announced), columns, &options)
    });
    fitted.map_err(|e| {
        let changed = "the columns have changed since they were announced; ask again";
        error("55000", format!("{changed} ({e})"))
    })
}

/// The messages of statements that run one after the other.
pub(super) fn messages(
    runs: impl Stream<Item = Result<Running<Batches>, Status>> + Send + 'static,
    announced: SchemaRef,
) -> Messages {
    as_messages(runs.map_ok(batches_of).try_flatten(), announced)
}

/// The batches of a running statement.
fn batches_of(
    running: Running<Batches>,
) -> impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static {
    stream::try_unfold(running, |mut running| async move {
        loop {
            match running.next().await.map_err(status)? {
                Some(Part::Rows(batch)) => return Ok(Some((batch, running))),
                Some(Part::Columns(())) => {}
                Some(Part::Done(_)) | None => return Ok(None),
            }
        }
    })
}

/// The messages of rows that are there.
pub(super) fn messages_of(batch: RecordBatch) -> Messages {
    let announced = batch.schema();
    as_messages(stream::iter([Ok(batch)]), announced)
}

/// The messages of a statement without rows.
pub(super) fn no_messages() -> Messages {
    as_messages(stream::empty(), Arc::new(Schema::empty()))
}

fn as_messages(
    batches: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static,
    announced: SchemaRef,
) -> Messages {
    let messages = FlightDataEncoderBuilder::new()
        .with_schema(announced)
        // Its own splitting goes by the buffers behind a batch.
        .with_max_flight_data_size(usize::MAX)
        .build(batches.map_err(FlightError::from));
    messages.map_err(Status::from).boxed()
}

/// Runs a statement to its end; the number of its rows, if it has or changes some.
pub(super) async fn finished(mut running: Running<Batches>) -> Result<Option<u64>, Status> {
    while let Some(part) = running.next().await.map_err(status)? {
        if let Part::Done(outcome) = part {
            return Ok(outcome.rows);
        }
    }
    Err(internal(SqlError::failed("the statement was lost")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, DictionaryArray, Float64Array};
    use arrow::datatypes::{Int32Type, TimeUnit, UInt16Type};

    fn of_all_kinds() -> Schema {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let item = |data_type| Arc::new(Field::new("item", data_type, true));
        let inner = Field::new("s", text.clone(), true);
        let types = [
            text.clone(),
            DataType::Utf8View,
            DataType::BinaryView,
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            DataType::Decimal128(20, 2),
            DataType::List(item(text.clone())),
            DataType::LargeList(item(DataType::Utf8View)),
            DataType::Struct(vec![inner].into()),
        ];
        let fields = types.into_iter().enumerate();
        let fields = fields.map(|(at, t)| Field::new(format!("c{at}"), t, at % 2 == 0));
        Schema::new(fields.collect::<Vec<_>>())
    }

    #[test]
    fn the_announced_columns_are_those_that_the_encoder_sends() {
        let announced = plain(&of_all_kinds());
        let encoder = FlightDataEncoderBuilder::new()
            .with_schema(Arc::clone(&announced))
            .build(stream::empty());
        assert_eq!(encoder.known_schema(), Some(announced));
    }

    #[test]
    fn a_part_of_a_large_buffer_is_one_message_and_a_large_batch_several() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 1 << 20]));
        let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
        assert_eq!(rows_at_once(&batch.slice(77, 1000), MESSAGE), 1000);
        assert_eq!(rows_at_once(&batch, MESSAGE), 1 << 18);
    }

    #[test]
    fn dictionaries_leave_as_their_values_in_parts() {
        let words = ["a", "b", "a"];
        let words: DictionaryArray<Int32Type> = words.into_iter().collect();
        let other: DictionaryArray<UInt16Type> = [None, Some("x"), None].into_iter().collect();
        let columns: [(&str, ArrayRef); 2] = [("w", Arc::new(words)), ("o", Arc::new(other))];
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true)),
        );
        let batch = batch.unwrap();
        let mut batches = Batches {
            announced: Some(plain(batch.schema_ref())),
        };
        let mut given = Vec::new();
        let mut give = |part: RecordBatch| {
            given.push(part);
            Ok(Flow::More)
        };
        assert!(batches.rows(&batch, &mut give).is_ok());
        assert_eq!(given.len(), 1);
        assert_eq!(given[0].column(0).data_type(), &DataType::Utf8);
        assert_eq!(given[0].column(1).null_count(), 2);
    }
}
