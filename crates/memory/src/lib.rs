//! Memory regions, each with its own placement over NUMA nodes.
//!
//! A [`Region`] is a mapped range whose pages are where its [`Placement`] says: all on one node,
//! interleaved over several nodes by weight, or in contiguous parts. Weights belong to the region,
//! not to the system: the range is reserved without a policy, then prefaulted run by run, in
//! parallel, under the worker threads' own NUMA policy. The mapping stays one VMA whatever the page
//! size, ratio or number of runs, and no privilege is needed.
//!
//! An [`Audit`] asks the kernel where the pages really are. A [`PageSnapshot`] stores that page by
//! page, so that comparing two of them shows what moved. A [`Migration`] moves the pages to another
//! placement, limited in rate and resumable. [`FakeBackend`] does all of it on a simulated machine.
//! Memory need not be anonymous: see [`FileBackend`], [`DevdaxBackend`] and [`KernelInterleave`].
//! [`mapping`] times making and removing mappings; [`shared`] is memory that hosts share.
//!
//! ```
//! use std::sync::Arc;
//! use tierloom_memory::{
//!     AuditMode, FakeBackend, FakeNode, PageSize, Region, RegionOptions, fake_topology,
//! };
//!
//! let node = |node, cpus| FakeNode { node, cpus, memory_bytes: 1 << 30 };
//! let topology = fake_topology(&[node(0, 4), node(1, 0)])?;
//! let backend = Arc::new(FakeBackend::with_nodes(&[(0, 1 << 30), (1, 1 << 30)]));
//! let placement = "0:3,1:2".parse::<tierloom_memory::PlacementSpec>()?.resolve(&topology)?;
//! let options = RegionOptions::new("column", 100 * 4096, placement);
//! let mut region = Region::create(backend, &topology, options)?;
//! region.as_mut_slice()[0] = 7;
//! assert_eq!(region.audit(AuditMode::Full)?.worst_deviation(), 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod backend;
mod error;
mod folder;
pub mod mapping;
mod migrate;
mod page_size;
mod placement;
pub mod probe;
mod region;
pub mod router;
pub mod shared;
mod snapshot;
mod sys;

pub use audit::{Audit, AuditMode, Share};
pub use backend::{
    AnonymousNuma, DevdaxBackend, DevdaxError, FakeBackend, FakeCall, FakeNode, FileBackend,
    KernelInterleave, MemoryBackend, NodeCapacity, PageState, Placing, fake_topology,
};
pub use error::MemoryError;
pub use folder::{FilePages, FileSystemOf, MemoryFolder, Mounted};
pub use migrate::{
    Clock, FakeClock, Migration, MigrationOptions, MigrationState, Step, SystemClock,
};
pub use page_size::{MIB, PageSize};
pub use placement::{Placement, PlacementError, PlacementKind, PlacementSpec, Run, Runs, Target};
pub use region::{PrepareTimes, Region, RegionOptions, RegionSlice, RegionWords};
pub use snapshot::PageSnapshot;
pub use sys::Mapping;
