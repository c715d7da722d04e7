//! Bulk loading: sorted pairs into evenly filled nodes, level by level.

use crate::arena::{Arena, NO_NODE};
use crate::node::{inner_capacity, leaf_capacity};
use crate::sync::AtomicU64;
use crate::{BPlusTree, NodeKind, TreeError};

/// Nodes of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// Inner nodes.
    pub inner: u64,
    /// Leaves.
    pub leaves: u64,
}

/// Nodes of these sizes that bulk loading `keys` pairs with that `fill` takes.
///
/// A tree that grows key by key fills its nodes to about 70 % (ln 2; Yao, "On Random 2-3 Trees",
/// 1978), and at least to half, so that a fill of 0.5 gives room for any order of insertions.
///
/// # Errors
/// [`TreeError::NodeBytes`], [`TreeError::Fill`].
pub fn nodes_needed(
    keys: u64,
    inner_bytes: usize,
    leaf_bytes: usize,
    fill: f64,
) -> Result<Needed, TreeError> {
    let (inner, leaves) = (
        Arena::in_memory(0, inner_bytes)?,
        Arena::in_memory(0, leaf_bytes)?,
    );
    let sizes = Sizes::new(&inner, &leaves, fill)?;
    let mut needed = Needed {
        inner: 0,
        leaves: keys.div_ceil(sizes.pairs as u64).max(1),
    };
    let mut below = needed.leaves;
    while below > 1 {
        below = nodes_above(below as usize, sizes.children) as u64;
        needed.inner += below;
    }
    Ok(needed)
}

/// Nodes that are enough for any order of `inserted` insertions after bulk loading `keys` pairs, if
/// nothing is removed.
///
/// A leaf has to become full before it is split, and then has half of its pairs at least; so there
/// are no more splits than that many insertions allow, and no more leaves than half full ones.
///
/// # Errors
/// [`TreeError::NodeBytes`], [`TreeError::Fill`].
pub fn most_nodes(
    keys: u64,
    inserted: u64,
    inner_bytes: usize,
    leaf_bytes: usize,
    fill: f64,
) -> Result<Needed, TreeError> {
    let loaded = nodes_needed(keys, inner_bytes, leaf_bytes, fill)?;
    let capacity = leaf_capacity(leaf_bytes / 8) as u64;
    let (least, most) = (keys / loaded.leaves, keys.div_ceil(loaded.leaves));
    let by_splits = loaded.leaves + inserted / (capacity - most + 1).min(capacity / 2);
    // Ascending keys leave a last leaf with few of them.
    let by_keys = (keys + inserted) / (capacity / 2).min(least.max(1)) + 2;
    let leaves = by_splits.min(by_keys).max(loaded.leaves) + 1;
    // Inner nodes have as many children as half of them hold, and those of bulk loading half of
    // what was asked for at least, since they are filled evenly.
    let capacity = inner_capacity(inner_bytes / 8) + 1;
    let asked = (capacity as f64 * fill) as u64;
    let least = (asked / 2).min(capacity as u64 / 2 - 1).max(2);
    let (mut below, mut inner) = (leaves, loaded.inner);
    while below > 1 {
        below = below.div_ceil(least);
        inner += below;
    }
    Ok(Needed {
        // A root above the last level.
        inner: inner + 1,
        leaves,
    })
}

/// Entries of nodes that are filled as asked for.
struct Sizes {
    pairs: usize,
    children: usize,
}

impl Sizes {
    fn new<M: AsRef<[AtomicU64]>>(
        inner: &Arena<M>,
        leaves: &Arena<M>,
        fill: f64,
    ) -> Result<Self, TreeError> {
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(TreeError::Fill(fill));
        }
        let part = |capacity: usize| (capacity as f64 * fill) as usize;
        Ok(Self {
            pairs: part(leaf_capacity(leaves.node_words())).max(1),
            children: part(inner_capacity(inner.node_words()) + 1).max(2),
        })
    }
}

/// Inner nodes with up to about `children` children, and with two at least.
fn nodes_above(below: usize, children: usize) -> usize {
    below.div_ceil(children).min(below / 2)
}

/// `count` things in `groups` groups of nearly the same size.
fn even(count: usize, groups: usize) -> impl Iterator<Item = usize> {
    (0..groups).map(move |group| count / groups + usize::from(group < count % groups))
}

/// A node with the lowest key below it.
type Low = (u64, u32);

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    /// A tree with these pairs, `count` of them, whose keys ascend; nodes are filled to the share
    /// `fill` (above 0, at most 1).
    ///
    /// # Errors
    /// [`TreeError::Full`], [`TreeError::Unsorted`], [`TreeError::PairCount`], [`TreeError::Fill`].
    pub fn bulk_load(
        inner: Arena<M>,
        leaves: Arena<M>,
        pairs: impl IntoIterator<Item = (u64, u64)>,
        count: usize,
        fill: f64,
    ) -> Result<Self, TreeError> {
        let mut tree = Self::bare(inner, leaves);
        tree.load(pairs, count, fill)?;
        Ok(tree)
    }

    /// Replaces what is in the tree, as [`BPlusTree::bulk_load`].
    ///
    /// # Errors
    /// As there; the tree is empty then.
    pub fn load(
        &mut self,
        pairs: impl IntoIterator<Item = (u64, u64)>,
        count: usize,
        fill: f64,
    ) -> Result<(), TreeError> {
        let loaded = self.try_load(pairs.into_iter(), count, fill);
        if loaded.is_err() {
            self.clear()?;
        }
        loaded
    }

    fn try_load(
        &mut self,
        mut pairs: impl Iterator<Item = (u64, u64)>,
        count: usize,
        fill: f64,
    ) -> Result<(), TreeError> {
        let sizes = Sizes::new(&self.inner, &self.leaves, fill)?;
        self.forget();
        let mut level = 0;
        let mut nodes = self.load_leaves(&mut pairs, count, sizes.pairs)?;
        if pairs.next().is_some() {
            return Err(TreeError::PairCount(count));
        }
        while nodes.len() > 1 {
            level += 1;
            nodes = self.load_inner(&nodes, level, sizes.children)?;
        }
        self.set_root(level, nodes[0].1);
        Ok(())
    }

    fn load_leaves(
        &self,
        pairs: &mut impl Iterator<Item = (u64, u64)>,
        count: usize,
        each: usize,
    ) -> Result<Vec<Low>, TreeError> {
        // A tree without keys has one leaf as well.
        let leaves = count.div_ceil(each).max(1);
        let mut nodes: Vec<Low> = Vec::with_capacity(leaves);
        let (mut position, mut before) = (0, None);
        for pairs_of_leaf in even(count, leaves) {
            let number = self.take(NodeKind::Leaf)?;
            let leaf = self.known_leaf(number);
            leaf.version().revive();
            leaf.clear(NO_NODE);
            if let Some((_, left)) = nodes.last() {
                self.known_leaf(*left).set_next(number);
            }
            for (key, value) in pairs.by_ref().take(pairs_of_leaf) {
                if before.is_some_and(|before| before >= key) {
                    return Err(TreeError::Unsorted { key, position });
                }
                leaf.push(key, value);
                (before, position) = (Some(key), position + 1);
            }
            if leaf.count() < pairs_of_leaf {
                return Err(TreeError::PairCount(count));
            }
            nodes.push((leaf.key(0), number));
        }
        Ok(nodes)
    }

    fn load_inner(&self, below: &[Low], level: u32, each: usize) -> Result<Vec<Low>, TreeError> {
        let (mut nodes, mut left) = (Vec::new(), below);
        for count in even(below.len(), nodes_above(below.len(), each)) {
            let (children, rest) = left.split_at(count);
            let number = self.take(NodeKind::Inner)?;
            let node = self.known_inner(number);
            node.version().revive();
            node.clear(level, children[0].1);
            children[1..]
                .iter()
                .for_each(|(low, child)| node.push(*low, *child));
            nodes.push((children[0].0, number));
            left = rest;
        }
        Ok(nodes)
    }
}
