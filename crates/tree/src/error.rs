//! What can go wrong.

use std::fmt;

/// One of the two kinds of nodes, each in an arena of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Nodes with separators and children.
    Inner,
    /// Nodes with keys and values.
    Leaf,
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inner => "inner nodes",
            Self::Leaf => "leaves",
        })
    }
}

/// Why a tree cannot be made, or a key not be inserted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum TreeError {
    /// A node size that the tree does not have.
    #[error("nodes of {0} bytes; expected a power of two from 256 to 4096")]
    NodeBytes(usize),
    /// The arena has no free node left. The tree is as it was, and other operations go on.
    #[error("the arena of {0} is full")]
    Full(NodeKind),
    /// Bulk loading met a key that is not above the one before it.
    #[error("key {key} at position {position} is not above the one before it")]
    Unsorted {
        /// The key.
        key: u64,
        /// Its position, from 0.
        position: usize,
    },
    /// Bulk loading was given more or fewer pairs than this.
    #[error("other than the {0} pairs that were announced")]
    PairCount(usize),
    /// A share of each node that bulk loading cannot fill.
    #[error("a fill of {0}; expected above 0, at most 1")]
    Fill(f64),
}
