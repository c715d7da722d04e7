//! The rows of a statement that runs, batch by batch: the session's side and the reader's.

use super::adapt;
use super::error::{self, Error};
use super::shared::Shared;
use super::turn::Turn;
use super::wait::{Stop, locked, next};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use pyo3::prelude::*;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread, ThreadId};
use std::time::Duration;
use tierloom_sql::{Flow, Outcome, Piece, Sink, SqlError, Watch, WithValues};

/// Batches that may wait for the reader: enough to keep the engine busy, and a bound on memory.
const AHEAD: usize = 8;

/// How long the session sleeps at most before it looks for a stop again.
const LOOK: Duration = Duration::from_millis(100);

/// A statement of which all is known but its rows.
pub struct Request {
    /// The statement, and its parameters if it has any.
    pub statement: Statement,
    /// The columns that the reader gets.
    pub schema: SchemaRef,
}

/// A statement as it was written, or with values for its parameters.
pub enum Statement {
    Plain(Piece),
    Valued(WithValues),
}

impl Statement {
    /// What the session runs.
    pub fn piece(&self) -> &Piece {
        match self {
            Statement::Plain(piece) => piece,
            Statement::Valued(with) => with.piece(),
        }
    }

    /// `error` with its place in the statement as it was written; where it has none, that is the
    /// place of the statement.
    pub fn placed(&self, error: SqlError) -> SqlError {
        let error = match error {
            SqlError::Input {
                place: None,
                message,
            } => SqlError::input_at(self.piece().place, message),
            other => other,
        };
        match self {
            Statement::Plain(_) => error,
            Statement::Valued(with) => with.placed(error),
        }
    }
}

enum Message {
    Batch(RecordBatch),
    End(Result<Outcome, SqlError>),
}

/// The rows of a running statement. Dropping it ends the statement.
pub struct Batches {
    messages: Mutex<Receiver<Message>>,
    stop: Arc<Stop>,
    /// The session's thread as soon as it runs the statement; it sleeps while the reader is behind.
    session: Arc<Mutex<Option<Thread>>>,
    statement: Arc<Statement>,
    schema: SchemaRef,
    /// Kept until the last row; others wait for it.
    turn: Option<Turn>,
}

impl Batches {
    /// Sends the statement to its session.
    ///
    /// # Errors
    /// A closed connection, or one of a process before its fork.
    pub fn start(shared: &Shared, turn: Turn, request: Request) -> PyResult<Batches> {
        let (send, messages) = mpsc::sync_channel(AHEAD);
        let stop = Arc::new(Stop::default());
        let session = Arc::new(Mutex::new(None));
        let statement = Arc::new(request.statement);
        let (flag, waker, runs) = (
            Arc::clone(&stop),
            Arc::clone(&session),
            Arc::clone(&statement),
        );
        shared.worker.send(&stop, move |session| {
            *locked(&waker) = Some(thread::current());
            let mut sink = Sender { send, stop: &flag };
            let ended = session.run(runs.piece(), &mut sink, flag.as_ref());
            // Nobody reads any more if the result was dropped.
            drop(sink.put(Message::End(ended)));
        })?;
        Ok(Batches {
            messages: Mutex::new(messages),
            stop,
            session,
            statement,
            schema: request.schema,
            turn: Some(turn),
        })
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Gives the batches other forms of strings.
    pub fn with_schema(mut self, schema: SchemaRef) -> Batches {
        self.schema = schema;
        self
    }

    /// The next rows; `None` after the last.
    ///
    /// # Errors
    /// The statement's, or a signal; the statement has stopped before that is raised.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        if self.turn.is_none() {
            return Ok(None);
        }
        let message = next(py, &self.messages).inspect_err(|_| py.detach(|| self.finish()))?;
        self.taken(message).map_err(|e| error::sql(py, e))
    }

    /// Same for a thread that must not take the interpreter's lock: whoever holds it may be
    /// waiting for this thread. Signals are not seen here.
    fn next_outside(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if self.turn.is_none() {
            return Ok(None);
        }
        let message = locked(&self.messages).recv().ok();
        self.taken(message)
    }

    fn taken(&mut self, message: Option<Message>) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(thread) = locked(&self.session).as_ref() {
            thread.unpark();
        }
        let ended = match message {
            Some(Message::Batch(batch)) => match adapt::batch(&batch, &self.schema) {
                Ok(batch) => return Ok(Some(batch)),
                Err(error) => Err(SqlError::failed(error)),
            },
            Some(Message::End(ended)) => ended.map_err(|e| self.statement.placed(e)),
            None if self.stop.stopped() => Err(SqlError::Interrupted),
            None => Err(SqlError::failed(
                "the connection's session has ended after a failure; connect again",
            )),
        };
        self.turn = None;
        ended.map(|_| None)
    }

    /// Stops the statement and waits until it has stopped.
    fn finish(&mut self) {
        self.stop.request();
        while let Ok(Message::Batch(_)) = locked(&self.messages).recv() {}
        self.turn = None;
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.stop.request();
    }
}

/// The session's side.
struct Sender<'a> {
    send: SyncSender<Message>,
    stop: &'a Stop,
}

impl Sender<'_> {
    /// Passes `message` on, when the reader has room for it.
    fn put(&self, message: Message) -> Result<Flow, SqlError> {
        let mut waiting = message;
        loop {
            match self.send.try_send(waiting) {
                Ok(()) => return Ok(Flow::More),
                Err(TrySendError::Disconnected(_)) => return Ok(Flow::Enough),
                // Also for the last message: the reader may never come back for it.
                Err(TrySendError::Full(_)) if self.stop.stopped() => {
                    return Err(SqlError::Interrupted);
                }
                Err(TrySendError::Full(message)) => waiting = message,
            }
            thread::park_timeout(LOOK);
        }
    }
}

impl Sink for Sender<'_> {
    fn begin(&mut self, _: &SchemaRef) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        self.put(Message::Batch(batch.clone()))
    }

    fn end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Batches for a consumer that knows only Arrow's interface of C.
pub struct Exported {
    batches: Batches,
    /// The main thread, where signals are seen, if the consumer was given the rows there.
    main: Option<ThreadId>,
}

impl Exported {
    pub fn new(py: Python<'_>, batches: Batches) -> PyResult<Exported> {
        let threading = py.import("threading")?;
        let this = threading.call_method0("current_thread")?;
        let is_main = threading.call_method0("main_thread")?.is(&this);
        Ok(Exported {
            batches,
            main: is_main.then(|| thread::current().id()),
        })
    }

    fn on_main(&mut self, py: Python<'_>) -> Result<Option<RecordBatch>, ArrowError> {
        self.batches.next(py).map_err(|error| {
            let text = error.value(py).to_string();
            if !error.is_instance_of::<Error>(py) {
                // A signal. The consumer raises an error of its own, so the signal is sent once
                // more, for the interpreter to raise when it goes on.
                let again = py.import("_thread");
                drop(again.and_then(|thread| thread.call_method0("interrupt_main")));
            }
            let text = if text.is_empty() {
                "interrupted".into()
            } else {
                text
            };
            ArrowError::ExternalError(text.into())
        })
    }
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.main == Some(thread::current().id()) {
            // Without the lock the main thread can wait for it: nobody that holds it waits for the
            // main thread. It fails only when the interpreter ends.
            return Python::try_attach(|py| self.on_main(py).transpose()).flatten();
        }
        let next = self.batches.next_outside();
        next.map_err(|e| ArrowError::ExternalError(e.to_string().into()))
            .transpose()
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.batches.schema())
    }
}
