//! What can go wrong between hosts.

use std::net::SocketAddr;
use std::time::Duration;

/// Why agent or coordinator gave up. Errors about a host name it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The agent cannot listen.
    #[error(
        "cannot listen on {address}: {reason}; give another address with --listen, or port 0 for a free one"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: String,
    },
    /// Traffic and token would be readable on the network.
    #[error(
        "{address} is not this machine alone, and without TLS everybody on the way could read the token: {fix}, \
         use ssh, or allow it on a network that is yours (--allow-plain-remote)"
    )]
    Plain {
        /// The address.
        address: String,
        /// What this side has to give for TLS.
        fix: &'static str,
    },
    /// Certificate or key cannot be used.
    #[error("cannot use {what}: {reason}; certificates and keys must be PEM")]
    Tls {
        /// "--tls-cert and --tls-key", "the certificate given for host a".
        what: String,
        /// What the library said.
        reason: String,
    },
    /// No threads or sockets to be had.
    #[error("cannot start the {what}: {reason}")]
    Runtime {
        /// What should have started.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The agent stopped serving.
    #[error("the agent on {address} ended: {reason}")]
    Serve {
        /// Its address.
        address: SocketAddr,
        /// What the library said.
        reason: String,
    },
    /// The addresses make no set of hosts.
    #[error("host {host}: {reason}")]
    BadHost {
        /// Its name.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// Nobody answers there.
    #[error(
        "host {host}: cannot reach an agent at {address}: {reason}; \
         is `tierloom bench --agent` running there, and does a firewall let us through?"
    )]
    Connect {
        /// Its name.
        host: String,
        /// Where.
        address: String,
        /// What the system or library said.
        reason: String,
    },
    /// The agent has another token.
    #[error(
        "host {host}: the agent at {address} does not accept this token; give the one that it was started with"
    )]
    Unauthenticated {
        /// Its name.
        host: String,
        /// Where.
        address: String,
    },
    /// Somebody else uses the host.
    #[error("host {host}: busy: in use by {by} for {}{}; try again later or stop that command", seconds(*since), ending(over))]
    Busy {
        /// Its name.
        host: String,
        /// The other coordinator's address.
        by: String,
        /// How long it has had the host.
        since: Duration,
        /// Set if that session is over and its work is still ending: why it is over.
        over: Option<String>,
    },
    /// The two programs differ.
    #[error(
        "host {host}: its agent is tierloom {theirs}, this is tierloom {ours}; install the same version on both"
    )]
    Version {
        /// Its name.
        host: String,
        /// Our version and protocol.
        ours: String,
        /// The agent's.
        theirs: String,
    },
    /// The agent died, or the way to it did.
    #[error(
        "host {host} was lost while {doing}: {reason}; its result is lost, the other hosts were told to stop"
    )]
    Lost {
        /// Its name.
        host: String,
        /// "preparing", "running", ...
        doing: String,
        /// What happened.
        reason: String,
    },
    /// The runner there gave an error.
    #[error("host {host} failed while {during}: {message}")]
    Failed {
        /// Its name.
        host: String,
        /// "preparing", "waiting for the start" or "running".
        during: String,
        /// The runner's message.
        message: String,
    },
    /// The runner there panicked.
    #[error(
        "host {host} failed while {during}: the benchmark panicked: {message}; this is a defect of tierloom, please report it"
    )]
    Panicked {
        /// Its name.
        host: String,
        /// "preparing", "waiting for the start" or "running".
        during: String,
        /// The panic's message.
        message: String,
    },
    /// The work there was stopped and left no result.
    #[error("host {host} was stopped while {during}; there is no result of it")]
    Stopped {
        /// Its name.
        host: String,
        /// "preparing", "waiting for the start" or "running".
        during: String,
    },
    /// The agent would not do it.
    #[error("host {host} refused to {what}: {why}")]
    Refused {
        /// Its name.
        host: String,
        /// "prepare", "start", ...
        what: &'static str,
        /// Its reason.
        why: String,
    },
    /// An answer took too long although the host is alive.
    #[error("host {host}: no end of {doing} after {}", seconds(*after))]
    Timeout {
        /// Its name.
        host: String,
        /// What was waited for.
        doing: String,
        /// How long.
        after: Duration,
    },
    /// The clock there cannot be measured.
    #[error("host {host}: its clock cannot be measured: {reason}")]
    Clock {
        /// Its name.
        host: String,
        /// Why.
        reason: String,
    },
    /// Calls in the wrong order.
    #[error(
        "cannot {what} before anything was asked to {first}; this is a defect of tierloom, please report it"
    )]
    Order {
        /// What was asked for.
        what: &'static str,
        /// What comes first.
        first: &'static str,
    },
    /// Somebody here asked to stop.
    #[error("stopped; all hosts were told so")]
    Interrupted,
    /// No such host.
    #[error("no host is called {host}; there are: {known}")]
    UnknownHost {
        /// The name.
        host: String,
        /// The names there are.
        known: String,
    },
    /// An agent could not be started over ssh.
    #[error("cannot start an agent on {destination} over ssh: {reason}; try `{attempt}` by hand")]
    Ssh {
        /// Where.
        destination: String,
        /// What happened, with what ssh said.
        reason: String,
        /// A command line that shows the trouble.
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
