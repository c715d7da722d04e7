//! One connection of a client of PostgreSQL: its session and its socket.

use super::action::{self, Action};
use super::arriving::Arriving;
use super::clients::lock;
use super::errors::error;
use super::peer::Peer;
use super::rows::{PgRows, Rows, Shape};
use super::running::{self, Lease, Running, Task};
use super::session::{ClientSession, Server};
use futures::{Sink, SinkExt};
use pgwire::api::ClientInfo;
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldInfo, Tag};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::DataRow;
use pgwire::messages::response::TransactionStatus;
use pgwire::messages::startup::ParameterStatus;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tierloom_sql::Piece;

/// A connected socket.
pub(crate) struct Connection {
    pub session: ClientSession,
    pub peer: Arc<Peer>,
    /// Whether the other end is on this machine.
    pub is_local: bool,
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
            session: ClientSession::new(server, address),
            peer: Arc::new(peer),
            is_local,
            arriving: Mutex::default(),
        }
    }

    /// Sets the rows that are on their way; returns those that were.
    pub fn set_arriving(&self, arriving: Option<Arriving>) -> Option<Arriving> {
        std::mem::replace(&mut *lock(&self.arriving), arriving)
    }

    /// Takes a place among the clients, after the client has shown who it is.
    pub fn admit(&self, client: &impl ClientInfo) -> PgWireResult<()> {
        let (pid, key) = client.pid_and_secret_key();
        let metadata = client.metadata();
        let user = metadata.get("user").cloned().unwrap_or_default();
        self.session.admit(pid, &key.to_bytes(), &user)
    }

    /// Starts a statement.
    pub fn start(&self, lease: Lease, task: Task, rows: PgRows) -> PgWireResult<Running<PgRows>> {
        let client = self.session.client()?;
        Ok(running::start(lease, task, rows, &client, Some(&self.peer)))
    }

    /// What to do with a statement of `client`.
    ///
    /// # Errors
    /// A statement that has no counterpart here, or one in a transaction that has failed.
    pub fn action(&self, client: &impl ClientInfo, piece: &Piece) -> PgWireResult<Action> {
        let action = self.session.action(piece)?;
        check_transaction(client, &action)?;
        Ok(action)
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
                lock(&self.session.variables).reset();
                "RESET"
            }
            Action::Discard(tag) => {
                if *tag == "DISCARD ALL" {
                    self.session.discard();
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

    fn show(&self, name: &str) -> PgWireResult<Answer> {
        let batch = self.session.shown(name)?;
        let shape = Shape::Rows(Format::UnifiedText);
        let rows = Rows::new(shape, &batch.schema(), None)?;
        let columns = rows.fitted(&batch)?;
        let row = rows.rows_of(&columns, 0, 1)?.into_iter().next();
        let row = row.ok_or_else(|| error("XX000", "a variable without a value"))?;
        Ok(Answer::Row(Arc::clone(&rows.fields), row))
    }

    async fn set<C>(&self, client: &mut C, name: &str, value: Option<&str>) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let now = self.session.set(name, value)?;
        let name = name.to_lowercase();
        if let Some((_, shown)) = REPORTED.iter().find(|(known, _)| *known == name) {
            let status = ParameterStatus::new((*shown).to_owned(), now);
            client
                .feed(PgWireBackendMessage::ParameterStatus(status))
                .await?;
        }
        Ok(())
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
