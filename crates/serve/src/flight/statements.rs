//! Statements: planned when they are announced, run when their rows are asked for.

use super::super::action::{self, Action};
use super::super::clients::lock;
use super::super::running::{self, Running};
use super::results::{
    Batches, Messages, encoded, finished, messages, messages_of, no_messages, plain,
    plain_and_nullable,
};
use super::sessions::FlightSession;
use super::status::status;
use super::store::{Prepared, Ticketed};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::{
    ActionCreatePreparedStatementResult, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use datafusion::common::ScalarValue;
use futures::{StreamExt, stream};
use prost::Message;
use std::sync::Arc;
use tierloom_sql::{Piece, numbered};
use tonic::Status;

/// The one statement of a text.
fn only_one(text: &str) -> Result<Piece, Status> {
    let piece = action::only_one(text).map_err(status)?;
    let piece = piece.ok_or_else(|| Status::invalid_argument("the text has no statement"))?;
    let as_status =
        |e| super::super::errors::of_statement(e, text, super::super::clients::Why::Asked);
    numbered(piece).map_err(|e| status(as_status(e)))
}

/// Announces the rows of a text.
pub(super) async fn announced(
    session: &FlightSession,
    text: &str,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let prepared = planned(session, text, Vec::new()).await?;
    ready(session, prepared, descriptor).await
}

/// Announces the rows of a prepared statement with the values that are bound to its parameters.
pub(super) async fn announced_prepared(
    session: &FlightSession,
    handle: &[u8],
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let prepared = session.store.prepared(handle)?;
    bound(&prepared)?;
    let prepared = planned_again(session, prepared).await?;
    ready(session, prepared, descriptor).await
}

/// The columns of a text, which does not run.
pub(super) async fn columns(session: &FlightSession, text: &str) -> Result<SchemaRef, Status> {
    let prepared = planned(session, text, Vec::new()).await?;
    Ok(prepared.columns.unwrap_or_else(|| Schema::empty().into()))
}

/// The columns of a prepared statement with the values that are bound to it, if there are some.
pub(super) async fn columns_of_prepared(
    session: &FlightSession,
    handle: &[u8],
) -> Result<SchemaRef, Status> {
    let prepared = planned_again(session, session.store.prepared(handle)?).await?;
    Ok(prepared.columns.unwrap_or_else(|| Schema::empty().into()))
}

/// Plans a prepared statement for the types of the values that are bound to it: those of columns
/// may depend on them.
async fn planned_again(session: &FlightSession, prepared: Prepared) -> Result<Prepared, Status> {
    let values = prepared.bound.first();
    let Some(values) = values.filter(|values| !values.is_empty()) else {
        return Ok(prepared);
    };
    if prepared.columns.is_none() {
        return Ok(prepared);
    }
    let given = values.iter().map(|value| Some(value.data_type()));
    let mut again = planned(session, &prepared.text, given.collect()).await?;
    again.bound = prepared.bound;
    Ok(again)
}

/// The rows of values that a statement runs with.
fn bound(prepared: &Prepared) -> Result<Vec<Vec<ScalarValue>>, Status> {
    match (prepared.bound.as_slice(), prepared.parameters.len()) {
        ([], 0) => Ok(vec![Vec::new()]),
        ([], count) => Err(Status::failed_precondition(format!(
            "the statement has {count} parameters, and no values are bound to them"
        ))),
        (rows, _) => Ok(rows.to_vec()),
    }
}

/// Prepares a statement; the answer has its columns and parameters.
pub(super) async fn prepare(
    session: &FlightSession,
    text: &str,
) -> Result<ActionCreatePreparedStatementResult, Status> {
    let prepared = planned(session, text, Vec::new()).await?;
    let dataset_schema = match &prepared.columns {
        Some(columns) => encoded(columns)?,
        None => encoded(&Schema::empty())?,
    };
    let parameters = prepared.parameters.iter().enumerate();
    let parameters = parameters.map(|(at, data_type)| {
        let field = Field::new(format!("${}", at + 1), data_type.clone(), true);
        plain(&Schema::new(vec![field])).field(0).clone()
    });
    let parameter_schema = encoded(&Schema::new(parameters.collect::<Vec<_>>()))?;
    let number = session.store.prepare(prepared)?;
    Ok(ActionCreatePreparedStatementResult {
        prepared_statement_handle: number.to_be_bytes().to_vec().into(),
        dataset_schema,
        parameter_schema,
    })
}

/// Plans a statement; `given` are the types of parameters, if they are known.
pub(super) async fn planned(
    session: &FlightSession,
    text: &str,
    given: Vec<Option<DataType>>,
) -> Result<Prepared, Status> {
    let piece = only_one(text)?;
    let action = session.client.action(&piece).map_err(status)?;
    let mut prepared = Prepared {
        text: text.to_owned(),
        piece,
        action,
        parameters: Vec::new(),
        columns: None,
        bound: Vec::new(),
    };
    match &prepared.action {
        Action::Run => {
            let lease = session.client.lease(true).await;
            let piece = &prepared.piece;
            let described = session.client.describe(lease, &piece.text, piece, given);
            let described = described.await.map_err(status)?;
            let known = described.parameters.is_empty();
            prepared.columns = described.columns.map(|columns| match known {
                true => plain(&columns),
                false => plain_and_nullable(&columns),
            });
            prepared.parameters = described.parameters;
        }
        Action::Show(name) => {
            let batch = session.client.shown(name).map_err(status)?;
            prepared.columns = Some(batch.schema());
        }
        _ => {}
    }
    Ok(prepared)
}

/// A ticket for the rows of a statement. One without rows runs now: clients that expect none need
/// not ask for them.
async fn ready(
    session: &FlightSession,
    prepared: Prepared,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let columns = prepared.columns.clone();
    let (statement, rows) = match (&prepared.action, &columns) {
        (Action::Show(name), _) => {
            let batch = session.client.shown(name).map_err(status)?;
            (Ticketed::Rows(batch), Some(1))
        }
        (_, Some(columns)) => {
            let query = Ticketed::Query {
                rows: bound(&prepared)?,
                piece: prepared.piece,
                columns: columns.clone(),
            };
            (query, None)
        }
        (_, None) => (Ticketed::Done, run(session, &prepared).await?),
    };
    let number = session.store.add(statement)?;
    let ticket = TicketStatementQuery {
        statement_handle: number.to_be_bytes().to_vec().into(),
    };
    let columns = columns.unwrap_or_else(|| Schema::empty().into());
    let info = info(&columns, ticket.as_any().encode_to_vec(), descriptor)?;
    let rows = rows.and_then(|rows| i64::try_from(rows).ok());
    Ok(info.with_total_records(rows.unwrap_or(-1)))
}

/// An announcement with one ticket, which the server that gave it takes.
pub(super) fn info(
    columns: &Schema,
    ticket: Vec<u8>,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().try_with_schema(columns);
    let info = info.map_err(super::status::internal)?;
    let info = info.with_endpoint(endpoint).with_ordered(true);
    Ok(info.with_descriptor(descriptor).with_total_bytes(-1))
}

/// The rows of a ticket.
pub(super) async fn rows(session: &Arc<FlightSession>, handle: &[u8]) -> Result<Messages, Status> {
    match session.store.ticketed(handle)? {
        (_, Ticketed::Done) => Ok(no_messages()),
        (_, Ticketed::Rows(batch)) => Ok(messages_of(batch)),
        (
            number,
            Ticketed::Query {
                piece,
                rows,
                columns,
            },
        ) => {
            let query = Arc::new((piece, columns.clone()));
            let session = Arc::clone(session);
            let mut runs = rows.into_iter().map(move |values| {
                let (session, query) = (Arc::clone(&session), Arc::clone(&query));
                async move {
                    let (piece, columns) = query.as_ref();
                    let columns = Some(Arc::clone(columns));
                    // Beside the session: several of its queries may run at a time.
                    let running = start(&session, piece, values, columns, true).await?;
                    session.store.runs(number, running.statement());
                    Ok(running)
                }
            });
            let first = match runs.next() {
                Some(first) => Some(Ok(first.await?)),
                None => None,
            };
            // Each begins when the rows of the one before it were taken.
            let runs = stream::iter(first).chain(stream::iter(runs).then(|run| run));
            Ok(messages(runs, columns))
        }
    }
}

/// Runs a text for what it does; the number of rows that it has changed, if it tells.
pub(super) async fn update(session: &FlightSession, text: &str) -> Result<Option<u64>, Status> {
    let piece = only_one(text)?;
    let action = session.client.action(&piece).map_err(status)?;
    act(session, &piece, &action, Vec::new()).await
}

/// Runs a prepared statement for each row of bound values; the number of rows that it has changed.
pub(super) async fn update_prepared(
    session: &FlightSession,
    handle: &[u8],
    bound: Option<Vec<Vec<ScalarValue>>>,
) -> Result<Option<u64>, Status> {
    let mut prepared = session.store.prepared(handle)?;
    if let Some(bound) = bound {
        prepared.bound = bound;
    }
    run(session, &prepared).await
}

/// Runs a prepared statement for each row of values; the number of rows that it has changed.
async fn run(session: &FlightSession, prepared: &Prepared) -> Result<Option<u64>, Status> {
    let mut sum = None;
    for values in bound(prepared)? {
        let rows = act(session, &prepared.piece, &prepared.action, values).await?;
        sum = rows.map(|rows| sum.unwrap_or(0) + rows).or(sum);
    }
    Ok(sum)
}

/// Does what a statement says and reads none of its rows.
async fn act(
    session: &FlightSession,
    piece: &Piece,
    action: &Action,
    values: Vec<ScalarValue>,
) -> Result<Option<u64>, Status> {
    match action {
        Action::Run => finished(start(session, piece, values, None, false).await?).await,
        Action::Set(name, value) => {
            let set = session.client.set(name, value.as_deref());
            set.map(|_| None).map_err(status)
        }
        Action::ResetAll => {
            lock(&session.client.variables).reset();
            Ok(None)
        }
        Action::Discard("DISCARD ALL") => {
            session.client.discard();
            Ok(None)
        }
        Action::CopyIn(_) | Action::CopyOut(_) => Err(Status::unimplemented(
            "COPY from and to the client is part of PostgreSQL's protocol; send a query, or ingest rows",
        )),
        // There are no transactions, as with PostgreSQL's protocol.
        _ => Ok(None),
    }
}

async fn start(
    session: &FlightSession,
    piece: &Piece,
    values: Vec<ScalarValue>,
    announced: Option<SchemaRef>,
    aside: bool,
) -> Result<Running<Batches>, Status> {
    let client = session.client.client().map_err(status)?;
    let task = session.client.task(piece.clone(), &piece.text, values);
    let task = task.map_err(status)?;
    let lease = session.client.lease(aside).await;
    Ok(running::start(
        lease,
        task,
        Batches { announced },
        &client,
        None,
    ))
}
