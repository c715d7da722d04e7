//! Size of a hash table, and the bucket of a key.

use super::Bucket;
use std::ops::Range;

/// Buckets of a full segment: 256 KiB, so that a builder that fills one segment after the other
/// stays in its L2 cache.
const SEGMENT_BUCKETS: usize = 4096;
/// Load: keys per bucket that a table is sized for. At three of five, one bucket in twelve
/// overflows (Poisson), so a miss reads 1.09 lines.
const KEYS_PER_BUCKET: usize = 3;

/// The shape of a table: segments, buckets per segment and the seed of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    segments: usize,
    segment_buckets: usize,
    seed: u64,
}

impl Layout {
    /// A table for up to `keys` distinct keys.
    ///
    /// Row numbers have 32 bits, so there are fewer than 2^32 keys.
    pub fn for_keys(keys: usize) -> Self {
        let buckets = keys.div_ceil(KEYS_PER_BUCKET).max(1);
        if buckets <= SEGMENT_BUCKETS {
            return Self {
                segments: 1,
                segment_buckets: buckets.next_power_of_two(),
                seed: 0,
            };
        }
        Self {
            segments: buckets.div_ceil(SEGMENT_BUCKETS),
            segment_buckets: SEGMENT_BUCKETS,
            seed: 0,
        }
    }

    /// A table of one segment, which never overflows, whatever the keys are.
    ///
    /// It is the fallback for keys that fill a segment of [`Layout::for_keys`], and is built by one
    /// thread.
    pub fn one_segment(keys: usize) -> Self {
        Self {
            segments: 1,
            segment_buckets: keys.div_ceil(KEYS_PER_BUCKET).max(1).next_power_of_two(),
            seed: 0,
        }
    }

    /// The same shape with another hash function.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Number of buckets of the table.
    pub fn buckets(&self) -> usize {
        self.segments * self.segment_buckets
    }

    /// Size of the table in bytes, a multiple of 64.
    pub fn size_bytes(&self) -> usize {
        self.buckets() * Bucket::SIZE_BYTES
    }

    /// Number of segments: the most builders that can work in parallel.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Number of buckets of a segment; a power of two.
    pub fn segment_buckets(&self) -> usize {
        self.segment_buckets
    }

    /// Number of distinct keys that the table is sized for.
    pub fn keys(&self) -> usize {
        self.buckets() * KEYS_PER_BUCKET
    }

    /// Ranges of buckets for up to `builders` builders: whole segments each, and none empty.
    pub fn shares(&self, builders: usize) -> Vec<Range<usize>> {
        let builders = builders.clamp(1, self.segments);
        let edge = |i: usize| self.segments * i / builders * self.segment_buckets;
        (0..builders).map(|i| edge(i)..edge(i + 1)).collect()
    }

    /// Home bucket of a hash. The high 32 bits choose it, by a multiplication that vector units
    /// have.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        let high = hash >> 32;
        // Both factors have 32 bits (row numbers limit the buckets), so the product does not
        // overflow; the mask lets the compiler know.
        ((high * (self.buckets() as u64 & 0xffff_ffff)) >> 32) as usize
    }

    /// Hash of a key in tables of this layout.
    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> u64 {
        super::hash(key, self.seed)
    }

    /// The next bucket within the segment, wrapping around at its end.
    #[inline(always)]
    pub(super) fn following(&self, bucket: usize) -> usize {
        let mask = self.segment_buckets - 1;
        (bucket & !mask) | ((bucket + 1) & mask)
    }
}
