//! Memory that is attached and not made: its pages are where others put them.

use super::{AnonymousNuma, MemoryBackend, NodeCapacity, PageState, Placing};
use crate::placement::Run;
use crate::{Mapping, MemoryError, PageSize};
use tierloom_topology::NodeId;

/// Backend of [`Region::attached`](crate::Region::attached).
#[derive(Debug)]
pub(crate) struct AttachedMemory {
    placing: Placing,
}

impl AttachedMemory {
    pub fn new(placing: Placing) -> Self {
        Self { placing }
    }

    fn refused(&self, name: &str) -> MemoryError {
        MemoryError::Migration {
            name: name.to_owned(),
            reason: format!("{} can only be read", self.describe()),
        }
    }
}

impl MemoryBackend for AttachedMemory {
    fn describe(&self) -> String {
        match &self.placing {
            Placing::Pool { place } => format!("pool {place}"),
            Placing::Fixed { place } => place.clone(),
            _ => "attached memory".to_owned(),
        }
    }

    /// `None`: nothing is taken from the nodes.
    fn capacity(&self, _: NodeId, _: PageSize) -> Result<Option<NodeCapacity>, MemoryError> {
        Ok(None)
    }

    fn placing(&self) -> Placing {
        self.placing.clone()
    }

    fn reserve(&self, name: &str, _: usize, _: PageSize) -> Result<Mapping, MemoryError> {
        Err(self.refused(name))
    }

    fn populate(
        &self,
        _: &Mapping,
        _: PageSize,
        _: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError> {
        Err(self.refused("attached"))
    }

    fn locate(&self, mapping: &Mapping, offsets: &[usize]) -> Result<Vec<PageState>, MemoryError> {
        match AnonymousNuma::new().locate(mapping, offsets) {
            // Where containers forbid the query, nothing is known about pages of others.
            Err(MemoryError::Syscall { errno, .. })
                if matches!(errno, libc::EPERM | libc::ENOSYS | libc::EACCES) =>
            {
                Ok(vec![PageState::Failed(errno); offsets.len()])
            }
            located => located,
        }
    }

    fn relocate(
        &self,
        _: &Mapping,
        _: PageSize,
        _: &[(usize, NodeId)],
    ) -> Result<Vec<PageState>, MemoryError> {
        Err(self.refused("attached"))
    }
}
