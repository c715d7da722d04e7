//! Opening a pool as its manager.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tierloom_memory::shared::Access;
use tierloom_memory::{Clock, SystemClock};
use uuid::Uuid;

use super::members::Members;
use super::seat::Seat;
use super::{Inner, Pool, Shared, place};
use crate::PoolError;
use crate::format::{Coherence, Superblock};
use crate::identity::Identity;
use crate::lease::{self, Heartbeat};
use crate::medium::MappedMedium;
use crate::member::Member;
use crate::state::{Clean, Holder, HostEntry, HostState, Joining, MemberEntry, PoolState};
use crate::store::{Tenure, random_number};

/// How a pool is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Name of this host; by default the machine's own identity. Needed where that has none.
    pub host: Option<String>,
    /// Paths of members that are no longer where they were.
    pub members: Vec<PathBuf>,
    /// Takes the pool over from another host, which must be down.
    pub take_over: bool,
    /// Opens the newest state that is whole, if a newer one may have been damaged. Nobody else may
    /// use the pool meanwhile.
    pub skip_damaged: bool,
    /// A host that does not renew its line for two leases counts as silent.
    pub lease: Duration,
    /// Clock of the leases.
    pub clock: Arc<dyn Clock>,
    /// Directory below which the machine's identity is read, `/` but for tests.
    pub root: PathBuf,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            host: None,
            members: Vec::new(),
            take_over: false,
            skip_damaged: false,
            lease: Duration::from_secs(10),
            clock: Arc::new(SystemClock::new()),
            root: PathBuf::from("/"),
        }
    }
}

/// The first member, opened and locked.
struct First {
    member: Member,
    superblock: Superblock,
    medium: MappedMedium,
}

impl OpenOptions {
    /// Opens the pool whose first member is at `path`.
    ///
    /// What earlier processes of this host have left is cleared: tables that were not sealed,
    /// scratch memory, pins.
    ///
    /// # Errors
    /// No pool, or one of a later format; damaged, missing, truncated or swapped members; another
    /// process or host has it open.
    pub fn open(&self, path: &Path) -> Result<Pool, PoolError> {
        let first = First::open(path)?;
        let identity =
            Identity::read(&self.root, self.host.as_deref(), first.superblock.coherence)?;
        let at = first.place();
        let before = at.recover(&first.medium, self.skip_damaged)?;
        self.may_manage(&first, &before.state, &identity)?;
        let bank = bank(&before.state, &identity)?;
        let incarnation = random_number();
        let members = further(
            &first.member,
            &first.superblock,
            &before.state.members,
            &self.members,
        )?;
        let (tenure, found) =
            Tenure::claim(&at, &first.medium, bank, incarnation, self.skip_damaged)?;
        if found.state.home != before.state.home || found.state.members != before.state.members {
            // Another host has taken over in between: what was checked above does not hold.
            return Err(PoolError::Fenced {
                epoch: tenure.epoch(),
                newer: found.state.epoch,
            });
        }
        let First {
            member,
            superblock,
            medium,
        } = first;
        let mut inner = Inner {
            superblock,
            members: Members::new(member, members),
            medium,
            seat: Seat::Manager(tenure),
            state: found.state,
            me: Holder {
                slot: 0,
                incarnation,
            },
            identity,
        };
        inner.join(bank)?;
        inner.clear_gone()?;
        inner.clear_removed();
        // Signs of life, where there may be hosts that cannot see locks.
        let heartbeat = match inner.superblock.coherence {
            Coherence::Host => None,
            _ => Some(heartbeat(&inner, self.lease)?),
        };
        Ok(Pool {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                heartbeat,
            }),
        })
    }

    /// Whether this host may become the manager.
    fn may_manage(
        &self,
        first: &First,
        state: &PoolState,
        identity: &Identity,
    ) -> Result<(), PoolError> {
        if first.superblock.coherence == Coherence::Host {
            // One kernel: its lock has decided.
            return Ok(());
        }
        let home = state.host_of(&state.home);
        if state.home != identity.machine {
            if !self.take_over {
                return Err(PoolError::OtherHome {
                    path: first.member.path.clone(),
                    home: home.map_or(&state.home, |host| &host.name).clone(),
                    here: identity.name.clone(),
                });
            }
            return home.map_or(Ok(()), |home| self.is_silent(first, home));
        }
        // The own lock is free, so no process of this kernel has the pool open. If the entry is of
        // another boot, this machine was started anew, or it is a copy of a machine that is alive.
        match home {
            Some(home) if home.state == HostState::Up && home.boot != identity.boot => {
                self.is_silent(first, home)
            }
            _ => Ok(()),
        }
    }

    fn is_silent(&self, first: &First, host: &HostEntry) -> Result<(), PoolError> {
        let (pool, slot) = (first.superblock.pool, host.slot);
        if host.state == HostState::Left
            || !lease::is_alive(&first.medium, pool, slot, self.lease, &*self.clock)
        {
            return Ok(());
        }
        Err(PoolError::Alive {
            path: first.member.path.clone(),
            host: host.name.clone(),
        })
    }
}

/// Renews the line of the own host from now on.
pub(super) fn heartbeat(inner: &Inner, lease: Duration) -> Result<Heartbeat, PoolError> {
    let words = inner
        .members
        .first()
        .words(0, crate::layout::PAYLOADS_START)?;
    let Holder { slot, incarnation } = inner.me;
    Ok(Heartbeat::start(
        MappedMedium::new(words, true),
        inner.superblock.pool,
        slot,
        incarnation,
        lease,
    ))
}

impl First {
    fn open(path: &Path) -> Result<Self, PoolError> {
        let member = Member::open(path, Access::Write)?;
        let superblock = primary(&member)?;
        member.lock()?;
        let medium = medium(&member, &superblock)?;
        Ok(Self {
            member,
            superblock,
            medium,
        })
    }

    fn place(&self) -> crate::store::Place<'_> {
        place(&self.superblock, &self.member)
    }
}

/// The superblock of a first member, which has the metadata.
pub(super) fn primary(member: &Member) -> Result<Superblock, PoolError> {
    let superblock = member.superblock()?;
    if superblock.index != 0 {
        let (index, pool) = (superblock.index, superblock.pool);
        return Err(PoolError::WrongMember {
            path: member.path.clone(),
            found: format!("member {index} of pool {pool}"),
            expected: "the first member of a pool (0)".to_owned(),
        });
    }
    Ok(superblock)
}

/// The metadata of a first member.
pub(super) fn medium(member: &Member, superblock: &Superblock) -> Result<MappedMedium, PoolError> {
    let bytes = superblock.layout.metadata_bytes();
    if member.bytes() < bytes {
        return Err(PoolError::Truncated {
            path: member.path.clone(),
            found_bytes: member.bytes(),
            needed_bytes: bytes,
        });
    }
    let flushes = superblock.coherence == Coherence::None || member.is_dax();
    Ok(MappedMedium::new(member.words(0, bytes)?, flushes))
}

/// Opens the other members, and checks that all are long enough.
pub(super) fn further(
    first: &Member,
    superblock: &Superblock,
    entries: &[MemberEntry],
    paths: &[PathBuf],
) -> Result<Vec<Option<(Uuid, Member)>>, PoolError> {
    check_first(first, superblock, entries)?;
    let finder = Finder {
        first,
        superblock,
        paths,
        access: Access::Write,
    };
    let others = entries.iter().enumerate().skip(1);
    others
        .map(|(index, entry)| finder.opened(entry, index))
        .collect()
}

/// What is wrong with the members of a state, for a reader.
pub(super) fn problems(
    first: &Member,
    superblock: &Superblock,
    entries: &[MemberEntry],
) -> Vec<String> {
    let finder = Finder {
        first,
        superblock,
        paths: &[],
        access: Access::Read,
    };
    let others = entries.iter().enumerate().skip(1);
    let others = others.map(|(index, entry)| finder.opened(entry, index).map(drop));
    let all = std::iter::once(check_first(first, superblock, entries)).chain(others);
    all.filter_map(|checked| checked.err().map(|error| error.to_string()))
        .collect()
}

fn check_first(
    member: &Member,
    superblock: &Superblock,
    entries: &[MemberEntry],
) -> Result<(), PoolError> {
    let Some(entry) = entries
        .first()
        .filter(|entry| entry.uuid == superblock.member)
    else {
        return Err(PoolError::WrongMember {
            path: member.path.clone(),
            found: format!("member {}", superblock.member),
            expected: "the member that the state calls the first".to_owned(),
        });
    };
    long_enough(member, superblock.layout.member_bytes(0, entry.extents))
}

fn long_enough(member: &Member, needed_bytes: u64) -> Result<(), PoolError> {
    if member.bytes() >= needed_bytes {
        return Ok(());
    }
    Err(PoolError::Truncated {
        path: member.path.clone(),
        found_bytes: member.bytes(),
        needed_bytes,
    })
}

/// Where further members are looked for.
struct Finder<'s> {
    first: &'s Member,
    superblock: &'s Superblock,
    paths: &'s [PathBuf],
    access: Access,
}

impl Finder<'_> {
    /// The member of an entry; nothing for one that was removed.
    fn opened(
        &self,
        entry: &MemberEntry,
        index: usize,
    ) -> Result<Option<(Uuid, Member)>, PoolError> {
        match entry.removed {
            true => Ok(None),
            false => Ok(Some((entry.uuid, self.find(entry, index)?))),
        }
    }

    /// Looks for a member where it was, beside the first one, and at the paths that were given.
    fn find(&self, entry: &MemberEntry, index: usize) -> Result<Member, PoolError> {
        let name = entry.path.file_name();
        let beside = name.map(|name| self.first.path.with_file_name(name));
        let given = self.paths.iter().cloned();
        let mut why = None;
        for path in given.chain([entry.path.clone()]).chain(beside) {
            match self.member_at(&path, entry, index) {
                Ok(member) => {
                    let needed = self.superblock.layout.member_bytes(index, entry.extents);
                    long_enough(&member, needed)?;
                    return Ok(member);
                }
                // What stands at a path that was not asked for does not matter.
                Err(error) if path == entry.path || why.is_none() => why = Some(error),
                Err(_) => {}
            }
        }
        match why {
            Some(error @ (PoolError::WrongMember { .. } | PoolError::Newer { .. })) => Err(error),
            why => Err(PoolError::MissingMember {
                index,
                member: entry.uuid,
                path: entry.path.clone(),
                why: why.map_or_else(String::new, |error| error.to_string()),
            }),
        }
    }

    fn member_at(
        &self,
        path: &Path,
        entry: &MemberEntry,
        index: usize,
    ) -> Result<Member, PoolError> {
        let member = Member::open(path, self.access)?;
        let found = member.superblock()?;
        let pool = self.superblock.pool;
        if found.pool == pool && found.member == entry.uuid && found.index as usize == index {
            return Ok(member);
        }
        Err(PoolError::WrongMember {
            path: path.to_owned(),
            found: format!("member {} of pool {}", found.index, found.pool),
            expected: format!("member {index} of pool {pool}"),
        })
    }
}

/// The bank that this machine commits in.
fn bank(state: &PoolState, identity: &Identity) -> Result<u8, PoolError> {
    let own = state.host_of(&identity.machine).and_then(|host| host.bank);
    own.or_else(|| state.free_bank())
        .ok_or(PoolError::NoSlot { what: "bank" })
}

impl Inner {
    /// The first commit of a tenure: this process joins, and what earlier ones of this machine have
    /// left is cleared.
    fn join(&mut self, bank: u8) -> Result<(), PoolError> {
        let identity = self.identity.clone();
        let former = self.state.host_of(&identity.machine);
        let crashed = former.is_some_and(|host| host.state != HostState::Left);
        let clean = former
            .map(|host| self.clean_of(host, &identity))
            .transpose()?;
        let mut next = self.state.clone();
        for (index, entry) in (0_u32..).zip(&mut next.members) {
            if let Some(member) = self.members.get(index) {
                entry.path.clone_from(&member.path);
            }
        }
        self.me.slot = next.join(Joining {
            name: identity.name,
            machine: identity.machine,
            boot: identity.boot,
            incarnation: self.me.incarnation,
            clean,
            manages: Some(bank),
            client: false,
        })?;
        self.commit(next)?;
        if crashed {
            // Blocks that it had allocated.
            let free = self.state.free().into_iter();
            free.for_each(|run| self.give_back(run));
        }
        Ok(())
    }

    /// Proof that what earlier processes of this machine wrote is not in its caches any more.
    fn clean_of(&self, former: &HostEntry, identity: &Identity) -> Result<Clean, PoolError> {
        if let Some(clean) = Clean::coherent(self.superblock.coherence)
            .or_else(|| Clean::rebooted(&former.boot, &identity.boot))
        {
            return Ok(clean);
        }
        self.evicted(former.slot)
    }

    /// Opens members that were added since, and closes those that were removed.
    pub(super) fn follow_members(&mut self) -> Result<(), PoolError> {
        let entries = self.state.members.iter().enumerate().skip(1);
        let changed = |(index, entry): &(usize, &MemberEntry)| {
            self.members.uuid(*index) != (!entry.removed).then_some(entry.uuid)
        };
        let mut found = Vec::new();
        for (index, entry) in entries.filter(changed) {
            let finder = Finder {
                first: self.members.first(),
                superblock: &self.superblock,
                paths: &[],
                access: Access::Write,
            };
            found.push((index, finder.opened(entry, index)?));
        }
        for (index, member) in found {
            self.members.put(index, member);
        }
        Ok(())
    }
}
