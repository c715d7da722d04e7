//! One connection: its session, variables and place among the clients.

use super::access::Passwords;
use super::action::{self, Action};
use super::arriving::Arriving;
use super::catalog::{Rewriter, text_row};
use super::clients::{Client, Clients, Place, lock};
use super::errors::{error, fatal};
use super::peer::Peer;
use super::rows::{Rows, Shape};
use super::running::{Lease, Task};
use super::variables::Variables;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use futures::{Sink, SinkExt};
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldInfo, Tag};
use pgwire::api::{ClientInfo, RandomPidSecretKeyGenerator};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::DataRow;
use pgwire::messages::response::TransactionStatus;
use pgwire::messages::startup::ParameterStatus;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tierloom_metrics::Counted;
use tierloom_sql::{Piece, SharedEngine, SqlSession};
use tokio::sync::Mutex as AsyncMutex;

/// What all connections have in common.
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

/// A connected socket.
pub(crate) struct Connection {
    pub server: Arc<Server>,
    pub peer: Arc<Peer>,
    /// Of the other end, for people.
    pub address: String,
    /// Whether the other end is on this machine.
    pub is_local: bool,
    place: Mutex<Option<Place>>,
    session: Mutex<Option<Arc<AsyncMutex<SqlSession>>>>,
    pub variables: Mutex<Variables>,
    /// Rows that are on their way from the client.
    arriving: Mutex<Option<Arriving>>,
}

/// What a statement of the protocol's session answers.
pub(crate) enum Answer {
    Tag(Tag),
    /// A row with one text.
    Row(Arc<Vec<FieldInfo>>, DataRow),
}

/// Variables whose changes clients are told.
const REPORTED: [(&str, &str); 6] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("timezone", "TimeZone"),
];

impl Connection {
    pub fn new(server: Arc<Server>, peer: Peer, address: String, is_local: bool) -> Self {
        Connection {
            server,
            peer: Arc::new(peer),
            address,
            is_local,
            place: Mutex::default(),
            session: Mutex::default(),
            variables: Mutex::default(),
            arriving: Mutex::default(),
        }
    }

    /// Sets the rows that are on their way; returns those that were.
    pub fn set_arriving(&self, arriving: Option<Arriving>) -> Option<Arriving> {
        std::mem::replace(&mut *lock(&self.arriving), arriving)
    }

    /// How long a statement may take.
    pub fn limit(&self) -> Option<Duration> {
        lock(&self.variables).limit()
    }

    /// Whether there is no room for another client.
    pub fn is_full(&self) -> bool {
        self.server.clients.count() >= self.server.connections
    }

    /// Takes a place among the clients, after the client has shown who it is.
    pub fn admit(&self, client: &impl ClientInfo) -> PgWireResult<()> {
        let (pid, key) = client.pid_and_secret_key();
        let metadata = client.metadata();
        let user = metadata.get("user").cloned().unwrap_or_default();
        let application = {
            let mut variables = lock(&self.variables);
            variables.put("session_authorization", &user);
            let operator = if self.server.is_operator(&user) {
                "on"
            } else {
                "off"
            };
            variables.put("is_superuser", operator);
            variables.get("application_name").unwrap_or("").to_owned()
        };
        let address = self.address.clone();
        let client = Client::new(pid, &key.to_bytes(), &user, address, application);
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

    /// The session, made when it is first needed.
    pub fn session(&self) -> Arc<AsyncMutex<SqlSession>> {
        let mut slot = lock(&self.session);
        let made =
            slot.get_or_insert_with(|| Arc::new(AsyncMutex::new(self.server.engine.session())));
        Arc::clone(made)
    }

    /// The session for one statement; `aside` if others may run before it ends.
    pub async fn lease(&self, aside: bool) -> Lease {
        let session = self.session();
        match aside {
            true => Lease::Own(Box::new(session.lock().await.fork())),
            false => Lease::Shared(session.lock_owned().await),
        }
    }

    /// A task for a statement of `text`.
    pub fn task(
        &self,
        piece: Piece,
        text: &str,
        shape: Shape,
        described: Option<SchemaRef>,
        values: Vec<ScalarValue>,
    ) -> PgWireResult<Task> {
        let piece_text = piece.text.clone();
        Ok(Task {
            piece,
            values,
            shape,
            described,
            shown: piece_text,
            text: text.to_owned(),
            limit: self.limit(),
            rewriter: Arc::clone(&self.server.rewriter),
            counted: Arc::clone(&self.server.counted),
            is_operator: self.server.is_operator(&self.client()?.user),
        })
    }

    /// What to do with a statement of `client`.
    ///
    /// # Errors
    /// A statement that has no counterpart here, or one in a transaction that has failed.
    pub fn action(&self, client: &impl ClientInfo, piece: &Piece) -> PgWireResult<Action> {
        let action = action::of(piece)?;
        check_transaction(client, &action)?;
        Ok(match action {
            // The engine has names to SHOW of its own.
            Action::Show(name) if !self.knows(&name) => Action::Run,
            action => action,
        })
    }

    /// Runs what the engine knows nothing of.
    pub async fn act<C>(&self, client: &mut C, action: &Action) -> PgWireResult<Answer>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let status = client.transaction_status();
        let tag = match action {
            Action::Begin => {
                client.set_transaction_status(status.to_in_transaction_state());
                "BEGIN"
            }
            Action::Commit | Action::Rollback => {
                client.set_transaction_status(status.to_idle_state());
                let undone = matches!(status, TransactionStatus::Error);
                if undone || *action == Action::Rollback {
                    "ROLLBACK"
                } else {
                    "COMMIT"
                }
            }
            Action::Accept(tag) => {
                if *tag == action::NO_INDEX {
                    let mut told = ErrorInfo::new(
                        "WARNING".to_owned(),
                        "0A000".to_owned(),
                        "there are no indexes here, so none was made".to_owned(),
                    );
                    told.hint = Some("queries do without; keep rows apart by UNIQUE".to_owned());
                    let notice = PgWireBackendMessage::NoticeResponse(told.into());
                    client.feed(notice).await?;
                }
                tag
            }
            Action::Set(name, value) => {
                self.set(client, name, value.as_deref()).await?;
                "SET"
            }
            Action::ResetAll => {
                lock(&self.variables).reset();
                "RESET"
            }
            Action::Discard(tag) => {
                if *tag == "DISCARD ALL" {
                    lock(&self.variables).reset();
                    *lock(&self.session) = None;
                }
                tag
            }
            Action::Show(name) => return self.show(name),
            Action::Run | Action::CopyOut(_) | Action::CopyIn(_) => {
                return Err(error("XX000", "a statement of the engine"));
            }
        };
        Ok(Answer::Tag(Tag::new(tag)))
    }

    /// Whether SHOW of this name is answered here.
    fn knows(&self, name: &str) -> bool {
        lock(&self.variables).get(name).is_some()
    }

    fn show(&self, name: &str) -> PgWireResult<Answer> {
        let value = lock(&self.variables).get(name).map(str::to_owned);
        let unknown = || {
            let message = format!("unrecognized configuration parameter {name:?}");
            error("42704", message)
        };
        let value = value.ok_or_else(unknown)?;
        let batch = text_row(name, &value).ok_or_else(unknown)?;
        let shape = Shape::Rows(Format::UnifiedText);
        let rows = Rows::new(shape, &batch.schema(), None)?;
        let columns = rows.fitted(&batch)?;
        let row = rows.rows_of(&columns, 0, 1)?.into_iter().next();
        let row = row.ok_or_else(unknown)?;
        Ok(Answer::Row(Arc::clone(&rows.fields), row))
    }

    async fn set<C>(&self, client: &mut C, name: &str, value: Option<&str>) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let now = {
            let mut variables = lock(&self.variables);
            variables.set(name, value)?;
            variables.get(name).unwrap_or_default().to_owned()
        };
        let name = name.to_lowercase();
        if name == "application_name" {
            *lock(&self.client()?.application) = now.clone();
        }
        if let Some((_, shown)) = REPORTED.iter().find(|(known, _)| *known == name) {
            let status = ParameterStatus::new((*shown).to_owned(), now);
            client
                .feed(PgWireBackendMessage::ParameterStatus(status))
                .await?;
        }
        Ok(())
    }
}

impl Server {
    pub fn is_operator(&self, user: &str) -> bool {
        self.operators
            .as_ref()
            .is_none_or(|names| names.contains(user))
    }
}

/// Refuses a statement in a transaction that has failed.
pub(crate) fn check_transaction(client: &impl ClientInfo, action: &Action) -> PgWireResult<()> {
    let ends = matches!(action, Action::Commit | Action::Rollback);
    match client.transaction_status() {
        TransactionStatus::Error if !ends => Err(error(
            "25P02",
            "current transaction is aborted, commands ignored until end of transaction block",
        )),
        _ => Ok(()),
    }
}

/// The tag of a statement that has ended.
pub(crate) fn tag_of(text: &str, with_rows: bool, rows: Option<u64>) -> Tag {
    let name = action::tag(text);
    let count = usize::try_from(rows.unwrap_or(0)).unwrap_or(usize::MAX);
    match name.as_str() {
        "EXPLAIN" | "SHOW" | "DESCRIBE" | "DESC" => Tag::new(&name),
        "INSERT" => Tag::new("INSERT").with_oid(0).with_rows(count),
        "UPDATE" | "DELETE" => Tag::new(&name).with_rows(count),
        _ if with_rows => Tag::new("SELECT").with_rows(count),
        _ => Tag::new(&name),
    }
}
