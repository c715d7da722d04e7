//! The server: addresses to listen on, connections, and their end.

use super::ServeError;
use super::access::Passwords;
use super::catalog::{self, Rewriter};
use super::clients::Clients;
use super::connection::Connection;
use super::copy_in::Copying;
use super::extended::Extended;
use super::flight;
use super::http;
use super::idle::Incoming;
use super::options::{Address, ServeOptions, check};
use super::peer::Peer;
use super::pg_catalog::Users;
use super::session::Server;
use super::simple::Simple;
use super::startup::Entrance;
use pgwire::api::auth::StartupHandler;
use pgwire::api::cancel::CancelHandler;
use pgwire::api::copy::CopyHandler;
use pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use pgwire::api::{PgWireServerHandlers, RandomPidSecretKeyGenerator};
use pgwire::tokio::{TlsAcceptor, process_socket, process_socket_unix};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierloom_sql::SharedEngine;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// Time for connections to end by themselves when the server ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// Connections to metrics at the same time.
const SCRAPERS: usize = 64;

/// Where a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// By clients of PostgreSQL.
    pub addresses: Vec<Address>,
    /// By clients of Flight SQL, as a URL.
    pub flight: Option<String>,
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
    let server = server_of(engine, options)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        // A thread for the statement of every connection, and for statements beside it.
        .max_blocking_threads(4 * options.connections + 16)
        .thread_name("tierloom-socket")
        .thread_stack_size(4 << 20)
        .enable_all()
        .build()
        .map_err(|e| ServeError::failed(format!("cannot start threads: {e}")))?;
    let acceptor = options.certificate.as_ref().map(|c| c.acceptor.clone());
    let served = runtime.block_on(async {
        let listeners = listeners(options).await?;
        let mut connections = JoinSet::new();
        let (mut metrics, mut flight) = (None, None);
        if let Some(wanted) = &options.metrics {
            let acceptor = options.certificate.as_ref().map(|c| c.https.clone());
            let schemes = ["http", "https"];
            let (incoming, url) = opened(wanted.address, acceptor, SCRAPERS, schemes).await?;
            let wanted = wanted.clone();
            connections.spawn(http::answer(Arc::clone(&server), wanted, incoming));
            metrics = Some(url);
        }
        if let Some(address) = options.flight {
            let acceptor = options.certificate.as_ref().map(|c| c.grpc.clone());
            // A client may have several, and those that are refused have one until they are told.
            let most = 2 * options.connections + 16;
            let schemes = ["grpc", "grpc+tls"];
            let (incoming, url) = opened(address, acceptor, most, schemes).await?;
            connections.spawn(flight::answer(Arc::clone(&server), incoming));
            flight = Some(url);
        }
        let addresses = listeners.iter().map(|l| l.address.clone()).collect();
        ready(&Reached {
            addresses,
            flight,
            metrics,
        });
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

/// What all sessions of a server have in common, with the catalog added to its engine.
fn server_of(engine: SharedEngine, options: &ServeOptions) -> Result<Arc<Server>, ServeError> {
    let clients = Clients::default();
    let with_names = options.passwords.is_some() || !options.operators.is_empty();
    let operators = with_names.then(|| BTreeSet::from_iter(options.operators.iter().cloned()));
    let named = options.passwords.as_ref().map(Passwords::names);
    let users = Users {
        named: named.unwrap_or_default(),
        operators: operators.clone(),
        clients: clients.clone(),
    };
    catalog::add(&engine, &clients, users)?;
    Ok(Arc::new(Server {
        engine,
        started: Instant::now(),
        counted: Arc::default(),
        clients,
        passwords: options.passwords.clone(),
        certificate: options.certificate.as_ref().map(|c| c.pem.clone()),
        must_encrypt: !options.allow_plain,
        operators,
        connections: options.connections,
        rewriter: Arc::new(Rewriter::new()),
        keys: Arc::new(RandomPidSecretKeyGenerator::default()),
    }))
}

/// Stops all statements and waits for them.
async fn end(server: &Server) {
    let start = tokio::time::Instant::now();
    while server.engine.load().0 > 0 && start.elapsed() < PATIENCE {
        server.clients.end_all();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Listens for HTTP or gRPC, with TLS if there is an acceptor; also the URL, in the first scheme
/// without TLS and in the second with it.
async fn opened(
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    most: usize,
    [plain, encrypted]: [&str; 2],
) -> Result<(Incoming, String), ServeError> {
    let failed = |e: std::io::Error| ServeError::failed(format!("cannot listen on {address}: {e}"));
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    let scheme = if acceptor.is_some() { encrypted } else { plain };
    let incoming = Incoming::new(socket, acceptor, most).map_err(failed)?;
    let slash = if scheme.starts_with("http") { "/" } else { "" };
    Ok((incoming, format!("{scheme}://{address}{slash}")))
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
            clients: Arc::new(connection.session.server.clients.clone()),
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
