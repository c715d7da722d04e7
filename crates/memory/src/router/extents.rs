//! Free-list allocator for the granules of an address range: segregated fit with boundary tags kept
//! outside the memory that it hands out.
//!
//! ```text
//!   granules  0        3     5              9    top
//!             [ used  ][free][ used        ][free](never used)
//!   tags      H . T    H T   H . . T        H
//! ```
//! Each extent has its length and state at its first (`H`) and last (`T`) granule. With these
//! boundary tags both neighbours of a freed extent are found in constant time and are coalesced if
//! they are free in the same way. Free extents are in segregated lists by length, one set of lists
//! per state: *cached* extents keep their pages, *released* ones have given them back to the
//! kernel. Pages that the kernel would not take back (`mlock`) are *locked* while they can be
//! reused for their place, and *stale* once the place has other nodes.
//!
//! The tags are outside the range, so that free memory needs no resident pages. All of it is plain
//! data in a slice: nothing here allocates.

use super::holds::ensure;

/// End of a list.
const NIL: u32 = u32::MAX;
/// Lengths below this have one list each, so that the most frequent sizes are an exact fit.
const EXACT_LISTS: u32 = 64;
/// Lists per doubling of the length from there on.
const LISTS_PER_DOUBLING: u32 = 4;
const LISTS: usize = 128;
/// Extents examined in a list of mixed lengths (first fit) before a longer extent is cut.
const SCAN_LIMIT: usize = 16;

/// State of an extent; 0 is no state, so that a zeroed tag is no extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum ExtentState {
    Used = 1,
    Cached = 2,
    Released = 3,
    /// Off the lists while its pages are being released outside of the lock; neighbours do not
    /// coalesce with it.
    Leaving = 4,
    Locked = 5,
    Stale = 6,
}

/// How an extent is free: what is known of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    /// They may be present, with old contents.
    Cached,
    /// They are gone: the next touch finds zeroes.
    Released,
    /// They are present, with old contents, because the kernel would not release them.
    Locked,
    /// The same, but on nodes of an earlier configuration: not handed out before they can be
    /// released.
    Stale,
}

impl Free {
    const COUNT: usize = 4;

    fn state(self) -> ExtentState {
        match self {
            Free::Cached => ExtentState::Cached,
            Free::Released => ExtentState::Released,
            Free::Locked => ExtentState::Locked,
            Free::Stale => ExtentState::Stale,
        }
    }

    fn of(state: u32) -> Option<Free> {
        [Free::Cached, Free::Released, Free::Locked, Free::Stale]
            .into_iter()
            .find(|free| free.state() as u32 == state)
    }
}

/// Owner of a used extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    /// Number of the operator's account.
    pub(super) owner: u32,
    /// Number of the configuration under which its pages were populated.
    pub(super) config: u32,
}

/// Boundary tag of one granule. All zeroes is a valid value: no extent begins or ends here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tag {
    /// Length, in granules, of the extent that begins or ends here.
    len: u32,
    /// A [`ExtentState`] as a number, or 0.
    state: u32,
    /// Next extent of the list; the operator of a used extent.
    next: u32,
    /// Previous extent of the list; the configuration of a used extent.
    prev: u32,
}

/// The segregated lists of one kind of free extents; bit `n` of `filled` says that list `n` is not
/// empty.
#[derive(Debug)]
struct Lists {
    filled: u128,
    heads: [u32; LISTS],
}

impl Lists {
    const EMPTY: Lists = Lists {
        filled: 0,
        heads: [NIL; LISTS],
    };
}

/// Index of the list for extents of `len` granules.
fn list_of(len: u32) -> usize {
    if len < EXACT_LISTS {
        return len as usize;
    }
    let doubling = len.ilog2();
    // The two bits below the leading one: which quarter of its doubling the length is in.
    let within = (len >> (doubling - 2)) & (LISTS_PER_DOUBLING - 1);
    let list = EXACT_LISTS + (doubling - EXACT_LISTS.ilog2()) * LISTS_PER_DOUBLING + within;
    (list as usize).min(LISTS - 1)
}

/// A run of granules: the first one and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Extent {
    fn end(self) -> u32 {
        self.start + self.len
    }
}

/// All extents of a range, used and free.
#[derive(Debug)]
pub(super) struct Extents {
    tags: &'static mut [Tag],
    /// High-water mark: granules from here on were never used, or were released and merged into the
    /// rest. Their tags are not valid.
    top: u32,
    lists: [Lists; Free::COUNT],
}

impl Extents {
    /// An empty range, for use in a `static`.
    pub(super) const fn none() -> Self {
        Self {
            tags: &mut [],
            top: 0,
            lists: [Lists::EMPTY; Free::COUNT],
        }
    }

    /// A range of as many granules as there are tags, which must be all zero. All granules are
    /// unused.
    pub(super) fn over(tags: &'static mut [Tag]) -> Self {
        Self {
            tags,
            ..Self::none()
        }
    }

    /// Forgets all extents; none may be in use.
    pub(super) fn clear(&mut self) {
        self.top = 0;
        self.lists = [Lists::EMPTY; Free::COUNT];
    }

    fn lists(&mut self, free: Free) -> &mut Lists {
        &mut self.lists[free as usize]
    }

    fn mark(&mut self, extent: Extent, state: ExtentState) {
        let tag = Tag {
            len: extent.len,
            state: state as u32,
            next: NIL,
            prev: NIL,
        };
        self.tags[extent.end() as usize - 1] = tag;
        self.tags[extent.start as usize] = tag;
    }

    fn mark_used(&mut self, extent: Extent, holder: Holder) {
        self.mark(extent, ExtentState::Used);
        let first = &mut self.tags[extent.start as usize];
        (first.next, first.prev) = (holder.owner, holder.config);
    }

    fn link(&mut self, extent: Extent, free: Free) {
        self.mark(extent, free.state());
        let list = list_of(extent.len);
        let head = std::mem::replace(&mut self.lists(free).heads[list], extent.start);
        self.lists(free).filled |= 1 << list;
        self.tags[extent.start as usize].next = head;
        if head != NIL {
            self.tags[head as usize].prev = extent.start;
        }
    }

    fn unlink(&mut self, extent: Extent, free: Free) {
        let Tag {
            len,
            state,
            next,
            prev,
        } = self.tags[extent.start as usize];
        ensure(
            state == free.state() as u32 && len == extent.len,
            "a free extent is not what its list says",
        );
        if next != NIL {
            self.tags[next as usize].prev = prev;
        }
        if prev != NIL {
            self.tags[prev as usize].next = next;
            return;
        }
        let list = list_of(extent.len);
        let lists = self.lists(free);
        lists.heads[list] = next;
        if next == NIL {
            lists.filled &= !(1 << list);
        }
    }

    /// A free extent of at least `len` granules: exact fit for short lengths, first fit within the
    /// list of longer ones, otherwise any extent of the next list that is not empty.
    fn find(&mut self, len: u32, free: Free) -> Option<Extent> {
        let list = list_of(len);
        let mut at = self.lists(free).heads[list];
        for _ in 0..SCAN_LIMIT {
            let Some(tag) = self.tags.get(at as usize) else {
                break;
            };
            if tag.len >= len {
                return Some(Extent {
                    start: at,
                    len: tag.len,
                });
            }
            at = tag.next;
        }
        // Two shifts, because `list` may be 127 and one shift by 128 would overflow. Every extent
        // in a later list is long enough, so its head is taken without a search.
        let longer = self.lists(free).filled & (u128::MAX << list << 1);
        if longer == 0 {
            return None;
        }
        let start = self.lists(free).heads[longer.trailing_zeros() as usize];
        Some(Extent {
            start,
            len: self.tags[start as usize].len,
        })
    }

    /// Takes `len` granules from a free extent of that kind.
    pub(super) fn take(&mut self, len: u32, free: Free, holder: Holder) -> Option<Extent> {
        let found = self.find(len, free)?;
        self.unlink(found, free);
        Some(self.cut(found, len, free, holder))
    }

    /// Uses the first `len` granules of an unlinked extent; the rest returns to the free lists.
    fn cut(&mut self, found: Extent, len: u32, free: Free, holder: Holder) -> Extent {
        let used = Extent {
            start: found.start,
            len,
        };
        if found.len > len {
            let rest = Extent {
                start: used.end(),
                len: found.len - len,
            };
            self.link(rest, free);
        }
        self.mark_used(used, holder);
        used
    }

    /// Takes `len` granules above the high-water mark; `None` at the end of the range.
    pub(super) fn take_new(&mut self, len: u32, holder: Holder) -> Option<Extent> {
        let end = self
            .top
            .checked_add(len)
            .filter(|end| *end as usize <= self.tags.len())?;
        let used = Extent {
            start: self.top,
            len,
        };
        self.top = end;
        self.mark_used(used, holder);
        Some(used)
    }

    /// The used extent that begins at `start`, with its owner.
    pub(super) fn used(&self, start: u32) -> Option<(Extent, Holder)> {
        let tag = self.tags.get(start as usize)?;
        (tag.state == ExtentState::Used as u32 && start < self.top).then_some((
            Extent {
                start,
                len: tag.len,
            },
            Holder {
                owner: tag.next,
                config: tag.prev,
            },
        ))
    }

    /// Frees an extent and coalesces it with free neighbours of the same kind.
    pub(super) fn give(&mut self, extent: Extent, free: Free) {
        let now = self.tags[extent.start as usize];
        ensure(
            now.len == extent.len
                && (now.state == ExtentState::Used as u32
                    || now.state == ExtentState::Leaving as u32),
            "an extent became free that was not in use",
        );
        let state = free.state() as u32;
        let mut whole = extent;
        if let Some(before) = extent
            .start
            .checked_sub(1)
            .map(|last| self.tags[last as usize])
            && before.state == state
        {
            let before = Extent {
                start: extent.start - before.len,
                len: before.len,
            };
            self.unlink(before, free);
            whole = Extent {
                start: before.start,
                len: before.len + whole.len,
            };
        }
        // Tags from `top` on may be left over from extents that were merged into the rest.
        if whole.end() < self.top {
            let after = self.tags[whole.end() as usize];
            if after.state == state {
                let after = Extent {
                    start: whole.end(),
                    len: after.len,
                };
                self.unlink(after, free);
                whole.len += after.len;
            }
        }
        // Fresh granules at the end need no list: lowering the mark frees them, and keeps the part
        // of the range that is in use compact.
        if free == Free::Released && whole.end() == self.top {
            self.top = whole.start;
        } else {
            self.link(whole, free);
        }
    }

    /// How the next `more` granules after a used extent are free; `None` if they are not all free
    /// in one way, or stale.
    pub(super) fn behind(&self, extent: Extent, more: u32) -> Option<Free> {
        if extent.end() == self.top {
            let end = self.top.checked_add(more)?;
            return (end as usize <= self.tags.len()).then_some(Free::Released);
        }
        let after = self.tags[extent.end() as usize];
        let free = Free::of(after.state).filter(|free| *free != Free::Stale)?;
        (after.len >= more).then_some(free)
    }

    /// Extends a used extent in place, if the granules after it allow it ([`Extents::behind`]).
    /// Returns the kind that the added granules had.
    pub(super) fn grow(&mut self, extent: Extent, len: u32) -> Option<Free> {
        let more = len.checked_sub(extent.len).filter(|more| *more > 0)?;
        let free = self.behind(extent, more)?;
        let (_, holder) = self.used(extent.start)?;
        if extent.end() == self.top {
            self.take_new(more, holder)?;
        } else {
            let after = Extent {
                start: extent.end(),
                len: self.tags[extent.end() as usize].len,
            };
            self.unlink(after, free);
            self.cut(after, more, free, holder);
        }
        let whole = Extent {
            start: extent.start,
            len,
        };
        self.mark_used(whole, holder);
        Some(free)
    }

    /// Cuts a used extent to `len` granules. Returns its tail, in state `Leaving`;
    /// [`Extents::give`] must follow.
    pub(super) fn split(&mut self, extent: Extent, len: u32) -> Option<Extent> {
        if len == 0 || len >= extent.len {
            return None;
        }
        let (_, holder) = self.used(extent.start)?;
        let kept = Extent {
            start: extent.start,
            len,
        };
        let end = Extent {
            start: kept.end(),
            len: extent.len - len,
        };
        self.mark(end, ExtentState::Leaving);
        self.mark_used(kept, holder);
        Some(end)
    }

    /// Marks a used extent as leaving, before its pages are released; [`Extents::give`] must
    /// follow.
    pub(super) fn leave(&mut self, extent: Extent) {
        self.mark(extent, ExtentState::Leaving);
    }

    /// Takes one of the longest free extents of that kind off its list, for release;
    /// [`Extents::give`] must follow, whether the release succeeded or not.
    pub(super) fn evict(&mut self, free: Free) -> Option<Extent> {
        // If every list is empty there are 128 leading zeros, which gives `None`.
        let list = 127_u32.checked_sub(self.lists(free).filled.leading_zeros())?;
        let start = self.lists(free).heads[list as usize];
        let extent = Extent {
            start,
            len: self.tags[start as usize].len,
        };
        self.unlink(extent, free);
        self.mark(extent, ExtentState::Leaving);
        Some(extent)
    }

    /// Calls `see` for each used extent, in order of address.
    pub(super) fn each_used(&self, mut see: impl FnMut(Extent, Holder)) {
        let mut start = 0;
        while start < self.top {
            let tag = self.tags[start as usize];
            if tag.state == ExtentState::Used as u32 {
                see(
                    Extent {
                        start,
                        len: tag.len,
                    },
                    Holder {
                        owner: tag.next,
                        config: tag.prev,
                    },
                );
            }
            // Never 0 below `top`; `max` rules out an endless loop all the same.
            start += tag.len.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const NINE: Holder = Holder {
        owner: 9,
        config: 4,
    };

    fn extents(granules: usize) -> Extents {
        Extents::over(Box::leak(vec![Tag::default(); granules].into_boxed_slice()))
    }

    #[test]
    fn every_length_has_a_list_and_longer_ones_come_later() {
        let lists: Vec<usize> = (1..1 << 20).map(list_of).collect();
        assert!(lists.is_sorted());
        assert!(lists.iter().all(|list| *list < LISTS));
    }

    #[test]
    fn a_range_that_is_given_back_whole_is_empty_again() {
        let mut range = extents(16);
        let all: Vec<Extent> = (0..4).map(|_| range.take_new(4, NINE).unwrap()).collect();
        assert_eq!(range.take_new(1, NINE), None);
        for index in [1, 3, 0, 2] {
            range.leave(all[index]);
            range.give(all[index], Free::Released);
        }
        assert_eq!(range.top, 0);
        assert_eq!(range.lists(Free::Released).filled, 0);
    }

    /// A test step: take this many granules, or act on the n-th used extent.
    #[derive(Debug, Clone)]
    enum Step {
        Take(u32),
        Give(usize, bool),
        Grow(usize, u32),
        Shrink(usize, u32),
        Evict,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1_u32..200).prop_map(Step::Take),
            (any::<usize>(), any::<bool>()).prop_map(|(n, cached)| Step::Give(n, cached)),
            (any::<usize>(), 1_u32..50).prop_map(|(n, more)| Step::Grow(n, more)),
            (any::<usize>(), 1_u32..50).prop_map(|(n, less)| Step::Shrink(n, less)),
            Just(Step::Evict),
        ]
    }

    fn nth(used: &BTreeMap<u32, u32>, n: usize) -> Option<Extent> {
        let at = n.checked_rem(used.len())?;
        used.iter().nth(at).map(|(start, len)| Extent {
            start: *start,
            len: *len,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn extents_in_use_never_overlap_and_the_range_agrees_with_a_map(steps in prop::collection::vec(step(), 1..120)) {
            let mut range = extents(4000);
            let mut used: BTreeMap<u32, u32> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Take(len) => {
                        let taken = range.take(len, Free::Cached, NINE)
                            .or_else(|| range.take(len, Free::Released, NINE))
                            .or_else(|| range.take_new(len, NINE));
                        if let Some(extent) = taken {
                            prop_assert_eq!(extent.len, len);
                            used.insert(extent.start, len);
                        }
                    }
                    Step::Give(n, cached) => if let Some(extent) = nth(&used, n) {
                        used.remove(&extent.start);
                        range.give(extent, if cached { Free::Cached } else { Free::Released });
                    },
                    Step::Grow(n, more) => if let Some(extent) = nth(&used, n)
                        && range.grow(extent, extent.len + more).is_some() {
                        used.insert(extent.start, extent.len + more);
                    },
                    Step::Shrink(n, less) => if let Some(extent) = nth(&used, n)
                        && let Some(end) = range.split(extent, extent.len.saturating_sub(less)) {
                        used.insert(extent.start, extent.len - end.len);
                        range.give(end, Free::Released);
                    },
                    Step::Evict => if let Some(extent) = range.evict(Free::Cached) {
                        range.give(extent, Free::Released);
                    },
                }
                let mut seen = BTreeMap::new();
                range.each_used(|extent, holder| { seen.insert(extent.start, (extent.len, holder)); });
                let expected: BTreeMap<u32, (u32, Holder)> = used.iter().map(|(start, len)| (*start, (*len, NINE))).collect();
                prop_assert_eq!(&seen, &expected);
                let mut end = 0;
                for (start, len) in &used {
                    prop_assert!(*start >= end);
                    end = start + len;
                    let extent = Extent { start: *start, len: *len };
                    prop_assert_eq!(range.used(*start), Some((extent, NINE)));
                }
            }
        }
    }
}
