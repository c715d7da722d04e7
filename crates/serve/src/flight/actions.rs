//! Actions beside those of prepared statements: ends of statements and sessions.

use super::entrance::session_of;
use super::sessions::{FlightSession, Link, Sessions};
use arrow_flight::sql::{Any, Command, TicketStatementQuery};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus};
use arrow_flight::{ActionType, FlightInfo};
use prost::Message;
use std::sync::Arc;
use tonic::{Request, Status};

const CANCEL: &str = "CancelFlightInfo";
const CLOSE: &str = "CloseSession";

/// The answer to the end of a session, which the crate of the protocol does not have yet.
#[derive(Clone, PartialEq, Message)]
struct CloseSessionResult {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// A session that is closed when the answer is sent.
const CLOSED: i32 = 1;

/// The actions, for those who ask.
pub(super) fn known() -> Vec<Result<ActionType, Status>> {
    let action = |name: &str, description: &str| ActionType {
        r#type: name.to_owned(),
        description: description.to_owned(),
    };
    vec![
        Ok(action(CANCEL, "Stops the statement of a FlightInfo")),
        Ok(action(CLOSE, "Ends the session of the token")),
    ]
}

/// Does an action; the body of its answer.
///
/// # Errors
/// An action that is not known, or a statement that is not of the session.
pub(super) fn act(sessions: &Sessions, request: &Request<Action>) -> Result<Vec<u8>, Status> {
    let session = session_of(request)?;
    let action = request.get_ref();
    match action.r#type.as_str() {
        CANCEL => {
            let body = CancelFlightInfoRequest::decode(action.body.clone());
            let body = body.map_err(|e| Status::invalid_argument(e.to_string()))?;
            cancel(&session, body.info)?;
            let result = CancelFlightInfoResult::new(CancelStatus::Cancelled);
            Ok(result.encode_to_vec())
        }
        CLOSE => {
            sessions.end(&session);
            if let Some(link) = request.extensions().get::<Arc<Link>>() {
                link.forget(&session);
            }
            Ok(CloseSessionResult { status: CLOSED }.encode_to_vec())
        }
        other => Err(Status::unimplemented(format!(
            "there is no action {other:?}"
        ))),
    }
}

/// Stops what runs for an announcement.
///
/// # Errors
/// One that is not of the session.
pub(super) fn cancel(session: &FlightSession, info: Option<FlightInfo>) -> Result<(), Status> {
    let endpoints = info.map(|info| info.endpoint).unwrap_or_default();
    let ticket = endpoints.into_iter().next().and_then(|end| end.ticket);
    let ticket = ticket.map(|ticket| ticket.ticket).unwrap_or_default();
    let command = Any::decode(ticket).ok().map(Command::try_from);
    let Some(Ok(Command::TicketStatementQuery(TicketStatementQuery { statement_handle }))) =
        command
    else {
        return Err(Status::invalid_argument(
            "expected the ticket of a statement",
        ));
    };
    session.store.cancel(&statement_handle)
}
