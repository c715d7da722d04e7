//! The gRPC calls, mapped to the methods of [`Agent`].

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};

use crate::clock::{from_unix_ns, to_unix_ns};
use crate::server::guard::peer_words;
use crate::server::session::{Agent, Rejection};
use crate::wire::{
    Bye, ClockQuery, ClockReply, Fetch, FetchReply, Hello, HelloReply, PROTOCOL, Poll, PollReply,
    Prepare, Reply, Start, StopWork, VERSION, rpc::agent_server,
};

/// Longest time that a poll is held open.
const LONGEST_POLL: Duration = Duration::from_secs(10);

/// The gRPC service of an agent.
pub(crate) struct Calls {
    pub agent: Arc<Agent>,
    pub name: String,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl agent_server::Agent for Calls {
    async fn hello(&self, request: Request<Hello>) -> Answer<HelloReply> {
        let peer = peer_words(request.extensions());
        let hello = request.into_inner();
        if (hello.protocol, hello.version.as_str()) != (PROTOCOL, VERSION) {
            self.agent.log.say(&format!(
                "refused {peer}: it is tierloom {} with protocol {}, this is {VERSION} with {PROTOCOL}",
                hello.version.escape_debug(), hello.protocol
            ));
            return Ok(Response::new(HelloReply::OtherVersion {
                protocol: PROTOCOL,
                version: VERSION.to_owned(),
            }));
        }
        let session = session_id()?;
        Ok(Response::new(
            match self.agent.open(session.clone(), &peer) {
                Ok(()) => HelloReply::Accepted {
                    session,
                    agent: self.name.clone(),
                    lease_ms: u64::try_from(self.agent.lease.as_millis()).unwrap_or(u64::MAX),
                },
                Err(taken) => HelloReply::Busy {
                    by: taken.by,
                    for_ms: taken.for_ms,
                    ending: taken.over,
                },
            },
        ))
    }

    async fn clock(&self, request: Request<ClockQuery>) -> Answer<ClockReply> {
        let received_ns = to_unix_ns(self.agent.clock.now());
        if let Err(Rejection::NoSession(why) | Rejection::Refused(why)) =
            self.agent.heard(&request.into_inner().session)
        {
            return Err(Status::failed_precondition(why));
        }
        let sent_ns = to_unix_ns(self.agent.clock.now());
        Ok(Response::new(ClockReply {
            received_ns,
            sent_ns,
        }))
    }

    async fn prepare(&self, request: Request<Prepare>) -> Answer<Reply> {
        let Prepare { session, request } = request.into_inner();
        reply(self.agent.prepare(&session, request))
    }

    async fn start(&self, request: Request<Start>) -> Answer<Reply> {
        let Start { session, at_ns } = request.into_inner();
        reply(self.agent.start(&session, from_unix_ns(at_ns)))
    }

    async fn poll(&self, request: Request<Poll>) -> Answer<PollReply> {
        let Poll {
            session,
            seen,
            wait_ms,
        } = request.into_inner();
        let mut changes = self.agent.changes();
        let newer = |found| match found {
            Ok(Some((sequence, phase))) => Some(PollReply::Changed { sequence, phase }),
            Ok(None) => None,
            Err(Rejection::NoSession(why) | Rejection::Refused(why)) => {
                Some(PollReply::NoSession { why })
            }
        };
        let wait = async {
            loop {
                // Before reading the phase, so that a change in between is not missed.
                changes.mark_unchanged();
                if let Some(news) = newer(self.agent.phase(&session, seen)) {
                    return news;
                }
                if changes.changed().await.is_err() {
                    return PollReply::Unchanged;
                }
            }
        };
        let longest = Duration::from_millis(wait_ms).min(LONGEST_POLL);
        Ok(Response::new(
            tokio::time::timeout(longest, wait)
                .await
                .unwrap_or(PollReply::Unchanged),
        ))
    }

    async fn fetch(&self, request: Request<Fetch>) -> Answer<FetchReply> {
        let Fetch {
            session,
            sequence,
            from,
        } = request.into_inner();
        Ok(Response::new(
            match self.agent.part(&session, sequence, from) {
                Ok(text) => FetchReply::Part { text },
                Err(Rejection::NoSession(why) | Rejection::Refused(why)) => {
                    FetchReply::Gone { why }
                }
            },
        ))
    }

    async fn stop(&self, request: Request<StopWork>) -> Answer<Reply> {
        reply(self.agent.stop(&request.into_inner().session))
    }

    async fn bye(&self, request: Request<Bye>) -> Answer<Reply> {
        reply(
            self.agent
                .close(&request.into_inner().session, "its coordinator is done"),
        )
    }
}

fn reply(outcome: Result<u64, Rejection>) -> Answer<Reply> {
    Ok(Response::new(match outcome {
        Ok(sequence) => Reply::Done { sequence },
        Err(Rejection::Refused(why)) => Reply::Refused { why },
        Err(Rejection::NoSession(why)) => Reply::NoSession { why },
    }))
}

/// A random id of 16 bytes: other coordinators cannot guess it and use the session.
fn session_id() -> Result<String, Status> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Status::internal(format!("no random bytes for a session: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
