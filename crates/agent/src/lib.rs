//! Benchmark tasks on several hosts at once.
//!
//! An **agent** ([`serve`]) waits on a host until a **coordinator** ([`Coordinator`]) opens a
//! session with it. The coordinator has work prepared on all hosts, agrees with them on a start
//! time, waits for the results, and stops all of them when one fails. This crate does not know what
//! the work is: a [`HostRunner`] reads requests and returns results, both as JSON.
//!
//! ```text
//!  Coordinator                                   agent (one per host)
//!    hello: version, session  ───────────────>   one session at a time, ended by silence (lease)
//!    clock: 64 round trips    <──────────────>   offset and its bound, before every start
//!    prepare: request         ───────────────>   HostRunner::prepare ──> Ready::summary
//!    start: time on its clock ───────────────>   Ready::run(start)
//!    poll                     <───────────────   phase, result; keeps the session alive
//!    stop, bye                ───────────────>   Stop::request
//! ```
//! [`serve_requests`] and [`Requester`] carry requests of another program over the same kind of
//! connection, or over a Unix socket.
//!
//! Calls are gRPC with JSON messages. Each carries a token and has a deadline. They go over TLS, or
//! in plain text on loopback, through ssh, or where that is explicitly allowed.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use std::time::{Duration, SystemTime};
//! use tierloom_agent::{
//!     AgentOptions, Coordinator, HostAddress, HostRunner, Ready, RunnerError, Stop,
//!     SystemClock, Token, WallClock, serve,
//! };
//!
//! struct Echo(String);
//! struct Runner;
//! impl HostRunner for Runner {
//!     fn prepare(&self, request: &str, _: &Stop) -> Result<Box<dyn Ready>, RunnerError> {
//!         Ok(Box::new(Echo(request.to_owned())))
//!     }
//! }
//! impl Ready for Echo {
//!     fn summary(&self) -> String {
//!         "\"ready\"".to_owned()
//!     }
//!     fn run(self: Box<Self>, start: SystemTime, stop: &Stop) -> Result<String, RunnerError> {
//!         SystemClock.wait_until(start, stop).ok_or(RunnerError::Stopped)?;
//!         Ok(self.0)
//!     }
//! }
//!
//! let (token, end) = (Token::generate()?, Stop::new());
//! let options = AgentOptions::new("127.0.0.1:0".parse()?, token.clone());
//! let (tell, ready) = mpsc::channel();
//! let agent = std::thread::spawn({
//!     let end = end.clone();
//!     move || serve(options, Arc::new(Runner), |address| drop(tell.send(address)), end)
//! });
//! let host = HostAddress::new("a", ready.recv()?.to_string(), token);
//! let mut coordinator = Coordinator::connect(&[host], Duration::from_secs(10))?;
//! coordinator.prepare(vec![("a".to_owned(), "42".to_owned())])?;
//! coordinator.start(Duration::from_millis(200))?;
//! assert_eq!(coordinator.wait("a")?, "42");
//! drop(coordinator);
//! end.request();
//! agent.join().expect("no panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod coordinator;
mod error;
mod requests;
mod runner;
mod server;
mod ssh;
mod stop;
mod token;
mod wire;

pub use clock::{ClockRecord, SkewedClock, SystemClock, WallClock};
pub use coordinator::{
    Coordinator, CoordinatorOptions, HostAddress, HostLink, Watched, open_link, status_text,
};
pub use error::AgentError;
pub use requests::{Listen, RequestAddress, Requester, Responder, check_socket, serve_requests};
pub use runner::{HostRunner, Ready, RunnerError};
pub use server::{
    AgentOptions, DEFAULT_LEASE, GuardedServer, Log, TlsIdentity, check_listen, serve,
};
pub use ssh::{LISTENING, SshAgent, SshLaunch, stop_at_end_of};
pub use stop::Stop;
pub use token::{TOKEN_VARIABLE, Token, TokenError, TokenOrigin, default_token_file};

/// A runtime whose threads have that name; `what` it is for is named by the error.
fn runtime(
    name: &str,
    threads: usize,
    what: &'static str,
) -> Result<tokio::runtime::Runtime, AgentError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|error| AgentError::Runtime {
            what,
            reason: error.to_string(),
        })
}

/// An error and its causes in one line, without repeated texts.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}
