//! The state of a pool: one small value, replaced as a whole by every commit.
//!
//! It is stored as JSON. Fields that this version does not know are kept, so that an older version
//! does not lose what a newer one wrote. Free space is no field: it is what no run covers.

mod change;
mod check;
mod clean;
mod reclaim;
mod shrink;
mod space;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub(crate) use change::{Actor, Answer, Change, Joining, check_name};
pub(crate) use clean::Clean;
pub(crate) use shrink::Moved;
pub use space::{Space, Spread};

pub(crate) const FORMAT: &str = "tierloom-pool/1";

/// Fields of later versions.
type Unknown = BTreeMap<String, Value>;

/// Consecutive extents of a member: member, first extent, number of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Extents(pub(crate) u32, pub(crate) u64, pub(crate) u64);

impl Extents {
    pub(crate) fn end(self) -> u64 {
        self.1.saturating_add(self.2)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PoolState {
    pub(crate) format: String,
    pub(crate) pool: Uuid,
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    /// The machine whose processes may become the manager by a lock.
    pub(crate) home: String,
    /// Where the manager takes requests of other processes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) served_at: Option<String>,
    pub(crate) members: Vec<MemberEntry>,
    pub(crate) hosts: Vec<HostEntry>,
    pub(crate) regions: Vec<RegionEntry>,
    pub(crate) quarantine: Vec<Quarantined>,
    pub(crate) next_region: u64,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberEntry {
    pub(crate) uuid: Uuid,
    pub(crate) extents: u64,
    /// Where it was when it was last opened for writing.
    pub(crate) path: PathBuf,
    /// Whether it is no member any more; then it has no extents, and another one can get its
    /// number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) removed: bool,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

/// A machine that uses the pool, or one process of a machine that asks the manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostEntry {
    /// Its host line.
    pub(crate) slot: u16,
    /// For people.
    pub(crate) name: String,
    pub(crate) machine: String,
    /// Of a client, which is one process and no whole machine: the machine that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_on: Option<String>,
    /// Changes when the machine starts anew, which is when its caches are gone.
    pub(crate) boot: String,
    /// Random, of one process.
    pub(crate) incarnation: u64,
    pub(crate) state: HostState,
    /// Where it commits as a manager. Without one it cannot become that.
    pub(crate) bank: Option<u8>,
    /// Its last request and what came of it, so that one whose answer was lost can be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<(u64, Answer)>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

impl HostEntry {
    /// The process that the entry stands for.
    pub(crate) fn holder(&self) -> Holder {
        Holder {
            slot: self.slot,
            incarnation: self.incarnation,
        }
    }
}

/// Whether a host may change its regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    /// A process of it has the pool open, or ended without saying so.
    Up,
    /// It left in an orderly way.
    Left,
    /// It may not until it joins again; what it could still write to is in quarantine.
    Fenced,
}

/// What a pool region is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionKind {
    /// A table: written once, then sealed and read by everybody.
    Table,
    /// Memory of one process, gone with it.
    Scratch,
}

/// How far a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionState {
    /// A table that its owner writes.
    Building,
    /// A table that never changes again.
    Sealed,
    /// A table that was dropped or replaced and still has readers.
    Retired,
    /// A scratch region.
    Active,
}

impl RegionState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Sealed => "sealed",
            Self::Retired => "retired",
            Self::Active => "active",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RegionEntry {
    pub(crate) id: u64,
    pub(crate) uuid: Uuid,
    pub(crate) kind: RegionKind,
    pub(crate) state: RegionState,
    pub(crate) name: String,
    /// Of a table: 1 for the first of its name; 0 until it is sealed.
    pub(crate) version: u64,
    /// Who may write: of regions that are building or active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Holder>,
    /// Of sealed tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<ManifestRef>,
    /// Its extents, in the order of its addresses.
    pub(crate) runs: Vec<Extents>,
    /// Who reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pins: Vec<Reading>,
    /// Set once bytes of it were found that are not those that were sealed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) damaged: bool,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

impl RegionEntry {
    pub(crate) fn extents(&self) -> u64 {
        self.runs.iter().map(|run| run.2).sum()
    }
}

/// A process on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) slot: u16,
    pub(crate) incarnation: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) by: Holder,
    pub(crate) count: u64,
}

/// Size and checksum of a table's manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ManifestRef {
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
}

/// Extents that a host which was fenced may still write to, or write back from its caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quarantined {
    pub(crate) slot: u16,
    pub(crate) runs: Vec<Extents>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

impl PoolState {
    pub(crate) fn new(pool: Uuid, home: String, members: Vec<MemberEntry>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            pool,
            epoch: 0,
            generation: 0,
            home,
            served_at: None,
            members,
            hosts: Vec::new(),
            regions: Vec::new(),
            quarantine: Vec::new(),
            next_region: 1,
            unknown: Unknown::new(),
        }
    }

    pub(crate) fn host(&self, slot: u16) -> Option<&HostEntry> {
        self.hosts.iter().find(|host| host.slot == slot)
    }

    pub(crate) fn host_of(&self, machine: &str) -> Option<&HostEntry> {
        self.hosts.iter().find(|host| host.machine == machine)
    }

    pub(crate) fn region(&self, id: u64) -> Option<&RegionEntry> {
        self.regions.iter().find(|region| region.id == id)
    }

    /// The sealed table of a name: there is one at most.
    pub(crate) fn table(&self, name: &str) -> Option<&RegionEntry> {
        let mut sealed = self.tables();
        sealed.find(|region| region.name == name)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &RegionEntry> {
        let regions = self.regions.iter();
        regions.filter(|region| region.state == RegionState::Sealed)
    }

    /// Every run that is not free: of regions and of the quarantine.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Extents> {
        let used = self.regions.iter().flat_map(|region| &region.runs);
        let quarantined = self.quarantine.iter().flat_map(|entry| &entry.runs);
        used.chain(quarantined).copied()
    }

    /// Number of the member with this UUID.
    pub(crate) fn member_of(&self, uuid: Uuid) -> Option<u32> {
        let mut members = (0_u32..).zip(&self.members);
        let found = members.find(|(_, entry)| entry.uuid == uuid && !entry.removed);
        found.map(|(index, _)| index)
    }

    /// Number that the next member gets: of one that was removed, or a new one.
    pub(crate) fn next_member(&self) -> usize {
        let removed = self.members.iter().position(|entry| entry.removed);
        removed.unwrap_or(self.members.len())
    }

    pub(crate) fn member_extents(&self) -> u64 {
        self.members.iter().map(|member| member.extents).sum()
    }
}
