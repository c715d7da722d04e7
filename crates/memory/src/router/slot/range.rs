//! Addresses of a slot whose extents have granules of one size.

use super::super::extents::{Extent, Extents, Free, Holder, Tag};
use super::super::kernel::Kernel;

/// Addresses are made readable and writable this many bytes at a time, from the range's first on:
/// memory that was never used cannot be locked by a program that locks everything it has.
const OPEN_BYTES: usize = 64 << 20;

/// Extents of one granule.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) extents: Extents,
    pub(super) base: usize,
    pub(super) granule: usize,
    len: usize,
    /// Bytes from the base on that can be read and written.
    opened: usize,
}

impl Range {
    pub(super) const NONE: Range = Range {
        extents: Extents::none(),
        base: 0,
        granule: 1,
        len: 0,
        opened: 0,
    };

    pub(super) fn over(tags: &'static mut [Tag], base: usize, granule: usize) -> Range {
        Range {
            len: tags.len() * granule,
            extents: Extents::over(tags),
            base,
            granule,
            opened: 0,
        }
    }

    /// The first address behind it.
    pub(super) fn end(&self) -> usize {
        self.base + self.len
    }

    pub(super) fn granules(&self, size: usize) -> Option<u32> {
        u32::try_from(size.div_ceil(self.granule)).ok()
    }

    pub(super) fn address(&self, extent: Extent) -> usize {
        self.base + extent.start as usize * self.granule
    }

    pub(super) fn bytes(&self, extent: Extent) -> usize {
        extent.len as usize * self.granule
    }

    pub(super) fn used(&self, address: usize) -> Option<(Extent, Holder)> {
        let start = u32::try_from((address - self.base) / self.granule).ok()?;
        self.extents.used(start)
    }

    /// An extent whose pages can be reused as they are.
    pub(super) fn take_kept(&mut self, len: u32, holder: Holder) -> Option<(Extent, Free)> {
        [Free::Cached, Free::Locked]
            .into_iter()
            .find_map(|free| Some((self.extents.take(len, free, holder)?, free)))
    }

    /// An extent without pages.
    pub(super) fn take_fresh(&mut self, len: u32, holder: Holder) -> Option<Extent> {
        self.extents
            .take(len, Free::Released, holder)
            .or_else(|| self.extents.take_new(len, holder))
    }

    /// Makes an extent's addresses usable.
    ///
    /// # Errors
    /// The errno.
    pub(super) fn open(&mut self, kernel: &Kernel, extent: Extent) -> Result<(), i32> {
        let end = self.address(extent) + self.bytes(extent) - self.base;
        if end <= self.opened {
            return Ok(());
        }
        let to = end.next_multiple_of(OPEN_BYTES).min(self.len);
        (kernel.open)(self.base + self.opened, to - self.opened)?;
        self.opened = to;
        Ok(())
    }
}
