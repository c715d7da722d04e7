//! Memory backends: how a region gets, queries and moves its pages.
//!
//! ```text
//!             Region (validate, plan runs, prefault in parallel, audit, migrate)
//!                                    |
//!                              MemoryBackend
//!       ,--------------------+-------+---------+-------------------.
//!  AnonymousNuma        FileBackend       DevdaxBackend       FakeBackend
//!  mmap + thread policy tmpfs, fsdax,     a DAX device's      real bytes, invented nodes,
//!  KernelInterleave     hugetlbfs, files  own memory          capacities and failures
//!  mmap + mbind
//! ```
//!
//! A backend executes a plan page run by page run; which node a run goes to is decided above it,
//! unless [`MemoryBackend::placing`] says otherwise. It never falls back to another node by itself,
//! and never touches a page before [`MemoryBackend::populate`].

mod anonymous;
mod attached;
mod capacity;
mod devdax;
mod fake;
mod fake_topology;
mod file;
mod kernel_interleave;

use std::fmt::Debug;

use tierloom_topology::NodeId;

use crate::placement::Run;
use crate::{Mapping, MemoryError, PageSize};
pub use anonymous::AnonymousNuma;
pub(crate) use anonymous::populate_under_policy;
use anonymous::{locate, relocate};
pub(crate) use attached::AttachedMemory;
pub use capacity::NodeCapacity;
pub use devdax::{DevdaxBackend, DevdaxError};
pub use fake::{FakeBackend, FakeCall};
pub use fake_topology::{FakeNode, fake_topology};
pub use file::FileBackend;
pub(crate) use file::open_to_map;
pub use kernel_interleave::KernelInterleave;

/// State of one page, from a page query or a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Present on this node.
    On(NodeId),
    /// Not present: never touched, or swapped out.
    Absent,
    /// Errno with which the kernel refused to report, or to move, the page.
    Failed(i32),
}

/// What decides the nodes of a backend's pages.
#[derive(Debug, Clone, PartialEq)]
pub enum Placing {
    /// The region's placement, run by run.
    ByPlacement,
    /// A policy of the kernel that the backend sets. Regions must have the placement `default`.
    Kernel {
        /// Share of each node under that policy, as fractions of 1.
        shares: Vec<(NodeId, f64)>,
    },
    /// The router of operator memory, by the places of a class.
    ///
    /// Regions must have the placement `default`. No page is moved, since the place that a page
    /// counts for follows from its address.
    ByClass {
        /// Name of the class.
        class: String,
    },
    /// A pool, whose extents are where they are.
    ///
    /// Pages of files are queried as far as this process has touched them; none is moved.
    Pool {
        /// The pool as text ("/dev/shm/demo.pool").
        place: String,
    },
    /// The device: its pages cannot be placed.
    ///
    /// Regions must have the placement `default`. Pages are neither queried nor moved, as the
    /// kernel reports device memory as absent.
    Fixed {
        /// The device as text ("/dev/dax0.0 (target node 1)").
        place: String,
    },
}

/// How a region gets, queries and moves its pages.
///
/// Implemented by [`AnonymousNuma`], [`KernelInterleave`], [`FileBackend`], [`DevdaxBackend`],
/// [`ClassBackend`](crate::router::ClassBackend), and [`FakeBackend`] for tests and simulation.
pub trait MemoryBackend: Send + Sync + Debug {
    /// The backend as text, for records and errors ("anonymous memory", "files in /dev/shm").
    fn describe(&self) -> String;

    /// Free memory of `node` in pages of `page_size`, read now.
    ///
    /// `None` if the pages of this backend do not come from a node's free memory (files on a
    /// device).
    ///
    /// # Errors
    /// [`MemoryError::File`] if the system does not report it.
    fn capacity(
        &self,
        node: NodeId,
        page_size: PageSize,
    ) -> Result<Option<NodeCapacity>, MemoryError>;

    /// What decides the nodes of the pages; by default the region's placement.
    fn placing(&self) -> Placing {
        Placing::ByPlacement
    }

    /// Checks that need no page, such as the file system's type and free space; by default none.
    ///
    /// # Errors
    /// Whatever would make [`MemoryBackend::reserve`] or [`MemoryBackend::populate`] fail for
    /// certain.
    fn check(
        &self,
        _name: &str,
        _size_bytes: usize,
        _page_size: PageSize,
    ) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Reserves address space for a region, without touching a page.
    ///
    /// # Errors
    /// A [`MemoryError`] that names the region and what the system refused.
    fn reserve(
        &self,
        name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Mapping, MemoryError>;

    /// Populates the pages of `runs`, each run on its node.
    ///
    /// Called on a worker thread, whose NUMA policy is restored before this returns, whatever the
    /// outcome. By default a bind of the thread to the node of each run places them.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] for the first run that failed. Pages populated until then stay.
    fn populate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        runs: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError> {
        populate_under_policy(page_size, runs, &mut |offset, len| {
            mapping.populate(offset, len)
        })
    }

    /// Queries the node of the page at each byte offset; by default the kernel's answer.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the query as a whole is refused.
    fn locate(&self, mapping: &Mapping, offsets: &[usize]) -> Result<Vec<PageState>, MemoryError> {
        locate(mapping, offsets)
    }

    /// Moves the page (of `page_size`) at each byte offset to the node paired with it, keeping the
    /// contents. Returns the state of each page after the move.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the call as a whole is refused; single pages that cannot be
    /// moved are [`PageState::Failed`].
    fn relocate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        moves: &[(usize, NodeId)],
    ) -> Result<Vec<PageState>, MemoryError> {
        relocate(mapping, page_size, moves)
    }

    /// Bytes of `mapping` that are mapped as huge pages; `None` if the backend does not know.
    ///
    /// Only called for [`PageSize::Thp`].
    fn huge_bytes(&self, _mapping: &Mapping) -> Option<u64> {
        None
    }
}

impl PageState {
    /// Converts a status of `move_pages`: a node number, or a negative errno.
    pub(crate) fn from_status(status: i32) -> Self {
        match u32::try_from(status) {
            Ok(node) => Self::On(NodeId(node)),
            Err(_) if status == -libc::ENOENT => Self::Absent,
            Err(_) => Self::Failed(-status),
        }
    }
}
