//! The changes of a state, as a function from one state to the next.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Clean, Extents, Holder, HostEntry, HostState, ManifestRef, MemberEntry, PoolState, Reading,
    RegionEntry, RegionKind, RegionState, Spread, Unknown,
};
use crate::PoolError;
use crate::layout::{BANKS, HOST_SLOTS, MOST_EXTENTS, MOST_MEMBERS};

/// Who asks for a change (rule R3: the incarnation is the token that an earlier process lacks).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub(crate) holder: Holder,
    /// Number of the request, counted by the host; a repeated one gets its first answer. 0 for
    /// requests whose answer cannot be lost.
    pub(crate) request: u64,
}

/// A process that joins a pool.
#[derive(Debug, Clone)]
pub(crate) struct Joining {
    pub(crate) name: String,
    pub(crate) machine: String,
    pub(crate) boot: String,
    pub(crate) incarnation: u64,
    /// For what earlier processes of the machine have written.
    pub(crate) clean: Option<Clean>,
    /// Whether it becomes the manager. The home host so far is then fenced if it is another one.
    pub(crate) manages: Option<u8>,
    /// Whether it asks the manager for its changes, beside other processes of its machine.
    pub(crate) client: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// A table to be written, or scratch memory.
    Reserve {
        kind: RegionKind,
        name: String,
        uuid: Uuid,
        extents: u64,
        spread: Spread,
    },
    /// More extents for a scratch region, behind those it has.
    Extend {
        region: u64,
        extents: u64,
        spread: Spread,
    },
    /// The table is complete; it replaces the one of its name.
    Seal {
        region: u64,
        manifest: ManifestRef,
        clean: Clean,
    },
    Pin {
        region: u64,
    },
    Unpin {
        region: u64,
    },
    /// A sealed table is no longer to be found; its extents stay until nobody reads it.
    Drop {
        region: u64,
    },
    /// The owner gives back a region that is not sealed.
    Return {
        region: u64,
        clean: Option<Clean>,
    },
    Damaged {
        region: u64,
    },
    /// A member has become larger.
    Grow {
        member: u32,
        extents: u64,
    },
    /// A member has only so many extents; what is behind them moves.
    Shrink {
        member: u32,
        extents: u64,
    },
    AddMember(MemberEntry),
    /// A member is none any more; what is on it moves. Once it is removed this changes nothing: the
    /// request may be repeated.
    RemoveMember {
        member: Uuid,
    },
    /// A host does not answer.
    Fence {
        host: Holder,
    },
    /// A host is gone for sure.
    Gone {
        host: Holder,
        clean: Clean,
    },
    /// The asking host ends its use of the pool.
    Leave {
        clean: Option<Clean>,
    },
    /// Where the manager takes requests from now on.
    Serve {
        address: Option<String>,
    },
}

/// What came of a change: of several, of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Done,
    Region(u64),
}

impl PoolState {
    /// Lets a process join; earlier ones of its machine are gone. Returns its slot.
    pub(crate) fn join(&mut self, joining: Joining) -> Result<u16, PoolError> {
        check_name(&joining.name)?;
        let machine = match joining.client {
            // Another one for each process: none of them replaces another.
            true => format!("{}#{:016x}", joining.machine, joining.incarnation),
            false => joining.machine.clone(),
        };
        let slot = match self.host_of(&machine).map(|host| host.slot) {
            Some(slot) => {
                self.release_host(slot, joining.clean);
                slot
            }
            None => self.new_slot()?,
        };
        let bank = match joining.manages {
            Some(bank) => Some(bank),
            None if joining.client => None,
            None => self
                .host(slot)
                .and_then(|host| host.bank)
                .or_else(|| self.free_bank()),
        };
        let entry = HostEntry {
            slot,
            name: joining.name,
            machine,
            client_on: joining.client.then(|| joining.machine.clone()),
            boot: joining.boot,
            incarnation: joining.incarnation,
            state: HostState::Up,
            bank,
            last: None,
            unknown: Unknown::new(),
        };
        match self.hosts.iter_mut().find(|host| host.slot == slot) {
            Some(host) => {
                let unknown = std::mem::take(&mut host.unknown);
                *host = HostEntry { unknown, ..entry };
            }
            None => self.hosts.push(entry),
        }
        if joining.manages.is_some() {
            // Of the manager before.
            self.served_at = None;
        }
        if joining.manages.is_some() && self.home != joining.machine {
            if let Some(former) = self.host_of(&self.home).map(|host| host.slot) {
                self.fence(former);
            }
            self.home = joining.machine;
        }
        Ok(slot)
    }

    fn new_slot(&self) -> Result<u16, PoolError> {
        (0..HOST_SLOTS)
            .find(|slot| self.host(*slot).is_none())
            .ok_or(PoolError::NoSlot { what: "slot" })
    }

    /// A bank that no host has.
    pub(crate) fn free_bank(&self) -> Option<u8> {
        (0..BANKS).find(|bank| self.hosts.iter().all(|host| host.bank != Some(*bank)))
    }

    /// Makes changes for `actor`, and returns what came of the last one. After an error the state
    /// may be changed in part: it is a copy.
    pub(crate) fn apply(
        &mut self,
        actor: Actor,
        changes: impl IntoIterator<Item = Change>,
        extent_bytes: u64,
    ) -> Result<Answer, PoolError> {
        let slot = actor.holder.slot;
        if let Some(outcome) = self.repeated(actor)? {
            return Ok(outcome);
        }
        let mut outcome = Answer::Done;
        for change in changes {
            outcome = self.make(actor.holder, change, extent_bytes)?;
        }
        if actor.request != 0
            && let Some(host) = self.hosts.iter_mut().find(|host| host.slot == slot)
        {
            host.last = Some((actor.request, outcome));
        }
        Ok(outcome)
    }

    /// What came of a request, if it was made already.
    ///
    /// A host makes its requests one after the other. So one with a lower number than the last was
    /// sent long ago and given up: making it now would surprise whoever sent it.
    ///
    /// # Errors
    /// [`PoolError::LateRequest`] for such a request; [`PoolError::StaleHost`] if whoever asks may
    /// not change anything.
    pub(crate) fn repeated(&self, actor: Actor) -> Result<Option<Answer>, PoolError> {
        let Holder { slot, incarnation } = actor.holder;
        if !self.is_current(actor.holder) {
            return Err(PoolError::StaleHost { slot, incarnation });
        }
        let last = self.host(slot).and_then(|host| host.last);
        match last {
            _ if actor.request == 0 => Ok(None),
            Some((last, outcome)) if actor.request == last => Ok(Some(outcome)),
            Some((last, _)) if actor.request < last => Err(PoolError::LateRequest {
                request: actor.request,
                last,
            }),
            _ => Ok(None),
        }
    }

    fn make(&mut self, by: Holder, change: Change, extent_bytes: u64) -> Result<Answer, PoolError> {
        match change {
            Change::Reserve {
                kind,
                name,
                uuid,
                extents,
                spread,
            } => {
                check_name(&name)?;
                let runs = self.extents(extents, spread, extent_bytes)?;
                return Ok(Answer::Region(self.add(by, kind, name, uuid, runs)));
            }
            Change::Extend {
                region,
                extents,
                spread,
            } => {
                self.owned(region, by, RegionState::Active)?;
                let runs = self.extents(extents, spread, extent_bytes)?;
                self.owned(region, by, RegionState::Active)?
                    .runs
                    .extend(runs);
            }
            Change::Seal {
                region,
                manifest,
                clean,
            } => self.seal(by, region, manifest, clean)?,
            Change::Pin { region } => self.pin(by, region)?,
            Change::Unpin { region } => self.unpin(by, region),
            Change::Drop { region } => {
                self.in_state(region, RegionState::Sealed)?.state = RegionState::Retired;
                self.free_retired();
            }
            Change::Return { region, clean } => {
                let expected = match self.region(region).map(|r| r.kind) {
                    Some(RegionKind::Table) => RegionState::Building,
                    _ => RegionState::Active,
                };
                let runs = std::mem::take(&mut self.owned(region, by, expected)?.runs);
                self.regions.retain(|entry| entry.id != region);
                self.release(by.slot, runs, clean);
            }
            Change::Damaged { region } => {
                self.in_state(region, RegionState::Sealed)?.damaged = true;
            }
            Change::Grow { member, extents } => self.grow(member, extents, extent_bytes)?,
            Change::Shrink { member, extents } => self.shrink(member, extents, extent_bytes)?,
            Change::AddMember(member) => self.add_member(member, extent_bytes)?,
            Change::RemoveMember { member } => self.remove_member(member, extent_bytes)?,
            // Of a slot that another process has meanwhile, nothing.
            Change::Fence { host } if self.has(host) => self.fence(host.slot),
            Change::Gone { host, clean } if self.has(host) => {
                self.release_host(host.slot, Some(clean));
                self.hosts.retain(|entry| entry.slot != host.slot);
            }
            Change::Fence { .. } | Change::Gone { .. } => {}
            Change::Leave { clean } => self.leave(by.slot, clean),
            Change::Serve { address } => self.served_at = address,
        }
        Ok(Answer::Done)
    }

    fn has(&self, holder: Holder) -> bool {
        let host = self.host(holder.slot);
        host.is_some_and(|host| host.incarnation == holder.incarnation)
    }

    fn extents(
        &self,
        extents: u64,
        spread: Spread,
        extent_bytes: u64,
    ) -> Result<Vec<Extents>, PoolError> {
        let chosen = self.choose(extents.max(1), spread, extent_bytes);
        chosen.ok_or_else(|| {
            let space = self.space(extent_bytes);
            PoolError::Full {
                needed_bytes: extents.max(1).saturating_mul(extent_bytes),
                free_bytes: space.free_bytes,
                quarantined_bytes: space.quarantined_bytes,
                capacity_bytes: space.capacity_bytes,
            }
        })
    }

    fn add(
        &mut self,
        by: Holder,
        kind: RegionKind,
        name: String,
        uuid: Uuid,
        runs: Vec<Extents>,
    ) -> u64 {
        let id = self.next_region;
        self.next_region += 1;
        self.regions.push(RegionEntry {
            id,
            uuid,
            kind,
            state: match kind {
                RegionKind::Table => RegionState::Building,
                RegionKind::Scratch => RegionState::Active,
            },
            name,
            version: 0,
            owner: Some(by),
            manifest: None,
            runs,
            pins: Vec::new(),
            damaged: false,
            unknown: Unknown::new(),
        });
        id
    }

    /// `_arrived`: what was written is in memory, so that readers on other hosts find it there.
    fn seal(
        &mut self,
        by: Holder,
        id: u64,
        manifest: ManifestRef,
        _arrived: Clean,
    ) -> Result<(), PoolError> {
        let name = self.owned(id, by, RegionState::Building)?.name.clone();
        let mut version = 1;
        // Replacing is one step for every reader.
        let former = self.regions.iter_mut().find(|region| {
            let sealed = region.state == RegionState::Sealed;
            sealed && region.name == name
        });
        if let Some(former) = former {
            version = former.version + 1;
            former.state = RegionState::Retired;
        }
        let region = self.owned(id, by, RegionState::Building)?;
        region.state = RegionState::Sealed;
        region.version = version;
        region.owner = None;
        region.manifest = Some(manifest);
        self.free_retired();
        Ok(())
    }

    fn pin(&mut self, by: Holder, id: u64) -> Result<(), PoolError> {
        let region = self.in_state(id, RegionState::Sealed)?;
        match region.pins.iter_mut().find(|pin| pin.by == by) {
            Some(pin) => pin.count += 1,
            None => region.pins.push(Reading { by, count: 1 }),
        }
        Ok(())
    }

    /// Unpinning what is not pinned is no error: a request may be repeated.
    fn unpin(&mut self, by: Holder, id: u64) {
        if let Some(region) = self.regions.iter_mut().find(|region| region.id == id) {
            if let Some(pin) = region.pins.iter_mut().find(|pin| pin.by == by) {
                pin.count -= 1;
            }
            region.pins.retain(|pin| pin.count > 0);
        }
        self.free_retired();
    }

    fn grow(&mut self, member: u32, extents: u64, extent_bytes: u64) -> Result<(), PoolError> {
        let before = self.member_extents();
        let entry = self.member(member)?;
        let more = extents.saturating_sub(entry.extents);
        entry.extents += more;
        at_most(before.saturating_add(more), extent_bytes)
    }

    fn add_member(&mut self, member: MemberEntry, extent_bytes: u64) -> Result<(), PoolError> {
        let index = self.next_member();
        if index >= MOST_MEMBERS as usize {
            return Err(PoolError::TooManyMembers { most: MOST_MEMBERS });
        }
        match self.members.get_mut(index) {
            Some(removed) => *removed = member,
            None => self.members.push(member),
        }
        at_most(self.member_extents(), extent_bytes)
    }

    pub(super) fn member(&mut self, index: u32) -> Result<&mut MemberEntry, PoolError> {
        let unknown = self.unknown_member(index);
        let member = self.members.get_mut(index as usize);
        member.filter(|entry| !entry.removed).ok_or(unknown)
    }

    fn in_state(&mut self, id: u64, expected: RegionState) -> Result<&mut RegionEntry, PoolError> {
        let wrong = |found| PoolError::RegionState {
            id,
            found,
            expected: expected.word(),
        };
        let region = self.regions.iter_mut().find(|region| region.id == id);
        match region {
            None => Err(wrong("not there")),
            Some(region) if region.state != expected => Err(wrong(region.state.word())),
            Some(region) => Ok(region),
        }
    }

    /// A region that `by` may write.
    fn owned(
        &mut self,
        id: u64,
        by: Holder,
        expected: RegionState,
    ) -> Result<&mut RegionEntry, PoolError> {
        let region = self.in_state(id, expected)?;
        match region.owner {
            Some(owner) if owner == by => Ok(region),
            _ => Err(PoolError::RegionState {
                id,
                found: "another process's",
                expected: "an own region",
            }),
        }
    }
}

fn at_most(extents: u64, extent_bytes: u64) -> Result<(), PoolError> {
    match extents {
        0..=MOST_EXTENTS => Ok(()),
        _ => Err(PoolError::TooLarge {
            extent_bytes,
            most_bytes: MOST_EXTENTS * extent_bytes,
        }),
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), PoolError> {
    if (1..=255).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(PoolError::BadName { name: name.into() })
}
