//! Clients that ended without leaving.

use super::Inner;
use crate::PoolError;
use crate::format::Coherence;
use crate::state::{Change, Clean, HostEntry, HostState};
use tierloom_memory::shared::Access;

impl Inner {
    /// Ends the use of the pool by clients whose process is dead for sure, as far as this kernel
    /// can know: what they were writing is free, what they were reading is not read any more.
    /// Returns their names.
    pub(super) fn clear_gone(&mut self) -> Result<Vec<String>, PoolError> {
        let clients = self.state.hosts.iter();
        let clients = clients.filter(|host| host.client_on.is_some() && host.slot != self.me.slot);
        let clients: Vec<HostEntry> = clients.cloned().collect();
        let mut names = Vec::new();
        for client in clients {
            if let Some(clean) = self.gone(&client)? {
                let host = client.holder();
                self.change(Change::Gone { host, clean })?;
                names.push(client.name);
            }
        }
        Ok(names)
    }

    /// Proof that a client is dead and that no cache has a dirty line of what it wrote.
    fn gone(&self, client: &HostEntry) -> Result<Option<Clean>, PoolError> {
        if self.is_of_this_kernel(client) {
            if self.members.first().is_process_alive(client.incarnation)? {
                return Ok(None);
            }
            if let Some(clean) = Clean::coherent(self.superblock.coherence) {
                return Ok(Some(clean));
            }
            return self.evicted(client.slot).map(Some);
        }
        // This machine was started anew since. Fenced first: so it has been silent for two leases,
        // and is not the running original of a copied machine.
        let here = client.client_on.as_ref() == Some(&self.identity.machine);
        let fenced = client.state == HostState::Fenced;
        Ok(Clean::rebooted(&client.boot, &self.identity.boot).filter(|_| here && fenced))
    }

    /// Writes back and drops all lines of what a dead process of this kernel may have written: its
    /// processors are those of this process, and their caches are one.
    pub(super) fn evicted(&self, slot: u16) -> Result<Clean, PoolError> {
        let runs = self.state.unclean(slot);
        Clean::evicted(|| {
            let range = self.map(&runs, Access::Write)?;
            range.evict(0..range.size_bytes());
            Ok(())
        })
    }

    pub(super) fn is_of_this_kernel(&self, client: &HostEntry) -> bool {
        let identity = &self.identity;
        let same_boot = !identity.boot.is_empty() && client.boot == identity.boot;
        self.superblock.coherence == Coherence::Host
            || (client.client_on.as_ref() == Some(&identity.machine) && same_boot)
    }
}
