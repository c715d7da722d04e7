//! Which granules of a range are in use: a free-list allocator whose book-keeping lies outside the
//! memory it hands out.
//!
//! ```text
//!   granules  0        3     5              9    top
//!             [ used  ][free][ used        ][free](never used)
//!   tags      H . T    H T   H . . T        H
//! ```
//! Each extent has its length and state at its first (`H`) and last (`T`) granule, so that both
//! neighbours of an extent that becomes free are found at once. Free extents are in sets of lists
//! by length: *cached* ones keep their pages, *released* ones have given them back to the kernel.
//! Neighbours of one kind are joined. All of it is plain data in a slice: nothing here allocates.
//! Pages that the kernel would not take back (somebody locked them) are *locked* while they can be
//! reused at their place, and *stale* once the place means other nodes.

use super::holds::ensure;

/// A list position that is none.
const NIL: u32 = u32::MAX;
/// Lengths up to this have a list each.
const EXACT_LISTS: u32 = 64;
/// Lists per doubling of the length above that.
const LISTS_PER_DOUBLING: u32 = 4;
const LISTS: usize = 128;
/// Extents looked at in a list whose lengths vary, before a longer one is cut.
const SCAN_LIMIT: usize = 16;

/// State of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum State {
    Used = 1,
    Cached = 2,
    Released = 3,
    /// Taken off the lists while its pages go back to the kernel.
    Leaving = 4,
    Locked = 5,
    Stale = 6,
}

/// What is known of a free extent's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    /// They may be there, with old contents.
    Cached,
    /// They are gone: the next touch gives zeroes.
    Released,
    /// They are there, with old contents, because the kernel would not take them.
    Locked,
    /// The same, and they are not where the place's pages are by now: never handed out.
    Stale,
}

impl Free {
    const COUNT: usize = 4;

    fn state(self) -> State {
        match self {
            Free::Cached => State::Cached,
            Free::Released => State::Released,
            Free::Locked => State::Locked,
            Free::Stale => State::Stale,
        }
    }

    fn of(state: u32) -> Option<Free> {
        [Free::Cached, Free::Released, Free::Locked, Free::Stale]
            .into_iter()
            .find(|free| free.state() as u32 == state)
    }
}

/// Who has a used extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    /// The operator.
    pub(super) owner: u32,
    /// The configuration that its pages came under.
    pub(super) config: u32,
}

/// Book-keeping of one granule. All zeroes is a valid value: no extent begins or ends here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tag {
    /// Granules of the extent that begins or ends here.
    len: u32,
    /// A [`State`] as a number.
    state: u32,
    /// Next extent of the list; of a used extent its owner.
    next: u32,
    /// Extent before it in the list; of a used extent its configuration.
    prev: u32,
}

/// Free extents of one kind by length.
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

/// The list of extents of `len` granules.
fn list_of(len: u32) -> usize {
    if len < EXACT_LISTS {
        return len as usize;
    }
    let doubling = len.ilog2();
    let within = (len >> (doubling - 2)) & (LISTS_PER_DOUBLING - 1);
    let list = EXACT_LISTS + (doubling - EXACT_LISTS.ilog2()) * LISTS_PER_DOUBLING + within;
    (list as usize).min(LISTS - 1)
}

/// An extent: first granule and number of granules.
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

/// The extents of a range.
#[derive(Debug)]
pub(super) struct Extents {
    tags: &'static mut [Tag],
    /// Granules from here on were never used, or are released and forgotten.
    top: u32,
    lists: [Lists; Free::COUNT],
}

impl Extents {
    /// A range without granules.
    pub(super) const fn none() -> Self {
        Self {
            tags: &mut [],
            top: 0,
            lists: [Lists::EMPTY; Free::COUNT],
        }
    }

    /// A range of as many granules as there are tags, all zero, none of them in use.
    pub(super) fn over(tags: &'static mut [Tag]) -> Self {
        Self {
            tags,
            ..Self::none()
        }
    }

    fn lists(&mut self, free: Free) -> &mut Lists {
        &mut self.lists[free as usize]
    }

    fn mark(&mut self, extent: Extent, state: State) {
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
        self.mark(extent, State::Used);
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

    /// The free extent of `free` that fits `len` about best.
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

    /// Takes `len` granules that are free in that way, for `holder`.
    pub(super) fn take(&mut self, len: u32, free: Free, holder: Holder) -> Option<Extent> {
        let found = self.find(len, free)?;
        self.unlink(found, free);
        Some(self.cut(found, len, free, holder))
    }

    /// Uses the first `len` granules of an unlinked extent; the rest becomes free again.
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

    /// Takes `len` granules that were never used; `None` at the end of the range.
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

    /// The used extent that begins at `start`, and who has it.
    pub(super) fn used(&self, start: u32) -> Option<(Extent, Holder)> {
        let tag = self.tags.get(start as usize)?;
        (tag.state == State::Used as u32 && start < self.top).then_some((
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

    /// Makes an extent free, joined with its free neighbours of the same kind.
    pub(super) fn give(&mut self, extent: Extent, free: Free) {
        let now = self.tags[extent.start as usize];
        ensure(
            now.len == extent.len
                && (now.state == State::Used as u32 || now.state == State::Leaving as u32),
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
        if free == Free::Released && whole.end() == self.top {
            self.top = whole.start;
        } else {
            self.link(whole, free);
        }
    }

    /// How the `more` granules behind a used extent are free; `None` if they are not.
    pub(super) fn behind(&self, extent: Extent, more: u32) -> Option<Free> {
        if extent.end() == self.top {
            let end = self.top.checked_add(more)?;
            return (end as usize <= self.tags.len()).then_some(Free::Released);
        }
        let after = self.tags[extent.end() as usize];
        let free = Free::of(after.state).filter(|free| *free != Free::Stale)?;
        (after.len >= more).then_some(free)
    }

    /// Makes a used extent longer in place, if what is behind it allows ([`Extents::behind`]); says
    /// of which kind the added granules were.
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

    /// Splits the end off a used extent that keeps `len` granules. The end is leaving.
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
        self.mark(end, State::Leaving);
        self.mark_used(kept, holder);
        Some(end)
    }

    /// Takes a used extent out of use before its pages go back to the kernel; [`Extents::give`]
    /// follows.
    pub(super) fn leave(&mut self, extent: Extent) {
        self.mark(extent, State::Leaving);
    }

    /// Takes the longest extent (about) that is free in that way off its list; [`Extents::give`]
    /// follows when its pages are gone, or not.
    pub(super) fn evict(&mut self, free: Free) -> Option<Extent> {
        let list = 127_u32.checked_sub(self.lists(free).filled.leading_zeros())?;
        let start = self.lists(free).heads[list as usize];
        let extent = Extent {
            start,
            len: self.tags[start as usize].len,
        };
        self.unlink(extent, free);
        self.mark(extent, State::Leaving);
        Some(extent)
    }

    /// Shows each used extent.
    pub(super) fn each_used(&self, mut see: impl FnMut(Extent, Holder)) {
        let mut start = 0;
        while start < self.top {
            let tag = self.tags[start as usize];
            if tag.state == State::Used as u32 {
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

    /// What to do with a range: take so many granules, or do something with the n-th extent in use.
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
