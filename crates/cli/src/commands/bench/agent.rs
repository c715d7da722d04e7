//! `tierloom bench --agent`: runs the tasks that a coordinator requests.
//!
//! The protocol, its encryption and the token are in `tierloom_agent`; this file implements only
//! what a request means: a part of a benchmark run, prepared first and started at the time that the
//! coordinator gives. Requests of queries go to [`QueryRunner`].

use super::Args;
use crate::commands::agents::{of_agents, read};
use crate::commands::run::QueryRunner;
use crate::failure::Failure;
use crate::stop;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tierloom_agent::{
    AgentOptions, HostRunner, Log, Ready, RunnerError, Stop, TlsIdentity, Token, TokenOrigin,
    check_listen, serve as serve_agent, stop_at_end_of,
};
use tierloom_bench::plan::RunPlan;
use tierloom_bench::run::{self, BenchError, Control, Host, Part};
use tierloom_suite::hosts::HostTask;

/// What a coordinator requests of one host.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A part of a benchmark run: the plan's tasks for this host.
    Bench {
        /// The whole plan.
        plan: Box<RunPlan>,
        /// Name of this host in it.
        host: String,
    },
    /// A step of a workload of queries.
    Queries(Box<HostTask>),
}

impl Request {
    /// The request as JSON.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn text(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(Failure::runtime)
    }
}

/// Serves until Ctrl-C, or until standard input closes if the token came from there.
///
/// # Errors
/// A token, certificate or address that cannot be used.
pub fn serve(args: &Args) -> Result<(), Failure> {
    let stop = Stop::new();
    // Certificate and address are checked before a token file is created.
    let tls = tls(
        args.agent.tls_cert.as_deref(),
        args.agent.tls_key.as_deref(),
    )?;
    check_listen(args.agent.listen, tls.is_some(), args.agent.allow_plain)
        .map_err(Failure::input)?;
    let address = args.agent.listen;
    let bound = std::net::TcpListener::bind(address);
    drop(bound.map_err(|e| Failure::runtime(format!("--listen {address}: {e}")))?);
    let token = token(args, &stop)?;
    let mut host = Host::look().map_err(Failure::runtime)?;
    host.overwrite = args.overwrite;
    let name = args
        .agent
        .name
        .clone()
        .or_else(|| host.topology.hostname.clone());
    let mut options = AgentOptions::new(args.agent.listen, token);
    options.name = name.unwrap_or_else(|| "agent".into());
    options.allow_plain_remote = args.agent.allow_plain;
    options.log = Log::new(|line| note!("{line}"));
    options.tls = tls;
    stop::pass_on(stop.clone());
    let ready = |address| {
        // A launcher reads this line; if it closed the pipe, the agent serves all the same.
        let _ = crate::output::print(&format!("listening {address}\n"));
    };
    let runner = Arc::new(AgentRunner {
        queries: QueryRunner::new(host.topology.clone()),
        host: Arc::new(host),
    });
    serve_agent(options, runner, ready, stop).map_err(of_agents)
}

/// The certificate and key of a server, from their files.
///
/// # Errors
/// Bad input naming the file.
pub fn tls(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<TlsIdentity>, Failure> {
    let (Some(cert), Some(key)) = (cert, key) else {
        return Ok(None);
    };
    Ok(Some(TlsIdentity {
        cert_pem: read(cert)?,
        key_pem: read(key)?,
    }))
}

fn token(args: &Args, stop: &Stop) -> Result<Token, Failure> {
    if !args.agent.token_stdin {
        let (token, origin) =
            Token::find(args.agent.token_file.as_deref(), true).map_err(Failure::input)?;
        if let TokenOrigin::Created(path) = &origin {
            note!(
                "made a new token in {}; coordinators need the same file",
                path.display()
            );
        }
        return Ok(token);
    }
    let mut input = BufReader::new(std::io::stdin());
    let mut line = Vec::new();
    input
        .read_until(b'\n', &mut line)
        .map_err(|error| Failure::runtime(format!("cannot read the token from stdin: {error}")))?;
    let token = Token::read_line(line.as_slice(), "standard input").map_err(Failure::input)?;
    stop_at_end_of(input, stop.clone()).map_err(Failure::runtime)?;
    Ok(token)
}

/// Runs this host's part of benchmark runs and of workloads of queries.
struct AgentRunner {
    host: Arc<Host>,
    queries: QueryRunner,
}

impl HostRunner for AgentRunner {
    fn prepare(&self, request: &str, stop: &Stop) -> Result<Box<dyn Ready>, RunnerError> {
        let request: Request = serde_json::from_str(request)
            .map_err(|error| RunnerError::Failed(format!("the request cannot be read: {error}")))?;
        match request {
            Request::Bench { plan, host } => self.prepare_part(*plan, host, stop),
            Request::Queries(task) => self.queries.prepare(*task, stop),
        }
    }

    fn session_ended(&self) {
        self.queries.session_ended();
    }
}

impl AgentRunner {
    fn prepare_part(
        &self,
        plan: RunPlan,
        name: String,
        stop: &Stop,
    ) -> Result<Box<dyn Ready>, RunnerError> {
        let host = Arc::clone(&self.host);
        let (signal, ready) = channel();
        let (begin, begun) = channel();
        let control = CoordinatorControl {
            ready: Mutex::new(signal),
            begun: Mutex::new(begun),
            stop: stop.clone(),
        };
        let of = name.clone();
        let worker = std::thread::spawn(move || run::run_part(&plan, Some(&of), &host, &control));
        // The thread owns the sender, so an error here means that the thread ended before it was
        // ready.
        if ready.recv().is_err() {
            return Err(match worker.join() {
                Ok(Ok(_)) => RunnerError::Failed("the tasks ended before they began".into()),
                Ok(Err(error)) => failed(&error),
                Err(_) => RunnerError::Failed("preparing panicked".into()),
            });
        }
        Ok(Box::new(Prepared {
            name,
            begin,
            worker: Some(worker),
        }))
    }
}

fn failed(error: &BenchError) -> RunnerError {
    match error {
        BenchError::Stopped { .. } => RunnerError::Stopped,
        other => RunnerError::Failed(other.to_string()),
    }
}

/// A part whose threads are ready and wait for the start.
struct Prepared {
    name: String,
    begin: Sender<SystemTime>,
    worker: Option<std::thread::JoinHandle<Result<Part, BenchError>>>,
}

impl Ready for Prepared {
    fn summary(&self) -> String {
        serde_json::json!({ "host": self.name }).to_string()
    }

    fn run(mut self: Box<Self>, start: SystemTime, _stop: &Stop) -> Result<String, RunnerError> {
        let lost = || RunnerError::Failed("the worker ended before the start".into());
        self.begin.send(start).map_err(|_| lost())?;
        let worker = self.worker.take().ok_or_else(lost)?;
        let part = match worker.join() {
            Ok(part) => part.map_err(|error| failed(&error))?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        serde_json::to_string(&part)
            .map_err(|error| RunnerError::Failed(format!("the result as JSON: {error}")))
    }
}

/// Controls a part on behalf of its coordinator.
struct CoordinatorControl {
    ready: Mutex<Sender<()>>,
    begun: Mutex<Receiver<SystemTime>>,
    stop: Stop,
}

impl Control for CoordinatorControl {
    fn ready(&self) -> Option<SystemTime> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.send(()).ok()?;
        // An error means that the prepared part was dropped without being run.
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.recv().ok()
    }

    fn stopped(&self) -> bool {
        self.stop.requested()
    }
}
