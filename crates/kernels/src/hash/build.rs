//! Building the hash table of a join.

use super::bucket::passing;
use super::{Bucket, Layout, Links};
use std::ops::Range;

/// Keys that are hashed, prefetched and then inserted together.
const GROUP: usize = 64;

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

#[derive(Clone, Copy, Default)]
struct Entry {
    bucket: usize,
    key: u64,
    row: u32,
    /// Filter bit; see [`passing`].
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

    #[inline(always)]
    fn insert_with(
        &mut self,
        keys: &[u64],
        row_of: impl Fn(usize) -> u32,
    ) -> Result<(), SegmentFull> {
        let mut end = keys.len();
        while end > 0 {
            let start = end.saturating_sub(GROUP);
            let mut group = [Entry::default(); GROUP];
            let mut found = 0;
            for index in (start..end).rev() {
                let hash = self.layout.hash(keys[index]);
                let bucket = self.layout.home(hash);
                group[found] = Entry {
                    // Wraps around for buckets of other builders; such entries are overwritten.
                    bucket: bucket.wrapping_sub(self.share.start),
                    key: keys[index],
                    row: row_of(index),
                    bit: passing(hash),
                };
                // Always written, kept only if the bucket is in this share: a branch would be
                // mispredicted often.
                found += usize::from(self.share.contains(&bucket));
            }
            let group = &group[..found];
            for entry in group {
                crate::prefetch_read(self.buckets, entry.bucket);
            }
            for entry in group {
                self.insert_one(*entry)?;
            }
            end = start;
        }
        Ok(())
    }

    #[inline(always)]
    fn insert_one(&mut self, entry: Entry) -> Result<(), SegmentFull> {
        let mut at = entry.bucket;
        // A share starts at the edge of a segment, so wrapping around within the segment works with
        // positions in the share as well.
        for _ in 0..self.layout.segment_buckets() {
            let bucket = &mut self.buckets[at];
            if let Some(index) = bucket.position(entry.key) {
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
