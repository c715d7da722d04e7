//! Removal, and merges of nodes that it leaves nearly empty.

use crate::counts::Counts;
use crate::descend::{Above, AtLeaf, Reached, Way, position};
use crate::node::{Inner, Leaf};
use crate::sync::AtomicU64;
use crate::version::{Locked, Seen, Version};
use crate::{BPlusTree, NodeKind};

/// Whether a node with `count` of `capacity` entries is worth merging.
fn is_small(count: usize, capacity: usize) -> bool {
    count < capacity / 4
}

/// Whether two nodes are merged: what they have together leaves room for later insertions, or one
/// of them has nothing and could stay for ever.
fn fit(together: usize, capacity: usize, one_is_empty: bool) -> bool {
    together <= capacity * 3 / 4 || (one_is_empty && together <= capacity)
}

/// Two neighbours below one inner node, the first of them the one that was come to.
struct Pair<'t> {
    above: &'t Above<'t>,
    parent: Inner<'t>,
    /// Position of the separator between the two.
    at: usize,
    /// Whether the other one is to the right.
    other_is_right: bool,
    other: u32,
}

impl<'t> Pair<'t> {
    /// The node below `above` and its right neighbour, or the left one if it has no right one;
    /// `None` if it has no neighbour there.
    fn below(above: &'t Above<'t>) -> Option<Self> {
        let (parent, at) = above.node?;
        let other_is_right = at < parent.count();
        let at = if other_is_right {
            at
        } else {
            at.checked_sub(1)?
        };
        Some(Self {
            above,
            parent,
            at,
            other_is_right,
            other: parent.child(at + usize::from(other_is_right)),
        })
    }

    /// The number of the right one of the two, which is the one that is removed.
    fn removed(&self) -> u32 {
        self.parent.child(self.at + 1)
    }

    /// Locks the node above, and both nodes in the order left, right.
    fn lock(
        &self,
        own: (Version<'t>, Seen),
        other: (Version<'t>, Seen),
    ) -> Option<[Locked<'t>; 3]> {
        let (left, right) = match self.other_is_right {
            true => (own, other),
            false => (other, own),
        };
        let above = self.above.lock()?;
        let Some(left) = left.0.lock(left.1) else {
            above.unused();
            return None;
        };
        let Some(right) = right.0.lock(right.1) else {
            left.unused();
            above.unused();
            return None;
        };
        Some([above, left, right])
    }
}

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    pub(crate) fn remove(&self, key: u64, counts: &mut Counts) -> Option<u64> {
        loop {
            match self.try_remove(key) {
                Some(None) => return None,
                Some(Some((value, small))) => {
                    if small {
                        self.shrink(key, counts);
                    }
                    return Some(value);
                }
                None => counts.restarts += 1,
            }
        }
    }

    /// The removed value, and whether the leaf is nearly empty now; `None` outside to begin again.
    fn try_remove(&self, key: u64) -> Option<Option<(u64, bool)>> {
        let AtLeaf { leaf, seen, .. } = self.descend(key)?;
        let Ok(at) = position(leaf, key) else {
            return leaf.version().unchanged(seen).then_some(None);
        };
        let _locked = leaf.version().lock(seen)?;
        let value = leaf.value(at);
        leaf.remove(at);
        Some(Some((value, is_small(leaf.count(), leaf.capacity))))
    }

    /// Merges nearly empty nodes on the way to `key`, from the top down, until there is none that
    /// can be.
    #[cold]
    fn shrink(&self, key: u64, counts: &mut Counts) {
        loop {
            match self.try_shrink(key) {
                Some(None) => return,
                Some(Some((kind, number))) => {
                    counts.merges += 1;
                    self.retire(kind, number);
                }
                None => counts.restarts += 1,
            }
        }
    }

    /// Merges the first node that can be; returns the one that was removed, or `None` within if
    /// there was none to merge.
    fn try_shrink(&self, key: u64) -> Option<Option<(NodeKind, u32)>> {
        let mut way = Way::new(self)?;
        loop {
            let (node, seen) = match way.next()? {
                Reached::Inner(node, seen) => (node, seen),
                Reached::Leaf(found) if is_small(found.leaf.count(), found.leaf.capacity) => {
                    let merged = self.merge_leaf(&found)?;
                    return Some(merged.map(|number| (NodeKind::Leaf, number)));
                }
                Reached::Leaf(_) => return Some(None),
            };
            let removed = match way.above.node {
                None if node.count() == 0 => Some(self.lower_root(&way.above, node, seen)?),
                None => None,
                Some(_) if is_small(node.count(), node.capacity) => {
                    self.merge_inner(&way.above, node, seen)?
                }
                Some(_) => None,
            };
            if let Some(number) = removed {
                return Some(Some((NodeKind::Inner, number)));
            }
            way.enter(node, seen, key);
        }
    }

    /// Makes the only child of the root the root; returns the old one.
    fn lower_root(&self, above: &Above<'_>, root: Inner<'_>, seen: Seen) -> Option<u32> {
        let above_lock = above.lock()?;
        let Some(root_lock) = root.version().lock(seen) else {
            above_lock.unused();
            return None;
        };
        let (level, number) = self.root();
        self.set_root(level - 1, root.child(0));
        root_lock.retire();
        drop(above_lock);
        Some(number)
    }

    /// Merges a leaf with its neighbour; returns the removed one, or `None` within if they do not
    /// fit. `None` outside to begin again.
    fn merge_leaf(&self, found: &AtLeaf<'_>) -> Option<Option<u32>> {
        let AtLeaf { above, leaf, seen } = found;
        let Some(pair) = Pair::below(above) else {
            return Some(None);
        };
        let other = self.leaf(pair.other)?;
        let other_seen = other.version().read()?;
        above.unchanged()?;
        let counts = (leaf.count(), other.count());
        if !fit(counts.0 + counts.1, leaf.capacity, counts.0 == 0) {
            return Some(None);
        }
        let versions = ((leaf.version(), *seen), (other.version(), other_seen));
        let [above_lock, left_lock, right_lock] = pair.lock(versions.0, versions.1)?;
        let number = pair.removed();
        let (left, right): (Leaf<'_>, Leaf<'_>) = match pair.other_is_right {
            true => (*leaf, other),
            false => (other, *leaf),
        };
        left.append(right);
        pair.parent.remove(pair.at);
        right_lock.retire();
        drop((left_lock, above_lock));
        Some(Some(number))
    }

    /// Merges an inner node with its neighbour, as [`Self::merge_leaf`].
    fn merge_inner(&self, above: &Above<'_>, node: Inner<'_>, seen: Seen) -> Option<Option<u32>> {
        let Some(pair) = Pair::below(above) else {
            return Some(None);
        };
        let other = self.inner_node(pair.other)?;
        let other_seen = other.version().read()?;
        above.unchanged()?;
        let counts = (node.count(), other.count());
        if !fit(counts.0 + counts.1 + 1, node.capacity, counts.0 == 0) {
            return Some(None);
        }
        let versions = ((node.version(), seen), (other.version(), other_seen));
        let [above_lock, left_lock, right_lock] = pair.lock(versions.0, versions.1)?;
        let number = pair.removed();
        let (left, right) = match pair.other_is_right {
            true => (node, other),
            false => (other, node),
        };
        left.append(pair.parent.key(pair.at), right);
        pair.parent.remove(pair.at);
        right_lock.retire();
        drop((left_lock, above_lock));
        Some(Some(number))
    }
}
