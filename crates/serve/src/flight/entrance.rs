//! Who a request comes from, before anything of it is read.

use super::sessions::{FlightSession, Link, NOBODY, Sessions};
use super::status::internal;
use arrow_flight::{BasicAuth, HandshakeRequest, HandshakeResponse};
use axum::extract::{Request as HttpRequest, State};
use axum::middleware::Next;
use axum::response::Response as HttpResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream;
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

/// What the handshake answers.
pub(super) type Greeting =
    Pin<Box<dyn futures::Stream<Item = Result<HandshakeResponse, Status>> + Send>>;

/// Gives a request its session, and refuses one that has none.
pub(super) async fn guarded(
    State(sessions): State<Arc<Sessions>>,
    mut request: HttpRequest,
    next: Next,
) -> HttpResponse {
    if !request.uri().path().ends_with("/Handshake") {
        let link = request.extensions().get::<Arc<Link>>();
        let session = match link {
            Some(link) => sessions.of(request.headers(), link),
            None => Err(internal("a request without a connection")),
        };
        match session {
            Ok(session) => request.extensions_mut().insert(session),
            Err(refused) => return refused.into_http(),
        };
    }
    next.run(request).await
}

/// The session that a request was given.
pub(super) fn session_of<T>(request: &Request<T>) -> Result<Arc<FlightSession>, Status> {
    let session = request.extensions().get::<Arc<FlightSession>>();
    let session = session.cloned();
    session.ok_or_else(|| internal("a request without a session"))
}

/// Begins a session for a client that shows who it is, and answers its token.
///
/// # Errors
/// A wrong name or password, or too many clients.
pub(super) async fn handshake(
    sessions: &Sessions,
    request: Request<Streaming<HandshakeRequest>>,
) -> Result<Response<Greeting>, Status> {
    let link = request.extensions().get::<Arc<Link>>().cloned();
    let link = link.ok_or_else(|| internal("a request without a connection"))?;
    let sent = match of_header(request.metadata())? {
        Some(sent) => sent,
        None => of_message(request.into_inner()).await?,
    };
    let user = checked(sessions, sent).await?;
    let token = sessions.begin(&user, &link)?.token();
    let answer = HandshakeResponse {
        protocol_version: 0,
        payload: token.clone().into(),
    };
    let answer: Greeting = Box::pin(stream::iter([Ok(answer)]));
    let mut response = Response::new(answer);
    let token = format!("Bearer {token}").parse().map_err(internal)?;
    response.metadata_mut().insert("authorization", token);
    Ok(response)
}

/// Name and password in the header of a request, if it has that header.
fn of_header(metadata: &MetadataMap) -> Result<Option<BasicAuth>, Status> {
    let Some(sent) = metadata.get("authorization") else {
        return Ok(None);
    };
    let wrong = || Status::unauthenticated("expected Basic authorization with name and password");
    let sent = sent.to_str().map_err(|_| wrong())?;
    let sent = sent.strip_prefix("Basic ").ok_or_else(wrong)?;
    let text = STANDARD.decode(sent).map_err(|_| wrong())?;
    let text = String::from_utf8(text).map_err(|_| wrong())?;
    let (username, password) = text.split_once(':').ok_or_else(wrong)?;
    Ok(Some(BasicAuth {
        username: username.to_owned(),
        password: password.to_owned(),
    }))
}

/// Name and password in the first message of a handshake.
async fn of_message(mut messages: Streaming<HandshakeRequest>) -> Result<BasicAuth, Status> {
    let first = messages.message().await?;
    let payload = first.map(|first| first.payload).unwrap_or_default();
    BasicAuth::decode(payload)
        .map_err(|_| Status::unauthenticated("expected a name and a password in the handshake"))
}

/// The name of a client whose password is right.
async fn checked(sessions: &Sessions, sent: BasicAuth) -> Result<String, Status> {
    let BasicAuth { username, password } = sent;
    let Some(passwords) = sessions.server.passwords.clone() else {
        // As with PostgreSQL's protocol, everybody is who they say.
        return Ok(match username.is_empty() {
            true => NOBODY.to_owned(),
            false => username,
        });
    };
    let checked = tokio::task::spawn_blocking(move || {
        let is_right = passwords.admit(&username, &password);
        is_right.map(|is_right| (username, is_right))
    });
    let (user, is_right) = checked.await.map_err(internal)?.map_err(internal)?;
    match is_right && !user.is_empty() {
        true => Ok(user),
        false => Err(Status::unauthenticated(format!(
            "password authentication failed for user \"{user}\""
        ))),
    }
}
