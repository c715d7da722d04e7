//! The simple protocol: the statements of a text, one after the other.

use super::action::{self, Action};
use super::clients::Why;
use super::connection::{Answer, Connection, tag_of};
use super::copy::CopyOut;
use super::copy_in;
use super::database::statements;
use super::errors::{error, of_statement};
use super::messages::{complete, row_description};
use super::rows::{Encoded, PgRows, Shape};
use super::running::Part;
use async_trait::async_trait;
use futures::{Sink, SinkExt};
use pgwire::api::portal::Format;
use pgwire::api::query::{SimpleQueryHandler, send_ready_for_query};
use pgwire::api::results::{FieldInfo, Response, Tag};
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::copy::{CopyDone, CopyOutResponse};
use pgwire::messages::response::EmptyQueryResponse;
use pgwire::messages::simplequery::Query;
use std::fmt::Debug;
use std::sync::Arc;
use tierloom_sql::Piece;

pub(crate) struct Simple(pub Arc<Connection>);

#[async_trait]
impl SimpleQueryHandler for Simple {
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Err(PgWireError::NotReadyForQuery);
        }
        client.set_state(PgWireConnectionState::QueryInProgress);
        let text = query.query;
        let pieces = statements(&text).map_err(|e| of_statement(e, &text, Why::Asked))?;
        if pieces.is_empty() {
            let empty = Message::EmptyQueryResponse(EmptyQueryResponse::new());
            client.feed(empty).await?;
        }
        let mut pieces = pieces.into_iter().peekable();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            self.one(client, &text, piece, is_last).await?;
        }
        if matches!(client.state(), PgWireConnectionState::CopyInProgress(_)) {
            // It goes on with what the client sends next.
            return Ok(());
        }
        client.set_state(PgWireConnectionState::ReadyForQuery);
        let status = client.transaction_status();
        send_ready_for_query(client, status).await
    }

    async fn do_query<C>(&self, _: &mut C, _: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        Err(error("XX000", "statements are run by on_query"))
    }
}

impl Simple {
    async fn one<C>(
        &self,
        client: &mut C,
        text: &str,
        piece: Piece,
        is_last: bool,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let action = self.0.action(client, &piece)?;
        match &action {
            Action::Run => self.run(client, text, piece).await,
            Action::CopyOut(copy) => copy_out(&self.0, client, text, copy).await,
            Action::CopyIn(copy) if is_last => {
                copy_in::begin(&self.0, client, &piece.text, copy, false).await
            }
            Action::CopyIn(_) => Err(error(
                "0A000",
                "COPY FROM STDIN must be the last statement of a text",
            )),
            Action::Discard(_) => {
                forget(client);
                self.answer(client, &action).await
            }
            _ => self.answer(client, &action).await,
        }
    }

    async fn answer<C>(&self, client: &mut C, action: &Action) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        match self.0.act(client, action).await? {
            Answer::Tag(tag) => complete(client, tag).await,
            Answer::Row(fields, row) => {
                describe(client, &fields).await?;
                client.feed(Message::DataRow(row)).await?;
                complete(client, Tag::new("SHOW")).await
            }
        }
    }

    async fn run<C>(&self, client: &mut C, text: &str, piece: Piece) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let own = piece.text.clone();
        let rows = PgRows::new(Shape::Rows(Format::UnifiedText), None);
        let task = self.0.session.task(piece, text, Vec::new())?;
        let lease = self.0.session.lease(false).await;
        let mut running = self.0.start(lease, task, rows)?;
        let mut with_rows = false;
        while let Some(part) = running.next().await? {
            match part {
                Part::Columns(fields) => {
                    with_rows = true;
                    describe(client, &fields).await?;
                }
                Part::Rows(Encoded::Rows(rows)) => {
                    for row in rows {
                        client.feed(Message::DataRow(row)).await?;
                    }
                }
                Part::Rows(Encoded::Copy(_)) => {}
                Part::Done(outcome) => {
                    return complete(client, tag_of(&own, with_rows, outcome.rows)).await;
                }
            }
        }
        Err(error("XX000", "the statement was lost"))
    }
}

/// Forgets all prepared statements and portals of the protocol.
pub(crate) fn forget<C>(client: &C)
where
    C: ClientPortalStore,
    C::PortalStore: PortalStore,
{
    client.portal_store().clear_portals();
}

async fn describe<C>(client: &mut C, fields: &[FieldInfo]) -> PgWireResult<()>
where
    C: Sink<Message> + Unpin,
    C::Error: Debug,
    PgWireError: From<<C as Sink<Message>>::Error>,
{
    Ok(client.feed(row_description(fields)).await?)
}

/// `COPY ... TO STDOUT`, in both protocols.
pub(crate) async fn copy_out<C>(
    connection: &Connection,
    client: &mut C,
    text: &str,
    copy: &CopyOut,
) -> PgWireResult<()>
where
    C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
    C::Error: Debug,
    PgWireError: From<<C as Sink<Message>>::Error>,
{
    let piece = action::only_one(&copy.query)?;
    let piece = piece.ok_or_else(|| error("42601", "COPY of no query"))?;
    let mut task = connection.session.task(piece, &copy.query, Vec::new())?;
    text.clone_into(&mut task.shown);
    let rows = PgRows::new(Shape::Copy(copy.format.clone()), None);
    let lease = connection.session.lease(false).await;
    let mut running = connection.start(lease, task, rows)?;
    let mut begun = false;
    while let Some(part) = running.next().await? {
        match part {
            Part::Columns(fields) => {
                begun = true;
                let code = copy.format.code();
                let formats = vec![i16::from(code); fields.len()];
                let columns =
                    i16::try_from(fields.len()).map_err(|_| error("54011", "too many columns"))?;
                let response = CopyOutResponse::new(code, columns, formats);
                client.feed(Message::CopyOutResponse(response)).await?;
                if let Some(header) = copy.format.header(&fields) {
                    client.feed(Message::CopyData(header)).await?;
                }
            }
            Part::Rows(Encoded::Copy(rows)) => {
                for row in rows {
                    client.feed(Message::CopyData(row)).await?;
                }
            }
            Part::Rows(Encoded::Rows(_)) => {}
            Part::Done(outcome) if begun => {
                client.feed(Message::CopyDone(CopyDone::new())).await?;
                let rows = usize::try_from(outcome.rows.unwrap_or(0)).unwrap_or(usize::MAX);
                return complete(client, Tag::new("COPY").with_rows(rows)).await;
            }
            Part::Done(_) => return Err(error("42601", "COPY takes a query with rows")),
        }
    }
    Err(error("XX000", "the statement was lost"))
}
