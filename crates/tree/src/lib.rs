//! A concurrent B+-tree with optimistic lock coupling, in memory that the caller places.
//!
//! Keys and values are 8 bytes. Inner nodes and leaves are in two [`Arena`]s, each with its own
//! memory and node size, so that they can be in different tiers. The tree is safe code over
//! [`AtomicU64`](std::sync::atomic::AtomicU64) words: readers that race with writers read words
//! that the version of the node then tells them not to use.
//!
//! ```text
//!   BPlusTree ── root ──> inner nodes (Arena) ──> leaves (Arena), linked from left to right
//!     └─ Session: one per thread; pinned in an epoch while it works (epoch.rs)
//!   lookup:  version of node, search, child; version of child; is the node unchanged? or restart
//!   insert:  as a lookup; then lock the leaf if it is unchanged, and the one above for a split
//! ```
//!
//! ```
//! use tierloom_tree::{Arena, BPlusTree};
//!
//! let inner = Arena::in_memory(100, 512)?;
//! let leaves = Arena::in_memory(1000, 1024)?;
//! let pairs = (0..10_000).map(|key| (key * 2, key));
//! let tree = BPlusTree::bulk_load(inner, leaves, pairs, 10_000, 0.7)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| tree.session().insert(7, 42));
//!     scope.spawn(|| assert_eq!(tree.session().get(8), Some(4)));
//! });
//! let mut found = Vec::new();
//! tree.session().scan(5, |key, value| {
//!     found.push((key, value));
//!     found.len() < 3
//! });
//! assert_eq!(found, [(6, 3), (7, 42), (8, 4)]);
//! # Ok::<(), tierloom_tree::TreeError>(())
//! ```
//!
//! Splits are on the way down; a leaf or inner node that removals leave less than a quarter full is
//! merged with a neighbour below the same node above, and node numbers are used again once no
//! session can be reading them. An arena that is full is an error of that insertion.

mod arena;
mod check;
mod counts;
mod descend;
mod epoch;
mod error;
mod insert;
mod load;
mod node;
mod remove;
mod scan;
mod search;
mod sync;
mod tree;
mod version;

pub use arena::{Arena, NODE_BYTES};
pub use check::{Summary, check_bytes};
pub use counts::Counts;
pub use error::{NodeKind, TreeError};
pub use load::{Needed, most_nodes, nodes_needed};
pub use tree::{BPlusTree, Pinned, Session};
