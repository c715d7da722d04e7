//! Hash table from group-by keys to dense group numbers.

use super::bucket::passing;
use super::{Bucket, Layout, NONE};
use std::ops::DerefMut;

/// Keys that are hashed, prefetched and then assigned together.
const GROUP: usize = 64;

/// Numbers the distinct keys 0, 1, 2, ... in the order of first appearance; accumulators are arrays
/// by that number.
#[derive(Debug)]
pub struct GroupTable<M> {
    layout: Layout,
    memory: M,
    groups: usize,
    /// Group numbers without an entry in the table.
    skipped: usize,
}

impl<M: DerefMut<Target = [Bucket]>> GroupTable<M> {
    /// An empty table in `memory`, which is cleared.
    ///
    /// # Panics
    /// If the number of buckets is not that of the layout.
    pub fn new(layout: Layout, mut memory: M) -> Self {
        memory.fill(Bucket::EMPTY);
        Self::in_zeroed(layout, memory)
    }

    /// An empty table in `memory`, which has to be zeros; a table in any other memory gives
    /// arbitrary numbers.
    ///
    /// # Panics
    /// If the number of buckets is not that of the layout.
    pub fn in_zeroed(layout: Layout, memory: M) -> Self {
        assert_eq!(memory.len(), layout.buckets(), "buckets of the table");
        Self {
            layout,
            memory,
            groups: 0,
            skipped: 0,
        }
    }

    /// Number of groups so far.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Number of groups that the table is sized for.
    pub fn capacity(&self) -> usize {
        self.layout.keys()
    }

    /// Size of the table in bytes.
    pub fn size_bytes(&self) -> usize {
        self.layout.size_bytes()
    }

    /// Writes the group of each key to `groups`, and appends new keys to `keys_of_groups`.
    ///
    /// Returns the number of keys assigned. If it is less than the number of keys, the table is
    /// full; the caller continues with a larger one ([`GroupTable::refill`]).
    ///
    /// # Panics
    /// If `groups` is shorter than `keys`.
    pub fn assign(
        &mut self,
        keys: &[u64],
        groups: &mut [u32],
        keys_of_groups: &mut Vec<u64>,
    ) -> usize {
        let groups = &mut groups[..keys.len()];
        let mut entries = Entries::of(self);
        for (block, (keys, groups)) in keys.chunks(GROUP).zip(groups.chunks_mut(GROUP)).enumerate()
        {
            let mut homes = [(0, 0); GROUP];
            for (home, key) in homes.iter_mut().zip(keys) {
                *home = entries.prefetched(*key);
            }
            for (index, (key, group)) in keys.iter().zip(groups).enumerate() {
                match entries.assign(*key, homes[index]) {
                    NONE => return block * GROUP + index,
                    assigned => {
                        if assigned as usize == keys_of_groups.len() {
                            keys_of_groups.push(*key);
                        }
                        *group = assigned;
                    }
                }
            }
        }
        keys.len()
    }

    /// Takes the next number for a group that the caller tracks itself, such as one whose key does
    /// not fit into 64 bits.
    ///
    /// Needs no entry, so it also works in a full table.
    pub fn skip_number(&mut self) -> u32 {
        Entries::of(self).skip_number()
    }

    /// Enters the groups of a smaller table into this empty one; returns whether all fitted.
    ///
    /// `keys_of_groups` are its keys in the order of their numbers; `skipped` are the numbers that
    /// [`GroupTable::skip_number`] gave, in ascending order.
    pub fn refill(&mut self, keys_of_groups: &[u64], skipped: &[u32]) -> bool {
        let mut skipped = skipped.iter().copied().peekable();
        let mut entries = Entries::of(self);
        for (group, key) in keys_of_groups.iter().enumerate() {
            if skipped.next_if_eq(&(group as u32)).is_some() {
                entries.skip_number();
                continue;
            }
            if let Some(later) = keys_of_groups.get(group + GROUP) {
                entries.prefetched(*later);
            }
            if entries.assign(*key, entries.home(*key)) == NONE {
                return false;
            }
        }
        true
    }
}

/// A table whose memory is looked up once for many keys.
struct Entries<'t> {
    layout: &'t Layout,
    memory: &'t mut [Bucket],
    groups: &'t mut usize,
    skipped: &'t mut usize,
}

impl<'t> Entries<'t> {
    fn of<M: DerefMut<Target = [Bucket]>>(table: &'t mut GroupTable<M>) -> Self {
        Entries {
            layout: &table.layout,
            memory: &mut table.memory,
            groups: &mut table.groups,
            skipped: &mut table.skipped,
        }
    }

    /// Where the search for `key` begins, and its filter bit.
    #[inline(always)]
    fn home(&self, key: u64) -> (usize, u32) {
        let hash = self.layout.hash(key);
        (self.layout.home(hash), passing(hash))
    }

    /// [`Self::home`], which is being loaded.
    #[inline(always)]
    fn prefetched(&self, key: u64) -> (usize, u32) {
        let home = self.home(key);
        crate::prefetch_read(self.memory, home.0);
        home
    }

    fn skip_number(&mut self) -> u32 {
        *self.groups += 1;
        *self.skipped += 1;
        (*self.groups - 1) as u32
    }

    /// The group of `key`, a new one if it has none; [`NONE`] if there is no room.
    #[inline(always)]
    fn assign(&mut self, key: u64, (home, bit): (usize, u32)) -> u32 {
        let mut at = home;
        for _ in 0..self.layout.segment_buckets() {
            let bucket = &mut self.memory[at];
            if let Some(index) = bucket.position(key) {
                return bucket.values[index];
            }
            if bucket.len() < super::bucket::ENTRIES {
                // Full by the number of keys, before any segment is: the load factor stays at the
                // one that lookups are fast with.
                if *self.groups - *self.skipped >= self.layout.keys() {
                    return NONE;
                }
                let group = *self.groups as u32;
                bucket.push(key, group);
                *self.groups += 1;
                return group;
            }
            bucket.pass(bit);
            at = self.layout.following(at);
        }
        NONE
    }
}
