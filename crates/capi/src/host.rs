//! The machine that this process runs on.

use crate::status::Fault;
use std::sync::Arc;
use tierloom_memory::{AnonymousNuma, MemoryBackend, Placement, PlacementSpec};
use tierloom_topology::{SysRoot, Topology};

/// Nodes and tiers of a machine, and where its memory comes from.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) topology: Topology,
    pub(crate) backend: Arc<dyn MemoryBackend>,
}

impl Host {
    /// This machine; `tiers` says which nodes are which tier, empty for what the system reports.
    pub(crate) fn here(tiers: &str) -> Result<Host, Fault> {
        let mut topology = Topology::read(&SysRoot::host())?;
        if !tiers.is_empty() {
            topology.override_tiers(tiers)?;
        }
        Ok(Host {
            topology,
            backend: Arc::new(AnonymousNuma::new()),
        })
    }

    /// The nodes that the text of a placement means here; empty where the kernel chooses.
    pub(crate) fn placement(&self, text: &str) -> Result<Placement, Fault> {
        if text.is_empty() {
            return Ok(Placement::kernel_default());
        }
        Ok(text.parse::<PlacementSpec>()?.resolve(&self.topology)?)
    }
}
