//! The reserved addresses: one part per place of each class, and book-keeping for all of them.

use super::account::PLACES;
use super::extents::Tag;
use super::options::RouterError;
use super::scope::Class;
use super::slot::{LARGE_GRANULE, Slot};
use crate::{Mapping, PageSize};

/// Slots of all classes.
pub(super) const SLOTS: usize = Class::COUNT * PLACES;
/// Addresses per slot that are tried, largest first: 512 GiB down to 8 GiB.
const SLOT_SHIFTS: [u32; 4] = [39, 37, 35, 33];

/// Where the slots lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) base: usize,
    pub(super) slot_shift: u32,
}

impl Span {
    pub(super) fn len(self) -> usize {
        SLOTS << self.slot_shift
    }

    pub(super) fn slot(self, index: usize) -> (usize, usize) {
        (self.base + (index << self.slot_shift), 1 << self.slot_shift)
    }
}

/// Reserves addresses for all slots; the program keeps them to its end.
pub(super) fn reserve(
    slots: &[Slot; SLOTS],
    largest_shift: Option<u32>,
) -> Result<Span, RouterError> {
    let mut errno = libc::ENOMEM;
    for shift in SLOT_SHIFTS.into_iter().chain(largest_shift) {
        if largest_shift.is_some_and(|largest| shift > largest) {
            continue;
        }
        match reserve_with(slots, shift) {
            Ok(span) => return Ok(span),
            Err(answer) => errno = answer,
        }
    }
    Err(RouterError::Reserve { errno })
}

fn reserve_with(slots: &[Slot; SLOTS], slot_shift: u32) -> Result<Span, i32> {
    let len = 1_usize << slot_shift;
    let (small, large) = Slot::tags(len);
    let per_slot = small + large;
    let memory = Mapping::anonymous(SLOTS * len + LARGE_GRANULE, PageSize::Base)?;
    let tags_bytes = (SLOTS * per_slot * size_of::<Tag>()).next_multiple_of(1 << 16);
    let tags = Mapping::anonymous(tags_bytes, PageSize::Base)?;
    let base = memory.address().next_multiple_of(LARGE_GRANULE);
    let all = Box::leak(Box::new((memory, tags)));
    let tags: &'static mut [u8] = all.1.as_mut_slice();
    // SAFETY: a tag is four integers: any bytes are a valid one, and the alignment is checked by the split.
    let (_, mut tags, _) = unsafe { tags.align_to_mut::<Tag>() };
    for (index, slot) in slots.iter().enumerate() {
        let of_slot;
        (of_slot, tags) = tags.split_at_mut(per_slot);
        slot.found(base + index * len, len, of_slot.split_at_mut(small));
    }
    Ok(Span { base, slot_shift })
}
