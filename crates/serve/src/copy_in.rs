//! `COPY table FROM STDIN`: rows that a client sends become one INSERT when all have come.

use super::action::only_one;
use super::arriving::Arriving;
use super::clients::{Statement, Why};
use super::connection::Connection;
use super::copy::CopyIn;
use super::errors::{error, of_statement};
use super::messages::complete;
use super::running::Lease;
use super::session::{ClientSession, lost};
use arrow::array::ArrayRef;
use async_trait::async_trait;
use futures::{Sink, SinkExt};
use pgwire::api::copy::CopyHandler;
use pgwire::api::results::Tag;
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::copy::{CopyData, CopyDone, CopyFail, CopyInResponse};
use std::fmt::Debug;
use std::sync::Arc;
use tierloom_sql::SqlSession;

/// Asks the client for the rows of `copy`.
///
/// # Errors
/// A table or column that is not there, or a format that cannot be read.
pub(crate) async fn begin<C>(
    connection: &Connection,
    client: &mut C,
    text: &str,
    copy: &CopyIn,
    is_extended: bool,
) -> PgWireResult<()>
where
    C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
    C::Error: Debug,
    PgWireError: From<<C as Sink<Message>>::Error>,
{
    let mut lease = connection.session.lease(false).await;
    let target = copy.clone();
    // The session may have to plan again what others have changed, which waits.
    let found = tokio::task::spawn_blocking(move || {
        lease.session().columns_for(&target.table, &target.columns)
    });
    let found = found.await.map_err(lost)?;
    let fields = found.map_err(|e| of_statement(e, text, Why::Asked))?;
    let count = i16::try_from(fields.len()).map_err(|_| error("54011", "too many columns"))?;
    connection.set_arriving(Some(Arriving::new(text, copy, fields)));
    let code = copy.format.code();
    // As a whole and in each column.
    let columns = vec![i16::from(code); count as usize];
    let response = CopyInResponse::new(code, count, columns);
    client.send(Message::CopyInResponse(response)).await?;
    client.set_state(PgWireConnectionState::CopyInProgress(is_extended));
    Ok(())
}

/// Receives the rows of a connection.
pub(crate) struct Copying(pub Arc<Connection>);

#[async_trait]
impl CopyHandler for Copying {
    async fn on_copy_data<C>(&self, _: &mut C, data: CopyData) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        // After an error nothing is expected any more, and what is on its way is dropped.
        let Some(mut arriving) = self.0.set_arriving(None) else {
            return Ok(());
        };
        arriving.more(&data.data)?;
        self.0.set_arriving(Some(arriving));
        Ok(())
    }

    async fn on_copy_done<C>(&self, client: &mut C, _: CopyDone) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let Some(mut arriving) = self.0.set_arriving(None) else {
            return Err(error("08P01", "no COPY is in progress"));
        };
        let columns = arriving.columns()?;
        let lease = self.0.session.lease(false).await;
        let rows = insert(&self.0.session, lease, arriving, columns).await?;
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        complete(client, Tag::new("COPY").with_rows(rows)).await
    }

    async fn on_copy_fail<C>(&self, _: &mut C, fail: CopyFail) -> PgWireError
    where
        C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        self.0.set_arriving(None);
        error("57014", format!("COPY from stdin failed: {}", fail.message))
    }
}

/// Appends rows that a client has sent; returns their number.
///
/// # Errors
/// Values that do not fit, or that the statement was stopped.
async fn insert(
    session: &ClientSession,
    lease: Lease,
    Arriving { text, copy, .. }: Arriving,
    values: Vec<ArrayRef>,
) -> PgWireResult<u64> {
    let piece = only_one(&text)?.ok_or_else(|| error("42601", "COPY of nothing"))?;
    let statement = session.begins(&text)?;
    let work = move |session: &mut SqlSession, watch: &Statement| {
        session.insert_values(&piece, (&copy.table, &copy.columns[..]), &values, watch)
    };
    session.change(lease, text, statement, work).await
}
