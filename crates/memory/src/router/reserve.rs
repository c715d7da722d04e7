//! Reserves the router's address range: one slot per place of each class, and the tags of all
//! slots.

use super::account::PLACES;
use super::extents::Tag;
use super::kernel::{self, LINUX};
use super::options::RouterError;
use super::route::POOL;
use super::scope::Class;
use super::slot::{LARGE_GRANULE, Slot};

/// Slots of all classes: one per class and place, the fallback place included.
pub(super) const SLOTS: usize = Class::COUNT * PLACES;
/// Slot sizes to try, as powers of two, largest first: 512 GiB down to 128 MiB.
const SLOT_SHIFTS: std::ops::RangeInclusive<u32> = 27..=39;
/// Divisor: the router takes half of what the process's address-space limit leaves. Tables, stacks
/// and the inner allocator need the rest.
const PART_OF_LIMIT: u64 = 2;

/// The reserved range, tags excluded: `SLOTS` slots of `1 << slot_shift` bytes from `base` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) base: usize,
    pub(super) slot_shift: u32,
}

impl Span {
    pub(super) fn len(self) -> usize {
        SLOTS << self.slot_shift
    }
}

/// Reserves addresses for all slots; they stay reserved until the process ends.
///
/// `largest_shift` caps the slot size; only tests set it.
pub(super) fn reserve(
    slots: &[Slot; SLOTS],
    largest_shift: Option<u32>,
) -> Result<Span, RouterError> {
    let left = kernel::addresses_left().map_or(u64::MAX, |left| left / PART_OF_LIMIT);
    let largest = largest_shift.unwrap_or(u32::MAX);
    let mut errno = libc::ENOMEM;
    for shift in SLOT_SHIFTS.rev().filter(|shift| *shift <= largest) {
        if (SLOTS as u64) << shift > left {
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
    let tags_bytes = (SLOTS * per_slot * size_of::<Tag>()).next_multiple_of(1 << 16);
    // One mapping for tags and slots, so that a partial failure cannot leave half a reservation.
    // The extra granule leaves room to align the slots to a huge page.
    let slots_bytes = SLOTS * len + LARGE_GRANULE;
    let all = kernel::reserve(tags_bytes + slots_bytes)?;
    (LINUX.open)(all, tags_bytes)?;
    let base = (all + tags_bytes).next_multiple_of(LARGE_GRANULE);
    let tags = std::ptr::with_exposed_provenance_mut::<Tag>(all);
    // SAFETY: the range was reserved and made writable just above for this many tags. It is
    // page-aligned, is never unmapped, and no other reference to it exists, so `'static` exclusive
    // access holds. A `Tag` is four integers, so the zero pages of the kernel are valid tags.
    let mut tags = unsafe { std::slice::from_raw_parts_mut(tags, SLOTS * per_slot) };
    for (index, slot) in slots.iter().enumerate() {
        let of_slot;
        (of_slot, tags) = tags.split_at_mut(per_slot);
        let lent = (index % PLACES == POOL).then(|| [2 * index, 2 * index + 1]);
        slot.found(base + index * len, len, of_slot.split_at_mut(small), lent);
        for (address, len, huge) in Slot::parts(base + index * len, len) {
            kernel::advise_huge(address, len, huge);
        }
    }
    Ok(Span { base, slot_shift })
}
