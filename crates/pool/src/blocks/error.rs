//! Why blocks are not read or changed.

use std::path::PathBuf;

use tierloom_text::Bytes;
use tierloom_topology::saved_state::SavedStateError;

/// Why memory blocks are not read, changed or restored.
#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    /// sysfs does not say what is needed.
    #[error(
        "cannot learn about memory blocks from {}: {why}; run as root, on a kernel with memory hot-plug",
        file.display()
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is there instead.
        why: String,
    },
    /// Nothing of the kind is there.
    #[error(
        "this machine has no {what} whose memory the kernel uses; it has {existing}; memory that the machine was \
         started with is never changed"
    )]
    NoDevice {
        /// What was asked for.
        what: String,
        /// The DAX devices.
        existing: String,
    },
    /// The device's memory is no node's.
    #[error(
        "{device} is in devdax mode and has no memory blocks; `daxctl reconfigure-device --mode=system-ram {device}` \
         gives its memory to the kernel"
    )]
    OtherMode {
        /// The device.
        device: String,
    },
    /// A number that is none of a block.
    #[error("{numbers} are no memory blocks there; they are {existing}")]
    NoSuchBlock {
        /// As given.
        numbers: String,
        /// Those that there are.
        existing: String,
    },
    /// Fewer blocks than wanted can be changed.
    #[error("{wanted} are to go {state}, and blocks of {found} can; ask for at most that")]
    TooFew {
        /// Bytes that were asked for.
        wanted: Bytes,
        /// The state that they are to have.
        state: &'static str,
        /// Bytes of blocks in the other state.
        found: Bytes,
    },
    /// Pages that would have to leave have no place to go.
    #[error(
        "node {node} has {used} in use and would keep {left}, and other nodes have {free} free: the rest has no place to \
         go; end some programs, or take fewer blocks"
    )]
    NoRoom {
        /// The node.
        node: u32,
        /// Bytes in use.
        used: Bytes,
        /// Bytes that it would have.
        left: Bytes,
        /// Bytes free on other nodes.
        free: Bytes,
    },
    /// Saving, locking or reading the saved states fails.
    #[error("cannot {action} {}: {source}; choose another file with --state", path.display())]
    State {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("{} holds no saved states of memory blocks: {problem}; choose another file with --state", path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Another process changes blocks.
    #[error("another process changes memory blocks now (lock {}); try again when it has ended", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
}

impl BlocksError {
    /// Whether the request cannot be fulfilled as it was made, whatever the machine does.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NoDevice { .. }
            | Self::OtherMode { .. }
            | Self::NoSuchBlock { .. }
            | Self::TooFew { .. }
            | Self::BadState { .. } => true,
            Self::Unreadable { .. }
            | Self::NoRoom { .. }
            | Self::State { .. }
            | Self::Busy { .. } => false,
        }
    }
}

impl From<SavedStateError> for BlocksError {
    fn from(error: SavedStateError) -> Self {
        match error {
            SavedStateError::Io {
                action,
                path,
                source,
            } => Self::State {
                action,
                path,
                source,
            },
            SavedStateError::Bad { path, problem } => Self::BadState { path, problem },
            SavedStateError::Busy { path } => Self::Busy { path },
        }
    }
}
