//! Rows that a client sends along with a command.

use super::status::of_rows;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use datafusion::common::ScalarValue;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use std::panic::AssertUnwindSafe;
use tonic::Status;

/// Rows of parameters; more are an error.
const MOST_ROWS: usize = 1_000_000;

/// What arrives.
pub(super) enum Arrival {
    /// The columns, before all batches.
    Columns(SchemaRef),
    Batch(RecordBatch),
}

/// What a client sends; a message without any part of a batch carries only the command.
pub(super) fn arrivals(
    data: PeekableFlightDataStream,
) -> BoxStream<'static, Result<Arrival, Status>> {
    let has_part = |message: &Result<FlightData, Status>| {
        let carries = message.as_ref().map(|data| !data.data_header.is_empty());
        future::ready(carries.unwrap_or(true))
    };
    let parts = data.filter(has_part).map_err(FlightError::from);
    let decoded = FlightDataDecoder::new(parts);
    // The decoder relies on offsets that the client has written.
    let caught = AssertUnwindSafe(decoded).catch_unwind();
    let arrivals = caught.filter_map(|decoded| {
        future::ready(match decoded {
            Ok(Ok(decoded)) => match decoded.payload {
                DecodedPayload::Schema(columns) => Some(Ok(Arrival::Columns(columns))),
                DecodedPayload::RecordBatch(batch) => Some(Ok(Arrival::Batch(batch))),
                DecodedPayload::None => None,
            },
            Ok(Err(wrong)) => Some(Err(of_rows(wrong))),
            Err(_) => Some(Err(Status::invalid_argument(
                "the rows cannot be read: their parts do not fit together",
            ))),
        })
    });
    arrivals.boxed()
}

/// Values for the parameters of a statement, row by row; `None` if the client sent no columns.
pub(super) async fn parameters(
    data: PeekableFlightDataStream,
) -> Result<Option<Vec<Vec<ScalarValue>>>, Status> {
    let mut arrivals = arrivals(data);
    let mut rows = None;
    while let Some(arrival) = arrivals.try_next().await? {
        let rows: &mut Vec<Vec<ScalarValue>> = rows.get_or_insert_with(Vec::new);
        let Arrival::Batch(batch) = arrival else {
            continue;
        };
        if rows.len() + batch.num_rows() > MOST_ROWS {
            return Err(Status::resource_exhausted(format!(
                "more than {MOST_ROWS} rows of parameters; ingest them"
            )));
        }
        for row in 0..batch.num_rows() {
            let columns = batch.columns().iter();
            let values = columns.map(|column| ScalarValue::try_from_array(column, row));
            let values = values.collect::<Result<Vec<_>, _>>();
            rows.push(values.map_err(|e| Status::invalid_argument(e.to_string()))?);
        }
    }
    Ok(rows)
}
