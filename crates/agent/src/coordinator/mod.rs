//! The coordinator: opens sessions with the agents of several hosts and has them work at the same
//! time.
//!
//! Its calls block; a small async runtime inside it polls the hosts in the background (`follow`).

pub(crate) mod address;
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

pub use address::{HostAddress, HostLink, Watched, open_link};
use follow::View;
use link::Link;
pub use link::status_text;
use run::Run;
use steps::{Patience, check_names, join_all};

use crate::{AgentError, ClockRecord, Stop, SystemClock, WallClock};

/// Settings of a coordinator, with usable defaults.
#[derive(Clone)]
#[non_exhaustive]
pub struct CoordinatorOptions {
    /// Limit for connecting and opening all sessions. 10 s by default.
    pub connect_timeout: Duration,
    /// Limit for preparing work on all hosts. 30 min by default.
    pub prepare_timeout: Duration,
    /// Limit for work to end after a request to stop. 15 s by default.
    pub settle_timeout: Duration,
    /// Ends every call that waits, with [`AgentError::Interrupted`], and stops all hosts.
    pub stop: Stop,
    /// The clock that start times are given in, and that the agents' clocks are measured against.
    pub clock: Arc<dyn WallClock>,
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

/// Sessions with agents on several hosts.
///
/// Runs are made one after another: [`prepare`](Self::prepare), [`start`](Self::start), then
/// [`wait`](Self::wait) for each host. Dropping the coordinator ends the sessions and all work.
///
/// As soon as a host is lost or its work fails, all other hosts are stopped, and every `wait` of
/// that run returns that first error. Must not be used from within an async runtime: all calls
/// block.
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
    /// Number of the phase that began the current work; `None` without work.
    since: Option<u64>,
}

impl Coordinator {
    /// Connects to all hosts at once, opens a session with each and measures their clocks.
    ///
    /// # Errors
    /// If a host cannot be reached, does not accept the token, is busy or runs another version; the
    /// sessions with the other hosts are closed.
    pub fn connect(hosts: &[HostAddress], timeout: Duration) -> Result<Self, AgentError> {
        let options = CoordinatorOptions {
            connect_timeout: timeout,
            ..CoordinatorOptions::default()
        };
        Self::connect_with(hosts, options)
    }

    /// Same as [`Coordinator::connect`], with all options.
    ///
    /// # Errors
    /// Same as [`Coordinator::connect`], and [`AgentError::Interrupted`] after a request to stop.
    pub fn connect_with(
        hosts: &[HostAddress],
        options: CoordinatorOptions,
    ) -> Result<Self, AgentError> {
        check_names(hosts)?;
        let runtime = crate::runtime("coordinator", 2, "coordinator")?;
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

    /// The hosts' names, in the order of [`Coordinator::connect`], each with the name that its
    /// agent gave itself.
    pub fn hosts(&self) -> Vec<(&str, &str)> {
        self.hosts
            .iter()
            .map(|host| (host.link.host.as_str(), host.link.agent.as_str()))
            .collect()
    }

    /// The clock offsets as last measured: when connecting, and again before each start.
    pub fn clocks(&self) -> Vec<ClockRecord> {
        self.hosts.iter().map(|host| host.clock.clone()).collect()
    }

    /// A flag that is set as soon as a host of the current run is lost or fails.
    ///
    /// It is for work on this host, which should then stop too. Each [`Coordinator::prepare`]
    /// begins a new run with a new flag.
    pub fn trouble(&self) -> Stop {
        self.run.flag()
    }

    /// Prepares work on hosts, all at the same time, from pairs of host and request.
    ///
    /// Returns pairs of host and summary in the same order.
    ///
    /// # Errors
    /// If a host refuses, fails or is lost, or if preparing takes longer than the limit; the others
    /// are then stopped.
    pub fn prepare(
        &mut self,
        requests: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, AgentError> {
        self.check_requests(&requests)?;
        self.runtime.block_on(self.run.begin());
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

    /// Starts the prepared hosts together, `in_` from now (at most a minute), and returns the start
    /// time on this host's clock.
    ///
    /// It measures the hosts' clocks again, so that each is sent the start time on its own clock.
    ///
    /// # Errors
    /// If a host refuses the time (it has already passed: allow more time) or is lost; all are then
    /// stopped.
    pub fn start(&mut self, in_: Duration) -> Result<SystemTime, AgentError> {
        let started = self.measure_clocks().and_then(|()| {
            let start = self.options.clock.now() + in_;
            self.send_start(start).map(|()| start)
        });
        self.or_settle(started)
    }

    /// Waits for the result of a host, however long that takes.
    ///
    /// Work that does not end by itself must be stopped first.
    ///
    /// # Errors
    /// The first failure of the run, on whichever host; the work of all hosts has then ended.
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
            // The cause of the stop is more useful than the fact of it; a result cut short by a
            // stop is dropped.
            (Some(first), _) => self.or_settle(Err(first)),
        }
    }

    /// Asks a host to stop its work. [`wait`](Self::wait) still returns its result.
    ///
    /// # Errors
    /// If the host is lost, or its name is unknown.
    pub fn stop(&mut self, host: &str) -> Result<(), AgentError> {
        let link = self.hosts[self.index(host)?].link.clone();
        self.runtime.block_on(link.stop()).map(|_| ())
    }

    /// Stops all work and waits until it has ended.
    ///
    /// # Errors
    /// [`AgentError::Timeout`] with the first host whose work continues. Hosts that are lost stop
    /// by their own lease and are not an error here.
    pub fn stop_all(&mut self) -> Result<(), AgentError> {
        let living = self
            .hosts
            .iter()
            .filter(|host| host.view.borrow().lost.is_none());
        let stopping = living.map(|host| host.link.stop()).collect();
        // An agent that is not reached stops when its lease expires. `options.stop` must not cut
        // this short, because it is what brought us here.
        self.runtime.block_on(join_all(stopping));
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
        // The followers would take the end of the sessions for a loss of the hosts.
        for host in &self.hosts {
            host.follower.abort();
        }
        let links: Vec<Link> = self.hosts.iter().map(|host| host.link.clone()).collect();
        let byes = links.iter().map(Link::bye).collect();
        self.runtime.block_on(join_all::<_>(byes));
    }
}
