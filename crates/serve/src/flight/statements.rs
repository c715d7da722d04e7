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
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::sql::{
    ActionCreatePreparedStatementResult, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use datafusion::common::ScalarValue;
use prost::Message;
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
    let mut prepared = session.store.prepared(handle)?;
    let values = one_row(&prepared)?;
    if prepared.columns.is_some() && !values.is_empty() {
        // The types of columns may depend on those of the values.
        let given = values.iter().map(|value| Some(value.data_type()));
        let bound = prepared.bound;
        prepared = planned(session, &prepared.text, given.collect()).await?;
        prepared.bound = bound;
    }
    ready(session, prepared, descriptor).await
}

/// The values of the parameters of a statement that runs once.
fn one_row(prepared: &Prepared) -> Result<Vec<ScalarValue>, Status> {
    match (prepared.bound.as_slice(), prepared.parameters.len()) {
        ([], 0) => Ok(Vec::new()),
        ([one], _) => Ok(one.clone()),
        ([], count) => Err(Status::failed_precondition(format!(
            "the statement has {count} parameters, and no values are bound to them"
        ))),
        (rows, _) => Err(Status::unimplemented(format!(
            "a query takes one row of parameters, and {} are bound",
            rows.len()
        ))),
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
    let values = one_row(&prepared)?;
    let columns = prepared.columns.clone();
    let (statement, rows) = match (&prepared.action, &columns) {
        (Action::Show(name), _) => {
            let batch = session.client.shown(name).map_err(status)?;
            (Ticketed::Rows(batch), Some(1))
        }
        (_, Some(columns)) => {
            let columns = columns.clone();
            let piece = prepared.piece;
            (
                Ticketed::Query {
                    piece,
                    values,
                    columns,
                },
                None,
            )
        }
        (_, None) => (Ticketed::Done, run(session, &prepared, values).await?),
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
pub(super) async fn rows(session: &FlightSession, handle: &[u8]) -> Result<Messages, Status> {
    match session.store.ticketed(handle)? {
        (_, Ticketed::Done) => Ok(no_messages()),
        (_, Ticketed::Rows(batch)) => Ok(messages_of(batch)),
        (
            number,
            Ticketed::Query {
                piece,
                values,
                columns,
            },
        ) => {
            // Beside the session: several of its queries may run at a time.
            let running = start(session, &piece, values, Some(columns.clone()), true).await?;
            session.store.runs(number, running.statement());
            Ok(messages(running, columns))
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
    if prepared.bound.len() < 2 {
        let values = one_row(&prepared)?;
        return run(session, &prepared, values).await;
    }
    let mut sum = None;
    for values in std::mem::take(&mut prepared.bound) {
        let rows = run(session, &prepared, values).await?;
        sum = rows.map(|rows| sum.unwrap_or(0) + rows).or(sum);
    }
    Ok(sum)
}

async fn run(
    session: &FlightSession,
    prepared: &Prepared,
    values: Vec<ScalarValue>,
) -> Result<Option<u64>, Status> {
    act(session, &prepared.piece, &prepared.action, values).await
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
    announced: Option<arrow::datatypes::SchemaRef>,
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
