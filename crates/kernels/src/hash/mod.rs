//! Hash tables that leave the cache: one line per lookup, lookups in batches that keep many lines
//! in flight.
//!
//! ```text
//!   Bucket, 64 bytes:  | key key key key key | value x 5 (u32) | count, passed bits |
//!   table:             segments of 2^k buckets; a key that finds its bucket full goes to the next one of its segment
//!   duplicates:        value = first row of the key; Links: row -> next row with the same key
//! ```
//! A bucket holds whole keys, so one line answers a hit; and it remembers in 16 bits which keys
//! found it full, so one line answers a miss, too, but for one in two hundred. Segments make
//! parallel building free of atomics: each builder owns whole segments. All memory is the caller's,
//! so where a table lies is the caller's decision.
//!
//! Lookups in flight follow the idea of Chen, Ailamaki, Gibbons and Mowry, "Improving hash join
//! performance through prefetching" (2004): the bucket of a later key is prefetched before the
//! bucket of this key is compared.

mod bucket;
mod build;
mod find;
mod group;
mod layout;
mod links;
#[cfg(test)]
mod tests;

pub use bucket::Bucket;
pub use build::{Builder, SegmentFull};
pub use find::{JoinTable, PREFETCH_AHEAD};
pub use group::GroupTable;
pub use layout::Layout;
pub use links::{Cursor, Links};

/// What a lookup answers for a key that is not there; no row or group has this number.
pub const NONE: u32 = u32::MAX;

/// Mixes all bits of a key into all bits of its hash (the finaliser of SplitMix64), after adding a
/// seed.
#[inline(always)]
pub(crate) fn hash(key: u64, seed: u64) -> u64 {
    crate::rng::mix(key ^ seed)
}
