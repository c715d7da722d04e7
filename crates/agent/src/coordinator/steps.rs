//! The steps that the coordinator's public calls consist of.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use crate::clock::{from_unix_ns, to_unix_ns};
use crate::coordinator::follow::{View, doing, failure};
use crate::coordinator::link::Link;
use crate::coordinator::{Coordinator, Host, HostAddress};
use crate::wire::{MAX_TEXT_BYTES, Phase};
use crate::{AgentError, ClockRecord};

impl Coordinator {
    pub(super) fn open(&mut self, addresses: &[HostAddress]) -> Result<(), AgentError> {
        let timeout = self.options.connect_timeout;
        let opening = addresses
            .iter()
            .cloned()
            .map(|address| Link::open(address, timeout))
            .collect();
        let mut first = Ok(());
        for link in self.together(opening)? {
            match link {
                Ok(link) => self.follow(link),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    pub(super) fn follow(&mut self, link: Link) {
        let (sender, view) = watch::channel(View {
            sequence: 0,
            phase: Phase::Idle,
            result: Arc::default(),
            lost: None,
        });
        let follower = self
            .runtime
            .spawn(link.clone().follow(sender, Arc::clone(&self.run)));
        let clock = ClockRecord {
            host: link.host.clone(),
            offset_ns: 0,
            // Not measured yet; `measure_clocks` follows before anything uses it.
            uncertainty_ns: u64::MAX,
            round_trips: 0,
        };
        self.hosts.push(Host {
            link,
            view,
            follower,
            clock,
            since: None,
        });
    }

    pub(super) fn check_requests(&self, requests: &[(String, String)]) -> Result<(), AgentError> {
        let bad = |name: &str, reason: String| AgentError::BadHost {
            host: name.to_owned(),
            reason,
        };
        for (number, (name, request)) in requests.iter().enumerate() {
            let host = &self.hosts[self.index(name)?];
            if requests[..number].iter().any(|(other, _)| other == name) {
                return Err(bad(
                    name,
                    "it was given two requests; one host has one".to_owned(),
                ));
            }
            if request.len() > MAX_TEXT_BYTES {
                let size = request.len() >> 20;
                return Err(bad(
                    name,
                    format!("its request of {size} MiB does not fit a message"),
                ));
            }
            if let Some(lost) = &host.view.borrow().lost {
                return Err(lost.clone());
            }
        }
        Ok(())
    }

    pub(super) fn send_requests(
        &mut self,
        requests: Vec<(String, String)>,
    ) -> Result<(), AgentError> {
        let mut sending = Vec::with_capacity(requests.len());
        for (name, request) in requests {
            let index = self.index(&name)?;
            let link = self.hosts[index].link.clone();
            sending.push(async move { (index, link.prepare(request).await) });
        }
        let mut first = Ok(());
        for (index, sent) in self.together(sending)? {
            match sent {
                Ok(sequence) => self.hosts[index].since = Some(sequence),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    pub(super) fn summary(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<(String, String), AgentError> {
        let index = self.index(&name)?;
        let patience = Patience {
            deadline: Some((deadline, self.options.prepare_timeout)),
            interruptible: true,
        };
        let summary = self.watch(index, patience, |view| match &view.phase {
            Phase::Ready { summary } => Some(summary.clone()),
            _ => None,
        })?;
        Ok((name, summary))
    }

    /// Waits until the current work of a host has ended, and returns its result.
    pub(super) fn end(&self, index: usize, patience: Patience) -> Result<String, AgentError> {
        self.watch(index, patience, |view| {
            matches!(view.phase, Phase::Finished { .. }).then(|| view.result.to_string())
        })
    }

    /// Waits until `pick` accepts a phase of the current work, or until that work fails.
    pub(super) fn watch<T>(
        &self,
        index: usize,
        patience: Patience,
        pick: impl Fn(&View) -> Option<T>,
    ) -> Result<T, AgentError> {
        let host = &self.hosts[index];
        let name = &host.link.host;
        let since = host.since.ok_or(AgentError::Order {
            what: "wait for its end",
            first: "prepare",
        })?;
        let mut view = host.view.clone();
        let news = async {
            loop {
                let view_now = view.borrow_and_update().clone();
                // Older phases belong to work of an earlier run.
                if view_now.sequence >= since {
                    if let Some(picked) = pick(&view_now) {
                        return Ok(picked);
                    }
                    if let Some(error) = failure(name, &view_now.phase) {
                        return Err(error);
                    }
                }
                if let Some(lost) = view_now.lost {
                    return Err(lost);
                }
                if view.changed().await.is_err() && view.borrow().lost.is_none() {
                    return Err(AgentError::Interrupted);
                }
            }
        };
        let trouble = self.run.flag();
        self.runtime.block_on(async {
            tokio::select! {
                // A result that is already here counts, even if the run has failed or timed out
                // meanwhile.
                biased;
                news = news => news,
                () = trouble.wait(), if patience.interruptible => {
                    Err(self.run.first().unwrap_or(AgentError::Interrupted))
                }
                () = self.options.stop.wait(), if patience.interruptible => Err(AgentError::Interrupted),
                after = patience.run_out() => Err(AgentError::Timeout {
                    host: name.clone(),
                    doing: doing(&host.view.borrow().phase).to_owned(),
                    after,
                }),
            }
        })
    }

    pub(super) fn send_start(&mut self, start: SystemTime) -> Result<(), AgentError> {
        let start_ns = to_unix_ns(start);
        let prepared = self.hosts.iter().filter(|host| host.since.is_some());
        let sending: Vec<_> = prepared
            .map(|host| {
                let there = from_unix_ns(start_ns.saturating_add(host.clock.offset_ns));
                let link = host.link.clone();
                async move { link.start(there).await }
            })
            .collect();
        if sending.is_empty() {
            return Err(AgentError::Order {
                what: "start",
                first: "prepare",
            });
        }
        self.together(sending)?
            .into_iter()
            .find_map(Result::err)
            .map_or(Ok(()), Err)
    }

    /// Measures the clocks of the hosts that have work, or of all hosts if none has.
    pub(super) fn measure_clocks(&mut self) -> Result<(), AgentError> {
        let any = self.hosts.iter().any(|host| host.since.is_some());
        let mut measuring = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            if !any || host.since.is_some() {
                let (link, clock) = (host.link.clone(), Arc::clone(&self.options.clock));
                measuring.push(async move { (index, link.measure_clock(clock).await) });
            }
        }
        for (index, clock) in self.together(measuring)? {
            self.hosts[index].clock = clock?;
        }
        Ok(())
    }

    /// After a failure, stops all work before the error is returned; the first failure of the run
    /// replaces it.
    pub(super) fn or_settle<T>(&mut self, outcome: Result<T, AgentError>) -> Result<T, AgentError> {
        outcome.map_err(|error| {
            // Work that does not stop is reported when the next run is prepared there.
            let _ = self.stop_all();
            self.run.first().unwrap_or(error)
        })
    }

    /// Runs futures concurrently, until a request to stop.
    pub(super) fn together<F: Future>(&self, what: Vec<F>) -> Result<Vec<F::Output>, AgentError> {
        let stop = self.options.stop.clone();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = stop.wait() => Err(AgentError::Interrupted),
                all = join_all(what) => Ok(all),
            }
        })
    }

    pub(super) fn index(&self, name: &str) -> Result<usize, AgentError> {
        self.hosts
            .iter()
            .position(|host| host.link.host == name)
            .ok_or_else(|| AgentError::UnknownHost {
                host: name.to_owned(),
                known: self
                    .hosts
                    .iter()
                    .map(|host| host.link.host.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}

/// Limits of one wait.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// When the wait ends, and the length of the whole limit for the message.
    pub deadline: Option<(Instant, Duration)>,
    /// Whether a failure elsewhere or a request to stop ends the wait.
    pub interruptible: bool,
}

impl Patience {
    async fn run_out(self) -> Duration {
        match self.deadline {
            Some((deadline, whole)) => {
                tokio::time::sleep_until(deadline.into()).await;
                whole
            }
            None => std::future::pending().await,
        }
    }
}

pub(super) fn check_names(hosts: &[HostAddress]) -> Result<(), AgentError> {
    for (number, host) in hosts.iter().enumerate() {
        host.check()?;
        if hosts[..number].iter().any(|other| other.name == host.name) {
            return Err(AgentError::BadHost {
                host: host.name.clone(),
                reason: "two hosts have this name; give each its own".to_owned(),
            });
        }
    }
    Ok(())
}

/// Polls all futures to their end and returns their outputs in order.
pub(super) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, output) in &mut slots {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    slots.into_iter().filter_map(|(_, output)| output).collect()
}
