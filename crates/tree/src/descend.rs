//! The way from the root to a leaf, and lookups.

use crate::BPlusTree;
use crate::node::{Inner, Leaf};
use crate::search::{count_below, count_up_to};
use crate::sync::AtomicU64;
use crate::version::{Locked, Seen, Version};

/// What points to a node: an inner node, or the tree's word for its root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Above<'t> {
    version: Version<'t>,
    seen: Seen,
    /// The inner node, and the position of the child in it.
    pub(crate) node: Option<(Inner<'t>, usize)>,
}

impl<'t> Above<'t> {
    #[inline]
    pub(crate) fn unchanged(&self) -> Option<()> {
        self.version.unchanged(self.seen).then_some(())
    }

    pub(crate) fn lock(&self) -> Option<Locked<'t>> {
        self.version.lock(self.seen)
    }
}

/// A leaf, as it was while it was the one for a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtLeaf<'t> {
    pub(crate) above: Above<'t>,
    pub(crate) leaf: Leaf<'t>,
    pub(crate) seen: Seen,
}

/// A node on the way down.
pub(crate) enum Reached<'t> {
    Inner(Inner<'t>, Seen),
    Leaf(AtLeaf<'t>),
}

/// The way down, one node after the other.
pub(crate) struct Way<'t, M> {
    tree: &'t BPlusTree<M>,
    pub(crate) above: Above<'t>,
    /// Of the next node.
    pub(crate) level: u32,
    pub(crate) number: u32,
}

impl<'t, M: AsRef<[AtomicU64]>> Way<'t, M> {
    /// Begins above the root; `None` here and below: begin again.
    #[inline]
    pub(crate) fn new(tree: &'t BPlusTree<M>) -> Option<Self> {
        let version = tree.root_version();
        let seen = version.read()?;
        let (level, number) = tree.root();
        Some(Self {
            tree,
            above: Above {
                version,
                seen,
                node: None,
            },
            level,
            number,
        })
    }

    /// The next node.
    ///
    /// Its version is read before the second look at the node above: so it was the child when its
    /// version was that, and its number is not that of some other node.
    #[inline]
    pub(crate) fn next(&self) -> Option<Reached<'t>> {
        if self.level == 0 {
            let leaf = self.tree.leaf(self.number)?;
            let seen = leaf.version().read()?;
            self.above.unchanged()?;
            let above = self.above;
            return Some(Reached::Leaf(AtLeaf { above, leaf, seen }));
        }
        let node = self.tree.inner_node(self.number)?;
        let seen = node.version().read()?;
        self.above.unchanged()?;
        Some(Reached::Inner(node, seen))
    }

    /// Goes on below `node` towards `key`.
    #[inline]
    pub(crate) fn enter(&mut self, node: Inner<'t>, seen: Seen, key: u64) {
        let at = count_up_to(node.keys(), key);
        self.number = node.child(at);
        self.level -= 1;
        self.above = Above {
            version: node.version(),
            seen,
            node: Some((node, at)),
        };
    }
}

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    /// The leaf for `key`; `None` to begin again.
    #[inline]
    pub(crate) fn descend(&self, key: u64) -> Option<AtLeaf<'_>> {
        let mut way = Way::new(self)?;
        loop {
            match way.next()? {
                Reached::Inner(node, seen) => way.enter(node, seen, key),
                Reached::Leaf(found) => return Some(found),
            }
        }
    }

    /// The value of `key`; `None` outside to begin again.
    #[inline]
    pub(crate) fn try_get(&self, key: u64) -> Option<Option<u64>> {
        let AtLeaf { leaf, seen, .. } = self.descend(key)?;
        let found = position(leaf, key).ok().map(|at| leaf.value(at));
        leaf.version().unchanged(seen).then_some(found)
    }
}

/// Where `key` is in a leaf, or where it would be.
#[inline]
pub(crate) fn position(leaf: Leaf<'_>, key: u64) -> Result<usize, usize> {
    let keys = leaf.keys();
    let at = count_below(keys, key);
    if at < keys.len() && leaf.key(at) == key {
        Ok(at)
    } else {
        Err(at)
    }
}
