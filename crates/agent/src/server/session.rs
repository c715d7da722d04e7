//! The one session that an agent may have: who has it, the phase of its work, and how it ends.
//!
//! ```text
//!  open ─> Idle ──prepare──> Preparing ──> Ready ──start──> Running ──> Finished
//!            ^                   └───────────┴────────────────┴───────> Failed
//!            └── prepare is also accepted in Finished and Failed: a session has many runs in turn
//! ```
//! A session ends by `bye`, by its lease, or with the agent. Its running work is then stopped, and
//! the agent accepts the next session once that work has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use crate::server::{Log, work};
use crate::wire::{Failure, PART_BYTES, Phase};
use crate::{HostRunner, Stop, WallClock};

/// Furthest time in the future that a start is accepted for.
pub(crate) const MAX_AHEAD: Duration = Duration::from_secs(60);

/// The state that the calls of an agent share.
pub(crate) struct Agent {
    pub runner: Arc<dyn HostRunner>,
    pub clock: Arc<dyn WallClock>,
    pub lease: Duration,
    pub log: Log,
    place: Mutex<SessionSlot>,
    /// Counts phase changes over all sessions; only the change itself matters to the polls that
    /// wait.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct SessionSlot {
    session: Option<Session>,
    /// The last session that ended and why, for a coordinator that returns.
    last: Option<(String, String)>,
}

struct Session {
    id: String,
    peer: String,
    opened: Instant,
    heard: Instant,
    sequence: u64,
    phase: Phase,
    /// Result of the last work; empty unless that is finished.
    result: String,
    work: Option<Work>,
    /// Why the session ended, if it has; it stays here until its work has ended.
    over: Option<String>,
}

struct Work {
    stop: Stop,
    start: Option<mpsc::Sender<SystemTime>>,
}

/// Why a call had no effect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The session does not exist, or no longer.
    NoSession(String),
    /// The call is not valid in the current phase, or its arguments are not.
    Refused(String),
}

/// Another coordinator has the session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub by: String,
    pub for_ms: u64,
    pub over: Option<String>,
}

impl Agent {
    pub fn new(
        runner: Arc<dyn HostRunner>,
        clock: Arc<dyn WallClock>,
        lease: Duration,
        log: Log,
    ) -> Self {
        Self {
            runner,
            clock,
            lease,
            log,
            place: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Opens a session with the identifier `id` for `peer`.
    pub fn open(&self, id: String, peer: &str) -> Result<(), Taken> {
        let mut place = self.place();
        if let Some(session) = &place.session {
            return Err(Taken {
                by: session.peer.clone(),
                for_ms: u64::try_from(session.opened.elapsed().as_millis()).unwrap_or(u64::MAX),
                over: session.over.clone(),
            });
        }
        let now = Instant::now();
        place.session = Some(Session {
            id,
            peer: peer.to_owned(),
            opened: now,
            heard: now,
            sequence: 0,
            phase: Phase::Idle,
            result: String::new(),
            work: None,
            over: None,
        });
        self.log.say(&format!("session of {peer} opened"));
        Ok(())
    }

    /// Records that the coordinator is alive.
    pub fn heard(&self, id: &str) -> Result<(), Rejection> {
        self.with(id, |_| Ok(()))
    }

    /// Starts a thread in which the runner prepares `request`.
    pub fn prepare(self: &Arc<Self>, id: &str, request: String) -> Result<u64, Rejection> {
        let stop = Stop::new();
        let (start, starts) = mpsc::channel();
        self.with(id, |session| {
            if session.work.is_some() {
                return Err(Rejection::Refused(
                    "its last work has not ended yet; stop it or wait for it first".to_owned(),
                ));
            }
            let thread = std::thread::Builder::new().name("agent-work".to_owned());
            let agent = Arc::clone(self);
            let task = work::Task {
                request,
                stop: stop.clone(),
                starts,
                session: id.to_owned(),
            };
            thread
                // The thread cannot record a phase before this function has, since `with` holds the
                // lock.
                .spawn(move || work::run(&agent, task))
                .map_err(|error| Rejection::Refused(format!("no thread to be had: {error}")))?;
            session.work = Some(Work {
                stop,
                start: Some(start),
            });
            self.enter(session, Phase::Preparing);
            Ok(session.sequence)
        })
    }

    /// Starts the prepared work at `at` on the agent's clock.
    pub fn start(&self, id: &str, at: SystemTime) -> Result<u64, Rejection> {
        let now = self.clock.now();
        self.with(id, |session| {
            if !matches!(session.phase, Phase::Ready { .. }) {
                return Err(Rejection::Refused("nothing is ready to start; prepare first".to_owned()));
            }
            if let Ok(late) = now.duration_since(at) {
                return Err(Rejection::Refused(format!(
                    "the start time was {:.3} s ago on this host's clock; agree on a later one",
                    late.as_secs_f64()
                )));
            }
            if at.duration_since(now).is_ok_and(|ahead| ahead > MAX_AHEAD) {
                return Err(Rejection::Refused(format!(
                    "the start time is more than {} s ahead on this host's clock; agree on an earlier one",
                    MAX_AHEAD.as_secs()
                )));
            }
            let sent = session.work.as_mut().and_then(|work| work.start.take()).map(|start| start.send(at));
            if !matches!(sent, Some(Ok(()))) {
                return Err(Rejection::Refused("its work was stopped".to_owned()));
            }
            self.enter(session, Phase::Running);
            Ok(session.sequence)
        })
    }

    /// Asks the work to stop. Does nothing if there is none.
    pub fn stop(&self, id: &str) -> Result<u64, Rejection> {
        self.with(id, |session| {
            if let Some(work) = &session.work {
                work.stop.request();
            }
            Ok(session.sequence)
        })
    }

    /// Ends the session for the reason `why`.
    pub fn close(&self, id: &str, why: &str) -> Result<u64, Rejection> {
        let sequence = self.with(id, |session| Ok(session.sequence))?;
        // `with` has released the lock, so another call may have ended the session meanwhile.
        let mut place = self.place();
        if place
            .session
            .as_ref()
            .is_some_and(|session| session.id == id)
        {
            self.end(&mut place, why);
        }
        Ok(sequence)
    }

    /// Ends the current session, if there is one.
    pub fn close_any(&self, why: &str) {
        self.end(&mut self.place(), why);
    }

    /// Ends the session if its coordinator was silent for longer than the lease.
    pub fn expire(&self) {
        let mut place = self.place();
        let Some(session) = &place.session else {
            return;
        };
        if session.over.is_none() && session.heard.elapsed() > self.lease {
            let why = format!(
                "nothing was heard of its coordinator for {:.1} s",
                self.lease.as_secs_f64()
            );
            self.end(&mut place, &why);
        }
    }

    /// Whether there is neither a session nor work.
    pub fn is_free(&self) -> bool {
        self.place().session.is_none()
    }

    /// The phase of a session, if it is newer than `seen`.
    pub fn phase(&self, id: &str, seen: u64) -> Result<Option<(u64, Phase)>, Rejection> {
        self.with(id, |session| {
            Ok((session.sequence != seen).then(|| (session.sequence, session.phase.clone())))
        })
    }

    /// A receiver that is notified of phase changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A part of the result that was finished with phase `sequence`, from byte `from`.
    pub fn part(&self, id: &str, sequence: u64, from: usize) -> Result<String, Rejection> {
        self.with(id, |session| {
            let gone =
                || Rejection::Refused("the result is gone: new work was prepared".to_owned());
            let finished = matches!(session.phase, Phase::Finished { .. });
            let rest = session
                .result
                .get(from..)
                .filter(|_| finished && session.sequence == sequence)
                .ok_or_else(gone)?;
            Ok(rest[..rest.floor_char_boundary(PART_BYTES)].to_owned())
        })
    }

    /// Records that the work of a session is prepared.
    pub fn ready(&self, id: &str, summary: String) {
        if let Some(session) = self
            .place()
            .session
            .as_mut()
            .filter(|session| session.id == id)
        {
            self.enter(session, Phase::Ready { summary });
        }
    }

    /// Records that the work of a session has ended; frees the agent if the session has ended too.
    pub fn ended(&self, id: &str, phase: Phase, result: String) {
        let mut place = self.place();
        let Some(session) = place.session.as_mut().filter(|session| session.id == id) else {
            return;
        };
        if let Phase::Failed { during, failure } = &phase {
            let how = match failure {
                Failure::Stopped => "stopped",
                Failure::Runner { message } | Failure::Panic { message } => message,
            };
            self.log.say(&format!("work ended while {during}: {how}"));
        }
        session.work = None;
        session.result = result;
        self.enter(session, phase);
        if session.over.is_some() {
            self.free(&mut place);
            self.log.say("free again");
        }
    }

    /// Makes room for the next session.
    fn free(&self, place: &mut SessionSlot) {
        place.session = None;
        self.runner.session_ended();
    }

    fn enter(&self, session: &mut Session, phase: Phase) {
        session.phase = phase;
        session.sequence += 1;
        self.changes.send_modify(|count| *count += 1);
    }

    fn end(&self, place: &mut SessionSlot, why: &str) {
        let Some(session) = &mut place.session else {
            return;
        };
        if session.over.is_some() {
            return;
        }
        self.log
            .say(&format!("session of {} ended: {why}", session.peer));
        session.over = Some(why.to_owned());
        place.last = Some((session.id.clone(), why.to_owned()));
        match &mut session.work {
            Some(work) => {
                work.stop.request();
                // Dropping the sender wakes work that waits for its start.
                work.start = None;
            }
            None => self.free(place),
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Runs `act` on the session `id`, and renews its lease.
    fn with<T>(
        &self,
        id: &str,
        act: impl FnOnce(&mut Session) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let mut place = self.place();
        match place
            .session
            .as_mut()
            .filter(|session| session.id == id && session.over.is_none())
        {
            Some(session) => {
                session.heard = Instant::now();
                act(session)
            }
            None => Err(no_session(&place, id)),
        }
    }

    fn place(&self) -> MutexGuard<'_, SessionSlot> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_session(place: &SessionSlot, id: &str) -> Rejection {
    Rejection::NoSession(match &place.last {
        Some((last, why)) if last == id => format!("the agent ended the session: {why}"),
        _ => "the agent does not know the session; it was restarted meanwhile".to_owned(),
    })
}
