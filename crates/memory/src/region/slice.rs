//! Reference-counted parts of regions.

use std::ops::Range;
use std::sync::Arc;

use super::Region;
use crate::MemoryError;

/// A part of a region's bytes that keeps the region alive.
///
/// Cheap to clone, `'static` and `Send`, so that other libraries (such as Arrow) can own it as a
/// buffer without a copy.
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

    /// The region that the bytes are in.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Byte range within the region.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl AsRef<[u8]> for RegionSlice {
    fn as_ref(&self) -> &[u8] {
        &self.region.as_slice()[self.range.clone()]
    }
}
