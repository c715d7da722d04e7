//! The task that polls one host: it keeps the session alive and publishes the phase of the host's
//! work.

use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tonic::{Code, Response, Status};

use crate::AgentError;
use crate::coordinator::link::{Link, RETRY, status_text};
use crate::coordinator::run::Run;
use crate::wire::{Failure, Fetch, FetchReply, Phase, Poll, PollReply};

/// The last known state of a host.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub sequence: u64,
    pub phase: Phase,
    /// Result of the last work; empty unless that is finished.
    pub result: Arc<str>,
    /// Why no further news will come; `None` while the session lives.
    pub lost: Option<AgentError>,
}

impl Link {
    /// Keeps the session alive and `view` up to date until the host is lost.
    ///
    /// Reports losses and failures to `run`.
    pub async fn follow(self, view: watch::Sender<View>, run: Arc<Run>) {
        let reason = self.poll_until_lost(&view, &run).await;
        let (doing, has_work) = {
            let phase = &view.borrow().phase;
            let has_work = matches!(
                phase,
                Phase::Preparing | Phase::Ready { .. } | Phase::Running
            );
            (doing(phase).to_owned(), has_work)
        };
        let lost = AgentError::Lost {
            host: self.host.clone(),
            doing,
            reason,
        };
        // A host that has nothing to do, or whose result is already here, is no reason to stop the
        // others.
        if has_work {
            run.trouble(&lost);
        }
        view.send_modify(|view| view.lost = Some(lost));
    }

    async fn poll_until_lost(&self, view: &watch::Sender<View>, run: &Run) -> String {
        let mut heard = Instant::now();
        let mut seen = 0;
        loop {
            let news = match self.news(&mut heard, seen).await {
                Ok(Some(news)) => news,
                Ok(None) => continue,
                Err(reason) => return reason,
            };
            let (sequence, phase) = news;
            seen = sequence;
            if let Some(error) = failure(&self.host, &phase).filter(|error| !is_stop(error)) {
                run.trouble(&error);
            }
            let mut result = Arc::default();
            if let Phase::Finished { bytes } = &phase {
                result = match self.fetch(&mut heard, sequence, *bytes).await {
                    Ok(result) => result.into(),
                    Err(reason) => return reason,
                };
            }
            view.send_modify(|view| {
                (view.sequence, view.phase, view.result) = (sequence, phase, result)
            });
        }
    }

    /// Makes one poll; returns a phase newer than `seen`, if there is one.
    async fn news(&self, heard: &mut Instant, seen: u64) -> Result<Option<(u64, Phase)>, String> {
        // Several polls fit into a lease, so that one lost reply does not end the session.
        let wait = self.lease / 5;
        let poll = Poll {
            session: self.session.clone(),
            seen,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        };
        let reply = self
            .persist(heard, || {
                let (mut client, poll) = (self.client.clone(), poll.clone());
                async move { client.poll(poll).await }
            })
            .await?;
        match reply {
            PollReply::Unchanged => Ok(None),
            PollReply::Changed { sequence, phase } => Ok(Some((sequence, phase))),
            PollReply::NoSession { why } => Err(why),
        }
    }

    /// Fetches the whole result, part by part.
    async fn fetch(
        &self,
        heard: &mut Instant,
        sequence: u64,
        bytes: usize,
    ) -> Result<String, String> {
        let mut result = String::new();
        while result.len() < bytes {
            let fetch = Fetch {
                session: self.session.clone(),
                sequence,
                from: result.len(),
            };
            let reply = self
                .persist(heard, || {
                    let (mut client, fetch) = (self.client.clone(), fetch.clone());
                    async move { client.fetch(fetch).await }
                })
                .await?;
            match reply {
                FetchReply::Part { text } if !text.is_empty() => result.push_str(&text),
                FetchReply::Part { .. } => return Err("its result ended too early".to_owned()),
                FetchReply::Gone { why } => return Err(why),
            }
        }
        Ok(result)
    }

    /// Repeats a call until it is answered.
    ///
    /// It gives up once the agent's lease has passed since `heard`, because the agent has then
    /// ended the session.
    async fn persist<T, F>(&self, heard: &mut Instant, call: impl Fn() -> F) -> Result<T, String>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        loop {
            let left = self.lease.saturating_sub(heard.elapsed());
            let reason = match tokio::time::timeout(left, call()).await {
                Ok(Ok(reply)) => {
                    *heard = Instant::now();
                    return Ok(reply.into_inner());
                }
                Ok(Err(status)) if is_final(&status) => return Err(status_text(&status)),
                Ok(Err(status)) => status_text(&status),
                Err(_) => "no answer".to_owned(),
            };
            if heard.elapsed() + RETRY >= self.lease {
                return Err(format!(
                    "{reason}; nothing was heard of it for {:.1} s",
                    heard.elapsed().as_secs_f64()
                ));
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// The error of a `Failed` phase; `None` for all others.
pub(crate) fn failure(host: &str, phase: &Phase) -> Option<AgentError> {
    let Phase::Failed { during, failure } = phase else {
        return None;
    };
    let (host, during) = (host.to_owned(), during.clone());
    Some(match failure.clone() {
        Failure::Stopped => AgentError::Stopped { host, during },
        Failure::Runner { message } => AgentError::Failed {
            host,
            during,
            message,
        },
        Failure::Panic { message } => AgentError::Panicked {
            host,
            during,
            message,
        },
    })
}

/// Whether an error only says that work was stopped on request.
pub(crate) fn is_stop(error: &AgentError) -> bool {
    matches!(error, AgentError::Stopped { .. })
}

/// What a host is doing, for messages.
pub(crate) fn doing(phase: &Phase) -> &'static str {
    match phase {
        Phase::Idle => "idle",
        Phase::Preparing => "preparing",
        Phase::Ready { .. } => "waiting for the start",
        Phase::Running => "running",
        Phase::Finished { .. } | Phase::Failed { .. } => "idle after its work",
    }
}

/// Whether a retry is pointless: nothing listens there any more, or another agent does.
fn is_final(status: &Status) -> bool {
    if status.code() == Code::Unauthenticated {
        return true;
    }
    let mut next: Option<&dyn Error> = Some(status);
    while let Some(error) = next {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            return true;
        }
        next = error.source();
    }
    false
}
