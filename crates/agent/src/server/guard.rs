//! Rejects calls without the token before anything of them is read.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::server::TlsConnectInfo;

use crate::Token;
use crate::server::doors::Peer;
use crate::server::log::Refusals;

/// Delay of a rejection.
///
/// The token cannot be guessed in any case; the delay limits the rate of log lines.
const DELAY: Duration = Duration::from_millis(300);
/// The authentication scheme before the token in the `authorization` header.
pub(crate) const SCHEME: &str = "Bearer ";

/// A service that only callers with the token reach.
#[derive(Clone)]
pub(crate) struct Guard<S> {
    inner: S,
    token: Arc<Token>,
    log: Refusals,
}

impl<S> Guard<S> {
    pub fn new(inner: S, token: Token, log: Refusals) -> Self {
        Self {
            inner,
            token: Arc::new(token),
            log,
        }
    }

    fn knows_token<B>(&self, request: &http::Request<B>) -> bool {
        request
            .headers()
            .get(http::header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix(SCHEME))
            .and_then(|text| Token::parse(text).ok())
            .is_some_and(|token| token.matches(&self.token))
    }
}

impl<S: NamedService> NamedService for Guard<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Guard<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if self.knows_token(&request) {
            if let Some(peer) = peer(request.extensions()) {
                peer.known.store(true, Ordering::Relaxed);
            }
            return Box::pin(self.inner.call(request));
        }
        let peer = peer_words(request.extensions());
        let grpc = is_grpc(&request);
        let given = request.headers().contains_key(http::header::AUTHORIZATION);
        let log = self.log.clone();
        Box::pin(async move {
            log.say(&format!(
                "refused {peer}: {}",
                if given { "wrong token" } else { "no token" }
            ));
            tokio::time::sleep(DELAY).await;
            // The reply does not say what was wrong, so that it helps nobody to guess.
            let mut reply = Status::unauthenticated("not authenticated").into_http();
            if !grpc {
                *reply.status_mut() = http::StatusCode::UNAUTHORIZED;
            }
            Ok(reply)
        })
    }
}

/// Whether the caller expects an answer of gRPC, in which a refusal has the status of a success.
fn is_grpc<B>(request: &http::Request<B>) -> bool {
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The connection's other end, with or without TLS.
pub(crate) fn peer(extensions: &http::Extensions) -> Option<&Peer> {
    extensions.get::<Peer>().or_else(|| {
        extensions
            .get::<TlsConnectInfo<Peer>>()
            .map(TlsConnectInfo::get_ref)
    })
}

/// The other end's address as text.
pub(crate) fn peer_words(extensions: &http::Extensions) -> String {
    peer(extensions).map_or_else(
        || "an unknown address".to_owned(),
        |peer| peer.address.to_string(),
    )
}
