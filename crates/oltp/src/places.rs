//! Where the parts of a store are: each part has a placement of its own.

use std::sync::Arc;

use tierloom_memory::{
    Audit, AuditMode, MemoryBackend, MemoryError, PageSize, Placement, Region, RegionOptions,
    RegionWords,
};
use tierloom_topology::Topology;

/// A part of a store that is placed on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorePart {
    /// Rows as they were loaded or merged: written by merging alone.
    Main,
    /// Heads, and the versions that transactions wrote (delta).
    Heap,
    /// Leaves of the indexes.
    Leaves,
    /// Inner nodes of the indexes.
    Inner,
}

impl StorePart {
    /// All parts, the largest first.
    pub const ALL: [StorePart; 4] = [Self::Main, Self::Heap, Self::Leaves, Self::Inner];

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Heap => "heap",
            Self::Leaves => "leaves",
            Self::Inner => "inner",
        }
    }
}

/// How a store gets its memory.
#[derive(Debug)]
pub struct StoreMemory<'t> {
    /// What the pages come from.
    pub backend: Arc<dyn MemoryBackend>,
    /// The machine.
    pub topology: &'t Topology,
    /// Page size of all regions.
    pub page_size: PageSize,
    /// Placement of each part, in the order of [`StorePart::ALL`].
    pub placements: [Placement; 4],
}

/// The regions of a store by part.
#[derive(Debug, Default)]
pub(crate) struct Regions(Vec<(StorePart, RegionWords)>);

impl Regions {
    /// A new region of a part.
    pub(crate) fn create(
        &mut self,
        memory: &StoreMemory<'_>,
        part: StorePart,
        name: String,
        size_bytes: usize,
    ) -> Result<RegionWords, MemoryError> {
        let size_bytes = memory.page_size.round_up(size_bytes.max(1));
        let placement = memory.placements[part as usize].clone();
        let mut options = RegionOptions::new(name, size_bytes, placement);
        options.page_size = memory.page_size;
        let region = Region::create(Arc::clone(&memory.backend), memory.topology, options)?;
        let words = RegionWords::new(region);
        self.0.push((part, words.clone()));
        Ok(words)
    }

    /// Bytes of the regions of a part.
    pub(crate) fn size_bytes(&self, part: StorePart) -> u64 {
        let regions = self.0.iter().filter(|(of, _)| *of == part);
        regions.map(|(_, words)| words.size_bytes() as u64).sum()
    }

    /// Where the pages of a part are.
    pub(crate) fn audit(&self, part: StorePart, mode: AuditMode) -> Result<Audit, MemoryError> {
        let regions = self.0.iter().filter(|(of, _)| *of == part);
        let audits = regions
            .map(|(_, words)| words.audit(mode))
            .collect::<Result<Vec<_>, _>>()?;
        #[expect(clippy::expect_used, reason = "a store has tables and indexes")]
        Ok(Audit::merge(&audits).expect("a part has regions"))
    }
}
