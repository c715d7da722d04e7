//! The agent: listens, authenticates callers, and runs the work of one coordinator at a time.
//!
//! ```text
//! Doors (connections) ──> Guard (token) ──> Calls (gRPC) ──> Agent (session) ──> work (thread)
//!                                                              ^ watch_lease ends a silent session
//! ```

pub(crate) mod doors;
pub(crate) mod guard;
mod guarded;
pub(crate) mod log;
mod service;
mod session;
mod work;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::wire::{MAX_MESSAGE_BYTES, rpc::agent_server::AgentServer};
use crate::{AgentError, HostRunner, Stop, SystemClock, Token, WallClock};

use doors::Doors;
use guard::Guard;
pub(crate) use guard::SCHEME;
pub use guarded::GuardedServer;
pub use log::Log;
use log::Refusals;
use service::Calls;
use session::Agent;

#[cfg(test)]
mod tests;

/// Default lease: a session ends if its coordinator is silent for this long.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(5);
/// How long open connections may go on after a stop was requested.
const LAST_CALLS: Duration = Duration::from_secs(2);
/// How long an agent that ends waits for its work to stop.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// The certificate of an agent with its private key.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The certificate chain as PEM.
    pub cert_pem: String,
    /// The private key as PEM. `Debug` does not show it.
    pub key_pem: String,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TlsIdentity(..)")
    }
}

/// Settings of an agent. [`AgentOptions::new`] fills in defaults.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentOptions {
    /// Address and port to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The token that coordinators must send.
    pub token: Token,
    /// Certificate for TLS; required on anything but loopback unless `allow_plain_remote` is set.
    pub tls: Option<TlsIdentity>,
    /// The name that the agent gives coordinators for itself.
    pub name: String,
    /// Allows plain text, with a readable token, on addresses other than loopback.
    pub allow_plain_remote: bool,
    /// A session ends if its coordinator is silent for this long.
    pub lease: Duration,
    /// A connection that has not sent the token within this time is closed.
    pub introduction: Duration,
    /// Most connections at a time; further ones are closed at once.
    pub connections: usize,
    /// The clock that start times refer to.
    pub clock: Arc<dyn WallClock>,
    /// Receives messages about sessions and rejected callers.
    pub log: Log,
}

impl AgentOptions {
    /// No TLS, a lease of [`DEFAULT_LEASE`], this machine's clock, and no log.
    pub fn new(listen: SocketAddr, token: Token) -> Self {
        Self {
            listen,
            token,
            tls: None,
            name: "agent".to_owned(),
            allow_plain_remote: false,
            lease: DEFAULT_LEASE,
            introduction: doors::PATIENCE,
            connections: doors::MOST,
            clock: Arc::new(SystemClock),
            log: Log::silent(),
        }
    }
}

/// Checks that listening on `address` would not send the token in plain text over a network.
///
/// A front end calls this before it creates a token.
///
/// # Errors
/// [`AgentError::Plain`] unless there is TLS, the address is loopback, or plain text is allowed.
pub fn check_listen(address: SocketAddr, tls: bool, allow_plain: bool) -> Result<(), AgentError> {
    if tls || address.ip().is_loopback() || allow_plain {
        return Ok(());
    }
    Err(AgentError::Plain {
        address: address.to_string(),
        fix: "give --tls-cert and --tls-key",
    })
}

/// Serves coordinators, one at a time, until `stop` is requested.
///
/// `on_ready` receives the address with the actual port. Blocks; must not be called from within an
/// async runtime.
///
/// # Errors
/// If the address cannot be listened on, or is not loopback and has neither TLS nor permission for
/// plain text, or if the certificate or key cannot be used.
pub fn serve(
    options: AgentOptions,
    runner: Arc<dyn HostRunner>,
    on_ready: impl FnOnce(SocketAddr),
    stop: Stop,
) -> Result<(), AgentError> {
    check_listen(
        options.listen,
        options.tls.is_some(),
        options.allow_plain_remote,
    )?;
    let runtime = crate::runtime("agent-net", 2, "agent")?;
    let AgentOptions {
        clock, lease, log, ..
    } = options.clone();
    let agent = Arc::new(Agent::new(runner, clock, lease, log));
    let served = runtime.block_on(serve_until(options, Arc::clone(&agent), on_ready, stop));
    // Work may hold large regions and threads, so let it end before the process does.
    agent.close_any("the agent ends");
    let deadline = Instant::now() + LAST_WAIT;
    while !agent.is_free() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    runtime.shutdown_background();
    served
}

async fn serve_until(
    options: AgentOptions,
    agent: Arc<Agent>,
    on_ready: impl FnOnce(SocketAddr),
    stop: Stop,
) -> Result<(), AgentError> {
    let mut server = builder(&options)?;
    let (listener, address) = listener(options.listen).await?;
    let refusals = Refusals::new(options.log);
    let (most, patience) = (options.connections, options.introduction);
    let incoming = Doors::new(listener, most, patience, refusals.clone());
    let calls = Calls {
        agent: Arc::clone(&agent),
        name: options.name,
    };
    let service = AgentServer::new(calls)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let router = server.add_service(Guard::new(service, options.token, refusals));
    let watcher = tokio::spawn(watch_lease(Arc::clone(&agent)));
    on_ready(address);
    let serving = router.serve_with_incoming_shutdown(incoming, stop.wait());
    let ended = tokio::select! {
        ended = serving => ended,
        () = last_calls(&stop) => Ok(()),
    };
    watcher.abort();
    ended.map_err(|error| AgentError::Serve {
        address,
        reason: crate::causes(&error),
    })
}

/// Ends some time after a stop was requested: open connections must not keep a server from ending.
pub(crate) async fn last_calls(stop: &Stop) {
    stop.wait().await;
    tokio::time::sleep(LAST_CALLS).await;
}

/// A listener, with its actual port.
pub(crate) async fn listener(address: SocketAddr) -> Result<(TcpListener, SocketAddr), AgentError> {
    let cannot_listen = |error: std::io::Error| AgentError::Listen {
        address,
        reason: error.to_string(),
    };
    let listener = TcpListener::bind(address).await.map_err(cannot_listen)?;
    let actual = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, actual))
}

/// A server with TLS if there is a certificate.
pub(crate) fn builder(options: &AgentOptions) -> Result<Server, AgentError> {
    let server = Server::builder()
        .max_concurrent_streams(64)
        .max_frame_size(1 << 20)
        .http2_max_header_list_size(16 << 10)
        // Closes the connections of hosts that vanished, so that they do not accumulate.
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)));
    let Some(tls) = &options.tls else {
        return Ok(server);
    };
    let identity = Identity::from_pem(&tls.cert_pem, &tls.key_pem);
    let config = ServerTlsConfig::new()
        .identity(identity)
        .timeout(options.introduction);
    server.tls_config(config).map_err(|error| AgentError::Tls {
        what: "--tls-cert and --tls-key".to_owned(),
        reason: crate::causes(&error),
    })
}

async fn watch_lease(agent: Arc<Agent>) {
    let step = (agent.lease / 10).clamp(Duration::from_millis(10), Duration::from_millis(500));
    loop {
        tokio::time::sleep(step).await;
        agent.expire();
    }
}
