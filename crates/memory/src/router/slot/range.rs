//! The part of a slot's addresses that has granules of one size.

use super::super::extents::{Extent, Extents, Free, Holder, Tag};
use super::super::kernel::Kernel;
use super::super::pool::Lender;
use super::Machine;
use crate::shared::SharedRange;

/// Addresses are made accessible in steps of this size, from the start of the range on.
///
/// Small enough that `mlockall` does not make much unused memory resident, large enough that
/// `mprotect` is rare.
const OPEN_BYTES: usize = 64 << 20;

/// Where the pages of a range come from.
#[derive(Debug)]
pub(super) enum PageSource {
    /// The nodes of the slot.
    Nodes,
    /// A pool: what it has lent so far, and the number of the range for the lender.
    Pool {
        number: usize,
        lent: Option<SharedRange>,
    },
}

/// Extents with granules of one size, and their addresses.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) extents: Extents,
    pub(super) base: usize,
    pub(super) granule: usize,
    len: usize,
    /// Bytes from the base on that are readable and writable.
    opened: usize,
    backing: PageSource,
}

impl Range {
    pub(super) const NONE: Range = Range {
        extents: Extents::none(),
        base: 0,
        granule: 1,
        len: 0,
        opened: 0,
        backing: PageSource::Nodes,
    };

    pub(super) fn over(
        tags: &'static mut [Tag],
        base: usize,
        granule: usize,
        backing: PageSource,
    ) -> Range {
        Range {
            len: tags.len() * granule,
            extents: Extents::over(tags),
            base,
            granule,
            opened: 0,
            backing,
        }
    }

    /// The first address after the range.
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

    /// Takes an extent with pages that can be reused as they are.
    pub(super) fn take_kept(&mut self, len: u32, holder: Holder) -> Option<(Extent, Free)> {
        [Free::Cached, Free::Locked]
            .into_iter()
            .find_map(|free| Some((self.extents.take(len, free, holder)?, free)))
    }

    /// Takes an extent without pages.
    pub(super) fn take_fresh(&mut self, len: u32, holder: Holder) -> Option<Extent> {
        // Released extents first, which keeps the part of the range that is in use compact.
        self.extents
            .take(len, Free::Released, holder)
            .or_else(|| self.extents.take_new(len, holder))
    }

    /// Whether the pages are a pool's.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.backing, PageSource::Pool { .. })
    }

    /// The system call that releases pages of this range.
    pub(super) fn release(&self, kernel: &Kernel) -> fn(usize, usize) -> Result<(), i32> {
        match self.backing {
            PageSource::Nodes => kernel.release,
            PageSource::Pool { .. } => kernel.remove,
        }
    }

    /// Makes an extent's addresses accessible.
    ///
    /// # Errors
    /// The errno of `mprotect`, or that of the pool.
    pub(super) fn open(&mut self, machine: Machine<'_>, extent: Extent) -> Result<(), i32> {
        let end = self.address(extent) + self.bytes(extent) - self.base;
        if end <= self.opened {
            return Ok(());
        }
        // `opened` advances only on success, so the next block repeats a call that failed.
        let to = end.next_multiple_of(OPEN_BYTES).min(self.len);
        match &mut self.backing {
            PageSource::Nodes => {
                (machine.kernel.open)(self.base + self.opened, to - self.opened)?;
                self.opened = to;
            }
            PageSource::Pool { number, lent } => {
                let lent = lent.get_or_insert_with(|| SharedRange::within(self.base, self.len));
                let step = (to - self.opened, end - self.opened);
                let grown = machine.lender.grow(*number, lent, step);
                self.opened = lent.size_bytes();
                grown?;
            }
        }
        Ok(())
    }

    /// Gives what a pool has lent back to it; no extent may be in use. `false` if the pool cannot
    /// take it now.
    pub(super) fn give_back(&mut self, lender: &Lender) -> bool {
        let PageSource::Pool { number, lent } = &mut self.backing else {
            return false;
        };
        if let Some(range) = lent.take()
            && let Err(range) = lender.give_back(*number, range)
        {
            *lent = Some(range);
            return false;
        }
        self.opened = 0;
        self.extents.clear();
        true
    }
}
