//! The agent: waits for a coordinator and does its work.

mod doors;
mod guard;
mod log;
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
use crate::{AgentError, Clock, HostRunner, Stop, SystemClock, Token};

use doors::Doors;
use guard::Guard;
pub(crate) use guard::SCHEME;
pub use log::Log;
use log::Refusals;
use service::Calls;
use session::Agent;

#[cfg(test)]
mod tests;

/// Without a word from the coordinator for this long a session ends, unless options say otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(5);
/// How long an agent that ends waits for work that was told to stop.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A certificate with its key.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The certificate chain, PEM.
    pub cert_pem: String,
    /// The private key, PEM. Never shown by `Debug`.
    pub key_pem: String,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TlsIdentity(..)")
    }
}

/// How an agent serves. [`AgentOptions::new`] gives usual values.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentOptions {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What a coordinator must know.
    pub token: Token,
    /// For TLS; needed on anything but loopback unless `allow_plain_remote` is set.
    pub tls: Option<TlsIdentity>,
    /// What the agent calls itself to coordinators.
    pub name: String,
    /// Serve without TLS where others might listen in.
    pub allow_plain_remote: bool,
    /// A session ends when nothing was heard of its coordinator for so long.
    pub lease: Duration,
    /// A connection that has not shown the token by then is closed.
    pub introduction: Duration,
    /// The clock that start times are in.
    pub clock: Arc<dyn Clock>,
    /// Where sessions and refusals are told.
    pub log: Log,
}

impl AgentOptions {
    /// No TLS, a lease of [`DEFAULT_LEASE`], this machine's clock, no log.
    pub fn new(listen: SocketAddr, token: Token) -> Self {
        Self {
            listen,
            token,
            tls: None,
            name: "agent".to_owned(),
            allow_plain_remote: false,
            lease: DEFAULT_LEASE,
            introduction: doors::PATIENCE,
            clock: Arc::new(SystemClock),
            log: Log::silent(),
        }
    }
}

/// Refuses to listen on `address` in plain text where others might listen in. A front end asks
/// before it makes a token.
///
/// # Errors
/// [`AgentError::Plain`].
pub fn check_listen(address: SocketAddr, tls: bool, allow_plain: bool) -> Result<(), AgentError> {
    if tls || address.ip().is_loopback() || allow_plain {
        return Ok(());
    }
    Err(AgentError::Plain {
        address: address.to_string(),
        fix: "give --tls-cert and --tls-key",
    })
}

/// Serves coordinators, one at a time, until `stop`. `on_ready` gets the address with the port that was taken. Blocks; must not be called
/// from within an async runtime.
///
/// # Errors
/// When the address cannot be listened on, is not loopback although there is neither TLS nor permission for plain text, or certificate
/// and key cannot be used.
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("agent-net")
        .enable_all()
        .build()
        .map_err(|error| AgentError::Runtime {
            what: "agent",
            reason: error.to_string(),
        })?;
    let AgentOptions {
        clock, lease, log, ..
    } = options.clone();
    let agent = Arc::new(Agent::new(runner, clock, lease, log));
    let served = runtime.block_on(serve_until(options, Arc::clone(&agent), on_ready, stop));
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
    let mut server = Server::builder()
        .max_concurrent_streams(64)
        .max_frame_size(1 << 20)
        .http2_max_header_list_size(16 << 10)
        // Connections of hosts that vanished are closed, so that they do not pile up.
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)));
    if let Some(tls) = &options.tls {
        let identity = Identity::from_pem(&tls.cert_pem, &tls.key_pem);
        let config = ServerTlsConfig::new()
            .identity(identity)
            .timeout(options.introduction);
        server = server.tls_config(config).map_err(|error| AgentError::Tls {
            what: "--tls-cert and --tls-key".to_owned(),
            reason: crate::causes(&error),
        })?;
    }
    let cannot_listen = |error: std::io::Error| AgentError::Listen {
        address: options.listen,
        reason: error.to_string(),
    };
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let refusals = Refusals::new(options.log);
    let incoming = Doors::new(listener, options.introduction, refusals.clone());
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
        // Connections that stay open do not keep an agent from ending.
        () = async { stop.wait().await; tokio::time::sleep(Duration::from_secs(2)).await; } => Ok(()),
    };
    watcher.abort();
    ended.map_err(|error| AgentError::Serve {
        address,
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
