//! Memory of the nodes of one kind: an array of nodes of one size, addressed by number.
//!
//! Numbers instead of pointers keep the tree in safe code, and half the size of its children. The
//! memory is never given back while the tree lives, so a reader that is late reads the words of
//! another node at worst, and finds out by the version.

use tierloom_kernels::prefetch_read;

use crate::TreeError;
use crate::sync::{AtomicU64, Mutex, Ordering, PoisonError};

/// Sizes of nodes, bytes; powers of two.
pub const NODE_BYTES: std::ops::RangeInclusive<usize> = 256..=4096;

/// Words of a cache line.
const LINE_WORDS: usize = 8;
const WORD_BYTES: usize = 8;

/// The number of no node.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// Memory for nodes of one kind.
///
/// `M` is anything with words to share: a boxed slice, a vector, or the words of a placed region.
#[derive(Debug)]
pub struct Arena<M = Box<[AtomicU64]>> {
    words: M,
    node_words: usize,
    nodes: u32,
    /// Nodes from here on were never in use.
    fresh: AtomicU64,
    /// Nodes that were in use, and that nobody can still be reading.
    free: Mutex<Vec<u32>>,
    /// Their number, so that allocation need not take the lock to find none.
    free_count: AtomicU64,
}

impl Arena {
    /// An arena in ordinary memory, for up to `nodes` nodes.
    ///
    /// # Errors
    /// [`TreeError::NodeBytes`].
    pub fn in_memory(nodes: usize, node_bytes: usize) -> Result<Self, TreeError> {
        let words = nodes.saturating_mul(node_bytes / WORD_BYTES);
        Self::new((0..words).map(|_| AtomicU64::new(0)).collect(), node_bytes)
    }
}

impl<M: AsRef<[AtomicU64]>> Arena<M> {
    /// An arena of nodes of `node_bytes` in `words`, whatever these hold. Words that do not make a
    /// whole node are not used.
    ///
    /// Nodes should begin at cache lines, so `words` should.
    ///
    /// # Errors
    /// [`TreeError::NodeBytes`] for a size that is no power of two in [`NODE_BYTES`].
    pub fn new(words: M, node_bytes: usize) -> Result<Self, TreeError> {
        if !node_bytes.is_power_of_two() || !NODE_BYTES.contains(&node_bytes) {
            return Err(TreeError::NodeBytes(node_bytes));
        }
        let node_words = node_bytes / WORD_BYTES;
        let nodes = (words.as_ref().len() / node_words).min(NO_NODE as usize) as u32;
        Ok(Self {
            words,
            node_words,
            nodes,
            fresh: AtomicU64::new(0),
            free: Mutex::new(Vec::new()),
            free_count: AtomicU64::new(0),
        })
    }

    /// Bytes of a node.
    pub fn node_bytes(&self) -> usize {
        self.node_words * WORD_BYTES
    }

    /// Forgets all nodes.
    pub(crate) fn clear(&mut self) {
        self.fresh.store(0, Ordering::Relaxed);
        self.free_count.store(0, Ordering::Relaxed);
        self.locked().clear();
    }

    pub(crate) fn node_words(&self) -> usize {
        self.node_words
    }

    /// The words of a node; `None` for a number that is none, which only late readers have.
    #[inline]
    pub(crate) fn node(&self, number: u32) -> Option<&[AtomicU64]> {
        let start = number as usize * self.node_words;
        self.words.as_ref().get(start..start + self.node_words)
    }

    /// Requests the first `lines` cache lines of a node.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32, lines: usize) {
        let start = number as usize * self.node_words;
        let words = self.words.as_ref();
        (0..lines).for_each(|line| prefetch_read(words, start + line * LINE_WORDS));
    }

    /// A node that nobody uses; `None` if there is none.
    pub(crate) fn take(&self) -> Option<u32> {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(number) = self.take_free()
        {
            return Some(number);
        }
        let most = u64::from(self.nodes);
        let next = |fresh: u64| (fresh < most).then_some(fresh + 1);
        let taken = self
            .fresh
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        match taken {
            Ok(number) => Some(number as u32),
            Err(_) => self.take_free(),
        }
    }

    fn take_free(&self) -> Option<u32> {
        let mut free = self.locked();
        let number = free.pop();
        self.free_count.store(free.len() as u64, Ordering::Relaxed);
        number
    }

    /// Takes back a node that nobody can still be reading.
    pub(crate) fn give_back(&self, number: u32) {
        let mut free = self.locked();
        free.push(number);
        self.free_count.store(free.len() as u64, Ordering::Relaxed);
    }

    /// Nodes that were taken and not given back.
    pub(crate) fn in_use(&self) -> u64 {
        let free = self.locked().len() as u64;
        self.fresh.load(Ordering::Relaxed) - free
    }

    fn locked(&self) -> impl std::ops::DerefMut<Target = Vec<u32>> + '_ {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
