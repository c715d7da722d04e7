//! Rows with equal keys.

use std::sync::atomic::{AtomicU32, Ordering};

use super::NONE;

/// From each build row to the next one with the same key. The memory is the caller's and must be
/// zero at the start; it is not touched where keys are unique.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a>(&'a [AtomicU32]);

/// How far ahead of the expansion the link of a row is asked for.
const AHEAD: usize = 32;

/// Where [`Links::expand`] goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    probe: usize,
    /// The build row to answer next for `probe`, plus one; 0 takes the head.
    build: u32,
}

impl Cursor {
    /// Whether all `probe_rows` rows of a batch were expanded.
    pub fn finished(&self, probe_rows: usize) -> bool {
        self.probe >= probe_rows
    }
}

impl<'a> Links<'a> {
    /// Over zeroed memory with one element per build row, or over what a build left there.
    pub fn new(memory: &'a [AtomicU32]) -> Self {
        Self(memory)
    }

    /// Build rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next row with the key of `row`.
    #[inline(always)]
    pub fn next(&self, row: u32) -> Option<u32> {
        // One builder owns all rows of a key and readers come after the build, so no order between
        // rows is needed.
        self.0
            .get(row as usize)?
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }

    /// Makes `next` the row after `row`. Rows beyond the memory are ignored: there, keys are known
    /// to be unique.
    #[inline(always)]
    pub fn link(&self, row: u32, next: u32) {
        if let Some(link) = self.0.get(row as usize) {
            link.store(next + 1, Ordering::Relaxed);
        }
    }

    /// Appends the pairs (build row, probe row) that follow from `heads` (what a lookup answered
    /// for the probe rows), in the order of the probe rows, until `limit` pairs are there or the
    /// heads are used up.
    pub fn expand(
        &self,
        heads: &[u32],
        cursor: &mut Cursor,
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

/// [`Links::expand`] where keys are unique: a pair per head that is there, found without branches.
fn unique(
    heads: &[u32],
    cursor: &mut Cursor,
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
