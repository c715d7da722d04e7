//! Memory of the tables: on the heap, or in a region with its own placement.
//!
//! The session's [`StructurePlacer`] is asked for each table when it is made and once more before
//! it is probed. Without one, or if a region cannot be created, tables are on the heap.

use datafusion::common::{DataFusionError, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tierloom_memory::{
    MemoryBackend, MigrationOptions, PageSize, Placement, Region, RegionOptions,
};
use tierloom_topology::Topology;

/// Policy that places the structures of a session's operators.
///
/// Registered in a [`StructurePlacement`] as an extension of the session configuration
/// (`SessionConfig::with_extension`). Without it tables are on the heap.
pub trait StructurePlacer: Send + Sync {
    /// Placement of a new structure of class `hash table` or `group table`; `None` for the heap.
    fn place(&self, class: &str, size_bytes: usize) -> Option<Placement>;

    /// Placement of a filled structure before it is probed; `None` to leave it.
    ///
    /// It is about to be read `line_reads` times at random.
    fn before_probe(
        &self,
        class: &str,
        size_bytes: usize,
        line_reads: u64,
        now: &Placement,
    ) -> Option<Placement> {
        let _ = (class, size_bytes, line_reads, now);
        None
    }
}

/// Session extension: the policy, and how its regions are made.
pub struct StructurePlacement {
    /// The policy that is asked for each structure.
    pub placer: Arc<dyn StructurePlacer>,
    /// Source of the regions' memory.
    pub backend: Arc<dyn MemoryBackend>,
    /// Topology that placements are resolved on.
    pub topology: Topology,
    /// Page size of the regions.
    pub page_size: PageSize,
}

impl fmt::Debug for StructurePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StructurePlacement")
            .field("page_size", &self.page_size)
            .finish_non_exhaustive()
    }
}

/// Memory of one table, initially zero.
pub(crate) enum Storage {
    /// From the allocator, as words: a `Vec<u64>` of zeros can come from untouched zero pages.
    Heap(Vec<u64>),
    Placed(Region),
}

impl Storage {
    /// Allocates at least `size_bytes` zeroed bytes where the policy of `placement` says.
    ///
    /// If the region cannot be created, the memory is on the heap and the second value says why.
    pub fn new(
        class: &str,
        size_bytes: usize,
        placement: Option<&StructurePlacement>,
    ) -> (Self, Option<String>) {
        // One extra cache line, so that the first bucket can start at a line boundary.
        let heap = || Storage::Heap(vec![0; size_bytes.div_ceil(8) + 8]);
        let Some(by) = placement else {
            return (heap(), None);
        };
        let Some(wanted) = by.placer.place(class, size_bytes) else {
            return (heap(), None);
        };
        let options = RegionOptions {
            page_size: by.page_size,
            ..RegionOptions::new(class, by.page_size.round_up(size_bytes.max(1)), wanted)
        };
        match Region::create(Arc::clone(&by.backend), &by.topology, options) {
            Ok(region) => (Storage::Placed(region), None),
            // A full tier should not fail the query. For joins the metric `tables_not_placed`
            // counts these.
            Err(error) => (heap(), Some(error.to_string())),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Storage::Heap(words) => bytemuck::cast_slice(words),
            Storage::Placed(region) => region.as_slice(),
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Storage::Heap(words) => bytemuck::cast_slice_mut(words),
            Storage::Placed(region) => region.as_mut_slice(),
        }
    }

    /// Migrates a placed table as the policy says for the probe; returns whether it moved.
    pub fn before_probe(
        &self,
        class: &str,
        line_reads: u64,
        placement: Option<&StructurePlacement>,
    ) -> Result<bool> {
        let (Storage::Placed(region), Some(by)) = (self, placement) else {
            return Ok(false);
        };
        let now = region.placement();
        let wanted = by
            .placer
            .before_probe(class, region.size_bytes(), line_reads, &now);
        let Some(wanted) = wanted.filter(|w| *w != now) else {
            return Ok(false);
        };
        let failed = |e: tierloom_memory::MemoryError| DataFusionError::External(Box::new(e));
        let mut migration = region
            .migrate(&wanted, &by.topology, MigrationOptions::default())
            .map_err(failed)?;
        loop {
            let step = migration.step().map_err(failed)?;
            if step.finished {
                return Ok(true);
            }
            // A rate limit makes a step ask for a pause.
            if step.wait > Duration::ZERO {
                std::thread::sleep(step.wait);
            }
        }
    }
}
