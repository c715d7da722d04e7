//! The seam between regions and the kernel: how a region gets its pages.
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
//! A backend does what it is told page run by page run; what goes where is decided above it, unless
//! [`MemoryBackend::placing`] says that it is not. It never falls back to another node on its own,
//! and it never touches a page before [`MemoryBackend::populate`].

mod anonymous;
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
pub use capacity::NodeCapacity;
pub use devdax::{DevdaxBackend, DevdaxError};
pub use fake::{FakeBackend, FakeCall};
pub use fake_topology::{FakeNode, fake_topology};
pub use file::FileBackend;
pub(crate) use file::open_to_map;
pub use kernel_interleave::KernelInterleave;

/// Where one page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Present on this node.
    On(NodeId),
    /// Not there (never touched, or swapped out).
    Absent,
    /// The kernel would not say, or (in a move) would not move it: its errno.
    Failed(i32),
}

/// Who decides where the pages of a backend go.
#[derive(Debug, Clone, PartialEq)]
pub enum Placing {
    /// The region's placement, run by run.
    ByPlacement,
    /// The kernel, by a policy of the backend's own. Regions must have the placement `default`.
    Kernel {
        /// What each node should get by that policy, as fractions of 1.
        shares: Vec<(NodeId, f64)>,
    },
    /// The router of operator memory, by the places of a class. Regions must have the placement
    /// `default`, and no page is moved: which place it counts for follows from its address.
    ByClass {
        /// The class.
        class: String,
    },
    /// Nobody: pages are where the device is. Regions must have the placement `default`, and no
    /// page is asked for its place or moved: the kernel answers for device memory as if there were
    /// none.
    Fixed {
        /// Where that is, in words ("/dev/dax0.0 (target node 1)").
        place: String,
    },
}

/// How a region gets, finds and moves its pages. See the module for the drawing.
///
/// Implementers: [`AnonymousNuma`], [`KernelInterleave`], [`FileBackend`], [`DevdaxBackend`],
/// [`ClassBackend`](crate::router::ClassBackend), and [`FakeBackend`] for tests and
/// simulation.
pub trait MemoryBackend: Send + Sync + Debug {
    /// What it is, in words, for records and errors ("anonymous memory", "files in /dev/shm").
    fn describe(&self) -> String;

    /// What `node` can still give in pages of `page_size`, read now; `None` if pages of this
    /// backend do not come out of a node's free memory (files on a device).
    ///
    /// # Errors
    /// [`MemoryError::File`] if the system does not tell.
    fn capacity(
        &self,
        node: NodeId,
        page_size: PageSize,
    ) -> Result<Option<NodeCapacity>, MemoryError>;

    /// Who decides where pages go; the region's placement unless a backend says otherwise.
    fn placing(&self) -> Placing {
        Placing::ByPlacement
    }

    /// Checks of the backend's own that need no page (file system type, free space). The default
    /// has none.
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

    /// Reserves address space for a region; touches no page.
    ///
    /// # Errors
    /// [`MemoryError`] naming the region and what the system refused.
    fn reserve(
        &self,
        name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Mapping, MemoryError>;

    /// Makes the pages of `runs` present, each run on its node. Called on a worker thread, which
    /// has its old NUMA policy again when this returns, whatever the outcome.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] naming the first run that failed. Pages populated until then stay.
    fn populate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        runs: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError>;

    /// Where the pages at these byte offsets are.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the query as a whole is refused.
    fn locate(&self, mapping: &Mapping, offsets: &[usize]) -> Result<Vec<PageState>, MemoryError>;

    /// Moves the page at each byte offset (of `page_size`) to the node beside it; contents stay.
    /// Answers where each page is now.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the call as a whole is refused; single pages that stay are
    /// [`PageState::Failed`].
    fn relocate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        moves: &[(usize, NodeId)],
    ) -> Result<Vec<PageState>, MemoryError>;

    /// Bytes of `mapping` that really are huge pages, if the backend can tell. Only asked for
    /// [`PageSize::Thp`].
    fn huge_bytes(&self, _mapping: &Mapping) -> Option<u64> {
        None
    }
}

impl PageState {
    /// From the kernel's status: a node, or a negative errno.
    pub(crate) fn from_status(status: i32) -> Self {
        match u32::try_from(status) {
            Ok(node) => Self::On(NodeId(node)),
            Err(_) if status == -libc::ENOENT => Self::Absent,
            Err(_) => Self::Failed(-status),
        }
    }
}
