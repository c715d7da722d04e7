//! Shared parts of regions.

use std::ops::Range;
use std::sync::Arc;

use super::Region;
use crate::MemoryError;

/// A part of a region's bytes that keeps the region alive: cheap to clone, `'static`, and sendable,
/// so that other libraries can own it as a buffer without copying.
#[derive(Debug, Clone)]
pub struct RegionSlice {
    region: Arc<Region>,
    range: Range<usize>,
}

impl RegionSlice {
    pub(super) fn new(region: Arc<Region>, range: Range<usize>) -> Result<Self, MemoryError> {
        if range.start > range.end || range.end > region.size_bytes() {
            return Err(MemoryError::OutOfRange {
                name: region.name().to_owned(),
                start: range.start,
                end: range.end,
                size_bytes: region.size_bytes(),
            });
        }
        Ok(Self { region, range })
    }

    /// The region it is a part of.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Which bytes of the region it is.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl AsRef<[u8]> for RegionSlice {
    fn as_ref(&self) -> &[u8] {
        &self.region.as_slice()[self.range.clone()]
    }
}
