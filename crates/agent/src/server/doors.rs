//! Accepted connections: limits their number, and closes those that do not authenticate in time.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::server::log::Refusals;

/// Maximum number of open connections, if nothing else is asked for.
///
/// A coordinator needs one; further ones are closed at once, so that strangers cannot exhaust the
/// file descriptors.
pub(crate) const MOST: usize = 64;
/// A connection that has not sent the token within this time is closed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The stream of accepted connections.
pub(crate) struct Doors {
    listener: TcpListener,
    most: usize,
    places: Arc<Semaphore>,
    patience: Duration,
    log: Refusals,
}

impl Doors {
    /// At most `most` connections at a time, each with `patience` to send the token.
    pub fn new(listener: TcpListener, most: usize, patience: Duration, log: Refusals) -> Self {
        Self {
            listener,
            most,
            places: Arc::new(Semaphore::new(most)),
            patience,
            log,
        }
    }
}

impl Stream for Doors {
    type Item = io::Result<Visitor>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let (stream, address) = match ready!(self.listener.poll_accept(context)) {
                Ok(accepted) => accepted,
                // The error is of that one connection; the server continues.
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                let most = self.most;
                self.log
                    .say(&format!("refused {address}: {most} connections are open"));
                continue;
            };
            // A delay of small messages would enlarge the uncertainty of the clocks.
            if stream.set_nodelay(true).is_err() {
                continue;
            }
            return Poll::Ready(Some(Ok(Visitor {
                stream,
                peer: Peer {
                    address,
                    known: Arc::default(),
                },
                patience: Box::pin(tokio::time::sleep(self.patience)),
                _place: place,
            })));
        }
    }
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// Whether a valid token was received on this connection.
    pub known: Arc<AtomicBool>,
}

/// One connection, which counts against the limit until it is dropped.
pub(crate) struct Visitor {
    stream: TcpStream,
    peer: Peer,
    patience: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connected for Visitor {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Visitor {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.peer.known.load(Ordering::Relaxed)
            && this.patience.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut this.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Visitor {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
