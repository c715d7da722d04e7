//! The tree, its sessions and their operations.

use std::sync::Arc;

use crate::arena::{Arena, NO_NODE};
use crate::counts::Counts;
use crate::epoch::{Epochs, Slot};
use crate::node::{Inner, Leaf, inner_capacity, key_lines};
use crate::sync::{AtomicU64, Ordering};
use crate::version::Version;
use crate::{NodeKind, TreeError};

/// Times that an operation waits for retired nodes before it says that an arena is full.
const FULL_TRIES: u32 = 4;

/// Most cache lines of a node that are requested at once: a core cannot wait for many more, and
/// those with the keys of a leaf of 4 KiB come first.
const MOST_LINES: usize = 32;
const LINE_BYTES: usize = 64;

/// A concurrent ordered map of 8-byte keys and values in two arenas.
///
/// Operations belong to a [`Session`], of which every thread has its own.
#[derive(Debug)]
pub struct BPlusTree<M = Box<[AtomicU64]>> {
    pub(crate) inner: Arena<M>,
    pub(crate) leaves: Arena<M>,
    /// Guards `root` like a node above it.
    root_version: AtomicU64,
    /// Number of the root in the lower half, its level above the leaves in the upper one.
    root: AtomicU64,
    epochs: Epochs,
    /// Cache lines of an inner node and of a leaf that are requested before they are searched.
    lines: (usize, usize),
}

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    /// An empty tree whose nodes are in these arenas.
    ///
    /// # Errors
    /// [`TreeError::Full`] if there is no room for one leaf.
    pub fn new(inner: Arena<M>, leaves: Arena<M>) -> Result<Self, TreeError> {
        let mut tree = Self::bare(inner, leaves);
        tree.clear()?;
        Ok(tree)
    }

    /// A tree without even a root.
    pub(crate) fn bare(inner: Arena<M>, leaves: Arena<M>) -> Self {
        let lines = Self::requested_lines(&inner, &leaves);
        Self {
            inner,
            leaves,
            root_version: AtomicU64::new(0),
            root: AtomicU64::new(0),
            epochs: Epochs::new(),
            lines,
        }
    }

    /// Sets whether nodes are requested from memory as soon as they are known; they are at first.
    ///
    /// Of inner nodes these are the lines that hold separators, and of leaves all lines: the one of
    /// the value would be a miss of its own after the search. Both up to a limit.
    pub fn set_prefetch(&mut self, prefetch: bool) {
        self.lines = match prefetch {
            true => Self::requested_lines(&self.inner, &self.leaves),
            false => (0, 0),
        };
    }

    /// Cache lines of an inner node and of a leaf that are requested on the way to a key.
    pub fn lines_per_node(&self) -> (usize, usize) {
        self.lines
    }

    fn requested_lines(inner: &Arena<M>, leaves: &Arena<M>) -> (usize, usize) {
        let keys = key_lines(inner_capacity(inner.node_words()));
        let leaf = leaves.node_bytes() / LINE_BYTES;
        (keys.min(MOST_LINES), leaf.min(MOST_LINES))
    }

    /// Removes everything.
    ///
    /// # Errors
    /// [`TreeError::Full`] if there is no room for one leaf.
    pub fn clear(&mut self) -> Result<(), TreeError> {
        self.forget();
        let root = self.take(NodeKind::Leaf)?;
        let leaf = self.known_leaf(root);
        leaf.version().revive();
        leaf.clear(NO_NODE);
        self.set_root(0, root);
        Ok(())
    }

    /// Gives all nodes back, the root included.
    pub(crate) fn forget(&mut self) {
        self.epochs.clear();
        self.inner.clear();
        self.leaves.clear();
    }

    /// A new session for one thread.
    pub fn session(&self) -> Session<'_, M> {
        Session {
            tree: self,
            slot: self.epochs.enter(),
            counts: Counts::default(),
            pairs: Vec::new(),
        }
    }

    /// Nodes of one kind in the tree, and those that are not free yet.
    pub fn nodes(&self, kind: NodeKind) -> u64 {
        match kind {
            NodeKind::Inner => self.inner.in_use(),
            NodeKind::Leaf => self.leaves.in_use(),
        }
    }

    /// Removed nodes that sessions may still be reading.
    pub fn retired_nodes(&self) -> u64 {
        self.epochs.waiting()
    }

    #[inline]
    pub(crate) fn root_version(&self) -> Version<'_> {
        Version::new(&self.root_version)
    }

    /// Level and number of the root.
    #[inline]
    pub(crate) fn root(&self) -> (u32, u32) {
        let root = self.root.load(Ordering::Relaxed);
        ((root >> 32) as u32, root as u32)
    }

    pub(crate) fn set_root(&self, level: u32, number: u32) {
        let root = u64::from(level) << 32 | u64::from(number);
        self.root.store(root, Ordering::Relaxed);
    }

    /// A number that says all about the root.
    pub fn root_word(&self) -> u64 {
        self.root.load(Ordering::Relaxed)
    }

    /// The inner node of that number, requested from memory.
    #[inline]
    pub(crate) fn inner_node(&self, number: u32) -> Option<Inner<'_>> {
        let node = Inner::new(self.inner.node(number)?);
        self.inner.prefetch(number, self.lines.0);
        Some(node)
    }

    /// The leaf of that number, requested from memory.
    #[inline]
    pub(crate) fn leaf(&self, number: u32) -> Option<Leaf<'_>> {
        let leaf = Leaf::new(self.leaves.node(number)?);
        self.leaves.prefetch(number, self.lines.1);
        Some(leaf)
    }

    /// The leaf of a number that was taken from the arena.
    #[expect(clippy::expect_used, reason = "numbers from the arena are nodes of it")]
    pub(crate) fn known_leaf(&self, number: u32) -> Leaf<'_> {
        Leaf::new(self.leaves.node(number).expect("a node of the arena"))
    }

    /// The inner node of a number that was taken from the arena.
    #[expect(clippy::expect_used, reason = "numbers from the arena are nodes of it")]
    pub(crate) fn known_inner(&self, number: u32) -> Inner<'_> {
        Inner::new(self.inner.node(number).expect("a node of the arena"))
    }

    pub(crate) fn take(&self, kind: NodeKind) -> Result<u32, TreeError> {
        let taken = match kind {
            NodeKind::Inner => self.inner.take(),
            NodeKind::Leaf => self.leaves.take(),
        };
        taken.ok_or(TreeError::Full(kind))
    }

    /// Takes back a node that was never in the tree, or that nobody can still be reading.
    pub(crate) fn give_back(&self, kind: NodeKind, number: u32) {
        match kind {
            NodeKind::Inner => self.inner.give_back(number),
            NodeKind::Leaf => self.leaves.give_back(number),
        }
    }

    /// Takes a node out of use once no session can be reading it.
    pub(crate) fn retire(&self, kind: NodeKind, number: u32) {
        if self.epochs.retire(kind, number) {
            self.collect();
        }
    }

    fn collect(&self) {
        self.epochs
            .collect(|kind, number| self.give_back(kind, number));
    }
}

/// The operations of one thread on a tree.
///
/// Each operation looks at the epoch of the tree once; [`Session::pin`] does so for several.
#[derive(Debug)]
pub struct Session<'t, M: AsRef<[AtomicU64]> = Box<[AtomicU64]>> {
    pub(crate) tree: &'t BPlusTree<M>,
    slot: Arc<Slot>,
    pub(crate) counts: Counts,
    /// The pairs of the leaf that a scan is at.
    pub(crate) pairs: Vec<(u64, u64)>,
}

impl<'t, M: AsRef<[AtomicU64]>> Session<'t, M> {
    /// Pins the session for several operations: nodes that are removed meanwhile stay unused, so
    /// this should not last long ([`Pinned::refresh`]).
    pub fn pin(&mut self) -> Pinned<'_, 't, M> {
        self.tree.epochs.pin(&self.slot);
        Pinned { session: self }
    }

    /// [`Pinned::get`] as a single operation.
    pub fn get(&mut self, key: u64) -> Option<u64> {
        self.pin().get(key)
    }

    /// [`Pinned::insert`] as a single operation.
    ///
    /// # Errors
    /// As there.
    pub fn insert(&mut self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.pin().insert(key, value)
    }

    /// [`Pinned::remove`] as a single operation.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        self.pin().remove(key)
    }

    /// [`Pinned::scan`] as a single operation.
    pub fn scan(&mut self, from: u64, each: impl FnMut(u64, u64) -> bool) {
        self.pin().scan(from, each);
    }

    /// What this session has done so far besides the operations themselves.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl<M: AsRef<[AtomicU64]>> Drop for Session<'_, M> {
    fn drop(&mut self) {
        self.slot.leave();
    }
}

/// A session that is pinned until this is dropped.
#[derive(Debug)]
pub struct Pinned<'s, 't, M: AsRef<[AtomicU64]> = Box<[AtomicU64]>> {
    session: &'s mut Session<'t, M>,
}

impl<M: AsRef<[AtomicU64]>> Pinned<'_, '_, M> {
    /// The value of `key`.
    #[inline]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        let Session { tree, counts, .. } = &mut *self.session;
        loop {
            match tree.try_get(key) {
                Some(found) => return found,
                None => counts.restarts += 1,
            }
        }
    }

    /// Sets the value of `key`; returns the one before.
    ///
    /// # Errors
    /// [`TreeError::Full`] if a node is needed and its arena has none but removed ones that other
    /// sessions may still be reading. Nothing has changed then.
    #[inline]
    pub fn insert(&mut self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let mut tries = 0;
        loop {
            let Session { tree, counts, .. } = &mut *self.session;
            match tree.insert(key, value, counts) {
                Err(TreeError::Full(_)) if tries < FULL_TRIES => {
                    // Removed nodes may become free, but not while this session holds on to them.
                    tries += 1;
                    self.refresh();
                    // Others that are in the middle of an operation may need the CPU to end it.
                    std::thread::yield_now();
                    self.session.tree.collect();
                }
                done => return done,
            }
        }
    }

    /// Removes `key`; returns its value.
    ///
    /// A leaf that is left less than a quarter full is merged with a neighbour that has the same
    /// parent, if both fit into three quarters of a leaf, and so on up to the root.
    #[inline]
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        let Session { tree, counts, .. } = &mut *self.session;
        tree.remove(key, counts)
    }

    /// Calls `each` with keys from `from` on and their values, in ascending order, until it returns
    /// false or there are no more.
    ///
    /// The pairs of one leaf are those of one moment; those of different leaves may be of different
    /// moments. A key that is there all the time is found, and one that never is is not.
    pub fn scan(&mut self, from: u64, each: impl FnMut(u64, u64) -> bool) {
        let Session {
            tree,
            counts,
            pairs,
            ..
        } = &mut *self.session;
        tree.scan(from, pairs, counts, each);
    }

    /// Lets go of nodes that were removed, as if unpinned and pinned again.
    #[inline]
    pub fn refresh(&mut self) {
        let session = &*self.session;
        session.slot.unpin();
        session.tree.epochs.pin(&session.slot);
    }
}

impl<M: AsRef<[AtomicU64]>> Drop for Pinned<'_, '_, M> {
    fn drop(&mut self) {
        self.session.slot.unpin();
    }
}
