//! The error type of agents and coordinators.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why an agent or coordinator gave up. Errors about a host contain its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The agent cannot listen on its address.
    #[error(
        "cannot listen on {address}: {reason}; give another address with --listen, or port 0 for a free one"
    )]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The message of the operating system.
        reason: String,
    },
    /// The Unix socket cannot be made.
    #[error("cannot listen on {}: {reason}; name another path", path.display())]
    Socket {
        /// Where it was to be.
        path: PathBuf,
        /// What stands against it.
        reason: String,
    },
    /// A request was not answered.
    #[error("no answer from {address}: {reason}")]
    NoAnswer {
        /// Address as given.
        address: String,
        /// The message of the operating system or library.
        reason: String,
    },
    /// The address is not loopback and there is no TLS, so the token would be readable on the
    /// network.
    #[error(
        "{address} is not this machine alone, and without TLS everybody on the way could read the token: {fix}, \
         use ssh, or allow it on a network that is yours (--allow-plain-remote)"
    )]
    Plain {
        /// The address to listen on or to connect to.
        address: String,
        /// How this side enables TLS.
        fix: &'static str,
    },
    /// A certificate or key cannot be used.
    #[error("cannot use {what}: {reason}; certificates and keys must be PEM")]
    Tls {
        /// What was given, such as "--tls-cert and --tls-key".
        what: String,
        /// The message of the TLS library.
        reason: String,
    },
    /// No thread or socket could be created.
    #[error("cannot start the {what}: {reason}")]
    Runtime {
        /// The part of the program that could not be started.
        what: &'static str,
        /// The message of the operating system.
        reason: String,
    },
    /// The agent stopped serving because of an error.
    #[error("the agent on {address} ended: {reason}")]
    Serve {
        /// The address that it listened on.
        address: SocketAddr,
        /// The message of the gRPC library.
        reason: String,
    },
    /// A host's address or request is invalid, or does not fit the others.
    #[error("host {host}: {reason}")]
    BadHost {
        /// Name of the host.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No agent answers at the address.
    #[error(
        "host {host}: cannot reach an agent at {address}: {reason}; \
         is `tierloom bench --agent` running there, and does a firewall let us through?"
    )]
    Connect {
        /// Name of the host.
        host: String,
        /// Its address as given, `host:port`.
        address: String,
        /// The message of the operating system or library.
        reason: String,
    },
    /// The agent does not accept this token.
    #[error(
        "host {host}: the agent at {address} does not accept this token; give the one that it was started with"
    )]
    Unauthenticated {
        /// Name of the host.
        host: String,
        /// Its address as given, `host:port`.
        address: String,
    },
    /// Another coordinator has a session with the agent.
    #[error("host {host}: busy: in use by {by} for {}{}; try again later or stop that command", seconds(*since), ending(over))]
    Busy {
        /// Name of the host.
        host: String,
        /// Address of the other coordinator.
        by: String,
        /// Age of its session.
        since: Duration,
        /// Why that session ended, if it has ended and only its work has not.
        over: Option<String>,
    },
    /// Agent and coordinator are different versions of the program.
    #[error(
        "host {host}: its agent is tierloom {theirs}, this is tierloom {ours}; install the same version on both"
    )]
    Version {
        /// Name of the host.
        host: String,
        /// Version and protocol of this coordinator.
        ours: String,
        /// Version and protocol of the agent.
        theirs: String,
    },
    /// The agent died or can no longer be reached.
    #[error(
        "host {host} was lost while {doing}: {reason}; its result is lost, the other hosts were asked to stop"
    )]
    Lost {
        /// Name of the host.
        host: String,
        /// What it was doing, such as "preparing" or "running".
        doing: String,
        /// Why the session counts as lost.
        reason: String,
    },
    /// The runner on the host returned an error.
    #[error("host {host} failed while {during}: {message}")]
    Failed {
        /// Name of the host.
        host: String,
        /// "preparing", "waiting for the start" or "running".
        during: String,
        /// The error message of the runner.
        message: String,
    },
    /// The runner on the host panicked.
    #[error(
        "host {host} failed while {during}: the benchmark panicked: {message}; this is a defect of tierloom, please report it"
    )]
    Panicked {
        /// Name of the host.
        host: String,
        /// "preparing", "waiting for the start" or "running".
        during: String,
        /// The message of the panic.
        message: String,
    },
    /// The work was stopped and left no result.
    #[error("host {host} was stopped while {during}; there is no result of it")]
    Stopped {
        /// Name of the host.
        host: String,
        /// "preparing", "waiting for the start" or "running".
        during: String,
    },
    /// The agent refused a call in its current state.
    #[error("host {host} refused to {what}: {why}")]
    Refused {
        /// Name of the host.
        host: String,
        /// The call, such as "prepare" or "start".
        what: &'static str,
        /// The reason that the agent gave.
        why: String,
    },
    /// Work took too long although the host is alive.
    #[error("host {host}: no end of {doing} after {}", seconds(*after))]
    Timeout {
        /// Name of the host.
        host: String,
        /// What the host was doing at the end.
        doing: String,
        /// The limit that was exceeded.
        after: Duration,
    },
    /// The host's clock cannot be measured.
    #[error("host {host}: its clock cannot be measured: {reason}")]
    WallClock {
        /// Name of the host.
        host: String,
        /// Why no round trip gave an offset.
        reason: String,
    },
    /// A call of the coordinator came before the one that it depends on.
    #[error(
        "cannot {what} before anything was asked to {first}; this is a defect of tierloom, please report it"
    )]
    Order {
        /// The call that came too early.
        what: &'static str,
        /// The call that must come first.
        first: &'static str,
    },
    /// A request to stop ended the call; all hosts were stopped.
    #[error("stopped, and so were all hosts")]
    Interrupted,
    /// The coordinator has no session with a host of this name.
    #[error("no host is called {host}; there are: {known}")]
    UnknownHost {
        /// The name that was given.
        host: String,
        /// The names of all hosts, for the message.
        known: String,
    },
    /// An agent could not be started over ssh.
    #[error("cannot start an agent on {destination} over ssh: {reason}; try `{attempt}` by hand")]
    Ssh {
        /// The destination given to ssh.
        destination: String,
        /// What happened, with the last lines of ssh.
        reason: String,
        /// A command line that reproduces the problem.
        attempt: String,
    },
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn ending(over: &Option<String>) -> String {
    over.as_ref().map_or_else(String::new, |why| {
        format!(" ({why}; its work has not ended yet)")
    })
}
