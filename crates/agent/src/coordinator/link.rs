//! A session with one agent, and its calls, each with a deadline.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tonic::{Code, Response, Status};

use crate::clock::{Anchor, ClockRecord, RoundTrip, best_of, to_unix_ns};
use crate::coordinator::address::Client;
use crate::wire::{
    Bye, ClockQuery, Hello, HelloReply, PROTOCOL, Prepare, Reply, Start, StopWork, VERSION,
};
use crate::{AgentError, HostAddress, WallClock, causes};

/// Deadline of a call that the agent answers at once.
const CALL: Duration = Duration::from_secs(10);
/// Number of clock round trips: at most `MOST_TRIPS`, fewer if `TRIPS_TIME` passes first, but never
/// fewer than `LEAST_TRIPS`.
///
/// The shortest trip counts, so more of them give a better bound.
const MOST_TRIPS: usize = 64;
const TRIPS_TIME: Duration = Duration::from_millis(500);
const LEAST_TRIPS: usize = 8;
/// Pause before a failed call is repeated.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// An open session with an agent.
#[derive(Clone)]
pub(crate) struct Link {
    pub host: String,
    /// The name that the agent gave itself.
    pub agent: String,
    pub lease: Duration,
    pub(super) client: Client,
    pub(super) session: String,
}

impl Link {
    /// Connects and opens a session, all within `timeout`.
    ///
    /// Waits for another session that is already ending.
    pub async fn open(address: HostAddress, timeout: Duration) -> Result<Self, AgentError> {
        let deadline = Instant::now() + timeout;
        let mut client = address.connect(timeout).await?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let hello = Hello {
                protocol: PROTOCOL,
                version: VERSION.to_owned(),
            };
            let reply = match tokio::time::timeout(left, client.hello(hello)).await {
                Ok(Ok(reply)) => reply.into_inner(),
                Ok(Err(status)) if status.code() == Code::Unauthenticated => {
                    return Err(AgentError::Unauthenticated {
                        host: address.name,
                        address: address.address,
                    });
                }
                Ok(Err(status)) => return Err(unreachable(&address, status_text(&status))),
                Err(_) => return Err(unreachable(&address, "no answer in time".to_owned())),
            };
            match reply {
                HelloReply::Accepted {
                    session,
                    agent,
                    lease_ms,
                } => {
                    // Polls divide the lease, so it must not be close to zero.
                    let lease = Duration::from_millis(lease_ms.max(100));
                    return Ok(Self {
                        host: address.name,
                        agent,
                        lease,
                        client,
                        session,
                    });
                }
                HelloReply::OtherVersion { protocol, version } => {
                    return Err(AgentError::Version {
                        host: address.name,
                        ours: format!("{VERSION} (protocol {PROTOCOL})"),
                        theirs: format!("{version} (protocol {protocol})"),
                    });
                }
                HelloReply::Busy {
                    ending: Some(_), ..
                } if left > 2 * RETRY => tokio::time::sleep(RETRY).await,
                HelloReply::Busy { by, for_ms, ending } => {
                    let since = Duration::from_millis(for_ms);
                    return Err(AgentError::Busy {
                        host: address.name,
                        by,
                        since,
                        over: ending,
                    });
                }
            }
        }
    }

    /// Measures the offset of the agent's clock from `clock`.
    pub async fn measure_clock(
        &self,
        clock: Arc<dyn WallClock>,
    ) -> Result<ClockRecord, AgentError> {
        let mut client = self.client.clone();
        let begun = Instant::now();
        let mut trips = Vec::with_capacity(MOST_TRIPS);
        while trips.len() < MOST_TRIPS
            && (trips.len() < LEAST_TRIPS || begun.elapsed() < TRIPS_TIME)
        {
            let query = ClockQuery {
                session: self.session.clone(),
            };
            let anchor = Anchor::new(clock.as_ref());
            let reply = self
                .call("measuring its clock", CALL, client.clock(query))
                .await?;
            trips.push(RoundTrip {
                sent_ns: anchor.start_ns(),
                received_ns: reply.received_ns,
                replied_ns: reply.sent_ns,
                returned_ns: anchor.now_ns(),
            });
        }
        best_of(&self.host, &trips).ok_or_else(|| AgentError::WallClock {
            host: self.host.clone(),
            reason: "it is being set all the time".to_owned(),
        })
    }

    /// Asks the agent to prepare `request`. Returns the number of the phase that this began.
    pub async fn prepare(&self, request: String) -> Result<u64, AgentError> {
        let mut client = self.client.clone();
        let prepare = Prepare {
            session: self.session.clone(),
            request,
        };
        self.done("prepare", "preparing", CALL, client.prepare(prepare))
            .await
    }

    /// Sends the start time, on the agent's clock.
    pub async fn start(&self, at: SystemTime) -> Result<u64, AgentError> {
        let mut client = self.client.clone();
        let start = Start {
            session: self.session.clone(),
            at_ns: to_unix_ns(at),
        };
        self.done("start", "starting", CALL, client.start(start))
            .await
    }

    /// Asks the agent to stop its work.
    pub async fn stop(&self) -> Result<u64, AgentError> {
        let mut client = self.client.clone();
        let stop = StopWork {
            session: self.session.clone(),
        };
        self.done("stop", "stopping", CALL, client.stop(stop)).await
    }

    /// Ends the session. If the agent is not reached, its lease ends the session.
    pub async fn bye(&self) {
        let mut client = self.client.clone();
        let bye = Bye {
            session: self.session.clone(),
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), client.bye(bye)).await;
    }

    async fn done(
        &self,
        what: &'static str,
        doing: &str,
        limit: Duration,
        call: impl Future<Output = Result<Response<Reply>, Status>>,
    ) -> Result<u64, AgentError> {
        match self.call(doing, limit, call).await? {
            Reply::Done { sequence } => Ok(sequence),
            Reply::Refused { why } => Err(AgentError::Refused {
                host: self.host.clone(),
                what,
                why,
            }),
            Reply::NoSession { why } => Err(self.lost(doing, why)),
        }
    }

    async fn call<T>(
        &self,
        doing: &str,
        limit: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, AgentError> {
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.lost(doing, status_text(&status))),
            Err(_) => Err(self.lost(doing, format!("no answer for {:.0} s", limit.as_secs_f64()))),
        }
    }

    fn lost(&self, doing: &str, reason: String) -> AgentError {
        AgentError::Lost {
            host: self.host.clone(),
            doing: doing.to_owned(),
            reason,
        }
    }
}

fn unreachable(address: &HostAddress, reason: String) -> AgentError {
    AgentError::Connect {
        host: address.name.clone(),
        address: address.address.clone(),
        reason,
    }
}

/// The message of a status with all its causes.
pub fn status_text(status: &Status) -> String {
    let mut text = status.message().to_owned();
    if let Some(source) = status.source() {
        text = format!("{text}: {}", causes(source));
    }
    if text.is_empty() {
        status.code().description().to_owned()
    } else {
        text
    }
}
