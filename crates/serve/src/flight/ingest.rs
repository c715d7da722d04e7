//! Rows of a client that become a table, or part of one.

use super::super::action::only_one;
use super::super::clients::{Statement, Why};
use super::super::errors::error;
use super::arrivals::{Arrival, arrivals};
use super::sessions::FlightSession;
use super::status::status;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use pgwire::error::PgWireResult;
use std::sync::Arc;
use std::time::Duration;
use tierloom_sql::{Destination, IfThere, Piece, SqlError, SqlSession, Watch};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::Status;

/// Batches that have come and were not taken yet.
const BATCHES_AHEAD: usize = 4;

/// How often a thread that waits for rows looks whether to stop.
const POLL: Duration = Duration::from_millis(10);

/// A part of the rows.
enum Part {
    Batch(RecordBatch),
    /// All have come. Without it the client is gone, and the rows count for nothing.
    End,
}

/// Takes the rows of a client; returns their number.
///
/// # Errors
/// A table that is there or not, rows that do not fit or did not all come.
pub(super) async fn ingest(
    session: &FlightSession,
    command: CommandStatementIngest,
    data: PeekableFlightDataStream,
) -> Result<u64, Status> {
    let to = destination(command)?;
    let mut arrivals = arrivals(data);
    let Some(Arrival::Columns(columns)) = arrivals.try_next().await? else {
        return Err(Status::invalid_argument("expected the columns of the rows"));
    };
    let piece = statement(&to).map_err(status)?;
    let statement = session.client.begins(&piece.text).map_err(status)?;
    let _stops = Stops(Arc::clone(&statement));
    let (send, parts) = mpsc::channel(BATCHES_AHEAD);
    let taken = take(session, piece, to, columns, parts, statement);
    let mut taken = Box::pin(taken);
    let passed = tokio::select! {
        // It fails before all rows have come.
        done = &mut taken => return done,
        passed = pass_on(&mut arrivals, send) => passed,
    };
    passed?;
    taken.await
}

/// Stops a statement when its client does not wait for it any more.
struct Stops(Arc<Statement>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.end(Why::Asked);
    }
}

/// Hands batches on to the thread that takes them.
async fn pass_on(
    arrivals: &mut BoxStream<'static, Result<Arrival, Status>>,
    send: mpsc::Sender<Part>,
) -> Result<(), Status> {
    let mut batches = 0;
    while let Some(arrival) = arrivals.try_next().await? {
        batches += 1;
        let Arrival::Batch(batch) = arrival else {
            return Err(Status::invalid_argument(
                "the columns changed among the rows",
            ));
        };
        if send.send(Part::Batch(batch)).await.is_err() {
            // What is wrong, the thread says.
            return Ok(());
        }
    }
    // A client whose source of rows fails may end its stream as if all had come. Without a batch
    // that would be taken for a table without rows, which has an empty one.
    if batches == 0 {
        return Err(Status::invalid_argument(
            "the stream ended without a batch; a table without rows is sent as an empty batch",
        ));
    }
    let _ = send.send(Part::End).await;
    Ok(())
}

/// Takes batches on a thread, as a statement.
async fn take(
    session: &FlightSession,
    piece: Piece,
    to: Destination,
    columns: SchemaRef,
    parts: mpsc::Receiver<Part>,
    statement: Arc<Statement>,
) -> Result<u64, Status> {
    // Beside the session, which others need while the rows come.
    let lease = session.client.lease(true).await;
    let handle = Handle::current();
    let text = piece.text.clone();
    let work = move |session: &mut SqlSession, watch: &Statement| {
        let mut batches = Batches {
            parts,
            handle,
            watch,
        };
        session.ingest(&piece, &to, &columns, &mut batches, watch)
    };
    let taken = session.client.change(lease, text, statement, work).await;
    taken.map_err(status)
}

/// The batches as they come.
struct Batches<'a> {
    parts: mpsc::Receiver<Part>,
    handle: Handle,
    watch: &'a Statement,
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let parts = &mut self.parts;
            let part = async { tokio::time::timeout(POLL, parts.recv()).await };
            match self.handle.block_on(part) {
                Ok(Some(Part::Batch(batch))) => return Some(Ok(batch)),
                Ok(Some(Part::End)) => return None,
                Ok(None) => return Some(Err(SqlError::Interrupted)),
                Err(_) if self.watch.stopped() => return Some(Err(SqlError::Interrupted)),
                Err(_) => {}
            }
        }
    }
}

/// What errors and listings name.
fn statement(to: &Destination) -> PgWireResult<Piece> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let schema = to.schema.as_deref().map(|schema| quoted(schema) + ".");
    let text = format!(
        "INGEST INTO {}{}",
        schema.unwrap_or_default(),
        quoted(&to.table)
    );
    only_one(&text)?.ok_or_else(|| error("42601", "rows for no table"))
}

fn destination(command: CommandStatementIngest) -> Result<Destination, Status> {
    let refused = [
        (command.temporary, "a temporary table"),
        (command.transaction_id.is_some(), "a transaction"),
    ];
    if let Some((_, what)) = refused.iter().find(|(given, _)| *given) {
        return Err(Status::unimplemented(format!(
            "there is no ingest into {what}"
        )));
    }
    if let Some(catalog) = command.catalog.filter(|name| !name.is_empty())
        && catalog != super::listings::CATALOG
    {
        let only = super::listings::CATALOG;
        return Err(Status::invalid_argument(format!(
            "there is no catalog {catalog}, only {only}"
        )));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let create = match options.if_not_exist() {
        TableNotExistOption::Create => true,
        TableNotExistOption::Fail => false,
        TableNotExistOption::Unspecified => return Err(unsaid("is not there")),
    };
    let if_there = match options.if_exists() {
        TableExistsOption::Fail => IfThere::Fail,
        TableExistsOption::Append => IfThere::Append,
        TableExistsOption::Replace => IfThere::Replace,
        TableExistsOption::Unspecified => return Err(unsaid("is there already")),
    };
    Ok(Destination {
        schema: command.schema.filter(|name| !name.is_empty()),
        table: command.table,
        create,
        if_there,
    })
}

fn unsaid(case: &str) -> Status {
    Status::invalid_argument(format!("expected what to do if the table {case}"))
}
