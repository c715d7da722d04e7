//! The session of a client, whatever protocol it speaks: the engine's session, variables, and its
//! place among the clients.

use super::access::Passwords;
use super::action::{self, Action};
use super::catalog::{Rewriter, add_client, text_row};
use super::clients::{Client, Clients, Place, Statement, lock};
use super::errors::{error, fatal, of_statement};
use super::running::{Lease, Task, ended};
use super::session_functions::Settings;
use super::variables::Variables;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use pgwire::api::RandomPidSecretKeyGenerator;
use pgwire::error::{PgWireError, PgWireResult};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tierloom_metrics::{Counted, Kind};
use tierloom_sql::{Described, Opaque, Piece, SharedEngine, Silent, SqlError, SqlSession};
use tokio::sync::Mutex as AsyncMutex;

/// What all sessions have in common.
pub(crate) struct Server {
    pub engine: SharedEngine,
    /// When it was started.
    pub started: Instant,
    /// Statements that have ended.
    pub counted: Arc<Counted>,
    pub clients: Clients,
    pub passwords: Option<Passwords>,
    /// The certificate, as PEM, that SCRAM binds to.
    pub certificate: Option<Vec<u8>>,
    /// Whether connections without TLS are refused.
    pub must_encrypt: bool,
    /// Who may change the machine; `None` if everybody may.
    pub operators: Option<BTreeSet<String>>,
    pub connections: usize,
    pub rewriter: Arc<Rewriter>,
    pub keys: Arc<RandomPidSecretKeyGenerator>,
}

impl Server {
    pub fn is_operator(&self, user: &str) -> bool {
        self.operators
            .as_ref()
            .is_none_or(|names| names.contains(user))
    }
}

/// A client's session.
pub(crate) struct ClientSession {
    pub server: Arc<Server>,
    /// Of the other end, for people.
    address: String,
    place: Mutex<Option<Place>>,
    engine: Mutex<Option<Arc<AsyncMutex<Opaque<SqlSession>>>>>,
    pub variables: Arc<Mutex<Variables>>,
}

impl ClientSession {
    pub fn new(server: Arc<Server>, address: String) -> Self {
        ClientSession {
            server,
            address,
            place: Mutex::default(),
            engine: Mutex::default(),
            variables: Arc::default(),
        }
    }

    /// How long a statement may take.
    fn limit(&self) -> Option<Duration> {
        lock(&self.variables).limit()
    }

    /// The time at which a statement that begins now is stopped.
    pub fn deadline(&self) -> Option<Instant> {
        let limit = self.limit();
        limit.and_then(|limit| Instant::now().checked_add(limit))
    }

    /// Whether there is no room for another client.
    pub fn is_full(&self) -> bool {
        self.server.clients.count() >= self.server.connections
    }

    /// Takes a place among the clients, for one that has shown that it is `user`.
    ///
    /// # Errors
    /// There are too many clients.
    pub fn admit(&self, pid: i32, key: &[u8], user: &str) -> PgWireResult<()> {
        let application = {
            let mut variables = lock(&self.variables);
            variables.put("session_authorization", user);
            let operator = if self.server.is_operator(user) {
                "on"
            } else {
                "off"
            };
            variables.put("is_superuser", operator);
            variables.get("application_name").unwrap_or("").to_owned()
        };
        let client = Client::new(pid, key, user, self.address.clone(), application);
        let place = self.server.clients.add(client, self.server.connections);
        let place = place.ok_or_else(|| fatal("53300", "sorry, too many clients already"))?;
        *lock(&self.place) = Some(place);
        Ok(())
    }

    pub fn client(&self) -> PgWireResult<Arc<Client>> {
        let place = lock(&self.place);
        let client = place.as_ref().map(|place| Arc::clone(&place.client));
        client.ok_or_else(|| fatal("08P01", "the connection has not been set up"))
    }

    /// The engine's session, made when it is first needed.
    fn engine(&self) -> Arc<AsyncMutex<Opaque<SqlSession>>> {
        let mut slot = lock(&self.engine);
        let made = slot.get_or_insert_with(|| {
            let session = self.server.engine.session();
            if let Ok(settings) = self.settings() {
                add_client(session.context(), &settings);
            }
            Arc::new(AsyncMutex::new(Opaque::new(session)))
        });
        Arc::clone(made)
    }

    /// The engine's session for one statement; `aside` if others may run before it ends.
    pub async fn lease(&self, aside: bool) -> Lease {
        let session = self.engine();
        match aside {
            true => Lease::Own(Opaque::new(session.lock().await.fork())),
            false => Lease::Shared(session.lock_owned().await),
        }
    }

    /// A task for a statement of `text`.
    pub fn task(&self, piece: Piece, text: &str, values: Vec<ScalarValue>) -> PgWireResult<Task> {
        Ok(Task {
            shown: piece.text.clone(),
            piece,
            values,
            text: text.to_owned(),
            deadline: self.deadline(),
            rewriter: Arc::clone(&self.server.rewriter),
            counted: Arc::clone(&self.server.counted),
            is_operator: self.server.is_operator(&self.client()?.user),
        })
    }

    /// Plans a statement of `text` without running it; `given` are the types of parameters that
    /// the client has named.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn describe(
        &self,
        mut lease: Lease,
        text: &str,
        piece: &Piece,
        given: Vec<Option<DataType>>,
    ) -> PgWireResult<Described> {
        let rewriter = Arc::clone(&self.server.rewriter);
        let piece = piece.clone();
        let statement = Statement::new(text, None);
        self.client()?.runs(&statement);
        let watch = Arc::clone(&statement);
        let described = tokio::task::spawn_blocking(move || {
            let session = lease.session();
            let first = rewriter.first(&piece);
            let understood = first.as_ref().unwrap_or(&piece);
            let described = session.describe(understood, &given, watch.as_ref());
            match (described, first) {
                (Err(failed), None) => match rewriter.after_failure(&piece) {
                    Some(again) => session
                        .describe(&again, &given, watch.as_ref())
                        .map_err(|_| failed),
                    None => Err(failed),
                },
                (described, _) => described,
            }
        });
        let described = described.await.map_err(|e| error("XX000", e))?;
        described.map_err(|e| of_statement(e, text, statement.why()))
    }

    /// A statement of `text` that begins now, as the client's.
    ///
    /// # Errors
    /// The client has no place yet.
    pub fn begins(&self, text: &str) -> PgWireResult<Arc<Statement>> {
        let statement = Statement::new(text, self.deadline());
        self.client()?.runs(&statement);
        Ok(statement)
    }

    /// Does the work of a statement of `text` on a thread; returns the number of rows that it
    /// changed.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn change(
        &self,
        mut lease: Lease,
        text: String,
        statement: Arc<Statement>,
        work: impl FnOnce(&mut SqlSession, &Statement) -> Result<u64, SqlError> + Send + 'static,
    ) -> PgWireResult<u64> {
        let counted = Arc::clone(&self.server.counted);
        let changed = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let done = work(lease.session(), &statement);
            counted.add(Kind::Other, ended(&done, &statement), begun.elapsed());
            done.map_err(|failed| of_statement(failed, &text, statement.why()))
        });
        changed.await.map_err(lost)?
    }

    /// What to do with a statement.
    ///
    /// # Errors
    /// A statement that has no counterpart here.
    pub fn action(&self, piece: &Piece) -> PgWireResult<Action> {
        Ok(match action::of(piece)? {
            // The engine has names to SHOW of its own.
            Action::Show(name) if lock(&self.variables).get(&name).is_none() => Action::Run,
            action => action,
        })
    }

    /// A row with the value of a variable.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn shown(&self, name: &str) -> PgWireResult<RecordBatch> {
        let value = lock(&self.variables).get(name).map(str::to_owned);
        let batch = value.and_then(|value| text_row(name, &value));
        batch.ok_or_else(|| {
            let message = format!("unrecognized configuration parameter {name:?}");
            error("42704", message)
        })
    }

    /// Sets a variable; the value that it has then.
    ///
    /// # Errors
    /// A name that is not known, or a value that it cannot have.
    pub fn set(&self, name: &str, value: Option<&str>) -> PgWireResult<String> {
        self.settings()?.set(name, value)
    }

    fn settings(&self) -> PgWireResult<Settings> {
        Ok(Settings {
            variables: Arc::clone(&self.variables),
            client: self.client()?,
        })
    }

    /// Forgets everything that was set and prepared.
    pub fn discard(&self) {
        lock(&self.variables).reset();
        self.end();
    }

    /// Ends the engine's session, and with it its temporary tables.
    fn end(&self) {
        let Some(session) = lock(&self.engine).take() else {
            return;
        };
        if session.try_lock().is_ok_and(|s| !s.has_temporary_tables()) {
            return;
        }
        // A statement may run until it finds that its client is gone, and others may hold the
        // names of the tables, neither of which a socket's thread must wait for.
        std::thread::spawn(move || {
            let mut session = session.blocking_lock();
            // Nobody is left to be told of a failure; DROP TABLE takes what is left then.
            let _ = session.drop_temporary_tables(&Silent::default());
        });
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.end();
    }
}

/// The error for a statement whose thread is gone.
pub(crate) fn lost(why: tokio::task::JoinError) -> PgWireError {
    error("XX000", format!("the statement was lost: {why}"))
}
