//! The side that answers.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::UNIX;
use crate::server::doors::Doors;
use crate::server::guard::Guard;
use crate::server::log::Refusals;
use crate::server::{AgentOptions, builder, check_listen, last_calls, listener};
use crate::wire::rpc::requests_server::{Requests, RequestsServer};
use crate::wire::{MAX_MESSAGE_BYTES, Text};
use crate::{AgentError, Stop, causes};

/// Answers requests.
pub trait Responder: Send + Sync + 'static {
    /// The answer. May block.
    fn respond(&self, request: &str) -> String;
}

/// Where requests are taken.
#[derive(Clone)]
pub enum Listen {
    /// At a TCP address; name and lease of the options have no meaning here.
    Tcp(AgentOptions),
    /// At a Unix socket that is made there, for its owner alone.
    Unix(PathBuf),
}

impl fmt::Debug for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(options) => write!(out, "Tcp({})", options.listen),
            Self::Unix(path) => write!(out, "Unix({})", path.display()),
        }
    }
}

/// Checks that a Unix socket can be made at a path: nothing is there, or a socket that nobody
/// answers at.
///
/// # Errors
/// [`AgentError::Socket`].
pub fn check_socket(path: &Path) -> Result<(), AgentError> {
    let refused = |reason: &str| AgentError::Socket {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(&error.to_string())),
        Ok(found) if !found.file_type().is_socket() => Err(refused("something else is there")),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(refused("another program answers there")),
            Err(_) => Ok(()),
        },
    }
}

/// Answers requests until `stop` is requested.
///
/// `on_ready` receives the address, with the actual port. Blocks; must not be called from within an
/// async runtime. A socket file is removed again.
///
/// # Errors
/// As [`crate::serve`], or [`AgentError::Socket`].
pub fn serve_requests(
    listen: Listen,
    responder: Arc<dyn Responder>,
    on_ready: impl FnOnce(&str),
    stop: Stop,
) -> Result<(), AgentError> {
    let runtime = crate::runtime("requests", 2, "server")?;
    let service = RequestsServer::new(Relay(responder))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let served = runtime.block_on(async {
        match listen {
            Listen::Tcp(options) => serve_tcp(options, service, on_ready, &stop).await,
            Listen::Unix(path) => serve_unix(&path, service, on_ready, &stop).await,
        }
    });
    runtime.shutdown_background();
    served
}

async fn serve_tcp(
    options: AgentOptions,
    service: RequestsServer<Relay>,
    on_ready: impl FnOnce(&str),
    stop: &Stop,
) -> Result<(), AgentError> {
    let tls = options.tls.is_some();
    check_listen(options.listen, tls, options.allow_plain_remote)?;
    let (listener, address) = listener(options.listen).await?;
    let mut server = builder(&options)?;
    let refusals = Refusals::new(options.log);
    let (most, patience) = (options.connections, options.introduction);
    let incoming = Doors::new(listener, most, patience, refusals.clone());
    let router = server.add_service(Guard::new(service, options.token, refusals));
    on_ready(&address.to_string());
    let serving = router.serve_with_incoming_shutdown(incoming, stop.wait());
    let ended = tokio::select! {
        ended = serving => ended,
        () = last_calls(stop) => Ok(()),
    };
    ended.map_err(|error| AgentError::Serve {
        address,
        reason: causes(&error),
    })
}

async fn serve_unix(
    path: &Path,
    service: RequestsServer<Relay>,
    on_ready: impl FnOnce(&str),
    stop: &Stop,
) -> Result<(), AgentError> {
    check_socket(path)?;
    let failed = |reason: String| AgentError::Socket {
        path: path.to_owned(),
        reason,
    };
    // Bound under another name and then renamed, so that nobody meets a socket that everybody may
    // use, or that has no listener yet.
    let hidden = path.with_extension(format!("sock-{}", std::process::id()));
    let listener = UnixListener::bind(&hidden).map_err(|error| failed(error.to_string()))?;
    let owner_only = std::fs::Permissions::from_mode(0o600);
    let placed =
        std::fs::set_permissions(&hidden, owner_only).and_then(|()| std::fs::rename(&hidden, path));
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&hidden);
        return Err(failed(error.to_string()));
    }
    on_ready(&format!("{UNIX}{}", path.display()));
    let router = Server::builder().add_service(service);
    let incoming = UnixListenerStream::new(listener);
    let serving = router.serve_with_incoming_shutdown(incoming, stop.wait());
    let ended = tokio::select! {
        ended = serving => ended,
        () = last_calls(stop) => Ok(()),
    };
    // It does no harm if somebody else did.
    let _ = std::fs::remove_file(path);
    ended.map_err(|error| failed(causes(&error)))
}

/// The gRPC service.
struct Relay(Arc<dyn Responder>);

#[tonic::async_trait]
impl Requests for Relay {
    async fn call(&self, request: Request<Text>) -> Result<Response<Text>, Status> {
        let responder = Arc::clone(&self.0);
        let text = request.into_inner().text;
        let answered = tokio::task::spawn_blocking(move || responder.respond(&text)).await;
        let text = answered.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(Text { text }))
    }
}
