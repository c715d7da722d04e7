//! What must be true of every state.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{Extents, FORMAT, HostState, MemberEntry, PoolState, RegionKind, RegionState};
use crate::layout::{BANKS, HOST_SLOTS, MOST_EXTENTS, MOST_MEMBERS};

impl PoolState {
    /// Checks a state that was read, or is about to be committed.
    ///
    /// # Errors
    /// What contradicts what.
    pub(crate) fn check(&self, pool: Uuid) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("its format is `{}`", self.format));
        }
        if self.pool != pool {
            return Err(format!("it is the state of pool {}", self.pool));
        }
        self.check_members()?;
        self.check_hosts()?;
        self.check_regions()?;
        self.check_runs()
    }

    fn check_members(&self) -> Result<(), String> {
        let most = MOST_MEMBERS as usize;
        if self.members.is_empty() || self.members.len() > most {
            return Err(format!("it has {} members", self.members.len()));
        }
        let gone = |member: &MemberEntry| member.removed;
        if gone(&self.members[0]) || self.members.iter().any(|m| gone(m) && m.extents > 0) {
            return Err("a member with extents was removed".to_owned());
        }
        let sizes = self.members.iter().map(|member| member.extents);
        let total = sizes.fold(0_u64, u64::saturating_add);
        if total > MOST_EXTENTS {
            return Err(format!("it has {total} extents"));
        }
        let uuids: BTreeSet<_> = self.members.iter().map(|member| member.uuid).collect();
        unique(uuids.len() == self.members.len(), "UUIDs of members")
    }

    fn check_hosts(&self) -> Result<(), String> {
        let slots: BTreeSet<_> = self.hosts.iter().map(|host| host.slot).collect();
        let machines: BTreeSet<_> = self.hosts.iter().map(|host| &host.machine).collect();
        unique(slots.len() == self.hosts.len(), "slots of hosts")?;
        unique(machines.len() == self.hosts.len(), "machines")?;
        let banks: Vec<u8> = self.hosts.iter().filter_map(|host| host.bank).collect();
        let different: BTreeSet<_> = banks.iter().collect();
        unique(different.len() == banks.len(), "banks")?;
        if banks.iter().any(|bank| *bank >= BANKS) || slots.iter().any(|slot| *slot >= HOST_SLOTS) {
            return Err("a host has a slot or bank that does not exist".to_owned());
        }
        Ok(())
    }

    fn check_regions(&self) -> Result<(), String> {
        let ids: BTreeSet<_> = self.regions.iter().map(|region| region.id).collect();
        unique(ids.len() == self.regions.len(), "numbers of regions")?;
        if ids.last().is_some_and(|last| *last >= self.next_region) {
            return Err("a region has a number that is still to be given".to_owned());
        }
        let names: BTreeSet<_> = self.tables().map(|region| &region.name).collect();
        unique(names.len() == self.tables().count(), "names of tables")?;
        for region in &self.regions {
            let id = region.id;
            let expected = match region.state {
                RegionState::Active => RegionKind::Scratch,
                _ => RegionKind::Table,
            };
            let owned = matches!(region.state, RegionState::Building | RegionState::Active);
            if region.kind != expected
                || region.owner.is_some() != owned
                || region.manifest.is_some() == owned
                || region.runs.is_empty()
            {
                let state = region.state.word();
                return Err(format!("region {id} cannot be {state} with what it has"));
            }
            if owned && !region.pins.is_empty() {
                return Err(format!("region {id} is read before it is sealed"));
            }
            if region.state == RegionState::Retired && region.pins.is_empty() {
                return Err(format!("region {id} is retired and nobody reads it"));
            }
            let live = region.owner.is_none_or(|owner| self.is_current(owner));
            if !live {
                return Err(format!("the owner of region {id} is not in the pool"));
            }
            let known = |slot| self.host(slot).is_some();
            if region
                .pins
                .iter()
                .any(|p| p.count == 0 || !known(p.by.slot))
            {
                return Err(format!("a reader of region {id} is not in the pool"));
            }
        }
        Ok(())
    }

    /// Whether a process is the one that its host has in the pool, and may change something.
    pub(super) fn is_current(&self, holder: super::Holder) -> bool {
        self.host(holder.slot).is_some_and(|host| {
            host.incarnation == holder.incarnation && host.state != HostState::Fenced
        })
    }

    fn check_runs(&self) -> Result<(), String> {
        let mut runs: Vec<Extents> = self.runs().collect();
        runs.sort_unstable();
        for run in &runs {
            let member = self.members.get(run.0 as usize);
            let fits = member.is_some_and(|member| run.2 > 0 && run.end() <= member.extents);
            if !fits {
                return Err(format!("{run:?} is outside of its member"));
            }
        }
        for pair in runs.windows(2) {
            if pair[0].0 == pair[1].0 && pair[0].end() > pair[1].1 {
                return Err(format!("{:?} and {:?} overlap", pair[0], pair[1]));
            }
        }
        let of_hosts = self.quarantine.iter().map(|entry| entry.slot);
        match of_hosts.into_iter().find(|slot| self.host(*slot).is_none()) {
            Some(slot) => Err(format!("extents are in quarantine for no host ({slot})")),
            None => Ok(()),
        }
    }
}

fn unique(holds: bool, what: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(format!("{what} are not unique")),
    }
}
