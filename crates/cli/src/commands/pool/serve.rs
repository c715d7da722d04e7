//! `tierloom pool serve`: one process manages a pool for others.

use super::args::ServeArgs;
use crate::commands::bench::agent::tls;
use crate::failure::Failure;
use crate::{output, stop};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tierloom_agent::{
    AgentError, AgentOptions, Listen, Log, RequestAddress, Responder, Stop, Token, TokenOrigin,
    check_listen, check_socket, serve_requests,
};
use tierloom_pool::{ClientEvent, OpenOptions, Pool, PoolError, PoolServer};

/// How often clients are looked after.
const ROUND: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let listen = listen(args)?;
    let options = OpenOptions {
        lease: args.lease.duration().unwrap_or(Duration::MAX),
        ..args.access.access().options
    };
    let pool = options.open(&args.pool)?;
    let stop = Stop::new();
    stop::pass_on(stop.clone());
    let server = Arc::new(Answering::default());
    let failed: Arc<Mutex<Option<PoolError>>> = Arc::default();
    let announced = args.announce.clone();
    let ready = {
        let (server, stop, failed) = (Arc::clone(&server), stop.clone(), Arc::clone(&failed));
        move |address: &str| {
            let address = announced.unwrap_or_else(|| address.to_owned());
            let started = server.start(&pool, &address, &options);
            match started {
                Ok(()) => {
                    // Somebody may wait for this line; if nobody reads it, that is no harm.
                    let _ = output::print(&format!("serving {address}\n"));
                    std::thread::spawn(move || server.look_after(&stop));
                }
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    stop.request();
                }
            }
        }
    };
    let served = serve_requests(
        listen,
        Arc::clone(&server) as Arc<dyn Responder>,
        ready,
        stop,
    );
    server.end();
    let error = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match error {
        Some(error) => Err(error.into()),
        None => served.map_err(of_address),
    }
}

/// What answers, once the address is known.
#[derive(Default)]
struct Answering(Mutex<Option<Arc<PoolServer>>>);

impl Answering {
    fn start(&self, pool: &Pool, address: &str, options: &OpenOptions) -> Result<(), PoolError> {
        let server = pool.serve(address, options)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(server));
        Ok(())
    }

    fn server(&self) -> Option<Arc<PoolServer>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn look_after(&self, stop: &Stop) {
        let mut last_error = None;
        while !stop.wait_timeout(ROUND) {
            let Some(server) = self.server() else {
                return;
            };
            match server.look_after() {
                Ok(events) => events.iter().for_each(|event| note!("{}", words(event))),
                // Another host has taken over: what clients ask is refused from now on.
                Err(PoolError::Fenced { .. }) => {
                    note!("another host has taken the pool over; this server ends");
                    return stop.request();
                }
                Err(error) => {
                    let error = Some(error.to_string());
                    if error != last_error {
                        note!("warning: {}", error.as_deref().unwrap_or_default());
                        last_error = error;
                    }
                }
            }
        }
    }
}

impl Responder for Answering {
    fn respond(&self, request: &str) -> String {
        self.server()
            .map_or_else(String::new, |server| server.answer(request))
    }
}

fn words(event: &ClientEvent) -> String {
    match event {
        ClientEvent::Joined(name) => format!("{name} joined"),
        ClientEvent::Left(name) => format!("{name} left"),
        ClientEvent::Ended(name) => format!("{name} ended without leaving; what it had is free"),
        ClientEvent::Fenced(name) => format!(
            "{name} has been silent for two leases: fenced, and what it was writing is in \
             quarantine"
        ),
    }
}

/// Where to listen, checked as far as that needs nothing of the pool.
fn listen(args: &ServeArgs) -> Result<Listen, Failure> {
    let Some(text) = &args.listen else {
        return beside(&args.pool).and_then(unix);
    };
    if let Some(path) = RequestAddress::socket(text) {
        return unix(path);
    }
    let address: SocketAddr = text.parse().map_err(|_| {
        Failure::input(format!(
            "--listen {text}: expected unix:PATH or ADDR:PORT, as in unix:/run/demo.sock or \
             10.0.0.7:7272"
        ))
    })?;
    let tls = tls(args.tls_cert.as_deref(), args.tls_key.as_deref())?;
    let plain = args.access.allow_plain();
    check_listen(address, tls.is_some(), plain).map_err(of_address)?;
    if address.ip().is_unspecified() && args.announce.is_none() {
        return Err(Failure::input(format!(
            "--listen {text} is every address of this host; --announce HOST:PORT says which one \
             clients connect to"
        )));
    }
    let found = Token::find(args.access.token_file(), true).map_err(Failure::input)?;
    if let TokenOrigin::Created(path) = &found.1 {
        let path = path.display();
        note!("made a new token in {path}; clients on other hosts need the same file");
    }
    let mut options = AgentOptions::new(address, found.0);
    options.tls = tls;
    options.allow_plain_remote = plain;
    options.log = Log::new(|line| note!("{line}"));
    Ok(Listen::Tcp(options))
}

fn unix(path: PathBuf) -> Result<Listen, Failure> {
    check_socket(&path).map_err(of_address)?;
    Ok(Listen::Unix(path))
}

/// The socket of a pool in a file: beside it.
fn beside(pool: &Path) -> Result<PathBuf, Failure> {
    let path = std::fs::canonicalize(pool).unwrap_or_else(|_| pool.to_owned());
    if path.starts_with("/dev/") && !path.starts_with("/dev/shm/") {
        return Err(Failure::input(
            "--listen says where requests are taken, as in unix:/run/demo.sock or 10.0.0.7:7272",
        ));
    }
    let mut name = path.into_os_string();
    name.push(".sock");
    Ok(name.into())
}

fn of_address(error: AgentError) -> Failure {
    match error {
        AgentError::Serve { .. } | AgentError::Runtime { .. } => Failure::runtime(error),
        error => Failure::input(error),
    }
}
