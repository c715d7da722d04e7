//! The server: addresses to listen on, connections, and their end.

use super::access::Passwords;
use super::catalog::{self, Rewriter};
use super::clients::Clients;
use super::connection::{Connection, Server};
use super::copy_in::Copying;
use super::extended::Extended;
use super::http::{self, MetricsOptions};
use super::idle::Incoming;
use super::peer::Peer;
use super::simple::Simple;
use super::startup::Entrance;
use super::tls::Certificate;
use super::{PASSWORD_VARIABLE, ServeError};
use pgwire::api::auth::StartupHandler;
use pgwire::api::cancel::CancelHandler;
use pgwire::api::copy::CopyHandler;
use pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use pgwire::api::{PgWireServerHandlers, RandomPidSecretKeyGenerator};
use pgwire::tokio::{TlsAcceptor, process_socket, process_socket_unix};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierloom_sql::SharedEngine;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address with a port; port 0 for a free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket; clients find `FOLDER/.s.PGSQL.5432` by `FOLDER`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Address::Unix(PathBuf::from(text)));
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            format!("{text:?} is no address; expected IP:PORT as in 127.0.0.1:5432, or the path of a Unix socket")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

/// How a server is reached, and by whom.
#[derive(Clone)]
pub struct ServeOptions {
    /// At least one.
    pub addresses: Vec<Address>,
    /// `None` if no password is needed, which only connections of this machine may have.
    pub passwords: Option<Passwords>,
    /// `None` for connections without TLS.
    pub certificate: Option<Certificate>,
    /// Whether connections from other machines may do without TLS.
    pub allow_plain: bool,
    /// Names that may change settings of the machine and use its files; with no passwords and no
    /// names, everybody may.
    pub operators: Vec<String>,
    /// Clients at the same time.
    pub connections: usize,
    /// `None` for a server without metrics.
    pub metrics: Option<MetricsOptions>,
}

/// Time for connections to end by themselves when the server ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// By clients of PostgreSQL.
    pub addresses: Vec<Address>,
    /// The address of its metrics, as a URL.
    pub metrics: Option<String>,
}

/// Answers clients until `stop` is set; `ready` gets the addresses once clients can connect.
///
/// Statements that run then are stopped.
///
/// # Errors
/// Bad input before anything is started; an address that cannot be listened on.
pub fn serve(
    engine: SharedEngine,
    options: &ServeOptions,
    ready: impl FnOnce(&Reached),
    stop: &AtomicBool,
) -> Result<(), ServeError> {
    check(options)?;
    let clients = Clients::default();
    catalog::add(&engine, &clients)?;
    let with_names = options.passwords.is_some() || !options.operators.is_empty();
    let server = Arc::new(Server {
        engine,
        started: Instant::now(),
        counted: Arc::default(),
        clients,
        passwords: options.passwords.clone(),
        certificate: options.certificate.as_ref().map(|c| c.pem.clone()),
        must_encrypt: !options.allow_plain,
        operators: with_names.then(|| BTreeSet::from_iter(options.operators.iter().cloned())),
        connections: options.connections,
        rewriter: Arc::new(Rewriter::new()),
        keys: Arc::new(RandomPidSecretKeyGenerator::default()),
    });
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        // A thread for the statement of every connection, and for statements beside it.
        .max_blocking_threads(2 * options.connections + 16)
        .thread_name("tierloom-socket")
        .thread_stack_size(4 << 20)
        .enable_all()
        .build()
        .map_err(|e| ServeError::failed(format!("cannot start threads: {e}")))?;
    let acceptor = options.certificate.as_ref().map(|c| c.acceptor.clone());
    let served = runtime.block_on(async {
        let listeners = listeners(options).await?;
        let mut connections = JoinSet::new();
        let mut metrics = None;
        if let Some(wanted) = &options.metrics {
            let (incoming, url) = metrics_socket(wanted, options.certificate.as_ref()).await?;
            let token = wanted.token.clone();
            connections.spawn(http::answer(Arc::clone(&server), token, incoming));
            metrics = Some(url);
        }
        let addresses = listeners.iter().map(|l| l.address.clone()).collect();
        ready(&Reached { addresses, metrics });
        for listener in listeners {
            let (server, acceptor) = (Arc::clone(&server), acceptor.clone());
            connections.spawn(listener.accept_all(server, acceptor));
        }
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        connections.abort_all();
        end(&server).await;
        Ok(())
    });
    for address in &options.addresses {
        if let Address::Unix(path) = address {
            let _ = std::fs::remove_file(path);
        }
    }
    runtime.shutdown_timeout(PATIENCE);
    served
}

/// Stops all statements and waits for them.
async fn end(server: &Server) {
    let start = tokio::time::Instant::now();
    while server.engine.load().0 > 0 && start.elapsed() < PATIENCE {
        server.clients.end_all();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn check(options: &ServeOptions) -> Result<(), ServeError> {
    if options.addresses.is_empty() {
        return Err(ServeError::input("there is no address to listen on"));
    }
    for address in options.addresses.iter().filter(|a| !a.is_local()) {
        if options.passwords.is_none() {
            return Err(ServeError::input(format!(
                "{address} can be reached from other machines, and no password is needed; give names and passwords with --password-file, or one password in {PASSWORD_VARIABLE}"
            )));
        }
        check_encrypted(options, address)?;
    }
    let metrics = options.metrics.as_ref();
    if let Some(MetricsOptions { address, token }) = metrics
        && !address.ip().is_loopback()
    {
        if token.is_none() {
            return Err(ServeError::input(format!(
                "metrics at {address} can be reached from other machines, and no token is needed; give one with --metrics-token-file"
            )));
        }
        check_encrypted(options, &format_args!("metrics at {address}"))?;
    }
    if let Some(passwords) = &options.passwords
        && let Some(unknown) = options.operators.iter().find(|name| !passwords.knows(name))
    {
        return Err(ServeError::input(format!(
            "--operator {unknown}: there is no password for this name"
        )));
    }
    Ok(())
}

/// Refuses what other machines reach without encryption.
fn check_encrypted(options: &ServeOptions, what: &dyn fmt::Display) -> Result<(), ServeError> {
    if options.certificate.is_some() || options.allow_plain {
        return Ok(());
    }
    Err(ServeError::input(format!(
        "{what} can be reached from other machines, and nothing is encrypted; give a certificate with --tls-cert and --tls-key, or allow it with --allow-plain-clients"
    )))
}

async fn metrics_socket(
    options: &MetricsOptions,
    certificate: Option<&Certificate>,
) -> Result<(Incoming, String), ServeError> {
    let failed = |e: std::io::Error| {
        ServeError::failed(format!("cannot listen on {}: {e}", options.address))
    };
    let socket = TcpListener::bind(options.address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    let scheme = if certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let incoming = Incoming::new(socket, certificate.map(|c| c.https.clone())).map_err(failed)?;
    Ok((incoming, format!("{scheme}://{address}/")))
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct Listener {
    address: Address,
    socket: Socket,
}

async fn listeners(options: &ServeOptions) -> Result<Vec<Listener>, ServeError> {
    let mut listeners = Vec::new();
    for address in &options.addresses {
        let failed =
            |e: std::io::Error| ServeError::failed(format!("cannot listen on {address}: {e}"));
        listeners.push(match address {
            Address::Tcp(at) => {
                let socket = TcpListener::bind(at).await.map_err(failed)?;
                Listener {
                    address: Address::Tcp(socket.local_addr().map_err(failed)?),
                    socket: Socket::Tcp(socket),
                }
            }
            Address::Unix(path) => Listener {
                address: address.clone(),
                socket: Socket::Unix(unix(path, options.passwords.is_some()).map_err(failed)?),
            },
        });
    }
    Ok(listeners)
}

/// A Unix socket; one that a server has left behind is replaced.
fn unix(path: &Path, everybody: bool) -> std::io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    // Without passwords the permission to use the socket is what lets clients in.
    let mode = if everybody { 0o777 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(socket)
}

impl Listener {
    async fn accept_all(self, server: Arc<Server>, acceptor: Option<TlsAcceptor>) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let server = Arc::clone(&server);
            let accepted = match &self.socket {
                Socket::Tcp(socket) => match socket.accept().await {
                    Ok((stream, from)) => {
                        connections.spawn(tcp(stream, from, server, acceptor.clone()));
                        true
                    }
                    Err(_) => false,
                },
                Socket::Unix(socket) => match socket.accept().await {
                    Ok((stream, _)) => {
                        connections.spawn(local(stream, server));
                        true
                    }
                    Err(_) => false,
                },
            };
            if !accepted {
                // Usually too many open files, which ends when a connection does.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn tcp(
    stream: TcpStream,
    from: SocketAddr,
    server: Arc<Server>,
    acceptor: Option<TlsAcceptor>,
) {
    let Ok(peer) = Peer::over_network(&stream) else {
        return;
    };
    let connection = Arc::new(Connection::new(
        server,
        peer,
        from.to_string(),
        from.ip().is_loopback(),
    ));
    if let Some(handlers) = Handlers::new(&connection) {
        // What went wrong concerns this client alone, who has been told or is gone.
        let _ = process_socket(stream, acceptor, handlers).await;
    }
}

async fn local(stream: UnixStream, server: Arc<Server>) {
    let Ok(peer) = Peer::local(&stream) else {
        return;
    };
    let connection = Arc::new(Connection::new(server, peer, "local".to_owned(), true));
    if let Some(handlers) = Handlers::new(&connection) {
        let _ = process_socket_unix(stream, handlers).await;
    }
}

/// What answers the messages of one connection.
struct Handlers {
    entrance: Arc<Entrance>,
    simple: Arc<Simple>,
    extended: Arc<Extended>,
    copying: Arc<Copying>,
    clients: Arc<Clients>,
}

impl Handlers {
    fn new(connection: &Arc<Connection>) -> Option<Self> {
        Some(Handlers {
            entrance: Arc::new(Entrance::new(connection).ok()?),
            simple: Arc::new(Simple(Arc::clone(connection))),
            extended: Arc::new(Extended(Arc::clone(connection))),
            copying: Arc::new(Copying(Arc::clone(connection))),
            clients: Arc::new(connection.server.clients.clone()),
        })
    }
}

impl PgWireServerHandlers for Handlers {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        Arc::clone(&self.simple)
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        Arc::clone(&self.extended)
    }

    fn copy_handler(&self) -> Arc<impl CopyHandler> {
        Arc::clone(&self.copying)
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        Arc::clone(&self.entrance)
    }

    fn cancel_handler(&self) -> Arc<impl CancelHandler> {
        Arc::clone(&self.clients)
    }
}
