//! Pools: memory in files and DAX devices that keeps tables over restarts and crashes, and that
//! processes and hosts share.
//!
//! A pool is made of *members*, which are divided into *extents*. *Regions* are sets of extents: a
//! table is written once as a [`Draft`], sealed, and from then on read by everybody as an
//! [`Attached`]; [`Scratch`] is memory of one process. The state of a pool (who has which extents)
//! lies in the pool itself and nowhere else. One process at a time, the manager, replaces it as a
//! whole with every commit, so that a crash at any instruction leaves the old state or the new one.
//!
//! ```text
//!  Pool (create, open, reserve, attach, scratch, grow)
//!    state    what there is, as a function from one state to the next
//!    store    commits, recovery, tenures of managers
//!    line     single cache lines     manifest   what a table is, checksums of its chunks
//!    medium   load, store, flush, fence, invalidate
//!    member   files, DAX devices, locks         dax        sizes of devices, through sysfs
//! ```
//!
//! `docs/pool-format.md` has every byte of it, and the argument why commits are never lost.
//!
//! ```
//! use tierloom_pool::{CreateOptions, OpenOptions, Pool, Spread, TableSpec};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("demo.pool");
//! let create = CreateOptions { file_bytes: 32 << 20, ..CreateOptions::default() };
//! let pool = Pool::create(&path, &[], &create, &OpenOptions::default())?;
//! let spec = TableSpec {
//!     name: "orders".to_owned(),
//!     data_bytes: 100,
//!     content_bytes: 1000,
//!     spread: Spread::Pack,
//! };
//! let mut draft = pool.reserve(&spec)?;
//! draft.bytes_mut().fill(7);
//! draft.seal(&serde_json::json!({ "rows": 100 }), b"")?;
//! drop(pool);
//!
//! let pool = OpenOptions::default().open(&path)?;
//! let table = pool.attach("orders")?;
//! table.verify_all()?;
//! assert_eq!((table.bytes(), &table.content()["rows"]), (&[7; 100][..], &100.into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod blocks;
pub mod capacity;
mod dax;
mod error;
mod format;
mod huge;
mod identity;
mod layout;
mod lease;
mod line;
mod manifest;
mod medium;
mod member;
mod pool;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use dax::{DaxResize, DaxSizeError};
pub use error::PoolError;
pub use format::Coherence;
pub use pool::{
    Attached, ClientEvent, Connect, CreateOptions, CreatePlan, Draft, Finished, HostStatus,
    ManagerLink, MemberStatus, OpenOptions, OperatorScratch, Pool, PoolServer, PoolStatus,
    RegionStatus, Removal, RemovalStep, Scratch, ScratchSpec, ShrinkPlan, TableSpec,
};
pub use state::{HostState, RegionKind, RegionState, Space, Spread};
