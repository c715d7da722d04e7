//! The other end of a connection, watched while a statement runs and nothing is read.

use socket2::{SockRef, Socket, TcpKeepalive};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A second descriptor of a connection's socket.
pub(crate) struct Peer(Socket);

/// Time without a word of the other end until it is asked for a sign of life, between two such
/// questions, and until unanswered data ends the connection.
const QUIET: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_secs(10);
const UNANSWERED: Duration = Duration::from_secs(60);

impl Peer {
    /// Of a TCP connection, whose other end may vanish without a word.
    pub fn over_network(socket: &impl AsFd) -> std::io::Result<Self> {
        let settings = SockRef::from(socket);
        let keepalive = TcpKeepalive::new()
            .with_time(QUIET)
            .with_interval(ASK_EVERY);
        settings.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        settings.set_tcp_user_timeout(Some(UNANSWERED))?;
        Peer::local(socket)
    }

    /// Of a connection within this machine.
    pub fn local(socket: &impl AsFd) -> std::io::Result<Self> {
        let copy: OwnedFd = socket.as_fd().try_clone_to_owned()?;
        Ok(Peer(Socket::from(copy)))
    }

    /// Whether the other end has closed the connection or cannot be reached any more.
    pub fn is_gone(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        // The descriptor does not block, as the one that it is a copy of.
        match self.0.peek(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
