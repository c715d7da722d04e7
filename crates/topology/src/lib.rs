//! Hardware and kernel configuration of a machine, as far as memory tiers depend on it.
//!
//! That is NUMA nodes, memory tiers, CPU caches, huge pages, interleave weights, CXL devices, and
//! the limits of this process. All of it is read from files below a [`SysRoot`], so a recorded tree
//! (see [`record`]) can replace the machine that it was recorded on:
//!
//! ```text
//!   /sys /proc  ──▶ SysRoot ──▶ Topology::read ──▶ Topology ──▶ render::tree, JSON, placements
//!   recorded tree ──┘  │                             │
//!                      └── record::record            └──▶ doctor::examine ◀── Probes (syscalls)
//! ```
//!
//! A value that could not be read is `None`, never 0, and [`Topology::notes`] says which file is at
//! fault and why. The crate itself changes nothing on the machine and measures nothing;
//! [`SystemFiles`] is what other crates read and write kernel files with.
//!
//! ```no_run
//! use tierloom_topology::{SysRoot, TierKind, Topology};
//! let topology = Topology::read(&SysRoot::host())?;
//! for tier in &topology.tiers {
//!     println!("{}: {} ({})", tier.kind, tier.node_list(), tier.reason);
//! }
//! assert_eq!(topology.tier_of(topology.nodes[0].id), Some(TierKind::Dram));
//! # Ok::<(), tierloom_topology::TopologyError>(())
//! ```

mod cpu;
pub mod cxl;
pub mod doctor;
mod environment;
mod error;
mod files;
mod hugepages;
mod id_set;
mod ids;
mod kernel;
mod limits;
mod node;
pub mod record;
pub mod render;
mod root;
pub mod saved_state;
mod tiers;
mod topology;

pub use cpu::{CacheKind, CacheLevel, CpuInfo};
pub use environment::{Environment, Fact};
pub use error::TopologyError;
pub use files::SystemFiles;
pub use hugepages::{HugePages, HugePool, PoolCount, ThpSize};
pub use id_set::{IdSet, IdSetError};
pub use ids::{CpuId, NodeId};
pub use kernel::{NumaBalancing, WeightedInterleave};
pub use limits::Limits;
pub use node::{AccessClass, MemoryBlocks, Node};
pub use root::SysRoot;
pub use tiers::{MemoryTier, ParseTierKindError, TierKind};
pub use topology::Topology;
