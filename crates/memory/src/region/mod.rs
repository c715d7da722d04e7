//! Regions: mapped ranges with a placement.

mod check;
mod prefault;
mod slice;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tierloom_topology::{NodeId, Topology};

use crate::audit::{Audit, AuditMode};
use crate::backend::{MemoryBackend, Placing};
use crate::migrate::{Migration, MigrationOptions, MigrationState};
use crate::snapshot::{self, PageSnapshot};
use crate::{Mapping, MemoryError, PageSize, Placement};
pub use slice::RegionSlice;

/// What a region shall be.
#[derive(Debug, Clone)]
pub struct RegionOptions {
    /// What it holds, for errors, audits and file names.
    pub name: String,
    /// Its size; a whole number of pages ([`PageSize::round_up`] helps).
    pub size_bytes: usize,
    /// Its pages.
    pub page_size: PageSize,
    /// Where they go.
    pub placement: Placement,
    /// Phase within the round of weights at which the region starts, in pages; see
    /// [`Placement::runs`].
    pub start_page: u64,
    /// Threads that prefault; 0 takes one per available CPU.
    pub threads: usize,
}

impl RegionOptions {
    /// Base pages, phase 0, one thread per CPU.
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

/// How long it took to make a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrepareTimes {
    /// Reserving the range: opening and sizing a file, `mmap`, `madvise`. No page is touched in it.
    pub reserve: Duration,
    /// Making all pages present on their nodes, with all threads that were asked for, their start
    /// included.
    pub populate: Duration,
}

/// A mapped, fully populated range of memory whose pages lie where its placement says. Dropping it
/// unmaps it.
#[derive(Debug)]
pub struct Region {
    name: String,
    mapping: Mapping,
    backend: Arc<dyn MemoryBackend>,
    page_size: PageSize,
    start_page: u64,
    /// Where pages are wanted; a migration changes it.
    placement: Mutex<Placement>,
    /// The one node this process can have memory on, if there is just one: no policy is needed
    /// then.
    only_node: Option<NodeId>,
}

impl Region {
    /// Checks everything that can be checked, reserves the range, and prefaults it under the
    /// placement.
    ///
    /// Where this process can have memory on one node only, no policy is set at all, so containers
    /// that forbid `set_mempolicy` can still use that node.
    ///
    /// # Errors
    /// Before any page is touched: a size of 0 or not whole pages, nodes that are unknown, without
    /// memory, outside the cpuset or too full, hugetlb pools or file systems without room. After
    /// that, [`MemoryError::Syscall`] if the kernel refuses a run; everything is given back then.
    pub fn create(
        backend: Arc<dyn MemoryBackend>,
        topology: &Topology,
        options: RegionOptions,
    ) -> Result<Self, MemoryError> {
        Self::create_timed(backend, topology, options).map(|(region, _)| region)
    }

    /// As [`Region::create`], and tells how long reserving and populating took (checks are not in
    /// it).
    ///
    /// # Errors
    /// As [`Region::create`].
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

    /// What it holds.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes; zero where nobody wrote (or the contents of the file or device).
    pub fn as_slice(&self) -> &[u8] {
        self.mapping.as_slice()
    }

    /// The bytes, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.mapping.as_mut_slice()
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.mapping.size_bytes()
    }

    /// Number of pages of [`Region::page_size`].
    pub fn pages(&self) -> u64 {
        (self.size_bytes() / self.page_size.bytes()) as u64
    }

    /// The page size that was asked for.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Where the pages are wanted: the placement of creation, or of the last migration that was
    /// begun.
    pub fn placement(&self) -> Placement {
        self.placement
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Who decides where the pages are.
    pub fn placing(&self) -> Placing {
        self.backend.placing()
    }

    /// Phase within the round of weights at which the region starts, in pages.
    pub fn start_page(&self) -> u64 {
        self.start_page
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.mapping.address()
    }

    /// Whether an address lies inside.
    pub fn contains(&self, address: usize) -> bool {
        (self.address()..self.address() + self.size_bytes()).contains(&address)
    }

    /// A shared part of the bytes that keeps the region alive.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] if `range` does not lie inside.
    pub fn slice(
        self: &Arc<Self>,
        range: std::ops::Range<usize>,
    ) -> Result<RegionSlice, MemoryError> {
        RegionSlice::new(Arc::clone(self), range)
    }

    /// Asks the kernel where the pages are.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the kernel does not say and there is more than one node it could
    /// be.
    pub fn audit(&self, mode: AuditMode) -> Result<Audit, MemoryError> {
        self.snapshot(mode).map(|snapshot| snapshot.to_audit())
    }

    /// Asks the kernel where the pages are and remembers it page by page, to be compared with a
    /// later moment.
    ///
    /// # Errors
    /// As [`Region::audit`].
    pub fn snapshot(&self, mode: AuditMode) -> Result<PageSnapshot, MemoryError> {
        snapshot::take(self, mode)
    }

    /// How many of the pages that `earlier` looked at are on another node now.
    ///
    /// # Errors
    /// As [`Region::audit`], and [`MemoryError::Snapshots`] if `earlier` is of another region.
    pub fn moved_since(&self, earlier: &PageSnapshot) -> Result<u64, MemoryError> {
        earlier.moved(&self.snapshot(earlier.mode())?)
    }

    /// Prepares moving the pages to another placement; nothing moves before the first
    /// [`Migration::step`]. Readers can go on meanwhile: the kernel keeps the contents.
    ///
    /// # Errors
    /// [`MemoryError`] if the placement names no nodes, or nodes that cannot be had or are too
    /// full.
    pub fn migrate(
        &self,
        to: &Placement,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Migration<'_>, MemoryError> {
        Migration::begin(self, to, topology, options)
    }

    /// The same for some of the pages, as they would lie if the whole region had the placement.
    /// [`Region::placement`] stays as it is: going back is a migration of the same part to it.
    ///
    /// # Errors
    /// As [`Region::migrate`], and [`MemoryError::Migration`] for pages that the region does not
    /// have.
    pub fn migrate_part(
        &self,
        to: &Placement,
        part: std::ops::Range<u64>,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Migration<'_>, MemoryError> {
        Migration::begin_part(self, to, part, topology, options)
    }

    /// Goes on with a migration of this region that was interrupted.
    ///
    /// # Errors
    /// As [`Region::migrate`], and [`MemoryError::Migration`] if the state is not of this region.
    pub fn resume_migration(
        &self,
        state: MigrationState,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Migration<'_>, MemoryError> {
        Migration::resume(self, state, topology, options)
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
