//! What a pool is and has, for people and programs.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tierloom_memory::shared::Access;
use uuid::Uuid;

use super::members::Members;
use super::{Pool, open};
use crate::PoolError;
use crate::format::{Coherence, Superblock};
use crate::lease;
use crate::member::Member;
use crate::state::{HostState, PoolState, RegionKind, RegionState, Space};
use crate::store::Place;

/// A pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolStatus {
    /// Identity of the pool.
    pub uuid: Uuid,
    /// Whether its users see each other's stores.
    pub coherence: Coherence,
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Number of commits since it was made.
    pub generation: u64,
    /// Tenure of the last manager.
    pub epoch: u64,
    /// Where the manager takes requests of other processes, if it does.
    pub served_at: Option<String>,
    /// Bytes by use.
    pub space: Space,
    /// Its files and devices.
    pub members: Vec<MemberStatus>,
    /// Machines that have used it, and processes that use it through its manager.
    pub hosts: Vec<HostStatus>,
    /// Tables and scratch memory.
    pub regions: Vec<RegionStatus>,
    /// Damage that was found and left out, and members that are missing or too short.
    pub problems: Vec<String>,
}

/// A file or device of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberStatus {
    /// Its number, which commands take; one that was removed leaves a gap.
    pub index: u32,
    /// Identity of the member.
    pub uuid: Uuid,
    /// Where it was last.
    pub path: PathBuf,
    /// Bytes for regions.
    pub bytes: u64,
}

/// A machine that has used a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// Whether it may change its regions.
    pub state: HostState,
    /// Whether its processes become the manager without a takeover.
    pub home: bool,
    /// Whether it is one process that asks the manager.
    pub client: bool,
    /// Number of its last sign of life, where hosts give any.
    pub renewals: Option<u64>,
}

/// A table, or scratch memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegionStatus {
    /// Number of the region.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub kind: RegionKind,
    /// How far it is.
    pub state: RegionState,
    /// Of a table: how often it was sealed under this name.
    pub version: u64,
    /// Bytes of its extents.
    pub bytes: u64,
    /// Processes that read it.
    pub readers: usize,
    /// Whether bytes of it were found damaged.
    pub damaged: bool,
}

impl PoolStatus {
    pub(super) fn of(
        superblock: &Superblock,
        state: &PoolState,
        members: Option<&Members>,
    ) -> Self {
        let extent_bytes = superblock.layout.extent_bytes;
        let open = |index| Some(members?.get(index)?.path.clone());
        let there = (0_u32..).zip(&state.members).filter(|(_, m)| !m.removed);
        let members = there.map(|(index, member)| MemberStatus {
            index,
            uuid: member.uuid,
            path: open(index).unwrap_or_else(|| member.path.clone()),
            bytes: member.extents * extent_bytes,
        });
        let hosts = state.hosts.iter().map(|host| HostStatus {
            name: host.name.clone(),
            state: host.state,
            home: host.machine == state.home,
            client: host.client_on.is_some(),
            renewals: None,
        });
        let regions = state.regions.iter().map(|region| RegionStatus {
            id: region.id,
            name: region.name.clone(),
            kind: region.kind,
            state: region.state,
            version: region.version,
            bytes: region.extents() * extent_bytes,
            readers: region.pins.len(),
            damaged: region.damaged,
        });
        Self {
            uuid: superblock.pool,
            coherence: superblock.coherence,
            extent_bytes,
            generation: state.generation,
            epoch: state.epoch,
            served_at: state.served_at.clone(),
            space: state.space(extent_bytes),
            members: members.collect(),
            hosts: hosts.collect(),
            regions: regions.collect(),
            problems: Vec::new(),
        }
    }
}

impl Pool {
    /// Looks at a pool without changing anything: permission to read its first member suffices, and
    /// a manager may be at work. Damage is reported, and the newest state that is whole is shown.
    ///
    /// # Errors
    /// No pool, one of a later format, or no state that is whole.
    pub fn inspect(path: &Path) -> Result<PoolStatus, PoolError> {
        let member = Member::open(path, Access::Read)?;
        let superblock = open::primary(&member)?;
        let medium = open::medium(&member, &superblock)?;
        let place = Place {
            pool: superblock.pool,
            layout: superblock.layout,
            path,
        };
        let whole = place.recover(&medium, false);
        let found = match whole {
            Err(PoolError::Damaged { .. }) => place.recover(&medium, true)?,
            whole => whole?,
        };
        let mut status = PoolStatus::of(&superblock, &found.state, None);
        for (host, entry) in status.hosts.iter_mut().zip(&found.state.hosts) {
            let line = lease::read(&medium, superblock.pool, entry.slot);
            host.renewals = line.map(|line| line.counter);
        }
        let damaged = found.damaged.iter();
        let problems = damaged.map(|(what, offset)| format!("{what} at byte {offset} is damaged"));
        status.problems = problems.collect();
        let of_members = open::problems(&member, &superblock, &found.state.members);
        status.problems.extend(of_members);
        Ok(status)
    }
}
