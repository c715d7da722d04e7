//! Numbers the keys of groups: a hash table with open addressing.

use tierloom_kernels::prefetch_read;

/// Buckets of an empty table.
const FEWEST: usize = 1 << 12;

/// From this many buckets on the table grows twofold, before that fourfold: pages that are new
/// take longer to clear than keys to move.
const MANY: usize = 1 << 18;

/// Buckets and accumulators are requested this many keys or rows ahead. Requesting those of a whole
/// vector before the first one is read took up to 1.7 times as long: they leave the L1 cache until
/// then, and nothing is done meanwhile.
pub(crate) const AHEAD: usize = 32;

/// The slots of keys, counted from 0 in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    keys: Vec<u64>,
    buckets: Buckets,
}

/// A lookup reads one cache line: the bucket has the key too.
#[derive(Debug, Clone)]
enum Buckets {
    /// Of keys with at most 32 bits. Half the size: more of them are in caches.
    Narrow(Vec<u64>),
    Wide(Vec<(u64, u64)>),
}

/// A key and its slot plus one; without a slot it is free.
trait Bucket: Copy {
    /// So many buckets without slots. All their bits are 0.
    fn free(buckets: usize) -> Vec<Self>;
    fn of(key: u64, slot: usize) -> Self;
    fn is_free(self) -> bool;
    fn key(self) -> u64;
    fn slot(self) -> u32;
}

impl Bucket for u64 {
    fn free(buckets: usize) -> Vec<Self> {
        vec![0; buckets]
    }

    fn of(key: u64, slot: usize) -> Self {
        debug_assert!(key >> 32 == 0, "{key}");
        (key << 32) | (slot as u64 + 1)
    }

    fn is_free(self) -> bool {
        self as u32 == 0
    }

    fn key(self) -> u64 {
        self >> 32
    }

    fn slot(self) -> u32 {
        self as u32 - 1
    }
}

impl Bucket for (u64, u64) {
    fn free(buckets: usize) -> Vec<Self> {
        vec![(0, 0); buckets]
    }

    fn of(key: u64, slot: usize) -> Self {
        (key, slot as u64 + 1)
    }

    fn is_free(self) -> bool {
        self.1 == 0
    }

    fn key(self) -> u64 {
        self.0
    }

    fn slot(self) -> u32 {
        self.1 as u32 - 1
    }
}

impl Table {
    /// A table for keys below `combinations` that has room for so many of them.
    pub fn new(combinations: u64, room: usize) -> Self {
        let buckets = (room * 2).next_power_of_two().max(FEWEST);
        let is_narrow = combinations <= 1 << 32;
        Table {
            keys: Vec::with_capacity(room),
            buckets: match is_narrow {
                true => Buckets::Narrow(Bucket::free(buckets)),
                false => Buckets::Wide(Bucket::free(buckets)),
            },
        }
    }

    /// An empty one for the same kind of keys, with room for so many.
    pub fn emptied(&self, room: usize) -> Self {
        let combinations = match &self.buckets {
            Buckets::Narrow(_) => 0,
            Buckets::Wide(_) => u64::MAX,
        };
        Table::new(combinations, room)
    }

    /// The keys by slot.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Writes the slot of each key, which is a new one if the key is.
    pub fn slots(&mut self, keys: &[u64], slots: &mut [u32]) {
        match &mut self.buckets {
            Buckets::Narrow(buckets) => find(&mut self.keys, buckets, keys, slots),
            Buckets::Wide(buckets) => find(&mut self.keys, buckets, keys, slots),
        }
    }

    pub fn size_bytes(&self) -> usize {
        let buckets = match &self.buckets {
            Buckets::Narrow(buckets) => size_of_val(buckets.as_slice()),
            Buckets::Wide(buckets) => size_of_val(buckets.as_slice()),
        };
        self.keys.capacity() * size_of::<u64>() + buckets
    }
}

fn find<B: Bucket>(known: &mut Vec<u64>, buckets: &mut Vec<B>, keys: &[u64], slots: &mut [u32]) {
    // At most half full, so that probe sequences stay short.
    let wanted = (known.len() + keys.len()) * 2;
    if wanted > buckets.len() {
        let times = if buckets.len() < MANY { 4 } else { 2 };
        let larger = wanted.next_power_of_two().max(buckets.len() * times);
        grow(known, buckets, larger);
    }
    let buckets = buckets.as_mut_slice();
    let mask = buckets.len() - 1;
    for key in keys.iter().take(AHEAD) {
        prefetch_read(buckets, home(*key, buckets.len()));
    }
    for (row, (key, slot)) in keys.iter().zip(slots).enumerate() {
        if let Some(later) = keys.get(row + AHEAD) {
            prefetch_read(buckets, home(*later, buckets.len()));
        }
        let mut at = home(*key, buckets.len());
        *slot = loop {
            let bucket = buckets[at];
            if bucket.is_free() {
                buckets[at] = B::of(*key, known.len());
                known.push(*key);
                break known.len() as u32 - 1;
            }
            if bucket.key() == *key {
                break bucket.slot();
            }
            at = (at + 1) & mask;
        };
    }
}

fn grow<B: Bucket>(known: &[u64], buckets: &mut Vec<B>, larger: usize) {
    // The old ones are given back first. The new ones are memory that is zero already, where the
    // kernel has some: only buckets in use are touched.
    *buckets = Vec::new();
    *buckets = B::free(larger);
    for (slot, key) in known.iter().enumerate() {
        if let Some(later) = known.get(slot + AHEAD) {
            prefetch_read(buckets, home(*later, larger));
        }
        let mut at = home(*key, larger);
        while !buckets[at].is_free() {
            at = (at + 1) & (larger - 1);
        }
        buckets[at] = B::of(*key, slot);
    }
}

/// Where the search for a key begins.
fn home(key: u64, buckets: usize) -> usize {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the key.
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - buckets.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn numbered(table: &mut Table, batches: &[Vec<u64>]) {
        let mut known: HashMap<u64, u32> = HashMap::new();
        for keys in batches {
            let expected: Vec<u32> = keys
                .iter()
                .map(|key| {
                    let next = known.len() as u32;
                    *known.entry(*key).or_insert(next)
                })
                .collect();
            let mut slots = vec![0; keys.len()];
            table.slots(keys, &mut slots);
            assert_eq!(slots, expected);
        }
        let mut by_slot: Vec<(u32, u64)> = known.iter().map(|(key, slot)| (*slot, *key)).collect();
        by_slot.sort_unstable();
        let keys: Vec<u64> = by_slot.into_iter().map(|(_, key)| key).collect();
        assert_eq!(table.keys(), keys);
    }

    proptest! {
        #[test]
        fn each_key_has_one_slot_in_the_order_in_which_keys_come(
            seeds in prop::collection::vec(any::<u64>(), 1..12),
            bits in 1u32..=64,
            room in 0usize..10_000,
        ) {
            // Keys far apart, neighbours, and the same ones again.
            let of = |seed: &u64| -> Vec<u64> {
                let step = seed | 1;
                let keys = (0..1024u64).map(|row| match seed % 3 {
                    0 => row.wrapping_mul(step),
                    1 => seed.wrapping_add(row),
                    _ => seed.wrapping_add(row % 7),
                });
                keys.map(|key| key >> (64 - bits)).collect()
            };
            let batches: Vec<Vec<u64>> = seeds.iter().map(of).collect();
            let combinations = 1u64.checked_shl(bits).unwrap_or(u64::MAX);
            numbered(&mut Table::new(combinations, room), &batches);
            numbered(&mut Table::new(u64::MAX, room).emptied(room / 2), &batches);
        }
    }

    #[test]
    fn the_largest_and_the_smallest_keys_are_told_apart_in_both_kinds() {
        for (combinations, largest) in [(1 << 32, (1 << 32) - 1), (u64::MAX, u64::MAX)] {
            let mut table = Table::new(combinations, 0);
            numbered(&mut table, &[vec![0, largest, 0, 1, largest - 1, largest]]);
            assert_eq!(table.keys(), [0, largest, 1, largest - 1]);
        }
        let (narrow, wide) = (Table::new(1 << 32, 0), Table::new((1 << 32) + 1, 0));
        assert_eq!(2 * narrow.size_bytes(), wide.size_bytes());
    }

    #[test]
    fn a_table_with_room_does_not_grow() {
        let mut table = Table::new(1 << 20, 100_000);
        let before = table.size_bytes();
        numbered(&mut table, &[(0..100_000).collect()]);
        assert_eq!(table.size_bytes(), before);
    }
}
