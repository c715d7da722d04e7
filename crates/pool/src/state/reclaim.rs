//! What becomes of the extents of hosts and processes that are gone (rules R4 and R5).

use super::{Clean, Extents, HostState, PoolState, Quarantined, RegionState, Unknown};

impl PoolState {
    /// Extents that processes of a host may have written and not written back.
    pub(crate) fn unclean(&self, slot: u16) -> Vec<Extents> {
        let owned = self.regions.iter().filter(|region| {
            let owner = region.owner.filter(|owner| owner.slot == slot);
            owner.is_some()
        });
        let owned = owned.flat_map(|region| &region.runs);
        let quarantined = self.quarantine.iter().filter(|entry| entry.slot == slot);
        let quarantined = quarantined.flat_map(|entry| &entry.runs);
        owned.chain(quarantined).copied().collect()
    }

    /// Ends everything that processes of a host had: what they wrote is free if it is clean and in
    /// quarantine otherwise, and what they read is no longer read.
    pub(super) fn release_host(&mut self, slot: u16, clean: Option<Clean>) {
        self.take_from(slot, clean);
        for region in &mut self.regions {
            region.pins.retain(|pin| pin.by.slot != slot);
        }
        self.free_retired();
    }

    /// Ends the use of the pool by a host. Of a client nothing is left but its quarantine.
    pub(super) fn leave(&mut self, slot: u16, clean: Option<Clean>) {
        self.release_host(slot, clean);
        let quarantined = self.quarantine.iter().any(|entry| entry.slot == slot);
        self.hosts.retain_mut(|host| {
            if host.slot == slot {
                host.state = HostState::Left;
            }
            host.slot != slot || host.client_on.is_none() || quarantined
        });
    }

    /// Ends the regions that a host may write. Its pins stay: it may still be reading, and must not
    /// find other data there.
    pub(super) fn fence(&mut self, slot: u16) {
        self.take_from(slot, None);
        if let Some(host) = self.hosts.iter_mut().find(|host| host.slot == slot) {
            host.state = HostState::Fenced;
        }
    }

    fn take_from(&mut self, slot: u16, clean: Option<Clean>) {
        let runs = self.unclean(slot);
        self.regions
            .retain(|region| region.owner.is_none_or(|owner| owner.slot != slot));
        self.quarantine.retain(|entry| entry.slot != slot);
        self.release(slot, runs, clean);
    }

    /// What is in no region any more is free, or in quarantine for the host that wrote it.
    pub(super) fn release(&mut self, slot: u16, runs: Vec<Extents>, clean: Option<Clean>) {
        if clean.is_some() || runs.is_empty() {
            return;
        }
        match self.quarantine.iter_mut().find(|entry| entry.slot == slot) {
            Some(entry) => entry.runs.extend(runs),
            None => self.quarantine.push(Quarantined {
                slot,
                runs,
                unknown: Unknown::new(),
            }),
        }
    }

    /// A retired region without readers is free: sealed regions are clean.
    pub(super) fn free_retired(&mut self) {
        self.regions
            .retain(|region| region.state != RegionState::Retired || !region.pins.is_empty());
    }
}
