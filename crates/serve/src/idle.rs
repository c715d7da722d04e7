//! Connections of HTTP and gRPC: a limited number, encrypted where there is a certificate, and none
//! that keeps its place without sending anything.

use axum::serve::Listener;
use pgwire::tokio::TlsAcceptor;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Time for a client to agree on encryption.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A connection is closed after this time without a byte from its client. Longer than the usual
/// time between two scrapes, and than that between two signs of life that clients of gRPC are asked
/// for.
const IDLE: Duration = Duration::from_secs(75);

/// What arrives at an address.
pub(crate) struct Incoming {
    address: SocketAddr,
    connections: mpsc::Receiver<(Connection, SocketAddr)>,
    /// Accepts connections until this is dropped.
    _accepting: JoinSet<()>,
}

impl Incoming {
    /// Accepts `most` connections at a time; must be called within a runtime.
    ///
    /// # Errors
    /// An address that the socket does not tell.
    pub fn new(
        socket: TcpListener,
        acceptor: Option<TlsAcceptor>,
        most: usize,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let (send, connections) = mpsc::channel(1);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(socket, acceptor, most, send));
        Ok(Incoming {
            address,
            connections,
            _accepting: accepting,
        })
    }
}

async fn accept(
    socket: TcpListener,
    acceptor: Option<TlsAcceptor>,
    most: usize,
    send: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(most));
    let mut greeted = JoinSet::new();
    loop {
        while greeted.try_join_next().is_some() {}
        // Before the next is accepted: others wait in the queue of the kernel.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, from)) = socket.accept().await else {
            // Usually too many open files, which ends when a connection does.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Answers are written as a whole, so that nothing is gained by waiting for more.
        let _ = stream.set_nodelay(true);
        let (acceptor, send) = (acceptor.clone(), send.clone());
        greeted.spawn(async move {
            if let Some(io) = greet(stream, acceptor).await {
                let _ = send.send((Connection::new(io, from, place), from)).await;
            }
        });
    }
}

async fn greet(stream: TcpStream, acceptor: Option<TlsAcceptor>) -> Option<Box<dyn Duplex>> {
    let Some(acceptor) = acceptor else {
        return Some(Box::new(stream));
    };
    let agreed = timeout(HANDSHAKE, acceptor.accept(stream)).await;
    let encrypted: Box<dyn Duplex> = Box::new(agreed.ok()?.ok()?);
    Some(encrypted)
}

impl Listener for Incoming {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The task that accepts ends only with this.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that ends when its client is silent for too long.
pub(crate) struct Connection {
    /// The other end.
    pub from: SocketAddr,
    io: Box<dyn Duplex>,
    silent: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(io: Box<dyn Duplex>, from: SocketAddr, place: OwnedSemaphorePermit) -> Self {
        Connection {
            from,
            io,
            silent: Box::pin(sleep(IDLE)),
            _place: place,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.io).poll_read(context, buffer) {
            this.silent.as_mut().reset(Instant::now() + IDLE);
            return Poll::Ready(read);
        }
        ready!(this.silent.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
