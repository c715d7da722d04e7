//! Range scans: leaf by leaf, each read as a whole before its pairs are handed out.

use crate::BPlusTree;
use crate::arena::NO_NODE;
use crate::counts::Counts;
use crate::descend::AtLeaf;
use crate::node::Leaf;
use crate::search::count_below;
use crate::sync::AtomicU64;
use crate::version::Seen;

/// A leaf as of a version.
type SeenLeaf<'t> = (Leaf<'t>, Seen);

impl<M: AsRef<[AtomicU64]>> BPlusTree<M> {
    pub(crate) fn scan(
        &self,
        mut from: u64,
        pairs: &mut Vec<(u64, u64)>,
        counts: &mut Counts,
        mut each: impl FnMut(u64, u64) -> bool,
    ) {
        loop {
            let found = self.descend(from);
            let mut at = found.map(|AtLeaf { leaf, seen, .. }| (leaf, seen));
            // From leaf to leaf, as long as they are what they were.
            while let Some((leaf, seen)) = at {
                let Some(next) = self.read_leaf(leaf, seen, from, pairs) else {
                    break;
                };
                if !pairs.iter().all(|(key, value)| each(*key, *value)) {
                    return;
                }
                if let Some((last, _)) = pairs.last() {
                    let Some(after) = last.checked_add(1) else {
                        return;
                    };
                    from = after;
                }
                if next.is_none() {
                    return;
                }
                at = next;
            }
            counts.restarts += 1;
        }
    }

    /// Reads the pairs of a leaf from a key on; returns the leaf after it, `None` within if there
    /// is none. `None` outside if the leaf has changed.
    ///
    /// The version of the next leaf is read before the second look at this one: so it was the next
    /// one when its version was that.
    fn read_leaf(
        &self,
        leaf: Leaf<'_>,
        seen: Seen,
        from: u64,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Option<Option<SeenLeaf<'_>>> {
        pairs.clear();
        leaf.read_into(count_below(leaf.keys(), from), pairs);
        let next = match leaf.next() {
            NO_NODE => None,
            number => {
                let next = self.leaf(number)?;
                Some((next, next.version().read()?))
            }
        };
        leaf.version().unchanged(seen).then_some(next)
    }
}
