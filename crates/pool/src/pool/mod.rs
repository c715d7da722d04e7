//! An open pool: its manager is in this process, or in one that takes its requests.

mod attached;
mod client;
mod create;
mod device;
mod draft;
mod gone;
mod grow;
mod lent;
mod link;
mod members;
mod open;
mod remove;
mod scratch;
mod seat;
mod server;
mod shrink;
mod status;
mod wire;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierloom_memory::shared::{Access, SharedRange};

pub use attached::Attached;
#[cfg(test)]
pub(crate) use create::put_superblock;
pub use create::{CreateOptions, CreatePlan};
pub use draft::{Draft, Finished, TableSpec};
pub use lent::OperatorScratch;
pub use link::{Connect, ManagerLink};
pub use open::OpenOptions;
#[cfg(test)]
pub(crate) use remove::erase;
pub use remove::{Removal, RemovalStep};
pub use scratch::{Scratch, ScratchSpec};
pub use server::{ClientEvent, PoolServer};
pub use shrink::ShrinkPlan;
pub use status::{HostStatus, MemberStatus, PoolStatus, RegionStatus};

use crate::PoolError;
use crate::format::{Coherence, Superblock};
use crate::identity::Identity;
use crate::lease::Heartbeat;
use crate::medium::MappedMedium;
use crate::member::Member;
use crate::state::{Change, Clean, Extents, Holder, PoolState, RegionEntry, Space};
use crate::store::Place;

use members::Members;
use seat::Seat;

/// A pool that this process has open, until the last clone of this value, and the last of what was
/// made with it, is dropped.
///
/// Either this process is its manager ([`OpenOptions::open`]): no other one can open the pool for
/// writing meanwhile, unless this one serves it ([`Pool::serve`]). Or it asks the manager for its
/// changes ([`OpenOptions::join`]).
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Signs of life for other hosts. Of a manager, ended after the last commit and before the
    /// lock is let go, after which the next process writes its line; of a client before it leaves,
    /// after which its line can be another's.
    heartbeat: Option<Heartbeat>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    superblock: Superblock,
    members: Members,
    medium: MappedMedium,
    seat: Seat,
    /// The newest state; of a client, the newest that it has read.
    state: PoolState,
    me: Holder,
    identity: Identity,
}

/// What the store needs to know about a pool.
fn place<'m>(superblock: &Superblock, first: &'m Member) -> Place<'m> {
    Place {
        pool: superblock.pool,
        layout: superblock.layout,
        path: &first.path,
    }
}

impl Pool {
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic while it was locked left the state as it was: it is replaced as a whole.
        let inner = self.shared.inner.lock();
        inner.unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its first member is.
    pub fn path(&self) -> PathBuf {
        self.inner().members.first().path.clone()
    }

    /// Whether another process is the manager, and so others may change the pool.
    pub fn is_client(&self) -> bool {
        self.inner().seat.is_client()
    }

    /// Bytes by use. Capacity is always the sum of the others.
    pub fn space(&self) -> Space {
        let mut inner = self.inner();
        inner.refresh_if_possible();
        inner.state.space(inner.extent_bytes())
    }

    /// Members, hosts, regions and space.
    pub fn status(&self) -> PoolStatus {
        let mut inner = self.inner();
        inner.refresh_if_possible();
        PoolStatus::of(&inner.superblock, &inner.state, Some(&inner.members))
    }

    /// Takes the table `name` away. Its memory is free once nobody reads it any more.
    ///
    /// # Errors
    /// [`PoolError::UnknownTable`], or the commit fails.
    pub fn drop_table(&self, name: &str) -> Result<(), PoolError> {
        let mut inner = self.inner();
        inner.refresh()?;
        let region = inner.table(name)?.id;
        inner.change(Change::Drop { region }).map(drop)
    }

    /// Counts a host out that does not answer: it may not change anything until it joins again, and
    /// what it was writing is in quarantine. With `confirmed_down` somebody vouches that it is
    /// switched off or cut off from the memory: all that it had is free.
    ///
    /// # Errors
    /// [`PoolError::UnknownHost`], also for this host itself, or the commit fails.
    pub fn fence(&self, host: &str, confirmed_down: bool) -> Result<(), PoolError> {
        let mut inner = self.inner();
        inner.refresh()?;
        let me = inner.me.slot;
        let others = inner.state.hosts.iter().filter(|entry| entry.slot != me);
        let Some(host) = others.clone().find(|e| e.name == host).map(|e| e.holder()) else {
            return Err(PoolError::UnknownHost {
                name: host.to_owned(),
                existing: listed(others.map(|entry| &entry.name)),
            });
        };
        let change = match confirmed_down {
            true => Change::Gone {
                host,
                clean: Clean::confirmed_down(),
            },
            false => Change::Fence { host },
        };
        inner.change(change).map(drop)
    }
}

impl Inner {
    fn extent_bytes(&self) -> u64 {
        self.superblock.layout.extent_bytes
    }

    /// The sealed region of a table.
    fn table(&self, name: &str) -> Result<&RegionEntry, PoolError> {
        self.state
            .table(name)
            .ok_or_else(|| PoolError::UnknownTable {
                name: name.to_owned(),
                existing: listed(self.state.tables().map(|region| &region.name)),
            })
    }

    /// Offset and length of a run in its member.
    fn bytes(&self, run: Extents) -> (u64, u64) {
        let layout = self.superblock.layout;
        let start = layout.data_start(run.0 as usize);
        let extent = layout.extent_bytes;
        (start + run.1 * extent, run.2 * extent)
    }

    /// Gives the blocks of free extents to the system. Only where the lock of this kernel excludes
    /// other managers: one that was replaced a moment ago would destroy what is there now.
    fn give_back(&self, run: Extents) {
        if self.superblock.coherence != Coherence::Host {
            return;
        }
        let (offset, bytes) = self.bytes(run);
        if let Some(member) = self.members.get(run.0) {
            member.release(offset, bytes);
        }
    }

    fn allocate(&self, runs: &[Extents]) -> Result<(), PoolError> {
        for run in runs {
            let (offset, bytes) = self.bytes(*run);
            self.member(run.0)?.allocate(offset, bytes)?;
        }
        Ok(())
    }

    /// Maps runs behind what `range` has.
    fn map_into(&self, range: &mut SharedRange, runs: &[Extents]) -> Result<(), PoolError> {
        for run in runs {
            let (offset, bytes) = self.bytes(*run);
            self.member(run.0)?.map_into(range, offset, bytes)?;
        }
        Ok(())
    }

    fn map(&self, runs: &[Extents], access: Access) -> Result<SharedRange, PoolError> {
        let extents: u64 = runs.iter().map(|run| run.2).sum();
        let mut range = self.reserve_addresses(extents * self.extent_bytes(), access)?;
        self.map_into(&mut range, runs)?;
        Ok(range)
    }

    fn reserve_addresses(&self, bytes: u64, access: Access) -> Result<SharedRange, PoolError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        SharedRange::reserve(bytes, access).map_err(|source| {
            crate::member::refused("reserve addresses for", &self.members.first().path, source)
        })
    }

    /// Whether caches must be told to write lines back and drop them.
    fn evicts(&self) -> bool {
        Clean::coherent(self.superblock.coherence).is_none()
    }

    /// Sees to it that no cache of this host has dirty lines of a mapped range.
    fn clean(&self, range: &SharedRange) -> Clean {
        let done: Result<Clean, std::convert::Infallible> = Clean::evicted(|| {
            if self.evicts() || self.members.iter().any(Member::is_dax) {
                range.evict(0..range.size_bytes());
            }
            Ok(())
        });
        let Ok(clean) = done;
        clean
    }
}

/// Names in a list for a message.
fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        let inner = inner.unwrap_or_else(PoisonError::into_inner);
        if inner.seat.is_client() {
            self.heartbeat = None;
        }
        // Nothing of this process is left in the state: all that it had holds the pool open. An
        // error leaves the pool as a crash would.
        let _ = inner.change(Change::Leave { clean: None });
    }
}
