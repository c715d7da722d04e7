//! Regions: mapped, populated ranges with a placement, the unit of audit and migration.

mod attached;
mod check;
mod prefault;
mod slice;
mod words;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tierloom_topology::{NodeId, Topology};

use crate::backend::{MemoryBackend, Placing};
use crate::{Mapping, MemoryError, PageSize, Placement};
pub use slice::RegionSlice;
pub use words::RegionWords;

/// Size, page size and placement of a new region.
#[derive(Debug, Clone)]
pub struct RegionOptions {
    /// Name of the object that it holds; used in errors, audits and file names.
    pub name: String,
    /// Size in bytes; a whole number of pages ([`PageSize::round_up`] gives one).
    pub size_bytes: usize,
    /// Page size, which is also the unit of placement.
    pub page_size: PageSize,
    /// Nodes of the pages.
    pub placement: Placement,
    /// Position in the round of weights at which the region starts, in pages; see
    /// [`Placement::runs`].
    pub start_page: u64,
    /// Threads that populate it; 0 for one per available CPU.
    pub threads: usize,
}

impl RegionOptions {
    /// Options with base pages, position 0 in the round and one thread per CPU.
    pub fn new(name: impl Into<String>, size_bytes: usize, placement: Placement) -> Self {
        Self {
            name: name.into(),
            size_bytes,
            page_size: PageSize::Base,
            placement,
            start_page: 0,
            threads: 0,
        }
    }
}

/// Times of creating a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrepareTimes {
    /// Reserving the range: opening and sizing a file, `mmap`, `madvise`. No page is touched here.
    pub reserve: Duration,
    /// Populating all pages on their nodes, including the start of the threads.
    pub populate: Duration,
}

/// A mapped and fully populated range of memory with its pages where its placement says.
///
/// Dropping it unmaps the range.
#[derive(Debug)]
pub struct Region {
    name: String,
    mapping: Mapping,
    backend: Arc<dyn MemoryBackend>,
    page_size: PageSize,
    start_page: u64,
    /// Target placement of the pages; a migration changes it.
    placement: Mutex<Placement>,
    /// The only node that this process can use, if there is just one: no policy is set then.
    only_node: Option<NodeId>,
}

impl Region {
    /// Checks the options, reserves the range, and populates it under the placement.
    ///
    /// If this process can use one node only, no policy is set at all, so that containers which
    /// forbid `set_mempolicy` still work.
    ///
    /// # Errors
    /// Before any page is touched: a size of 0 or not of whole pages; nodes that are unknown,
    /// without memory, outside the cpuset or too full; hugetlb pools or file systems without room.
    /// After that, [`MemoryError::Syscall`] if the kernel refuses a run; everything is released
    /// again.
    pub fn create(
        backend: Arc<dyn MemoryBackend>,
        topology: &Topology,
        options: RegionOptions,
    ) -> Result<Self, MemoryError> {
        Self::create_timed(backend, topology, options).map(|(region, _)| region)
    }

    /// Same as [`Region::create`], with the times of reserving and populating (checks not
    /// included).
    ///
    /// # Errors
    /// Same as [`Region::create`].
    pub fn create_timed(
        backend: Arc<dyn MemoryBackend>,
        topology: &Topology,
        options: RegionOptions,
    ) -> Result<(Self, PrepareTimes), MemoryError> {
        check::options(backend.as_ref(), topology, &options)?;
        let RegionOptions {
            name,
            size_bytes,
            page_size,
            placement,
            start_page,
            threads,
        } = options;
        let start = Instant::now();
        let mapping = backend.reserve(&name, size_bytes, page_size)?;
        let reserve = start.elapsed();
        let only_node = match check::usable_nodes(topology).as_slice() {
            [node] => Some(*node),
            _ => None,
        };
        // From here on a failure drops the region, which unmaps the range.
        let region = Self {
            name,
            mapping,
            backend,
            page_size,
            start_page,
            placement: Mutex::new(placement),
            only_node,
        };
        let start = Instant::now();
        prefault::all(&region, threads)?;
        let populate = start.elapsed();
        Ok((region, PrepareTimes { reserve, populate }))
    }

    /// Name of the object that the region holds.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes: zero until written, or the contents of the file or device.
    pub fn as_slice(&self) -> &[u8] {
        self.mapping.as_slice()
    }

    /// The bytes, for writing; `&mut self` guarantees that nobody reads them meanwhile.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.mapping.as_mut_slice()
    }

    /// Size of the region in bytes.
    pub fn size_bytes(&self) -> usize {
        self.mapping.size_bytes()
    }

    /// Number of pages, in units of [`Region::page_size`].
    pub fn pages(&self) -> u64 {
        (self.size_bytes() / self.page_size.bytes()) as u64
    }

    /// The page size requested; with [`PageSize::Thp`] the kernel may have used smaller ones.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Target placement of the pages: that of creation, or of the last migration that began to
    /// move.
    pub fn placement(&self) -> Placement {
        self.placement
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What decides where the pages go.
    pub fn placing(&self) -> Placing {
        self.backend.placing()
    }

    /// Position in the round of weights at which the region starts, in pages.
    pub fn start_page(&self) -> u64 {
        self.start_page
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.mapping.address()
    }

    /// Whether an address is inside the region.
    pub fn contains(&self, address: usize) -> bool {
        (self.address()..self.address() + self.size_bytes()).contains(&address)
    }

    /// A reference-counted part of the bytes that keeps the region alive.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] if `range` is not inside the region.
    pub fn slice(
        self: &Arc<Self>,
        range: std::ops::Range<usize>,
    ) -> Result<RegionSlice, MemoryError> {
        RegionSlice::new(Arc::clone(self), range)
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(crate) fn backend(&self) -> &dyn MemoryBackend {
        self.backend.as_ref()
    }

    pub(crate) fn only_node(&self) -> Option<NodeId> {
        self.only_node
    }

    pub(crate) fn set_placement(&self, placement: Placement) {
        *self
            .placement
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = placement;
    }
}

pub(crate) use check::{machine_has_room, nodes_have_room, placement_is_ours, placement_nodes};
