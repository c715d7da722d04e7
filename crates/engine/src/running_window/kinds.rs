//! What window functions compute, and the rows that they are asked for.

use std::ops::Range;

/// What a function computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowKind {
    RowNumber,
    Rank,
    DenseRank,
    Count,
    Sum,
    Min,
    Max,
    Average,
    /// The value so many rows before in the partition, NULL if there is none.
    Lag(usize),
    /// The value so many rows later in the partition, NULL if there is none.
    Lead(usize),
    /// The value of the first row of the partition or the frame.
    First,
    /// The value of the current row, of its last peer or the last row of the frame.
    Last,
}

/// Rows of a batch that are handled together, each other group of them after the one before.
pub(super) struct PeerGroups<'a> {
    /// Peers, from the first row to the last one whose value is asked for.
    pub peers: &'a [Range<usize>],
    /// Whether a partition begins at the first row of each group of peers.
    pub begins: &'a [bool],
    /// Whether the first rows are peers of the last row of the batch before.
    pub continues: bool,
    /// The places of the keys of all rows of the batch, if a function has frames by value.
    pub places: &'a [i128],
    /// The partitions of all rows of the batch.
    pub partitions: &'a [Range<usize>],
    /// Whether the first partition has rows in the batch before.
    pub same_partition: bool,
}

impl PeerGroups<'_> {
    /// The number of rows whose values are asked for; those after them are only looked at.
    pub fn done(&self) -> usize {
        self.peers.last().map_or(0, |peers| peers.end)
    }
}

/// An integer in the widest type.
pub(super) struct Wide(pub i128);

macro_rules! wide {
    ($($t:ty),*) => {$(
        impl From<$t> for Wide {
            fn from(value: $t) -> Wide {
                Wide(value.into())
            }
        }
    )*};
}

wide!(i8, i16, i32, i64, i128, u8, u16, u32, u64);
