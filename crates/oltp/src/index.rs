//! Indexes: B+-trees from keys of 8 bytes to row numbers.

use tierloom_tree::{Arena, BPlusTree, NodeKind, Session, TreeError, most_nodes};

use crate::OltpError;
use crate::places::{Regions, StoreMemory, StorePart};
use crate::traffic::IndexLines;
use tierloom_memory::RegionWords;

/// Bytes of a node. An index has more inner nodes in cache if these are small.
const NODE_BYTES: usize = 512;

/// Share of a leaf that loading fills: splits leave leaves half full, so they fill up to this.
const FILL: f64 = 0.7;

/// Name and capacity of an index.
#[derive(Debug, Clone, Copy)]
pub struct IndexSpec {
    /// Name of the index.
    pub name: &'static str,
    /// Keys that are loaded.
    pub loaded_keys: u64,
    /// Keys that there is room to insert after that.
    pub inserted_keys: u64,
}

/// An index of a store.
#[derive(Debug)]
pub(crate) struct RowIndex {
    pub(crate) name: &'static str,
    /// Keys that there is room for.
    pub(crate) most_keys: u64,
    tree: BPlusTree<RegionWords>,
    /// Cache lines of an inner node and of a leaf that a descent reads.
    lines: (u64, u64),
}

impl RowIndex {
    pub(crate) fn create(
        spec: &IndexSpec,
        memory: &StoreMemory<'_>,
        regions: &mut Regions,
    ) -> Result<Self, OltpError> {
        let failed = |source| OltpError::Index {
            index: spec.name,
            source,
        };
        let (loaded, inserted) = (spec.loaded_keys, spec.inserted_keys);
        let needed = most_nodes(loaded, inserted, NODE_BYTES, NODE_BYTES, FILL).map_err(failed)?;
        let mut arena = |part, nodes: u64| {
            let name = format!("{} {}", spec.name, StorePart::name(part));
            let words = regions.create(memory, part, name, nodes as usize * NODE_BYTES)?;
            Arena::new(words, NODE_BYTES).map_err(failed)
        };
        let inner = arena(StorePart::Inner, needed.inner)?;
        let leaves = arena(StorePart::Leaves, needed.leaves)?;
        let tree = BPlusTree::new(inner, leaves).map_err(failed)?;
        let (inner_lines, leaf_lines) = tree.lines_per_node();
        Ok(Self {
            name: spec.name,
            most_keys: loaded + inserted,
            lines: (inner_lines as u64, leaf_lines as u64),
            tree,
        })
    }

    pub(crate) fn load(
        &mut self,
        pairs: impl IntoIterator<Item = (u64, u64)>,
        count: usize,
    ) -> Result<(), TreeError> {
        self.tree.load(pairs, count, FILL)
    }

    pub(crate) fn session(&self) -> Session<'_, RegionWords> {
        self.tree.session()
    }

    /// Bytes of the nodes in use: inner nodes and leaves.
    pub(crate) fn used_bytes(&self) -> (u64, u64) {
        let bytes = |kind| self.tree.nodes(kind) * NODE_BYTES as u64;
        (bytes(NodeKind::Inner), bytes(NodeKind::Leaf))
    }

    /// Counts one descent that reads so many pairs, and whether it changes its leaf.
    #[inline]
    pub(crate) fn count(&self, pairs: usize, changes: bool, counted: &mut IndexLines) {
        // The level of the root is in the upper half of its word.
        let levels = self.tree.root_word() >> 32;
        // A pair is 16 bytes, and leaves are about as full as loading leaves them.
        let pairs_per_leaf = NODE_BYTES as f64 / 16.0 * FILL;
        let leaves = 1 + (pairs as f64 / pairs_per_leaf) as u64;
        counted.descents += 1;
        counted.inner_nodes += levels;
        counted.inner_read += levels * self.lines.0;
        counted.leaves += leaves;
        counted.leaf_read += leaves * self.lines.1;
        if changes {
            counted.leaf_update += self.lines.1;
        }
    }
}
