//! Insertion and splits.

use crate::arena::NO_NODE;
use crate::counts::Counts;
use crate::descend::{Above, AtLeaf, Reached, Way, position};
use crate::node::Inner;
use crate::sync::AtomicU64;
use crate::version::Locked;
use crate::{BPlusTree, NodeKind, TreeError};

/// What became of one try.
enum InsertTry<T> {
    Done(T),
    /// Something has changed meanwhile: begin again.
    Again,
    /// The inner node above is full: split the full nodes on the way first.
    FullAbove,
}

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    pub(crate) fn insert(
        &self,
        key: u64,
        value: u64,
        counts: &mut Counts,
    ) -> Result<Option<u64>, TreeError> {
        loop {
            match self.try_insert(key, value, counts)? {
                InsertTry::Done(before) => return Ok(before),
                InsertTry::Again => counts.restarts += 1,
                InsertTry::FullAbove => self.split_above(key, counts)?,
            }
        }
    }

    #[inline]
    fn try_insert(
        &self,
        key: u64,
        value: u64,
        counts: &mut Counts,
    ) -> Result<InsertTry<Option<u64>>, TreeError> {
        let Some(found) = self.descend(key) else {
            return Ok(InsertTry::Again);
        };
        let AtLeaf { leaf, seen, .. } = found;
        let at = position(leaf, key);
        if at.is_err() && leaf.count() == leaf.capacity {
            return self.split_leaf(&found, key, value, counts);
        }
        // The lock is only given for the version that all of this was read under.
        let Some(_locked) = leaf.version().lock(seen) else {
            return Ok(InsertTry::Again);
        };
        Ok(InsertTry::Done(match at {
            Ok(at) => {
                let before = leaf.value(at);
                leaf.set_value(at, value);
                Some(before)
            }
            Err(at) => {
                leaf.insert(at, key, value);
                None
            }
        }))
    }

    /// Splits a full leaf and inserts a key that is not in it.
    #[cold]
    fn split_leaf(
        &self,
        found: &AtLeaf<'_>,
        key: u64,
        value: u64,
        counts: &mut Counts,
    ) -> Result<InsertTry<Option<u64>>, TreeError> {
        let AtLeaf { above, leaf, seen } = *found;
        if above
            .node
            .is_some_and(|(node, _)| node.count() == node.capacity)
        {
            // Only if it is true at this moment: splits need memory.
            return Ok(match above.unchanged() {
                Some(()) => InsertTry::FullAbove,
                None => InsertTry::Again,
            });
        }
        let Some(above_lock) = above.lock() else {
            return Ok(InsertTry::Again);
        };
        let Some(leaf_lock) = leaf.version().lock(seen) else {
            above_lock.unused();
            return Ok(InsertTry::Again);
        };
        let room = match self.room_for_split(NodeKind::Leaf, &above) {
            Ok(room) => room,
            Err(full) => {
                leaf_lock.unused();
                above_lock.unused();
                return Err(full);
            }
        };
        let right = self.known_leaf(room.node);
        right.version().revive();
        let Err(at) = position(leaf, key) else {
            unreachable!("the leaf has not changed since it did not have the key");
        };
        let count = leaf.count();
        // Ascending keys leave full leaves behind, not half empty ones.
        let appends = at == count && leaf.next() == NO_NODE;
        let middle = if appends { count } else { count / 2 };
        leaf.split(middle, right, room.node);
        if appends || at > middle {
            right.insert(at - middle, key, value);
        } else {
            leaf.insert(at, key, value);
        }
        self.add_above(&above, room, 0, right.key(0));
        counts.splits += 1;
        drop((leaf_lock, above_lock));
        Ok(InsertTry::Done(None))
    }

    /// The nodes that a split needs: one of the kind, and a root if what is split is the root.
    fn room_for_split(&self, kind: NodeKind, above: &Above<'_>) -> Result<Room, TreeError> {
        let node = self.take(kind)?;
        let root = match above.node {
            Some(_) => None,
            None => match self.take(NodeKind::Inner) {
                Ok(root) => Some(root),
                Err(full) => {
                    self.give_back(kind, node);
                    return Err(full);
                }
            },
        };
        Ok(Room { node, root })
    }

    /// Makes the new node of a split a child of the locked node above, or of a new root; `level` is
    /// that of the node that was split.
    fn add_above(&self, above: &Above<'_>, room: Room, level: u32, separator: u64) {
        match (above.node, room.root) {
            (Some((node, at)), _) => node.insert(at, separator, room.node),
            (None, Some(number)) => {
                let (_, left) = self.root();
                let root = self.known_inner(number);
                root.version().revive();
                root.clear(level + 1, left);
                root.push(separator, room.node);
                self.set_root(level + 1, number);
            }
            (None, None) => unreachable!("a root that is split has room for another one above"),
        }
    }

    /// Splits the full inner nodes on the way to `key`, from the top down, so that the one above
    /// its leaf has room.
    #[cold]
    fn split_above(&self, key: u64, counts: &mut Counts) -> Result<(), TreeError> {
        loop {
            match self.try_split_above(key, counts)? {
                Some(true) => return Ok(()),
                // One was split, so the way has changed.
                Some(false) => {}
                None => counts.restarts += 1,
            }
        }
    }

    /// Splits the first full node; true if there was none, `None` to begin again.
    fn try_split_above(&self, key: u64, counts: &mut Counts) -> Result<Option<bool>, TreeError> {
        let Some(mut way) = Way::new(self) else {
            return Ok(None);
        };
        loop {
            match way.next() {
                None => return Ok(None),
                Some(Reached::Leaf(_)) => return Ok(Some(true)),
                Some(Reached::Inner(node, seen)) if node.count() == node.capacity => {
                    let Some(above_lock) = way.above.lock() else {
                        return Ok(None);
                    };
                    let Some(node_lock) = node.version().lock(seen) else {
                        above_lock.unused();
                        return Ok(None);
                    };
                    self.split_inner(&way.above, node, (above_lock, node_lock))?;
                    counts.splits += 1;
                    return Ok(Some(false));
                }
                Some(Reached::Inner(node, seen)) => way.enter(node, seen, key),
            }
        }
    }

    fn split_inner(
        &self,
        above: &Above<'_>,
        node: Inner<'_>,
        locks: (Locked<'_>, Locked<'_>),
    ) -> Result<(), TreeError> {
        let room = match self.room_for_split(NodeKind::Inner, above) {
            Ok(room) => room,
            Err(full) => {
                locks.0.unused();
                locks.1.unused();
                return Err(full);
            }
        };
        let right = self.known_inner(room.node);
        right.version().revive();
        let separator = node.split(node.count() / 2, right);
        self.add_above(above, room, node.level(), separator);
        Ok(())
    }
}

/// Nodes taken for a split.
#[derive(Debug, Clone, Copy)]
struct Room {
    node: u32,
    /// Of the new root, where the old one is split.
    root: Option<u32>,
}
