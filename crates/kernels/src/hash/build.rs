//! Building the hash table of a join.

use super::block::{BLOCK, Compare, Homes, Plain};
use super::{Bucket, Layout, Links};
use crate::Simd;
use std::ops::Range;

/// A segment has no room left: too many keys hash into it.
///
/// A table of [`Layout::one_segment`], or one with another seed, has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentFull {
    /// Keys that a segment is sized for.
    pub segment_keys: usize,
}

impl std::fmt::Display for SegmentFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a segment of the hash table, made for {} keys, is full: build with another seed or in one segment",
            self.segment_keys
        )
    }
}

impl std::error::Error for SegmentFull {}

/// Inserts the keys whose buckets are in its share of a table.
///
/// Builders with disjoint shares work in parallel without atomics; each of them sees all keys.
#[derive(Debug)]
pub struct Builder<'a> {
    layout: Layout,
    share: Range<usize>,
    buckets: &'a mut [Bucket],
    links: Links<'a>,
    keys: usize,
    duplicates: usize,
}

/// A block of keys, and which of them are for a builder.
struct Located {
    homes: Homes,
    /// Index of the first key of the block.
    start: usize,
    /// Indices in the block of the keys that are inserted, the last one first.
    kept: [u8; BLOCK],
    count: usize,
}

impl Default for Located {
    fn default() -> Self {
        Self {
            homes: Homes::default(),
            start: 0,
            kept: [0; BLOCK],
            count: 0,
        }
    }
}

impl Located {
    #[inline(always)]
    fn locate(&mut self, builder: &Builder<'_>, keys: &[u64], block: Range<usize>) {
        let keys = &keys[block.clone()];
        (self.start, self.count) = (block.start, 0);
        self.homes.locate(builder.layout, keys);
        for (index, home) in self.homes.buckets[..keys.len()].iter().enumerate().rev() {
            // Always written, kept only if the bucket is in the share: a branch would be
            // mispredicted often.
            self.kept[self.count % BLOCK] = index as u8;
            self.count += usize::from(builder.share.contains(&(*home as usize)));
        }
    }

    /// Position in the builder's buckets of the `turn`-th key that is inserted.
    #[inline(always)]
    fn bucket(&self, builder: &Builder<'_>, turn: usize) -> usize {
        let home = self.homes.buckets[self.kept[turn % BLOCK] as usize % BLOCK];
        // Wraps around for buckets of other builders, which are prefetched at most.
        (home as usize).wrapping_sub(builder.share.start)
    }
}

/// # Safety
/// The processor must have all features that are enabled here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
unsafe fn insert_avx512(
    builder: &mut Builder<'_>,
    keys: &[u64],
    row_of: impl Fn(usize) -> u32,
) -> Result<(), SegmentFull> {
    builder.pipelined::<super::block::Avx512>(keys, row_of)
}

#[derive(Clone, Copy)]
struct Entry {
    bucket: usize,
    key: u64,
    row: u32,
    /// Filter bit; see [`passing`](super::bucket::passing).
    bit: u32,
}

impl<'a> Builder<'a> {
    /// A builder for one range of [`Layout::shares`], with its (empty) buckets.
    ///
    /// # Panics
    /// If the number of buckets is not that of the range.
    pub fn new(
        layout: Layout,
        share: Range<usize>,
        buckets: &'a mut [Bucket],
        links: Links<'a>,
    ) -> Self {
        assert_eq!(buckets.len(), share.len(), "buckets of the builder's share");
        Self {
            layout,
            share,
            buckets,
            links,
            keys: 0,
            duplicates: 0,
        }
    }

    /// Divides an empty table among builders, one per range of [`Layout::shares`].
    ///
    /// # Panics
    /// If the number of buckets is not that of the layout.
    pub fn split(
        layout: Layout,
        builders: usize,
        mut buckets: &'a mut [Bucket],
        links: Links<'a>,
    ) -> Vec<Builder<'a>> {
        assert_eq!(buckets.len(), layout.buckets(), "buckets of the table");
        let mut made = Vec::new();
        for share in layout.shares(builders) {
            let (own, rest) = buckets.split_at_mut(share.len());
            buckets = rest;
            made.push(Builder::new(layout, share, own, links));
        }
        made
    }

    /// Inserts `keys`, whose rows are `first_row` and the following.
    ///
    /// The last key is inserted first. If the caller, too, starts with the last batch, rows of one
    /// key are linked in ascending order.
    ///
    /// # Errors
    /// [`SegmentFull`]; the table is unusable then.
    pub fn insert_range(&mut self, keys: &[u64], first_row: u32) -> Result<(), SegmentFull> {
        self.insert_with(keys, |index| first_row + index as u32)
    }

    /// Inserts `keys` with their rows, the last key first.
    ///
    /// # Errors
    /// [`SegmentFull`]; the table is unusable then.
    pub fn insert(&mut self, keys: &[u64], rows: &[u32]) -> Result<(), SegmentFull> {
        let rows = &rows[..keys.len()];
        self.insert_with(keys, |index| rows[index])
    }

    fn insert_with(
        &mut self,
        keys: &[u64],
        row_of: impl Fn(usize) -> u32,
    ) -> Result<(), SegmentFull> {
        match Simd::detect() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has AVX-512F and AVX-512DQ; all processors with both have the
            // other features (BMI, LZCNT) too.
            Simd::Avx512 => unsafe { insert_avx512(self, keys, row_of) },
            _ => self.pipelined::<Plain>(keys, row_of),
        }
    }

    /// The loop of all widths; the callers have checked that the processor has what `C` needs.
    #[inline(always)]
    pub(super) fn pipelined<C: Compare>(
        &mut self,
        keys: &[u64],
        row_of: impl Fn(usize) -> u32,
    ) -> Result<(), SegmentFull> {
        // While the keys of one block are inserted, the buckets of the next one are loaded.
        let (mut now, mut next) = (Located::default(), Located::default());
        let mut end = keys.len();
        while end > 0 || now.count > 0 {
            let start = end.saturating_sub(BLOCK);
            next.locate(self, keys, start..end);
            for turn in 0..now.count {
                // Behind the last one found is a key of another builder, or of an older block.
                crate::prefetch_write(self.buckets, next.bucket(self, turn));
                let index = now.kept[turn] as usize;
                let entry = Entry {
                    bucket: now.bucket(self, turn),
                    key: keys[now.start + index],
                    row: row_of(now.start + index),
                    bit: now.homes.bits[index % BLOCK],
                };
                self.insert_one::<C>(entry)?;
            }
            for turn in now.count..next.count {
                crate::prefetch_write(self.buckets, next.bucket(self, turn));
            }
            std::mem::swap(&mut now, &mut next);
            end = start;
        }
        Ok(())
    }

    #[inline(always)]
    fn insert_one<C: Compare>(&mut self, entry: Entry) -> Result<(), SegmentFull> {
        let mut at = entry.bucket;
        // A share starts at the edge of a segment, so wrapping around within the segment works with
        // positions in the share as well.
        for _ in 0..self.layout.segment_buckets() {
            let bucket = &mut self.buckets[at];
            // SAFETY: the callers have checked the instructions of `C`.
            if let Some(index) = unsafe { C::position(bucket, entry.key) } {
                // The new row becomes the head of the key's list, which makes the order of a list
                // the reverse of insertion.
                self.links.link(entry.row, bucket.values[index]);
                bucket.values[index] = entry.row;
                self.duplicates += 1;
                return Ok(());
            }
            if bucket.len() < super::bucket::ENTRIES {
                bucket.push(entry.key, entry.row);
                self.keys += 1;
                return Ok(());
            }
            bucket.pass(entry.bit);
            at = self.layout.following(at);
        }
        Err(SegmentFull {
            segment_keys: self.layout.keys() / self.layout.segments(),
        })
    }

    /// Distinct keys inserted in this share.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Rows in this share whose key was there already.
    ///
    /// 0 in all shares: keys are unique, and lookups need no links.
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }
}
