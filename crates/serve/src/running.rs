//! A statement that runs: on a thread of its own, which hands encoded rows to the connection.

use super::catalog::Rewriter;
use super::clients::{Client, Statement, Why};
use super::errors::{error, fatal, of_statement};
use super::peer::Peer;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use pgwire::error::{PgWireError, PgWireResult};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tierloom_metrics::{Counted, Ended};
use tierloom_sql::{Flow, Opaque, Outcome, Piece, Sink, SqlError, SqlSession, Watch};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, mpsc};

/// How the rows of a statement are encoded for its client.
pub(crate) trait Encode: Send + 'static {
    /// What the client is told of the columns.
    type Columns: Send;
    /// Some rows.
    type Rows: Send;

    /// Takes the columns of the rows, once and before them.
    ///
    /// # Errors
    /// Other columns than the client was told of before.
    fn begin(&mut self, schema: &SchemaRef) -> PgWireResult<Self::Columns>;

    /// Encodes a batch, and gives each part of it to `give` while that wants more.
    ///
    /// # Errors
    /// Values that cannot be encoded, and the errors of `give`.
    fn rows(
        &mut self,
        batch: &RecordBatch,
        give: &mut Give<'_, Self::Rows>,
    ) -> Result<Flow, Unsent>;

    /// What comes after the last row.
    fn last(&self) -> Option<Self::Rows>;
}

/// Takes encoded rows.
pub(crate) type Give<'a, R> = dyn FnMut(R) -> Result<Flow, SqlError> + 'a;

/// Why rows were not sent.
pub(crate) enum Unsent {
    /// They cannot be encoded.
    Refused(PgWireError),
    /// Nobody takes them any more.
    Failed(SqlError),
}

/// What a running statement gives.
pub(crate) enum Part<E: Encode> {
    /// Once, before rows.
    Columns(E::Columns),
    Rows(E::Rows),
    /// At the end.
    Done(Outcome),
}

/// What to run.
pub(crate) struct Task {
    pub piece: Piece,
    pub values: Vec<ScalarValue>,
    /// The text that positions in errors refer to.
    pub text: String,
    /// The statement as its client has sent it.
    pub shown: String,
    /// When it is stopped if it has not ended by itself.
    pub deadline: Option<Instant>,
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
pub(crate) struct Running<E: Encode> {
    parts: mpsc::Receiver<PgWireResult<Part<E>>>,
    statement: Arc<Statement>,
    /// Until the statement has ended, the client can be found to be gone; `None` where this is
    /// dropped when the client goes.
    peer: Option<Weak<Peer>>,
}

impl<E: Encode> Drop for Running<E> {
    fn drop(&mut self) {
        self.statement.end(Why::Asked);
    }
}

/// A session for one statement: that of the connection, or one for it alone.
pub(crate) enum Lease {
    Shared(OwnedMutexGuard<Opaque<SqlSession>>),
    Own(Opaque<SqlSession>),
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
pub(crate) fn start<E: Encode>(
    mut lease: Lease,
    task: Task,
    encoder: E,
    client: &Client,
    peer: Option<&Arc<Peer>>,
) -> Running<E> {
    let statement = Statement::new(&task.shown, task.deadline);
    client.runs(&statement);
    let (send, parts) = mpsc::channel(PARTS_AHEAD);
    let running = Running {
        parts,
        statement: Arc::clone(&statement),
        peer: peer.map(Arc::downgrade),
    };
    let handle = Handle::current();
    let begun = Instant::now();
    tokio::task::spawn_blocking(move || {
        let mut out = Out {
            send,
            handle,
            statement,
            encoder,
            begun: false,
            refused: None,
        };
        let done = run(lease.session(), &task, &mut out);
        let kind = lease.session().last_kind();
        // The session is free before the client knows that the statement has ended.
        drop(lease);
        let done = match (done, out.refused.take()) {
            (Err(_), Some(refused)) => Err(refused),
            // What a function that was stopped gives, such as `pg_sleep`.
            (Err(SqlError::Failed(_)), None) if out.statement.stopped() => {
                let why = out.statement.why();
                Err(of_statement(SqlError::Interrupted, &task.text, why))
            }
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

fn run<E: Encode>(
    session: &mut SqlSession,
    task: &Task,
    out: &mut Out<E>,
) -> Result<Outcome, SqlError> {
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
        && !out.begun
        && rewritten.is_none()
        && let Some(piece) = task.rewriter.after_failure(&task.piece)
    {
        let again = session.run_with(&piece, task.values.clone(), out, statement.as_ref());
        // What is wrong with the statement that was typed is more useful.
        return again.or(done);
    }
    done
}

impl<E: Encode> Running<E> {
    /// The statement, to stop it from elsewhere.
    pub fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }

    /// Whether the client is known to be gone.
    fn is_abandoned(&self) -> bool {
        let Some(peer) = &self.peer else {
            return false;
        };
        peer.upgrade().is_none_or(|peer| peer.is_gone())
    }

    /// The next part; `None` after the last.
    ///
    /// # Errors
    /// That of the statement, or that the client is gone.
    pub async fn next(&mut self) -> PgWireResult<Option<Part<E>>> {
        loop {
            let waited = tokio::time::timeout(LOOK, self.parts.recv()).await;
            match waited {
                Ok(part) => return part.transpose(),
                Err(_) if self.is_abandoned() => {
                    self.statement.end(Why::Asked);
                    return Err(fatal("08006", "the client is gone"));
                }
                Err(_) => {}
            }
        }
    }
}

/// The sink of a running statement.
struct Out<E: Encode> {
    send: mpsc::Sender<PgWireResult<Part<E>>>,
    handle: Handle,
    statement: Arc<Statement>,
    encoder: E,
    /// Whether the client was told of columns.
    begun: bool,
    /// Why rows could not be encoded.
    refused: Option<PgWireError>,
}

impl<E: Encode> Out<E> {
    fn deliver(&self, part: PgWireResult<Part<E>>) -> Result<Flow, SqlError> {
        deliver(&self.send, &self.handle, &self.statement, part)
    }

    fn refuse<T>(&mut self, encoded: PgWireResult<T>) -> Result<T, SqlError> {
        encoded.map_err(|refused| {
            let message = refused.to_string();
            self.refused = Some(refused);
            SqlError::failed(message)
        })
    }
}

/// Hands on a part; waits for the client, but not longer than the statement may run.
fn deliver<E: Encode>(
    send: &mpsc::Sender<PgWireResult<Part<E>>>,
    handle: &Handle,
    statement: &Statement,
    part: PgWireResult<Part<E>>,
) -> Result<Flow, SqlError> {
    loop {
        let room = handle.block_on(async { tokio::time::timeout(POLL, send.reserve()).await });
        match room {
            Ok(Ok(room)) => {
                room.send(part);
                return Ok(Flow::More);
            }
            Ok(Err(_)) => return Ok(Flow::Enough),
            // What ends a statement must arrive, however it ends.
            Err(_) if matches!(part, Err(_) | Ok(Part::Done(_))) => {
                if send.is_closed() {
                    return Ok(Flow::Enough);
                }
            }
            Err(_) if statement.stopped() => return Err(SqlError::Interrupted),
            Err(_) => {}
        }
    }
}

impl<E: Encode> Sink for Out<E> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        let columns = self.encoder.begin(schema);
        let columns = self.refuse(columns)?;
        self.begun = true;
        self.deliver(Ok(Part::Columns(columns))).map(drop)
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        let (send, handle, statement) = (&self.send, &self.handle, &self.statement);
        let mut give = |rows| deliver(send, handle, statement, Ok(Part::Rows(rows)));
        match self.encoder.rows(batch, &mut give) {
            Ok(flow) => Ok(flow),
            Err(Unsent::Failed(failed)) => Err(failed),
            Err(Unsent::Refused(refused)) => self.refuse(Err(refused)),
        }
    }

    fn is_ready(&self) -> bool {
        self.send.capacity() > 0
    }

    fn end(&mut self) -> Result<(), SqlError> {
        match self.encoder.last() {
            Some(last) => self.deliver(Ok(Part::Rows(last))).map(drop),
            None => Ok(()),
        }
    }
}

/// The error of a statement that is not taken as part of the extended protocol.
pub(crate) fn too_many() -> PgWireError {
    error(
        "42601",
        "cannot insert multiple commands into a prepared statement",
    )
}
