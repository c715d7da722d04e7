//! The manager at work for other processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tierloom_memory::Clock;

use super::wire::{Ask, PROTOCOL, Refusal, Reply, Request};
use super::{CreateOptions, Inner, OpenOptions, Pool};
use crate::PoolError;
use crate::lease;
use crate::state::{Actor, Answer, Change, Holder, HostState, Joining};

/// Answers the requests of clients, until it is dropped. [`Pool::serve`] makes it.
#[derive(Debug)]
pub struct PoolServer {
    pool: Pool,
    lease: Duration,
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

/// What was seen of clients.
#[derive(Debug, Default)]
struct Seen {
    names: BTreeMap<Holder, String>,
    /// Of those on other machines, the counter of the last sign of life, and when it was new.
    signs: BTreeMap<Holder, (Option<u64>, Duration)>,
}

/// What happened to a client, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// It uses the pool now.
    Joined(String),
    /// It does not any more.
    Left(String),
    /// Its process ended without leaving; what it had is free.
    Ended(String),
    /// It gave no sign of life for two leases; what it was writing is in quarantine.
    Fenced(String),
}

impl Pool {
    /// Lets other processes and hosts use the pool: says in the pool that requests are taken at
    /// `address`, until the server is dropped. Whatever receives them gives them to
    /// [`PoolServer::answer`], and somebody calls [`PoolServer::look_after`] about once a second.
    ///
    /// Lease and clock of `options` are those of clients on other machines.
    ///
    /// # Errors
    /// The commit fails; [`PoolError::Managed`] if this process is a client itself.
    pub fn serve(&self, address: &str, options: &OpenOptions) -> Result<PoolServer, PoolError> {
        let mut inner = self.inner();
        if inner.seat.is_client() {
            let path = inner.members.first().path.clone();
            return Err(PoolError::Managed { path });
        }
        let address = Some(address.to_owned());
        inner.change(Change::Serve { address })?;
        drop(inner);
        Ok(PoolServer {
            pool: self.clone(),
            lease: options.lease,
            clock: Arc::clone(&options.clock),
            seen: Mutex::default(),
        })
    }
}

impl PoolServer {
    /// Carries out one request and returns the answer, both as text. Every text gets an answer.
    pub fn answer(&self, request: &str) -> String {
        let reply = self.reply(request).unwrap_or_else(Reply::Refused);
        // Plain data, which cannot fail.
        serde_json::to_string(&reply).unwrap_or_default()
    }

    fn reply(&self, request: &str) -> Result<Reply, Refusal> {
        let other = |message: String| Refusal::Other {
            message,
            is_bad_input: true,
        };
        let request: Request = serde_json::from_str(request)
            .map_err(|error| other(format!("the request cannot be read: {error}")))?;
        let pool = self.pool.inner().superblock.pool;
        if (request.protocol, request.pool) != (PROTOCOL, pool) {
            return Err(other(format!(
                "the request is of protocol {} for pool {}, and this is protocol {PROTOCOL} for \
                 pool {pool}; use the same version of Tierloom",
                request.protocol, request.pool
            )));
        }
        let made = self.make(request);
        made.map_err(|error| Refusal::of(&error))
    }

    fn make(&self, request: Request) -> Result<Reply, PoolError> {
        let Request {
            by, number, ask, ..
        } = request;
        let actor = Actor {
            holder: by,
            request: number,
        };
        let answer = match ask {
            Ask::Join {
                name,
                machine,
                boot,
            } => {
                let mut inner = self.pool.inner();
                let slot = inner.admit(name, machine, boot, by.incarnation)?;
                let at = inner.at();
                return Ok(Reply::Joined { slot, at });
            }
            Ask::Change { changes } => self.pool.inner().change_for(actor, changes)?,
            Ask::Grow { index, bytes } => {
                self.once(actor, |pool| pool.grow_member(index, bytes))?
            }
            Ask::AddMember {
                path,
                file_bytes,
                overwrite,
            } => {
                let options = CreateOptions {
                    file_bytes,
                    coherence: None,
                    overwrite,
                };
                self.once(actor, |pool| pool.add_member(&path, &options))?
            }
            Ask::Shrink { index, bytes } => {
                self.once(actor, |pool| pool.shrink_member(index, bytes))?
            }
            Ask::Remove { member } => self.once(actor, |pool| pool.remove_for_client(member))?,
        };
        let at = self.pool.inner().at();
        Ok(Reply::Made { answer, at })
    }

    /// Makes what is more than one commit, unless it was made already. A manager that dies between
    /// the last commit and the note of the number has it made again, which finds it done.
    fn once(
        &self,
        actor: Actor,
        make: impl FnOnce(&Pool) -> Result<(), PoolError>,
    ) -> Result<Answer, PoolError> {
        // In a statement of its own: making it needs the lock.
        let made = self.pool.inner().state.repeated(actor)?;
        if let Some(answer) = made {
            return Ok(answer);
        }
        make(&self.pool)?;
        self.pool.inner().change_for(actor, Vec::new())
    }

    /// Clears clients that are gone and fences those that are silent. Returns what happened since
    /// the last call.
    ///
    /// # Errors
    /// A commit fails.
    pub fn look_after(&self) -> Result<Vec<ClientEvent>, PoolError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.pool.inner();
        let before = inner.clients();
        let ended = inner.clear_gone()?;
        let fenced = self.fence_silent(&mut inner, &mut seen)?;
        let mut events = Vec::new();
        // Those that came since, whether they are still there or not.
        let came = before
            .iter()
            .filter(|(who, _)| !seen.names.contains_key(who));
        events.extend(came.map(|(_, name)| ClientEvent::Joined(name.clone())));
        let left = seen
            .names
            .iter()
            .filter(|(who, _)| !before.contains_key(who));
        events.extend(left.map(|(_, name)| ClientEvent::Left(name.clone())));
        events.extend(ended.into_iter().map(ClientEvent::Ended));
        events.extend(fenced.into_iter().map(ClientEvent::Fenced));
        seen.names = inner.clients();
        Ok(events)
    }

    /// Clients on machines whose locks cannot be seen from here.
    fn fence_silent(&self, inner: &mut Inner, seen: &mut Seen) -> Result<Vec<String>, PoolError> {
        let now = self.clock.now();
        let hosts = inner.state.hosts.iter();
        let remote = hosts.filter(|host| {
            host.client_on.is_some()
                && host.state == HostState::Up
                && !inner.is_of_this_kernel(host)
        });
        let remote: Vec<(Holder, String)> = remote
            .map(|host| (host.holder(), host.name.clone()))
            .collect();
        seen.signs
            .retain(|known, _| remote.iter().any(|(holder, _)| holder == known));
        let mut fenced = Vec::new();
        for (host, name) in remote {
            let line = lease::read(&inner.medium, inner.superblock.pool, host.slot);
            let line = line.filter(|line| line.incarnation == host.incarnation);
            let sign = line.map(|line| line.counter);
            let last = seen.signs.entry(host).or_insert((sign, now));
            if last.0 != sign {
                *last = (sign, now);
            } else if now.saturating_sub(last.1) > self.lease * lease::SILENT_AFTER {
                inner.change(Change::Fence { host })?;
                fenced.push(name);
            }
        }
        Ok(fenced)
    }
}

impl Drop for PoolServer {
    fn drop(&mut self) {
        // An error leaves an address where nobody answers, as a crash would.
        let _ = self.pool.inner().change(Change::Serve { address: None });
    }
}

impl Inner {
    /// Makes a process a client. Asked again, because the answer was lost, it is one already.
    fn admit(
        &mut self,
        name: String,
        machine: String,
        boot: String,
        incarnation: u64,
    ) -> Result<u16, PoolError> {
        let mut hosts = self.state.hosts.iter();
        let known = hosts.find(|host| {
            host.client_on.as_ref() == Some(&machine) && host.incarnation == incarnation
        });
        if let Some(host) = known {
            return Ok(host.slot);
        }
        let mut next = self.state.clone();
        let slot = next.join(Joining {
            name,
            machine,
            boot,
            incarnation,
            clean: None,
            manages: None,
            client: true,
        })?;
        self.commit(next)?;
        Ok(slot)
    }

    /// Epoch and generation of the state.
    fn at(&self) -> (u64, u64) {
        (self.state.epoch, self.state.generation)
    }

    fn clients(&self) -> BTreeMap<Holder, String> {
        let clients = self.state.hosts.iter();
        let clients = clients.filter(|host| host.client_on.is_some());
        clients
            .map(|host| (host.holder(), host.name.clone()))
            .collect()
    }
}
