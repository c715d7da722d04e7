//! The side that asks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Runtime;
use tonic::Code;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use super::UNIX;
use crate::coordinator::address::ShowToken;
use crate::wire::rpc::requests_client::RequestsClient;
use crate::wire::{MAX_MESSAGE_BYTES, Text};
use crate::{AgentError, HostAddress, causes};

/// Where requests are answered.
#[derive(Debug, Clone)]
pub enum RequestAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address, with token and certificate.
    Tcp(HostAddress),
}

impl RequestAddress {
    /// The path of a Unix socket in an address as [`crate::serve_requests`] reports it.
    pub fn socket(address: &str) -> Option<PathBuf> {
        address.strip_prefix(UNIX).map(PathBuf::from)
    }
}

/// A connection to a program that answers requests. Its calls block.
pub struct Requester {
    runtime: Runtime,
    client: RequestsClient<InterceptedService<Channel, ShowToken>>,
    address: String,
    timeout: Duration,
}

impl fmt::Debug for Requester {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Requester({})", self.address)
    }
}

impl Requester {
    /// Connects; this and every call have so much time.
    ///
    /// # Errors
    /// [`AgentError::NoAnswer`], or that the address, token or certificate cannot be used.
    pub fn connect(to: &RequestAddress, timeout: Duration) -> Result<Self, AgentError> {
        // On threads of its own: calls may come from threads of another runtime.
        let runtime = crate::runtime("requester", 1, "connection")?;
        let (address, token) = match to {
            RequestAddress::Unix(path) => (format!("{UNIX}{}", path.display()), None),
            RequestAddress::Tcp(host) => (host.address.clone(), Some(host.token.clone())),
        };
        let to = to.clone();
        let socket = address.clone();
        let connecting = async move {
            match to {
                RequestAddress::Tcp(host) => host.channel(timeout).await,
                RequestAddress::Unix(_) => {
                    let no_answer = |error: &dyn std::error::Error| AgentError::NoAnswer {
                        address: socket.clone(),
                        reason: causes(error),
                    };
                    let endpoint = Endpoint::from_shared(socket.clone());
                    let endpoint = endpoint.map_err(|error| no_answer(&error))?;
                    let channel = endpoint.connect_timeout(timeout).connect().await;
                    channel.map_err(|error| no_answer(&error))
                }
            }
        };
        let channel = wait(&runtime, connecting)?;
        let client = RequestsClient::with_interceptor(channel, ShowToken::new(token.as_ref()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self {
            runtime,
            client,
            address,
            timeout,
        })
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`AgentError::NoAnswer`]; whether the request arrived is then not known.
    pub fn call(&self, request: &str) -> Result<String, AgentError> {
        let mut client = self.client.clone();
        let text = request.to_owned();
        let timeout = self.timeout;
        let call = async move { tokio::time::timeout(timeout, client.call(Text { text })).await };
        let no_answer = |reason: String| AgentError::NoAnswer {
            address: self.address.clone(),
            reason,
        };
        match wait(&self.runtime, call) {
            Ok(Ok(answer)) => Ok(answer.into_inner().text),
            Ok(Err(status)) if status.code() == Code::Unauthenticated => {
                Err(no_answer("it does not accept this token".to_owned()))
            }
            Ok(Err(status)) => Err(no_answer(causes(&status))),
            Err(_) => Err(no_answer(format!(
                "none within {:.0} s",
                timeout.as_secs_f64()
            ))),
        }
    }
}

/// Runs a future on the runtime's own thread: the calling thread may belong to another runtime, in
/// which blocking on a future is not allowed.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        // The receiver is waiting.
        let _ = sender.send(future.await);
    });
    receiver.recv().expect("the runtime ends after this call")
}
