//! A statement that runs: on a thread of its own, which hands encoded rows to the connection.

use super::catalog::Rewriter;
use super::clients::{Client, Statement, Why};
use super::errors::{error, fatal, of_statement};
use super::peer::Peer;
use super::rows::{AT_ONCE, Encoded, Rows, Shape};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use pgwire::api::results::FieldInfo;
use pgwire::error::{PgWireError, PgWireResult};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tierloom_metrics::{Counted, Ended};
use tierloom_sql::{Flow, Outcome, Piece, Sink, SqlError, SqlSession, Watch};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, mpsc};

/// What a running statement gives.
pub(crate) enum Part {
    /// Once, before rows.
    Columns(Arc<Vec<FieldInfo>>),
    Rows(Encoded),
    /// At the end of a copy.
    Done(Outcome),
}

/// What to run.
pub(crate) struct Task {
    pub piece: Piece,
    pub values: Vec<ScalarValue>,
    pub shape: Shape,
    /// Columns that the client was told, if it was.
    pub described: Option<SchemaRef>,
    /// The text that positions in errors refer to.
    pub text: String,
    /// The statement as its client has sent it.
    pub shown: String,
    /// How long it may take.
    pub limit: Option<Duration>,
    /// Whether its user may change the machine and use files of it.
    pub is_operator: bool,
    /// Reads statements again as PostgreSQL means them.
    pub rewriter: Arc<Rewriter>,
    /// Where the statement is counted when it has ended.
    pub counted: Arc<Counted>,
}

/// Encoded parts ahead of a slow client.
const PARTS_AHEAD: usize = 8;

/// How often a thread that waits for its client looks whether to stop.
const POLL: Duration = Duration::from_millis(10);

/// How often the connection of a running statement is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A running statement; dropping it stops it.
pub(crate) struct Running {
    parts: mpsc::Receiver<PgWireResult<Part>>,
    statement: Arc<Statement>,
    /// Until the statement has ended, the client can be found to be gone.
    peer: Weak<Peer>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.statement.end(Why::Asked);
    }
}

/// A session for one statement: that of the connection, or one for it alone.
pub(crate) enum Lease {
    Shared(OwnedMutexGuard<SqlSession>),
    Own(Box<SqlSession>),
}

impl Lease {
    /// The session.
    pub fn session(&mut self) -> &mut SqlSession {
        match self {
            Lease::Shared(guard) => guard,
            Lease::Own(session) => session,
        }
    }
}

/// Starts a statement of `client`.
pub(crate) fn start(mut lease: Lease, task: Task, client: &Client, peer: &Arc<Peer>) -> Running {
    let deadline = task
        .limit
        .and_then(|limit| Instant::now().checked_add(limit));
    let statement = Statement::new(&task.shown, deadline);
    client.runs(&statement);
    let (send, parts) = mpsc::channel(PARTS_AHEAD);
    let running = Running {
        parts,
        statement: Arc::clone(&statement),
        peer: Arc::downgrade(peer),
    };
    let handle = Handle::current();
    let begun = Instant::now();
    tokio::task::spawn_blocking(move || {
        let mut out = Out {
            send,
            handle,
            statement,
            task: &task,
            rows: None,
            refused: None,
        };
        let done = run(lease.session(), &task, &mut out);
        let kind = lease.session().last_kind();
        // The session is free before the client knows that the statement has ended.
        drop(lease);
        let done = match (done, out.refused.take()) {
            (Err(_), Some(refused)) => Err(refused),
            (Err(failed), None) => Err(of_statement(failed, &task.text, out.statement.why())),
            (Ok(outcome), _) => Ok(Part::Done(outcome)),
        };
        let ended = ended(&done, &out.statement);
        task.counted.add(kind, ended, begun.elapsed());
        let _ = out.deliver(done);
    });
    running
}

/// How a statement has ended.
pub(crate) fn ended<T, E>(done: &Result<T, E>, statement: &Statement) -> Ended {
    match done {
        Ok(_) => Ended::Done,
        Err(_) if statement.stopped() => Ended::Stopped,
        Err(_) => Ended::Failed,
    }
}

fn run(session: &mut SqlSession, task: &Task, out: &mut Out) -> Result<Outcome, SqlError> {
    let statement = Arc::clone(&out.statement);
    let rewritten = task.rewriter.first(&task.piece);
    let piece = rewritten.as_ref().unwrap_or(&task.piece);
    if !task.is_operator
        && let Some(what) = session.needs_operator(piece)
    {
        let message = format!("{what}: permission denied; an operator can do that (--operator)");
        return out.refuse(Err(error("42501", message)));
    }
    let done = session.run_with(piece, task.values.clone(), out, statement.as_ref());
    if let Err(SqlError::Input { .. }) = &done
        && out.rows.is_none()
        && rewritten.is_none()
        && let Some(piece) = task.rewriter.after_failure(&task.piece)
    {
        let again = session.run_with(&piece, task.values.clone(), out, statement.as_ref());
        // What is wrong with the statement that was typed is more useful.
        return again.or(done);
    }
    done
}

impl Running {
    /// The next part; `None` after the last.
    ///
    /// # Errors
    /// That of the statement, or that the client is gone.
    pub async fn next(&mut self) -> PgWireResult<Option<Part>> {
        loop {
            let waited = tokio::time::timeout(LOOK, self.parts.recv()).await;
            match waited {
                Ok(part) => return part.transpose(),
                Err(_) if self.peer.upgrade().is_none_or(|peer| peer.is_gone()) => {
                    self.statement.end(Why::Asked);
                    return Err(fatal("08006", "the client is gone"));
                }
                Err(_) => {}
            }
        }
    }
}

/// The sink of a running statement.
struct Out<'a> {
    send: mpsc::Sender<PgWireResult<Part>>,
    handle: Handle,
    statement: Arc<Statement>,
    task: &'a Task,
    rows: Option<Rows>,
    /// Why rows could not be encoded.
    refused: Option<PgWireError>,
}

impl Out<'_> {
    /// Hands on a part; waits for the client, but not longer than the statement may run.
    fn deliver(&mut self, part: PgWireResult<Part>) -> Result<Flow, SqlError> {
        loop {
            let room = self
                .handle
                .block_on(async { tokio::time::timeout(POLL, self.send.reserve()).await });
            match room {
                Ok(Ok(room)) => {
                    room.send(part);
                    return Ok(Flow::More);
                }
                Ok(Err(_)) => return Ok(Flow::Enough),
                // What ends a statement must arrive, however it ends.
                Err(_) if matches!(part, Err(_) | Ok(Part::Done(_))) => {
                    if self.send.is_closed() {
                        return Ok(Flow::Enough);
                    }
                }
                Err(_) if self.statement.stopped() => return Err(SqlError::Interrupted),
                Err(_) => {}
            }
        }
    }

    fn refuse<T>(&mut self, encoded: PgWireResult<T>) -> Result<T, SqlError> {
        encoded.map_err(|refused| {
            let message = refused.to_string();
            self.refused = Some(refused);
            SqlError::failed(message)
        })
    }
}

impl Sink for Out<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        let (shape, described) = (self.task.shape.clone(), self.task.described.as_ref());
        let rows = self.refuse(Rows::new(shape, schema, described))?;
        let fields = Arc::clone(&rows.fields);
        self.rows = Some(rows);
        self.deliver(Ok(Part::Columns(fields))).map(drop)
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        let Some(mut rows) = self.rows.take() else {
            return Err(SqlError::failed("rows without columns"));
        };
        let sent = self.send_rows(&mut rows, batch);
        self.rows = Some(rows);
        sent
    }

    fn is_ready(&self) -> bool {
        self.send.capacity() > 0
    }

    fn end(&mut self) -> Result<(), SqlError> {
        let last = self.rows.as_ref().map(Rows::last).unwrap_or_default();
        if !last.is_empty() {
            self.deliver(Ok(Part::Rows(Encoded::Copy(last))))?;
        }
        Ok(())
    }
}

impl Out<'_> {
    fn send_rows(&mut self, rows: &mut Rows, batch: &RecordBatch) -> Result<Flow, SqlError> {
        let columns = self.refuse(rows.fitted(batch))?;
        for from in (0..batch.num_rows()).step_by(AT_ONCE) {
            let to = batch.num_rows().min(from + AT_ONCE);
            let encoded = self.refuse(rows.encode(&columns, from, to))?;
            if self.deliver(Ok(Part::Rows(encoded)))? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }
}

/// The error of a statement that is not taken as part of the extended protocol.
pub(crate) fn too_many() -> PgWireError {
    error(
        "42601",
        "cannot insert multiple commands into a prepared statement",
    )
}
