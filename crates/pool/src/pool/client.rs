//! A process that uses a pool beside others: it asks the manager for every change, reads the state
//! from the pool itself, and reads and writes its extents like any other process.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tierloom_memory::shared::Access;

use super::link::{Client, Connect};
use super::members::Members;
use super::open::{further, heartbeat, medium, primary};
use super::seat::Seat;
use super::wire::{Ask, PROTOCOL, Refusal, Reply, Request};
use super::{Inner, OpenOptions, Pool, Shared, place};
use crate::PoolError;
use crate::format::Coherence;
use crate::identity::Identity;
use crate::member::Member;
use crate::state::{Answer, Holder};
use crate::store::random_number;

/// How long a manager that does not answer is asked to take something back.
const GIVING_BACK: Duration = Duration::from_secs(1);
/// Pause before a manager that does not answer is asked again.
const PAUSE: Duration = Duration::from_millis(100);

impl OpenOptions {
    /// Opens the pool as [`OpenOptions::open`] does; if another process or host has it open and
    /// serves it, joins that one.
    ///
    /// # Errors
    /// As [`OpenOptions::open`] and [`OpenOptions::join`].
    pub fn open_or_join(&self, path: &Path, connect: Arc<dyn Connect>) -> Result<Pool, PoolError> {
        match self.open(path) {
            Err(error @ (PoolError::Managed { .. } | PoolError::OtherHome { .. })) => {
                match self.join(path, connect) {
                    // Nobody to ask: the first error says why this process has to.
                    Err(PoolError::NotServed { .. }) => Err(error),
                    joined => joined,
                }
            }
            opened => opened,
        }
    }

    /// Joins the manager that serves the pool whose first member is at `path`.
    ///
    /// # Errors
    /// [`PoolError::NotServed`], [`PoolError::Unreachable`], or as [`OpenOptions::open`].
    pub fn join(&self, path: &Path, connect: Arc<dyn Connect>) -> Result<Pool, PoolError> {
        let first = Member::open(path, Access::Write)?;
        let superblock = primary(&first)?;
        let medium = medium(&first, &superblock)?;
        let identity = Identity::read(&self.root, self.host.as_deref(), superblock.coherence)?;
        let incarnation = random_number();
        // Before anybody knows this process: from now on its death can be seen.
        first.lock_process(incarnation)?;
        let at = place(&superblock, &first);
        let state = at.recover(&medium, false)?.state;
        let members = further(&first, &superblock, &state.members, &self.members)?;
        let mut inner = Inner {
            superblock,
            members: Members::new(first, members),
            medium,
            seat: Seat::Client(Client {
                connect,
                link: None,
                number: 0,
                patience: self.lease,
                gave_up: false,
                clock: Arc::clone(&self.clock),
            }),
            state,
            me: Holder {
                slot: 0,
                incarnation,
            },
            identity,
        };
        inner.join_manager()?;
        let heartbeat = match inner.superblock.coherence {
            Coherence::Host => None,
            _ => Some(heartbeat(&inner, self.lease)?),
        };
        // What dead processes of this machine had, if the manager is on another one. The pool can
        // be used without.
        let _ = inner.clear_gone();
        Ok(Pool {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                heartbeat,
            }),
        })
    }
}

impl Inner {
    fn join_manager(&mut self) -> Result<(), PoolError> {
        let join = Ask::Join {
            name: format!("{}/{}", self.identity.name, std::process::id()),
            machine: self.identity.machine.clone(),
            boot: self.identity.boot.clone(),
        };
        match self.answer_to(join)? {
            Reply::Joined { slot, at } => {
                self.me.slot = slot;
                self.catch_up(at)
            }
            reply => Err(self.misunderstood(&reply)),
        }
    }

    /// Has the manager make a change, and reads the state that came of it.
    pub(super) fn ask(&mut self, ask: Ask) -> Result<Answer, PoolError> {
        match self.answer_to(ask)? {
            Reply::Made { answer, at } => {
                self.catch_up(at)?;
                Ok(answer)
            }
            reply => Err(self.misunderstood(&reply)),
        }
    }

    /// Reads the state until it is the one of an answer, or a later one: with the answer it was in
    /// memory.
    fn catch_up(&mut self, at: (u64, u64)) -> Result<(), PoolError> {
        self.refresh()?;
        match (self.state.epoch, self.state.generation) >= at {
            true => Ok(()),
            false => Err(PoolError::Unreachable {
                path: self.members.first().path.clone(),
                why: format!(
                    "the manager answered with generation {} of epoch {}, which is not in the pool",
                    at.1, at.0
                ),
            }),
        }
    }

    /// Sends a request until it is answered or the time is over. After each attempt that failed the
    /// address is read from the pool again: another manager may have taken over.
    fn answer_to(&mut self, ask: Ask) -> Result<Reply, PoolError> {
        let by = self.me;
        let Seat::Client(client) = &mut self.seat else {
            unreachable!("a manager asks nobody");
        };
        client.number += 1;
        let patience = match ask.gives_back() {
            // Nobody waits for it, and what is not given back is free when the process ends.
            true if client.gave_up => Duration::ZERO,
            true => client.patience.min(GIVING_BACK),
            // Before it has joined, nothing is lost by an error at once.
            false if client.number == 1 => Duration::ZERO,
            false => client.patience,
        };
        let request = Request {
            protocol: PROTOCOL,
            pool: self.superblock.pool,
            by,
            number: client.number,
            ask,
        };
        let request = serde_json::to_string(&request).map_err(|error| PoolError::Refused {
            message: error.to_string(),
            is_bad_input: true,
        })?;
        let started = client.clock.now();
        loop {
            let why = match client.call(self.state.served_at.as_deref(), &request) {
                // Whether it was made is known to the new manager, which finds its number.
                Ok(Reply::Refused(Refusal::Replaced { message })) => message,
                Ok(Reply::Refused(refusal)) => return Err(refusal.error(by)),
                Ok(reply) => {
                    client.gave_up = false;
                    return Ok(reply);
                }
                Err(why) => why,
            };
            let place = place(&self.superblock, self.members.first());
            self.state = place.recover(&self.medium, false)?.state;
            let waited = client.clock.now().saturating_sub(started);
            if waited >= patience {
                client.gave_up = true;
                let path = self.members.first().path.clone();
                return Err(match self.state.served_at {
                    None => PoolError::NotServed { path },
                    Some(_) => PoolError::Unreachable { path, why },
                });
            }
            client.clock.sleep(PAUSE);
        }
    }

    fn misunderstood(&self, reply: &Reply) -> PoolError {
        PoolError::Unreachable {
            path: self.members.first().path.clone(),
            why: format!("the manager answered something else than was asked ({reply:?})"),
        }
    }
}
