//! Memory blocks of CXL regions: how much of one the kernel uses as a node's memory.
//!
//! The kernel divides memory into blocks and takes each into use (*online*) or lets it go
//! (*offline*) while programs run. Before a block goes, the pages in it move to other memory, their
//! programs keep their data. Hosts that see the same region and use disjoint blocks of it share a
//! pool of capacity without any further help.
//!
//! ```text
//!   DAX devices with driver kmem ── MemoryBlocks::read ──> blocks ── choose ──> blocks to change
//!   change:   lock ─ save states, fsync ─ block after block: write, read back ──> Timeline
//!   restore:  saved states ─ block after block ─ delete the saved states
//! ```
//!
//! Only blocks that lie in a DAX device are ever changed: memory that the machine was started with
//! is not.

mod change;
mod choose;
mod error;
mod read;
mod restore;
mod saved;

use serde::{Deserialize, Serialize};

pub use change::{BlockChange, Timeline, change};
pub use choose::{Pick, choose};
pub use error::BlocksError;
pub use read::{BlockSource, MemoryBlock, MemoryBlocks};
pub use restore::{RestoredBlocks, restore};

/// Usual name of the file with the saved states.
pub const STATES_FILE: &str = "kernel-memory-blocks.json";

/// Whether the kernel uses a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockState {
    /// Its memory belongs to its node.
    Online,
    /// Nobody uses it.
    Offline,
    /// Its pages are being moved away.
    GoingOffline,
}

impl BlockState {
    /// The word in sysfs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::GoingOffline => "going-offline",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [Self::Online, Self::Offline, Self::GoingOffline];
        all.into_iter().find(|state| state.word() == text)
    }
}
