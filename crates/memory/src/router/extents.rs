//! Which granules of a range are in use: a free-list allocator whose book-keeping lies outside the memory it hands out.
//!
//! ```text
//!   granules  0        3     5              9    top
//!             [ used  ][free][ used        ][free](never used)
//!   tags      H . T    H T   H . . T        H
//! ```
//! Each extent has its length and state at its first (`H`) and last (`T`) granule, so that both neighbours of an extent that becomes free
//! are found at once. Free extents are in one of two sets of lists by length: *cached* ones keep their pages, *released* ones have given
//! them back to the kernel. Neighbours of one kind are joined. All of it is plain data in a slice: nothing here allocates.

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
}

/// What is known of a free extent's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    /// They may be there, with old contents.
    Cached,
    /// They are gone: the next touch gives zeroes.
    Released,
}

impl Free {
    fn state(self) -> State {
        match self {
            Free::Cached => State::Cached,
            Free::Released => State::Released,
        }
    }
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
    cached: Lists,
    released: Lists,
}

impl Extents {
    /// A range without granules.
    pub(super) const fn none() -> Self {
        Self {
            tags: &mut [],
            top: 0,
            cached: Lists::EMPTY,
            released: Lists::EMPTY,
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
        match free {
            Free::Cached => &mut self.cached,
            Free::Released => &mut self.released,
        }
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
        let Tag { next, prev, .. } = self.tags[extent.start as usize];
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

    /// Takes `len` granules that are free in that way, for `owner`.
    pub(super) fn take(&mut self, len: u32, free: Free, owner: u32) -> Option<Extent> {
        let found = self.find(len, free)?;
        self.unlink(found, free);
        Some(self.cut(found, len, free, owner))
    }

    /// Uses the first `len` granules of an unlinked extent; the rest becomes free again.
    fn cut(&mut self, found: Extent, len: u32, free: Free, owner: u32) -> Extent {
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
        self.mark(used, State::Used);
        self.tags[used.start as usize].next = owner;
        used
    }

    /// Takes `len` granules that were never used; `None` at the end of the range.
    pub(super) fn take_new(&mut self, len: u32, owner: u32) -> Option<Extent> {
        let end = self
            .top
            .checked_add(len)
            .filter(|end| *end as usize <= self.tags.len())?;
        let used = Extent {
            start: self.top,
            len,
        };
        self.top = end;
        self.mark(used, State::Used);
        self.tags[used.start as usize].next = owner;
        Some(used)
    }

    /// The used extent that begins at `start`, with its owner.
    pub(super) fn used(&self, start: u32) -> Option<(Extent, u32)> {
        let tag = self.tags.get(start as usize)?;
        (tag.state == State::Used as u32 && start < self.top).then_some((
            Extent {
                start,
                len: tag.len,
            },
            tag.next,
        ))
    }

    /// Makes an extent free, joined with its free neighbours of the same kind.
    pub(super) fn give(&mut self, extent: Extent, free: Free) {
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

    /// Makes a used extent longer in place. Says of which kind the added granules were; `None` if what follows is not free or too short.
    pub(super) fn grow(&mut self, extent: Extent, len: u32) -> Option<Free> {
        let owner = self.tags[extent.start as usize].next;
        let more = len.checked_sub(extent.len).filter(|more| *more > 0)?;
        let kind = if extent.end() == self.top {
            self.take_new(more, owner)?;
            Free::Released
        } else {
            let after = self.tags[extent.end() as usize];
            let kind = match after.state {
                state if state == State::Cached as u32 => Free::Cached,
                state if state == State::Released as u32 => Free::Released,
                _ => return None,
            };
            if after.len < more {
                return None;
            }
            let after = Extent {
                start: extent.end(),
                len: after.len,
            };
            self.unlink(after, kind);
            self.cut(after, more, kind, owner);
            kind
        };
        let whole = Extent {
            start: extent.start,
            len,
        };
        self.mark(whole, State::Used);
        self.tags[whole.start as usize].next = owner;
        Some(kind)
    }

    /// Splits the end off a used extent that keeps `len` granules. The end is used, too.
    pub(super) fn split(&mut self, extent: Extent, len: u32) -> Option<Extent> {
        if len == 0 || len >= extent.len {
            return None;
        }
        let owner = self.tags[extent.start as usize].next;
        let kept = Extent {
            start: extent.start,
            len,
        };
        let end = Extent {
            start: kept.end(),
            len: extent.len - len,
        };
        self.mark(end, State::Leaving);
        self.mark(kept, State::Used);
        self.tags[kept.start as usize].next = owner;
        Some(end)
    }

    /// Takes a used extent out of use before its pages go back to the kernel; [`Extents::give`] follows.
    pub(super) fn leave(&mut self, extent: Extent) {
        self.mark(extent, State::Leaving);
    }

    /// Takes the longest cached extent (about) off its list; [`Extents::give`] follows when its pages are gone.
    pub(super) fn evict(&mut self) -> Option<Extent> {
        let list = 127_u32.checked_sub(self.cached.filled.leading_zeros())?;
        let start = self.cached.heads[list as usize];
        let extent = Extent {
            start,
            len: self.tags[start as usize].len,
        };
        self.unlink(extent, Free::Cached);
        self.mark(extent, State::Leaving);
        Some(extent)
    }

    /// Shows each used extent.
    pub(super) fn each_used(&self, mut see: impl FnMut(Extent, u32)) {
        let mut start = 0;
        while start < self.top {
            let tag = self.tags[start as usize];
            if tag.state == State::Used as u32 {
                see(
                    Extent {
                        start,
                        len: tag.len,
                    },
                    tag.next,
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
        let all: Vec<Extent> = (0..4).map(|_| range.take_new(4, 1).unwrap()).collect();
        assert_eq!(range.take_new(1, 1), None);
        for index in [1, 3, 0, 2] {
            range.leave(all[index]);
            range.give(all[index], Free::Released);
        }
        assert_eq!(range.top, 0);
        assert_eq!(range.released.filled, 0);
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
                        let taken = range.take(len, Free::Cached, 9)
                            .or_else(|| range.take(len, Free::Released, 9))
                            .or_else(|| range.take_new(len, 9));
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
                    Step::Evict => if let Some(extent) = range.evict() {
                        range.give(extent, Free::Released);
                    },
                }
                let mut seen = BTreeMap::new();
                range.each_used(|extent, owner| { seen.insert(extent.start, (extent.len, owner)); });
                let expected: BTreeMap<u32, (u32, u32)> = used.iter().map(|(start, len)| (*start, (*len, 9))).collect();
                prop_assert_eq!(&seen, &expected);
                let mut end = 0;
                for (start, len) in &used {
                    prop_assert!(*start >= end);
                    end = start + len;
                    let extent = Extent { start: *start, len: *len };
                    prop_assert_eq!(range.used(*start), Some((extent, 9)));
                }
            }
        }
    }
}
