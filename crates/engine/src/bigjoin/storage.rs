//! Memory of the tables: on the heap, or in a region with a placement of its own.

use datafusion::common::{DataFusionError, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tierloom_memory::{
    MemoryBackend, MigrationOptions, PageSize, Placement, Region, RegionOptions,
};
use tierloom_topology::Topology;

/// Where a session wants its operators' structures, asked when one is made. Registered as an extension of the session's configuration
/// (`SessionConfig::with_extension`); without it tables are on the heap.
pub trait StructurePlacer: Send + Sync {
    /// Where a structure of `size_bytes` of the class (`hash table`, `group table`) goes; `None` leaves it on the heap.
    fn place(&self, class: &str, size_bytes: usize) -> Option<Placement>;

    /// Where a filled structure shall be before it is read `line_reads` times at random; `None` leaves it where it is.
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

/// The extension: who decides, and what regions are made of.
pub struct StructurePlacement {
    /// Decides.
    pub placer: Arc<dyn StructurePlacer>,
    /// Gives the memory.
    pub backend: Arc<dyn MemoryBackend>,
    /// The machine's nodes.
    pub topology: Topology,
    /// Pages of the regions.
    pub page_size: PageSize,
}

impl fmt::Debug for StructurePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StructurePlacement")
            .field("page_size", &self.page_size)
            .finish_non_exhaustive()
    }
}

/// Bytes of one table, zero at the start.
pub(crate) enum Storage {
    /// From the allocator. Words, so that the allocator can hand out zeroed pages without touching them.
    Heap(Vec<u64>),
    /// In a region.
    Placed(Region),
}

impl Storage {
    /// Zeroed memory of at least `size_bytes`, where `placement` (if there is one) wants it. If the region cannot be had, the heap it is, with
    /// the reason.
    pub fn new(
        class: &str,
        size_bytes: usize,
        placement: Option<&StructurePlacement>,
    ) -> (Self, Option<String>) {
        // Room to begin with a whole line.
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
            Err(error) => (heap(), Some(error.to_string())),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Storage::Heap(words) => bytemuck::cast_slice(words),
            Storage::Placed(region) => region.as_slice(),
        }
    }

    /// The bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Storage::Heap(words) => bytemuck::cast_slice_mut(words),
            Storage::Placed(region) => region.as_mut_slice(),
        }
    }

    /// Moves a placed table to where the session wants it before it is read; answers whether it moved.
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
            if step.wait > Duration::ZERO {
                std::thread::sleep(step.wait);
            }
        }
    }
}
