//! Hash table from group-by keys to dense group numbers.

use super::block::{BLOCK, Compare, Homes, Plain};
use super::bucket::passing;
use super::{Bucket, Layout, NONE};
use crate::Simd;
use std::ops::DerefMut;

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
        self.assign_with(Simd::detect(), keys, groups, keys_of_groups)
    }

    /// [`GroupTable::assign`] with instructions of a width that the processor has.
    pub(super) fn assign_with(
        &mut self,
        simd: Simd,
        keys: &[u64],
        groups: &mut [u32],
        keys_of_groups: &mut Vec<u64>,
    ) -> usize {
        let mut entries = Entries::of(self);
        match simd.or_scalar() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has AVX-512F and AVX-512DQ; all processors with both have the
            // other features (BMI, LZCNT) too.
            Simd::Avx512 => unsafe { assign_avx512(&mut entries, keys, groups, keys_of_groups) },
            _ => entries.pipelined::<Plain>(keys, groups, keys_of_groups),
        }
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
            if let Some(later) = keys_of_groups.get(group + BLOCK) {
                crate::prefetch_read(entries.memory, entries.home(*later).0);
            }
            if entries.assign::<Plain>(*key, entries.home(*key)) == NONE {
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

/// # Safety
/// The processor must have all features that are enabled here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
unsafe fn assign_avx512(
    entries: &mut Entries<'_>,
    keys: &[u64],
    groups: &mut [u32],
    keys_of_groups: &mut Vec<u64>,
) -> usize {
    entries.pipelined::<super::block::Avx512>(keys, groups, keys_of_groups)
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

    /// The loop of all widths; the callers have checked that the processor has what `C` needs.
    #[inline(always)]
    fn pipelined<C: Compare>(
        &mut self,
        keys: &[u64],
        groups: &mut [u32],
        keys_of_groups: &mut Vec<u64>,
    ) -> usize {
        let groups = &mut groups[..keys.len()];
        // While the keys of one block are looked up, the buckets of the next one are loaded.
        let (mut homes, mut later_homes) = (Homes::default(), Homes::default());
        let first = &keys[..keys.len().min(BLOCK)];
        homes.locate(*self.layout, first);
        for home in &homes.buckets[..first.len()] {
            crate::prefetch_read(self.memory, *home as usize);
        }
        for start in (0..keys.len()).step_by(BLOCK) {
            let end = keys.len().min(start + BLOCK);
            let later = &keys[end..keys.len().min(end + BLOCK)];
            later_homes.locate(*self.layout, later);
            let block = keys[start..end].iter().zip(&mut groups[start..end]);
            for (index, (key, group)) in block.enumerate() {
                // Behind the last key of the block is the home of an older one.
                crate::prefetch_read(self.memory, later_homes.buckets[index] as usize);
                let home = (homes.buckets[index] as usize, homes.bits[index]);
                let assigned = self.assign::<C>(*key, home);
                if assigned == NONE {
                    return start + index;
                }
                if assigned as usize == keys_of_groups.len() {
                    keys_of_groups.push(*key);
                }
                *group = assigned;
            }
            std::mem::swap(&mut homes, &mut later_homes);
        }
        keys.len()
    }

    fn skip_number(&mut self) -> u32 {
        *self.groups += 1;
        *self.skipped += 1;
        (*self.groups - 1) as u32
    }

    /// The group of `key`, a new one if it has none; [`NONE`] if there is no room.
    #[inline(always)]
    fn assign<C: Compare>(&mut self, key: u64, (home, bit): (usize, u32)) -> u32 {
        let mut at = home;
        for _ in 0..self.layout.segment_buckets() {
            let bucket = &mut self.memory[at];
            // SAFETY: the callers have checked the instructions of `C`.
            if let Some(index) = unsafe { C::position(bucket, key) } {
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
