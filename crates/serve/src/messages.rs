//! Messages that several parts of the protocol send.

use futures::{Sink, SinkExt};
use pgwire::api::results::{FieldInfo, Tag};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::data::RowDescription;
use std::fmt::Debug;

/// Says that a statement has ended.
pub(crate) async fn complete<C>(client: &mut C, tag: Tag) -> PgWireResult<()>
where
    C: Sink<Message> + Unpin,
    C::Error: Debug,
    PgWireError: From<<C as Sink<Message>>::Error>,
{
    Ok(client.feed(Message::CommandComplete(tag.into())).await?)
}

/// The message that describes columns.
pub(crate) fn row_description(fields: &[FieldInfo]) -> Message {
    let fields = fields.iter().map(Into::into).collect();
    Message::RowDescription(RowDescription::new(fields))
}
