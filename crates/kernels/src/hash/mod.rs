//! Hash tables larger than the caches: one cache line per lookup, and many lookups in flight.
//!
//! ```text
//!   Bucket, 64 bytes:  | key key key key key | value x 5 (u32) | count, filter bits |
//!   table:             segments of 2^k buckets; a key whose bucket is full overflows to the next
//!                      bucket of its segment (linear probing)
//!   duplicates:        value = first row of the key; Links: row -> next row with the same key
//! ```
//! A bucketed table with open addressing inside a segment. A bucket has whole keys, so one line
//! answers a hit. Sixteen filter bits record which keys overflowed from a full bucket, so one line
//! answers a miss as well, except for about one in two hundred. Each builder owns whole segments,
//! so parallel building needs no atomics. All memory is the caller's, who decides where a table is
//! placed.
//!
//! Batched lookups follow the idea of Chen, Ailamaki, Gibbons and Mowry, "Improving hash join
//! performance through prefetching" (2004): the bucket of a later key is prefetched before the
//! bucket of this key is compared.

mod block;
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
pub use find::JoinTable;
pub use group::GroupTable;
pub use layout::Layout;
pub use links::{ExpandCursor, Links};

/// Result of a lookup for a missing key; no row or group has this number.
pub const NONE: u32 = u32::MAX;

/// Hash of a key: the finaliser of SplitMix64, applied to the key XOR a seed. Every bit of the key
/// affects every bit of the hash.
#[inline(always)]
pub(crate) fn hash(key: u64, seed: u64) -> u64 {
    crate::rng::mix(key ^ seed)
}
