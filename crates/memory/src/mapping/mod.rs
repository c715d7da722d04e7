//! Times `mmap`, populating and `munmap` of a range, for benchmarks of mapping costs.
//!
//! ```
//! use tierloom_memory::mapping::{MapRequest, MapWhat, timed_unmap};
//! use tierloom_memory::{MIB, PageSize, Placement};
//! use tierloom_topology::{SysRoot, Topology};
//!
//! let request = MapRequest {
//!     what: MapWhat::AnonymousPrivate,
//!     size_bytes: MIB,
//!     page_size: PageSize::Base,
//!     nodes: Placement::kernel_default(),
//!     populate: true,
//! };
//! request.check(&Topology::read(&SysRoot::host())?)?;
//! let (mapped, mapping_took) = request.timed_map()?;
//! let unmapping_took = timed_unmap(mapped)?;
//! # let _ = (mapping_took, unmapping_took);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod scratch;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tierloom_topology::{SysRoot, Topology};

use crate::audit::{self, AuditMode, Counts, Share};
use crate::backend::{
    AnonymousNuma, DevdaxBackend, DevdaxError, FileBackend, MemoryBackend, Placing, open_to_map,
    populate_under_policy,
};
use crate::region::{machine_has_room, nodes_have_room, placement_is_ours, placement_nodes};
use crate::sys::base_page_bytes;
use crate::sys::mapping::Backing;
use crate::{Mapping, MemoryError, PageSize, Placement, PlacementKind};
pub use scratch::ScratchFile;

/// Kind of memory to map, with the file or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapWhat {
    /// `MAP_PRIVATE | MAP_ANONYMOUS`, as allocators use it for the heap.
    AnonymousPrivate,
    /// `MAP_SHARED | MAP_ANONYMOUS`: memory shared with child processes; inside the kernel a tmpfs
    /// file.
    AnonymousShared,
    /// The start of an existing file that is long enough ([`ScratchFile`] makes one).
    ///
    /// Its contents do not change, not even when the mapping is populated.
    File {
        /// Path of the file.
        path: PathBuf,
        /// `true` for `MAP_SHARED`; `false` for `MAP_PRIVATE`, where populating copies every page.
        shared: bool,
    },
    /// A DAX device, mapped `MAP_SHARED` (the only way it allows).
    Devdax {
        /// Path of the device.
        path: PathBuf,
        /// Offset of the first byte, a multiple of the device's alignment.
        offset_bytes: u64,
    },
}

/// A mapping to make; it can be made any number of times.
#[derive(Debug, Clone, PartialEq)]
pub struct MapRequest {
    /// Kind of memory, and the file or device.
    pub what: MapWhat,
    /// Bytes to map; a whole number of pages.
    pub size_bytes: usize,
    /// Page size of anonymous memory.
    ///
    /// For files it must be that of their file system; for devices `4k`, which then means the
    /// device's own.
    pub page_size: PageSize,
    /// Nodes of populated anonymous pages; [`Placement::kernel_default`] for files and devices.
    ///
    /// Without `populate` there are no pages to place.
    pub nodes: Placement,
    /// Whether all pages are populated (for writing) within the timed part.
    pub populate: bool,
}

/// A mapping made by [`MapRequest::timed_map`]; dropping it unmaps it, untimed.
///
/// It gives no access to its bytes, since several may map the same file.
#[derive(Debug)]
pub struct Mapped {
    mapping: Mapping,
}

impl Mapped {
    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.mapping.address()
    }

    /// Length of the mapping in bytes.
    pub fn size_bytes(&self) -> usize {
        self.mapping.size_bytes()
    }

    /// Share of each node in the sampled base pages, nodes ascending.
    ///
    /// Fractions of 1. They add up to less than 1 where pages are absent; device memory is on no
    /// node.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the kernel refuses the query.
    pub fn shares(&self, mode: AuditMode) -> Result<Vec<Share>, MemoryError> {
        let page_bytes = base_page_bytes();
        let pages_total = (self.size_bytes() / page_bytes) as u64;
        let offsets: Vec<usize> = audit::chosen_pages(mode, pages_total)
            .map(|page| page as usize * page_bytes)
            .collect();
        let mut counts = Counts::default();
        let states = AnonymousNuma::new().locate(&self.mapping, &offsets)?;
        states.into_iter().for_each(|state| counts.add(state, None));
        Ok(audit::shares_of(&counts.per_node, offsets.len() as u64))
    }

    /// Bytes that are mapped as huge pages; `None` if the kernel does not report it.
    pub fn huge_bytes(&self) -> Option<u64> {
        crate::sys::huge::huge_bytes(&self.mapping)
    }
}

impl MapRequest {
    /// Checks what can be known without mapping: sizes, page size, nodes, free memory, file or
    /// device.
    ///
    /// # Errors
    /// A [`MemoryError`] that names what is wrong and what would be accepted.
    pub fn check(&self, topology: &Topology) -> Result<(), MemoryError> {
        let name = self.describe();
        self.check_size(&name)?;
        placement_nodes(topology, &self.nodes)?;
        match &self.what {
            MapWhat::AnonymousPrivate | MapWhat::AnonymousShared => {
                self.check_room(&name, topology)
            }
            MapWhat::File { path, .. } => {
                let place = path.display().to_string();
                placement_is_ours(&Placing::Fixed { place }, &name, self.kind(), &self.nodes)?;
                FileBackend::at_path(path).check(&name, self.size_bytes, self.page_size)?;
                open_to_map(path, self.size_bytes).map(drop)
            }
            MapWhat::Devdax { path, offset_bytes } => {
                let backend = DevdaxBackend::below(&topology.root, path, *offset_bytes)?;
                placement_is_ours(&backend.placing(), &name, self.kind(), &self.nodes)?;
                backend.check_range(self.size_bytes, self.page_size)
            }
        }
    }

    fn check_size(&self, name: &str) -> Result<(), MemoryError> {
        if self.size_bytes == 0 {
            return Err(MemoryError::SizeZero { name: name.into() });
        }
        if !self.size_bytes.is_multiple_of(self.page_size.bytes()) {
            return Err(MemoryError::SizeNotPages {
                name: name.into(),
                size_bytes: self.size_bytes,
                page_size: self.page_size,
                page_bytes: self.page_size.bytes(),
                rounded_bytes: self.page_size.round_up(self.size_bytes),
            });
        }
        Ok(())
    }

    /// Checks free memory: populating a bound range on a full node can invoke the out-of-memory
    /// killer.
    fn check_room(&self, name: &str, topology: &Topology) -> Result<(), MemoryError> {
        if !self.populate && !self.page_size.is_hugetlb() {
            return Ok(());
        }
        let pages = (self.size_bytes / self.page_size.bytes()) as u64;
        let backend = AnonymousNuma::new();
        let wanted = self.nodes.pages_per_node(pages, 0);
        if wanted.is_empty() {
            return machine_has_room(&backend, topology, name, self.page_size, pages);
        }
        nodes_have_room(&backend, topology, name, self.page_size, &wanted)
    }

    fn kind(&self) -> String {
        match &self.what {
            MapWhat::AnonymousPrivate => "private anonymous memory".to_owned(),
            MapWhat::AnonymousShared => "shared anonymous memory".to_owned(),
            MapWhat::File { path, shared: true } => format!("{} (shared)", path.display()),
            MapWhat::File {
                path,
                shared: false,
            } => format!("{} (private)", path.display()),
            MapWhat::Devdax { path, .. } => path.display().to_string(),
        }
    }

    /// The mapping as text, such as "1048576 bytes of private anonymous memory".
    pub fn describe(&self) -> String {
        format!("{} bytes of {}", self.size_bytes, self.kind())
    }

    /// Maps the range, and populates it if requested; returns the mapping and the time.
    ///
    /// The time is that of `mmap` plus that of populating (`madvise(MADV_POPULATE_WRITE)`, or a
    /// touch of each page before Linux 5.14). Not included are opening the file or device, advice
    /// about the page size, and changes of the thread's policy, which is restored afterwards.
    ///
    /// # Errors
    /// A [`MemoryError`] that names what the system refused. Its message may differ from the one
    /// that [`MapRequest::check`] gives for the same request.
    pub fn timed_map(&self) -> Result<(Mapped, Duration), MemoryError> {
        let (shared, backing) = self.backing()?;
        let (mapping, mut took) = Mapping::timed(self.size_bytes, shared, backing, self.page_size)
            .map_err(|errno| self.refused(errno))?;
        if self.populate {
            took += self.populate_all(&mapping)?;
        }
        Ok((Mapped { mapping }, took))
    }

    fn refused(&self, errno: i32) -> MemoryError {
        match &self.what {
            MapWhat::Devdax { path, offset_bytes } => DevdaxError::Map {
                path: path.clone(),
                offset_bytes: *offset_bytes,
                size_bytes: self.size_bytes as u64,
                source: std::io::Error::from_raw_os_error(errno),
            }
            .into(),
            _ => MemoryError::syscall("mmap", self.describe(), errno),
        }
    }

    fn populate_all(&self, mapping: &Mapping) -> Result<Duration, MemoryError> {
        let pages = (self.size_bytes / self.page_size.bytes()) as u64;
        let mut runs = self.nodes.runs(pages, 0);
        let mut took = Duration::ZERO;
        populate_under_policy(self.page_size, &mut runs, &mut |offset, len| {
            let start = Instant::now();
            // Only the populating itself is timed, so the caller's switch of the thread policy
            // between runs does not count.
            let outcome = mapping.populate(offset, len);
            took += start.elapsed();
            outcome
        })?;
        Ok(took)
    }

    /// Whether the mapping is shared, and what backs it.
    fn backing(&self) -> Result<(bool, Backing), MemoryError> {
        let file = |path: &Path| {
            self.only_default_placement()?;
            open_to_map(path, self.size_bytes)
        };
        Ok(match &self.what {
            MapWhat::AnonymousPrivate => (false, Backing::Anonymous),
            MapWhat::AnonymousShared => (true, Backing::Anonymous),
            MapWhat::File { path, shared: true } => (
                true,
                Backing::SharedFile {
                    file: file(path)?,
                    offset_bytes: 0,
                },
            ),
            MapWhat::File {
                path,
                shared: false,
            } => (false, Backing::PrivateFile { file: file(path)? }),
            MapWhat::Devdax { path, offset_bytes } => {
                self.only_default_placement()?;
                let backend = DevdaxBackend::below(&SysRoot::host(), path, *offset_bytes)?;
                backend.check_range(self.size_bytes, self.page_size)?;
                (
                    true,
                    Backing::Device {
                        file: backend.open()?,
                        offset_bytes: *offset_bytes,
                    },
                )
            }
        })
    }

    fn only_default_placement(&self) -> Result<(), MemoryError> {
        match self.nodes.kind() {
            PlacementKind::Default => Ok(()),
            _ => Err(MemoryError::Map {
                what: self.describe(),
                reason: format!(
                    "its pages are where the file or device is, not by placement `{}`; ask for `default`",
                    self.nodes
                ),
            }),
        }
    }
}

/// Unmaps the range and returns the time of `munmap`; closing the file or device is not included.
///
/// # Errors
/// [`MemoryError::Syscall`] if the kernel refuses; the range then stays mapped.
pub fn timed_unmap(mapped: Mapped) -> Result<Duration, MemoryError> {
    let what = format!("{} bytes", mapped.size_bytes());
    mapped
        .mapping
        .unmap_timed()
        .map_err(|errno| MemoryError::syscall("munmap", what, errno))
}
