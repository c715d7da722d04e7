//! Whether a tree that nobody uses is whole: order, levels, the list of leaves.

use crate::arena::NO_NODE;
use crate::node::{Inner, Leaf};
use crate::sync::{AtomicU64, Ordering};
use crate::version::Version;
use crate::{BPlusTree, NodeKind};

/// What a tree has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pairs of key and value.
    pub keys: u64,
    /// Inner nodes.
    pub inner: u64,
    /// Leaves.
    pub leaves: u64,
    /// Levels, that of the leaves included.
    pub levels: u32,
}

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    /// Checks the whole tree, and hands all pairs to `each` in ascending order.
    ///
    /// Exclusive, so that no operation is under way.
    ///
    /// # Errors
    /// What is wrong, or what `each` says.
    pub fn check(
        &mut self,
        mut each: impl FnMut(u64, u64) -> Result<(), String>,
    ) -> Result<Summary, String> {
        let node = |kind, number| {
            let words = match kind {
                NodeKind::Inner => self.inner.node(number),
                NodeKind::Leaf => self.leaves.node(number),
            };
            Some(words?.iter().map(load).collect())
        };
        let found = walk(&node, &mut each, self.root_word())?;
        let (known, used) = (
            found.inner + found.leaves + self.retired_nodes(),
            self.nodes(NodeKind::Inner) + self.nodes(NodeKind::Leaf),
        );
        match known == used {
            true => Ok(found),
            false => Err(format!(
                "{known} nodes are in the tree or retired, of {used} in use"
            )),
        }
    }
}

/// Checks a tree by the bytes of its arenas after it is gone, as [`BPlusTree::check`]; `root` is
/// its [`BPlusTree::root_word`], and each arena comes with the size of its nodes.
///
/// # Errors
/// What is wrong, or what `each` says.
pub fn check_bytes(
    root: u64,
    inner: (&[u8], usize),
    leaves: (&[u8], usize),
    mut each: impl FnMut(u64, u64) -> Result<(), String>,
) -> Result<Summary, String> {
    let node = |kind, number: u32| {
        let (bytes, node_bytes) = match kind {
            NodeKind::Inner => inner,
            NodeKind::Leaf => leaves,
        };
        let start = number as usize * node_bytes;
        let words = bytes.get(start..start + node_bytes)?.as_chunks::<8>().0;
        // The tree is for processors whose words begin with the lowest byte.
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        Some(words.map(AtomicU64::new).collect())
    };
    walk(&node, &mut each, root)
}

fn load(word: &AtomicU64) -> AtomicU64 {
    AtomicU64::new(word.load(Ordering::Relaxed))
}

/// A copy of a node.
type Copied = Option<Vec<AtomicU64>>;

fn walk(
    node: &dyn Fn(NodeKind, u32) -> Copied,
    each: &mut dyn FnMut(u64, u64) -> Result<(), String>,
    root: u64,
) -> Result<Summary, String> {
    let mut walk = Walk {
        node,
        each,
        found: Summary::default(),
        next: None,
        before: None,
    };
    walk.tree(root)?;
    Ok(walk.found)
}

/// Bounds of the keys below a node: from the first on, below the second.
type Bounds = (Option<u64>, Option<u64>);

struct Walk<'w> {
    node: &'w dyn Fn(NodeKind, u32) -> Copied,
    each: &'w mut dyn FnMut(u64, u64) -> Result<(), String>,
    found: Summary,
    /// The leaf that has to be next; none before the first.
    next: Option<u32>,
    /// The key before.
    before: Option<u64>,
}

impl Walk<'_> {
    fn tree(&mut self, root: u64) -> Result<(), String> {
        let level = (root >> 32) as u32;
        self.found.levels = level + 1;
        self.below(level, root as u32, (None, None))?;
        match self.next {
            Some(NO_NODE) => Ok(()),
            next => Err(format!("leaf {next:?} follows the last one")),
        }
    }

    fn below(&mut self, level: u32, number: u32, bounds: Bounds) -> Result<(), String> {
        let kind = match level {
            0 => NodeKind::Leaf,
            _ => NodeKind::Inner,
        };
        let words = (self.node)(kind, number)
            .ok_or_else(|| format!("{number} is no node of the {kind}"))?;
        if Version::is_out_of_use(words[0].load(Ordering::Relaxed)) {
            return Err(format!("node {number} of the {kind} is locked or obsolete"));
        }
        match kind {
            NodeKind::Leaf => self.leaf(number, Leaf::new(&words), bounds),
            NodeKind::Inner => self.inner(level, number, Inner::new(&words), bounds),
        }
    }

    fn inner(
        &mut self,
        level: u32,
        number: u32,
        node: Inner<'_>,
        (low, high): Bounds,
    ) -> Result<(), String> {
        self.found.inner += 1;
        if node.level() != level {
            let found = node.level();
            return Err(format!("inner node {number} at level {level} says {found}"));
        }
        let separators: Vec<u64> = (0..node.count()).map(|at| node.key(at)).collect();
        let mut ends = low
            .into_iter()
            .chain(separators.iter().copied())
            .chain(high);
        if !ends.clone().zip(ends.clone().skip(1)).all(|(a, b)| a < b) {
            let all: Vec<u64> = ends.by_ref().collect();
            return Err(format!("separators of inner node {number}: {all:?}"));
        }
        for at in 0..=separators.len() {
            let from = at.checked_sub(1).map(|at| separators[at]).or(low);
            let to = separators.get(at).copied().or(high);
            self.below(level - 1, node.child(at), (from, to))?;
        }
        Ok(())
    }

    fn leaf(&mut self, number: u32, leaf: Leaf<'_>, (low, high): Bounds) -> Result<(), String> {
        if self.next.is_some_and(|next| next != number) {
            let next = self.next;
            return Err(format!("leaf {next:?} follows where {number} should"));
        }
        self.next = Some(leaf.next());
        self.found.leaves += 1;
        for at in 0..leaf.count() {
            let key = leaf.key(at);
            let outside = low.is_some_and(|low| key < low) || high.is_some_and(|high| key >= high);
            if outside || self.before.is_some_and(|before| before >= key) {
                return Err(format!("key {key} in leaf {number} is not in order"));
            }
            self.before = Some(key);
            self.found.keys += 1;
            (self.each)(key, leaf.value(at))?;
        }
        Ok(())
    }
}
