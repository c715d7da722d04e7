//! Lists of build rows with equal keys.

use std::sync::atomic::{AtomicU32, Ordering};

use super::NONE;

/// Link from each build row to the next one with the same key.
///
/// The memory is the caller's and must be zero at the start. It is not touched while keys are
/// unique, so untouched pages stay unmapped.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a>(&'a [AtomicU32]);

/// Distance, in probe rows, at which the link of a row is prefetched.
const AHEAD: usize = 32;

/// Position at which [`Links::expand`] continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpandCursor {
    probe: usize,
    /// Next build row for `probe`, plus one; 0 for the head of its list.
    build: u32,
}

impl ExpandCursor {
    /// Whether all `probe_rows` rows of a batch have been expanded.
    pub fn finished(&self, probe_rows: usize) -> bool {
        self.probe >= probe_rows
    }

    /// The first probe row whose pairs have not all been returned.
    pub fn probe_row(&self) -> usize {
        self.probe
    }
}

impl<'a> Links<'a> {
    /// Links over zeroed memory with one element per build row, or over the result of a build.
    pub fn new(memory: &'a [AtomicU32]) -> Self {
        Self(memory)
    }

    /// Number of build rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no links, as for unique keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next row with the same key as `row`.
    #[inline(always)]
    pub fn next(&self, row: u32) -> Option<u32> {
        // Relaxed: all rows of a key belong to one builder, and readers start after the build.
        self.0
            .get(row as usize)?
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }

    /// Makes `next` the row after `row`.
    ///
    /// A row outside the memory is ignored: its key is known to be unique.
    #[inline(always)]
    pub fn link(&self, row: u32, next: u32) {
        if let Some(link) = self.0.get(row as usize) {
            // Stored plus one, so that zeroed memory means no link.
            link.store(next + 1, Ordering::Relaxed);
        }
    }

    /// Appends the (build row, probe row) pairs that follow from `heads`, the values that a lookup
    /// returned for the probe rows.
    ///
    /// The pairs are in the order of the probe rows. Stops when `limit` pairs are there or the
    /// heads are used up.
    pub fn expand(
        &self,
        heads: &[u32],
        cursor: &mut ExpandCursor,
        limit: usize,
        build: &mut Vec<u32>,
        probe: &mut Vec<u32>,
    ) {
        if self.0.is_empty() {
            return unique(heads, cursor, limit, build, probe);
        }
        while cursor.probe < heads.len() && build.len() < limit {
            let mut row = match cursor.build {
                0 => heads[cursor.probe],
                row => row - 1,
            };
            if let Some(&later) = heads.get(cursor.probe + AHEAD) {
                crate::prefetch_read(self.0, later as usize);
            }
            cursor.build = 0;
            while row != NONE {
                if build.len() == limit {
                    cursor.build = row + 1;
                    return;
                }
                build.push(row);
                probe.push(cursor.probe as u32);
                row = self.next(row).unwrap_or(NONE);
            }
            cursor.probe += 1;
        }
    }
}

/// Same as [`Links::expand`] for unique keys: one pair per head that is not [`NONE`], without
/// branches.
fn unique(
    heads: &[u32],
    cursor: &mut ExpandCursor,
    limit: usize,
    build: &mut Vec<u32>,
    probe: &mut Vec<u32>,
) {
    let mut kept = build.len();
    let rows = (heads.len() - cursor.probe).min(limit.saturating_sub(kept));
    build.resize(kept + rows, 0);
    probe.resize(kept + rows, 0);
    for (row, head) in (cursor.probe as u32..).zip(&heads[cursor.probe..cursor.probe + rows]) {
        build[kept] = *head;
        probe[kept] = row;
        kept += usize::from(*head != NONE);
    }
    build.truncate(kept);
    probe.truncate(kept);
    cursor.probe += rows;
}
