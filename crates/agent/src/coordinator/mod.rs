//! The coordinator: has sessions with several agents and lets them work at the same time.

mod address;
mod follow;
mod link;
mod run;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use address::HostAddress;
use follow::View;
use link::Link;
use run::Run;
use steps::{Patience, check_names, join_all};

use crate::{AgentError, Clock, ClockRecord, Stop, SystemClock};

/// How a coordinator works. `default()` gives usual values.
#[derive(Clone)]
#[non_exhaustive]
pub struct CoordinatorOptions {
    /// For connecting and opening all sessions.
    pub connect_timeout: Duration,
    /// For preparing work on all hosts.
    pub prepare_timeout: Duration,
    /// For work to end after it was told to stop.
    pub settle_timeout: Duration,
    /// Ends all that waits, with [`AgentError::Interrupted`], and stops all hosts.
    pub stop: Stop,
    /// The clock that start times are given in.
    pub clock: Arc<dyn Clock>,
}

impl Default for CoordinatorOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            prepare_timeout: Duration::from_secs(1800),
            settle_timeout: Duration::from_secs(15),
            stop: Stop::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Sessions with agents on several hosts. Runs are made one after another: [`prepare`](Self::prepare), [`start`](Self::start),
/// [`wait`](Self::wait) for each host, and again. Dropping it ends the sessions, and with them all work.
///
/// As soon as a host is lost or its work fails, all others are told to stop; then every `wait` of that run gives that first error. Must not
/// be used from within an async runtime: all calls block.
pub struct Coordinator {
    hosts: Vec<Host>,
    run: Arc<Run>,
    options: CoordinatorOptions,
    runtime: Runtime,
}

struct Host {
    link: Link,
    view: watch::Receiver<View>,
    follower: JoinHandle<()>,
    clock: ClockRecord,
    /// Number of the phase that the current work began with; `None` without work.
    since: Option<u64>,
}

impl Coordinator {
    /// Connects to all hosts at once, opens a session with each and measures their clocks.
    ///
    /// # Errors
    /// When a host cannot be reached, does not accept the token, is busy or runs another version; the sessions with the others are closed.
    pub fn connect(hosts: &[HostAddress], timeout: Duration) -> Result<Self, AgentError> {
        let options = CoordinatorOptions {
            connect_timeout: timeout,
            ..CoordinatorOptions::default()
        };
        Self::connect_with(hosts, options)
    }

    /// [`Coordinator::connect`] with all options.
    ///
    /// # Errors
    /// As there; [`AgentError::Interrupted`] after a request to stop.
    pub fn connect_with(
        hosts: &[HostAddress],
        options: CoordinatorOptions,
    ) -> Result<Self, AgentError> {
        check_names(hosts)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("coordinator")
            .enable_all()
            .build()
            .map_err(|error| AgentError::Runtime {
                what: "coordinator",
                reason: error.to_string(),
            })?;
        let run = Arc::new(Run::new(runtime.handle().clone()));
        let mut coordinator = Self {
            hosts: Vec::new(),
            run,
            options,
            runtime,
        };
        coordinator.open(hosts)?;
        let links = coordinator
            .hosts
            .iter()
            .map(|host| host.link.clone())
            .collect();
        coordinator.run.set_links(links);
        coordinator.measure_clocks()?;
        Ok(coordinator)
    }

    /// Names of the hosts, in the order of [`Coordinator::connect`], each with what its agent calls itself.
    pub fn hosts(&self) -> Vec<(&str, &str)> {
        self.hosts
            .iter()
            .map(|host| (host.link.host.as_str(), host.link.agent.as_str()))
            .collect()
    }

    /// The clocks as last measured: when connecting, and anew before each start.
    pub fn clocks(&self) -> Vec<ClockRecord> {
        self.hosts.iter().map(|host| host.clock.clone()).collect()
    }

    /// Set as soon as a host of the current run is lost or fails. For work on this host, which should then stop too. Each
    /// [`Coordinator::prepare`] begins a new run with a new flag.
    pub fn trouble(&self) -> Stop {
        self.run.flag()
    }

    /// Lets hosts make work ready, all at the same time: pairs of host and request. Gives the summaries in the same order.
    ///
    /// # Errors
    /// When a host refuses, fails, or is lost; the others are stopped then.
    pub fn prepare(
        &mut self,
        requests: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, AgentError> {
        self.check_requests(&requests)?;
        self.run.begin();
        for host in &mut self.hosts {
            host.since = None;
        }
        let names: Vec<String> = requests.iter().map(|(name, _)| name.clone()).collect();
        let prepared = self.send_requests(requests).and_then(|()| {
            let deadline = Instant::now() + self.options.prepare_timeout;
            names
                .into_iter()
                .map(|name| self.summary(name, deadline))
                .collect()
        });
        self.or_settle(prepared)
    }

    /// Measures the clocks of the prepared hosts once more, agrees on a start time `in_` from now (at most a minute) and tells each host on
    /// its own clock. Gives the start on this host's clock.
    ///
    /// # Errors
    /// When a host refuses the time (it is past by then: give more time), or is lost; all are stopped then.
    pub fn start(&mut self, in_: Duration) -> Result<SystemTime, AgentError> {
        let started = self.measure_clocks().and_then(|()| {
            let start = self.options.clock.now() + in_;
            self.send_start(start).map(|()| start)
        });
        self.or_settle(started)
    }

    /// Waits for the result of a host, however long it takes. A host whose work has no end must be told to stop first.
    ///
    /// # Errors
    /// The first failure of the run, whichever host it was; this host's work has ended then.
    pub fn wait(&mut self, host: &str) -> Result<String, AgentError> {
        let index = self.index(host)?;
        let result = self.end(
            index,
            Patience {
                deadline: None,
                interruptible: true,
            },
        );
        match (self.run.first(), result) {
            (None, Err(AgentError::Interrupted)) => self.or_settle(Err(AgentError::Interrupted)),
            (None, result) => result,
            // What stopped us is told rather than that we were stopped; a result is cut short and worth nothing.
            (Some(first), _) => self.or_settle(Err(first)),
        }
    }

    /// Tells a host's work to stop. Its result is still to be waited for.
    ///
    /// # Errors
    /// When the host is lost.
    pub fn stop(&mut self, host: &str) -> Result<(), AgentError> {
        let link = self.hosts[self.index(host)?].link.clone();
        self.runtime.block_on(link.stop()).map(|_| ())
    }

    /// Tells all work to stop and waits until it has ended.
    ///
    /// # Errors
    /// [`AgentError::Timeout`] with the first host whose work goes on. Hosts that are lost stop by themselves and are no error here.
    pub fn stop_all(&mut self) -> Result<(), AgentError> {
        let living = self
            .hosts
            .iter()
            .filter(|host| host.view.borrow().lost.is_none());
        let told = living.map(|host| host.link.stop()).collect();
        // Whoever cannot be told ends by its lease. Not cut short by a request to stop: this is what that request wants.
        self.runtime.block_on(join_all(told));
        let whole = self.options.settle_timeout;
        let patience = Patience {
            deadline: Some((Instant::now() + whole, whole)),
            interruptible: false,
        };
        let mut first = Ok(());
        for index in 0..self.hosts.len() {
            let ended = self.end(index, patience);
            if let Err(error @ AgentError::Timeout { .. }) = ended {
                first = first.and(Err(error));
            }
        }
        first
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        for host in &self.hosts {
            host.follower.abort();
        }
        let links: Vec<Link> = self.hosts.iter().map(|host| host.link.clone()).collect();
        let byes = links.iter().map(Link::bye).collect();
        self.runtime.block_on(join_all::<_>(byes));
    }
}
