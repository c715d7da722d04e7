//! Flight SQL: batches of columns over gRPC.
//!
//! ```text
//!  socket ─ tonic ─► entrance.rs  the session of a request (sessions.rs), or the handshake
//!                ├─► front.rs     calls of Flight; those of Flight SQL go to
//!                ├─► service.rs   commands of the protocol
//!                │     ├─ statements.rs  statements, prepared ones and their tickets
//!                │     ├─ listings.rs    catalogs, schemas, tables, keys (facts.rs: the server)
//!                │     └─ ingest.rs      rows of the client become a table
//!                │         ▼
//!                │   running.rs   a thread with the engine's session ── channel ──► batches
//!                └── results.rs   batches as messages
//! ```
//! Passwords, sessions, limits, settings and the running of statements are those of `--pg`.

mod actions;
mod arrivals;
mod entrance;
mod facts;
mod front;
mod ingest;
mod listings;
mod results;
mod service;
mod sessions;
mod statements;
mod status;
mod store;

use super::idle::{Connection, Incoming};
use super::session::Server;
use arrow_flight::flight_service_server::FlightServiceServer;
use axum::middleware;
use front::Front;
use service::Service;
use sessions::{Link, Sessions};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tonic::service::Routes;
use tonic::transport::server::Connected;

/// The largest message that a client may send: the rows of an ingest come as large as its batches.
const LARGEST_MESSAGE: usize = 256 << 20;

/// Bytes on their way to the server, of one stream and of one connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How often a client is asked for a sign of life, and how long it has for that.
const ASK_EVERY: Duration = Duration::from_secs(20);

/// Calls of one connection at the same time.
const STREAMS: u32 = 200;

/// Answers clients until the task is aborted.
pub(crate) async fn answer(server: Arc<Server>, incoming: Incoming) {
    let sessions = Sessions::new(server);
    let service = FlightServiceServer::new(Front(Service::new(Arc::clone(&sessions))))
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(usize::MAX);
    let guard = middleware::from_fn_with_state(Arc::clone(&sessions), entrance::guarded);
    let router = Routes::new(service).into_axum_router().layer(guard);
    let incoming = futures::stream::unfold(incoming, |mut incoming| async move {
        let (connection, _) = axum::serve::Listener::accept(&mut incoming).await;
        Some((Ok::<_, io::Error>(connection), incoming))
    });
    let served = tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(ASK_EVERY))
        .http2_keepalive_timeout(Some(ASK_EVERY))
        .max_concurrent_streams(STREAMS)
        .add_routes(Routes::from(router))
        .serve_with_incoming(incoming);
    // It ends with an error for no connection that there can be.
    let _ = tokio::join!(served, sessions.end_idle());
}

impl Connected for Connection {
    type ConnectInfo = Arc<Link>;

    fn connect_info(&self) -> Arc<Link> {
        Arc::new(Link::new(self.from))
    }
}
