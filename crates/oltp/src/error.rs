//! What can go wrong.

use tierloom_memory::MemoryError;
use tierloom_tree::TreeError;

/// Why a store cannot be made, or its work not go on.
#[derive(Debug, thiserror::Error)]
pub enum OltpError {
    /// Memory of a part cannot be had as placed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An index cannot be made, or has no room.
    #[error("index {index}: {source}")]
    Index {
        /// Name of the index.
        index: &'static str,
        /// What the tree says.
        source: TreeError,
    },
    /// All rows that a table was made for are in use.
    #[error("table {table} is full: it was made for {rows} rows")]
    Full {
        /// Name of the table.
        table: &'static str,
        /// Rows that it was made for.
        rows: u32,
    },
    /// A table of more rows than its row numbers can count.
    #[error("table {table} of {rows} rows; the most are {}", u32::MAX - 1)]
    TooLarge {
        /// Name of the table.
        table: &'static str,
        /// Rows that were asked for.
        rows: u64,
    },
    /// The redo log cannot be made, read or written. What was committed before is in it.
    #[error("redo log {path}: cannot {action}: {reason}")]
    Log {
        /// Its path.
        path: String,
        /// What was attempted ("write", "open").
        action: &'static str,
        /// What the system says, or what is wrong with the file.
        reason: String,
    },
    /// A checkpoint cannot be made, read or used. The one before it and its log are there.
    #[error("checkpoints {path}: cannot {action}: {reason}")]
    Checkpoint {
        /// The pool's path.
        path: String,
        /// What was attempted ("take", "read").
        action: &'static str,
        /// What the pool says, or what is wrong with the checkpoint.
        reason: String,
    },
    /// The thread that merges or writes the log cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Why a transaction did not commit. Nothing of it is seen by others.
#[derive(Debug, thiserror::Error)]
pub enum Abort {
    /// What it read was changed by another transaction meanwhile; it may be tried again.
    #[error("another transaction changed what was read")]
    Conflict,
    /// The transaction itself asked for it.
    #[error("rolled back as asked")]
    RolledBack,
    /// The store cannot go on.
    #[error(transparent)]
    Failed(#[from] OltpError),
}
