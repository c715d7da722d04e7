//! Memory regions with a placement of their own.
//!
//! A [`Region`] is a mapped range whose pages lie where its [`Placement`] says: all on one node, in
//! weighted rounds over several nodes, or in contiguous parts. Weights belong to the region, not to
//! the system: the range is reserved without any policy, then prefaulted run by run under the
//! worker threads' own NUMA policy, in parallel. No page size, ratio or number of runs splits the
//! mapping, and no privilege is needed.
//!
//! An [`Audit`] asks the kernel where the pages really are; a [`PageSnapshot`] remembers it, so
//! that a later one shows what moved; a [`Migration`] moves them to another placement, bounded in
//! rate and resumable. [`FakeBackend`] does all of it on an invented machine. Memory need not be
//! anonymous: see [`FileBackend`], [`DevdaxBackend`] and [`KernelInterleave`]. [`mapping`] times
//! making and taking away mappings.
//!
//! ```
//! use std::sync::Arc;
//! use tierloom_memory::{AuditMode, FakeBackend, FakeNode, PageSize, Region, RegionOptions, fake_topology};
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
pub mod mapping;
mod migrate;
mod page_size;
mod placement;
pub mod probe;
mod region;
pub mod router;
mod snapshot;
mod sys;

pub use audit::{Audit, AuditMode, Share};
pub use backend::{
    AnonymousNuma, DevdaxBackend, DevdaxError, FakeBackend, FakeCall, FakeNode, FileBackend,
    KernelInterleave, MemoryBackend, NodeCapacity, PageState, Placing, fake_topology,
};
pub use error::{MemoryError, PlacementError};
pub use migrate::{
    Clock, FakeClock, Migration, MigrationOptions, MigrationState, Step, SystemClock,
};
pub use page_size::{MIB, PageSize};
pub use placement::{Placement, PlacementKind, PlacementSpec, Run, Runs, Target};
pub use region::{PrepareTimes, Region, RegionOptions, RegionSlice};
pub use snapshot::PageSnapshot;
pub use sys::Mapping;
