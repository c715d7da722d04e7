//! Cache lines that sessions access, counted by table and part.
//!
//! These are accesses of the program, before caches: what the model prices, and an upper bound of
//! what reaches memory.

use std::ops::AddAssign;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
pub(crate) const LINE_WORDS: usize = 8;

/// Cache lines of a table's parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowLines {
    /// Heads of rows that were read.
    pub head_read: u64,
    /// Heads of rows that were locked and changed.
    pub head_update: u64,
    /// Pieces of rows that were read in main.
    pub main_pieces: u64,
    /// Lines of these pieces.
    pub main_read: u64,
    /// Lines of main that merging wrote.
    pub main_write: u64,
    /// Pieces of rows that were read in the delta.
    pub delta_pieces: u64,
    /// Lines of these pieces.
    pub delta_read: u64,
    /// Lines of the delta that were written.
    pub delta_write: u64,
}

/// Cache lines of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexLines {
    /// Look-ups, scans and changes.
    pub descents: u64,
    /// Inner nodes on their way.
    pub inner_nodes: u64,
    /// Lines of inner nodes.
    pub inner_read: u64,
    /// Leaves that were read.
    pub leaves: u64,
    /// Lines of leaves that were read.
    pub leaf_read: u64,
    /// Lines of leaves that were changed.
    pub leaf_update: u64,
}

/// What a session, or several, accessed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreTraffic {
    /// By table, in the order of the store.
    pub tables: Vec<RowLines>,
    /// By index, in the order of the store.
    pub indexes: Vec<IndexLines>,
}

impl StoreTraffic {
    pub(crate) fn new(tables: usize, indexes: usize) -> Self {
        Self {
            tables: vec![RowLines::default(); tables],
            indexes: vec![IndexLines::default(); indexes],
        }
    }
}

impl AddAssign<&StoreTraffic> for StoreTraffic {
    fn add_assign(&mut self, other: &StoreTraffic) {
        for (own, other) in self.tables.iter_mut().zip(&other.tables) {
            own.head_read += other.head_read;
            own.head_update += other.head_update;
            own.main_pieces += other.main_pieces;
            own.main_read += other.main_read;
            own.main_write += other.main_write;
            own.delta_pieces += other.delta_pieces;
            own.delta_read += other.delta_read;
            own.delta_write += other.delta_write;
        }
        for (own, other) in self.indexes.iter_mut().zip(&other.indexes) {
            own.descents += other.descents;
            own.inner_nodes += other.inner_nodes;
            own.inner_read += other.inner_read;
            own.leaves += other.leaves;
            own.leaf_read += other.leaf_read;
            own.leaf_update += other.leaf_update;
        }
    }
}

/// Lines that hold `words` words from word `start` on.
#[inline]
pub(crate) fn lines(start: usize, words: usize) -> u64 {
    if words == 0 {
        return 0;
    }
    ((start + words - 1) / LINE_WORDS - start / LINE_WORDS + 1) as u64
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn a_piece_counts_every_line_that_it_touches() {
        assert_eq!(
            [lines(0, 8), lines(7, 1), lines(7, 2), lines(3, 0)],
            [1, 1, 2, 0]
        );
        assert_eq!(lines(6, 12), 3);
    }
}
