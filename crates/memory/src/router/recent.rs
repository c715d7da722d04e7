//! The small blocks that a thread has freed last, for its next allocations.
//!
//! mimalloc hands out all blocks of a page before it comes back to one that was freed, which keeps
//! its lists short and unlocked. Planning a statement makes and drops several times as many small
//! values as fit in a core's caches, so each new one was a cache miss: a tenth of the time of
//! planning TPC-DS. Here the block that was freed last is handed out first.
//!
//! Blocks are kept by size, in steps of 16 bytes. Each thread keeps its own; what it has when it
//! ends goes back to the allocator.

use std::alloc::{GlobalAlloc, Layout};
use std::any::TypeId;
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};

/// Step between the sizes of blocks, and the alignment of all of them.
const STEP_BYTES: usize = 16;

/// Size of the largest blocks that are kept.
const LARGEST_BYTES: usize = 1024;

/// Bound of the blocks of one size that a thread keeps; for all sizes it is 1 MiB.
const KEPT_BYTES: usize = 16 << 10;

const CLASSES: usize = LARGEST_BYTES / STEP_BYTES + 1;

/// The size of a small block in steps, from 1 to the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeClass(usize);

impl SizeClass {
    /// `None` for blocks that are not kept.
    #[inline]
    pub const fn of(layout: Layout) -> Option<Self> {
        match layout.size() <= LARGEST_BYTES && layout.align() <= STEP_BYTES {
            true => Some(SizeClass(layout.size().div_ceil(STEP_BYTES))),
            false => None,
        }
    }

    /// The layout with which the inner allocator makes and frees all blocks of this class.
    #[inline]
    pub const fn layout(self) -> Layout {
        match Layout::from_size_align(self.0 * STEP_BYTES, STEP_BYTES) {
            Ok(layout) => layout,
            Err(_) => unreachable!(),
        }
    }
}

/// The blocks of a thread.
struct Recent {
    owner: Option<Owner>,
    /// For each class the block that was freed last. The first word of a block is the address of
    /// the one before it.
    last: [*mut u8; CLASSES],
    /// Number of blocks of each class that may still be kept.
    room: [u16; CLASSES],
    /// Whether blocks were kept before, also by a thread that is ending now.
    opened: bool,
}

impl Recent {
    /// Whether the blocks were made by an `A`.
    #[inline]
    fn is_of<A: 'static>(&self) -> bool {
        let owner = self.owner.map(|owner| owner.allocator);
        owner == Some(TypeId::of::<A>())
    }
}

/// The allocator that made the blocks.
#[derive(Clone, Copy)]
struct Owner {
    allocator: TypeId,
    free: unsafe fn(*mut u8, Layout),
}

thread_local! {
    // Without a destructor, so that it can be used as long as the thread runs any code.
    static RECENT: UnsafeCell<Recent> = const {
        UnsafeCell::new(Recent {
            owner: None,
            last: [null_mut(); CLASSES],
            room: [0; CLASSES],
            opened: false,
        })
    };
    static LEAVING: Leaving = const { Leaving };
}

/// Gives the blocks back when the thread ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        RECENT.with(|recent| {
            // SAFETY: no other reference exists: each lasts for one of the closures of this module,
            // and none of them calls another or allocates.
            let recent = unsafe { &mut *recent.get() };
            recent.room = [0; CLASSES];
            let Some(owner) = recent.owner.take() else {
                return;
            };
            for (class, last) in recent.last.iter_mut().enumerate() {
                while !last.is_null() {
                    let block = *last;
                    // SAFETY: `block` is kept: it has the address of the one before it in its first
                    // word, `owner` made it with this layout, and nobody else has its address.
                    unsafe {
                        *last = block.cast::<*mut u8>().read();
                        (owner.free)(block, SizeClass(class).layout());
                    }
                }
            }
        });
    }
}

/// Frees a block of any value of `A`.
///
/// # Safety
/// As of [`GlobalAlloc::dealloc`]; `A` has no size and some value of it made the block.
unsafe fn free<A: GlobalAlloc>(block: *mut u8, layout: Layout) {
    // SAFETY: a type without size has its values everywhere, and there is one, which made the
    // block. Without any state it is the same as this one.
    unsafe { NonNull::<A>::dangling().as_ref().dealloc(block, layout) }
}

/// The block of this class that the thread has freed last, made by an `A`; null if there is none.
#[inline]
pub(super) fn take<A: 'static>(class: SizeClass) -> *mut u8 {
    RECENT.with(|recent| {
        // SAFETY: as in `Leaving::drop`.
        let recent = unsafe { &mut *recent.get() };
        let block = recent.last[class.0];
        if block.is_null() || !recent.is_of::<A>() {
            return null_mut();
        }
        // SAFETY: a kept block has the address of the one before it in its first word.
        let before = unsafe { block.cast::<*mut u8>().read() };
        prefetch(before);
        recent.last[class.0] = before;
        recent.room[class.0] += 1;
        block
    })
}

/// Asks for the cache line of the block that is handed out next, which may have been freed long
/// ago.
#[inline]
fn prefetch(block: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(block.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
}

/// Keeps a block; false if it must be freed now.
///
/// # Safety
/// Some value of `A` made the block, with the layout of its class, and nobody uses it any more.
#[inline]
pub(super) unsafe fn keep<A: GlobalAlloc + 'static>(block: *mut u8, class: SizeClass) -> bool {
    RECENT.with(|recent| {
        // SAFETY: as in `Leaving::drop`.
        let recent = unsafe { &mut *recent.get() };
        if !recent.opened {
            open::<A>(recent);
        }
        if recent.room[class.0] == 0 || !recent.is_of::<A>() {
            return false;
        }
        // SAFETY: the block has at least one word, is aligned to more, and is not used otherwise.
        unsafe { block.cast::<*mut u8>().write(recent.last[class.0]) };
        recent.last[class.0] = block;
        recent.room[class.0] -= 1;
        true
    })
}

/// Makes room for the first block of a thread; not if the thread is ending, nor if values of `A`
/// may differ, as then blocks must go back to the one that made them.
#[cold]
fn open<A: GlobalAlloc + 'static>(recent: &mut Recent) {
    recent.opened = true;
    // The destructor is registered by the C library, which allocates with its own allocator.
    if size_of::<A>() != 0 || LEAVING.try_with(|_| ()).is_err() {
        return;
    }
    recent.owner = Some(Owner {
        allocator: TypeId::of::<A>(),
        free: free::<A>,
    });
    for (class, room) in recent.room.iter_mut().enumerate().skip(1) {
        *room = (KEPT_BYTES / (class * STEP_BYTES)) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::super::TierAllocator;
    use super::*;
    use proptest::prelude::*;
    use std::alloc::System;
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicIsize, Ordering};

    /// Blocks of [`Counted`] that were made and not freed.
    static IN_USE: AtomicIsize = AtomicIsize::new(0);

    /// An allocator without state whose blocks are counted. Only one test may use it.
    struct Counted;

    // SAFETY: all is done by `System`.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            IN_USE.fetch_add(1, Ordering::Relaxed);
            // SAFETY: as the caller guarantees.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
            IN_USE.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: as the caller guarantees.
            unsafe { System.dealloc(start, layout) }
        }
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn what_a_thread_keeps_is_bounded_and_given_back_when_it_ends() {
        let allocator = TierAllocator::new(Counted);
        let run = || {
            for size in [1, 16, 17, 64, 1000, 1024] {
                // SAFETY: the layouts are not empty, and each block is freed once.
                unsafe {
                    let blocks: Vec<usize> = (0..5_000)
                        .map(|_| allocator.alloc(layout(size)).expose_provenance())
                        .collect();
                    for block in &blocks {
                        allocator
                            .dealloc(std::ptr::with_exposed_provenance_mut(*block), layout(size));
                    }
                }
            }
            let kept = IN_USE.load(Ordering::Relaxed);
            let bound = |size: usize| KEPT_BYTES / (size.div_ceil(STEP_BYTES) * STEP_BYTES);
            // Sizes 1 and 16, and 1000 and 1024, share their blocks.
            let most = [16, 17, 64].map(bound).iter().sum::<usize>() + bound(1000) + bound(1024);
            assert!(
                kept > 0 && kept <= most as isize,
                "{kept} blocks, not {most}"
            );
        };
        // The end of a scope does not wait for what threads do after their closures.
        std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        assert_eq!(IN_USE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_block_that_was_freed_last_is_handed_out_first() {
        let allocator = TierAllocator::new(System);
        // SAFETY: the layouts are not empty, and each block is freed once.
        unsafe {
            let [a, b] = [allocator.alloc(layout(100)), allocator.alloc(layout(100))];
            a.write_bytes(0xff, 100);
            allocator.dealloc(b, layout(100));
            allocator.dealloc(a, layout(100));
            let again = allocator.alloc_zeroed(layout(97));
            assert_eq!(again, a);
            let bytes = std::slice::from_raw_parts(again, 97);
            assert!(bytes.iter().all(|byte| *byte == 0));
            allocator.dealloc(again, layout(97));
        }
    }

    #[test]
    fn blocks_of_allocators_with_state_or_of_another_type_are_not_kept() {
        struct Numbered(u8);
        // SAFETY: all is done by `System`.
        unsafe impl GlobalAlloc for Numbered {
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                assert_eq!(self.0, 7);
                // SAFETY: as the caller guarantees.
                unsafe { System.alloc(layout) }
            }

            unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
                // SAFETY: as the caller guarantees.
                unsafe { System.dealloc(start, layout) }
            }
        }
        struct Other;
        // SAFETY: all is done by `System`.
        unsafe impl GlobalAlloc for Other {
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                // SAFETY: as the caller guarantees.
                unsafe { System.alloc(layout) }
            }

            unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
                // SAFETY: as the caller guarantees.
                unsafe { System.dealloc(start, layout) }
            }
        }
        let class = SizeClass::of(layout(48)).unwrap();
        let run = || {
            let with_state = TierAllocator::new(Numbered(7));
            // SAFETY: the layouts are not empty, and each block is freed once, by its allocator.
            unsafe {
                let block = with_state.alloc(layout(48));
                with_state.dealloc(block, layout(48));
                assert!(take::<Numbered>(class).is_null());
            }
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        let run = || {
            let (own, other) = (TierAllocator::new(System), TierAllocator::new(Other));
            // SAFETY: as above.
            unsafe {
                let [block, of_other] = [own.alloc(layout(48)), other.alloc(layout(48))];
                own.dealloc(block, layout(48));
                other.dealloc(of_other, layout(48));
                assert!(take::<Other>(class).is_null());
                let again = take::<System>(class);
                assert_eq!(again, block);
                own.dealloc(again, layout(48));
            }
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    }

    proptest! {
        /// Each block holds a pattern of its own until it is freed, whatever else is done.
        #[test]
        fn no_block_is_handed_out_twice_and_contents_move_with_it(
            steps in prop::collection::vec((0_u8..4, 1_usize..2_500, 0_usize..12, 0_u32..5), 1..300)
        ) {
            let allocator = TierAllocator::new(System);
            let mut blocks: HashMap<usize, (*mut u8, Layout, u8)> = HashMap::new();
            let check = |(start, layout, mark): (*mut u8, Layout, u8)| {
                // SAFETY: the block is in use and was filled.
                let bytes = unsafe { std::slice::from_raw_parts(start, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == mark));
            };
            for (number, (what, size, slot, align)) in steps.into_iter().enumerate() {
                let mark = number as u8;
                let layout = Layout::from_size_align(size, 1 << align).unwrap();
                // SAFETY: the layouts are not empty, blocks are filled to their size, and each is
                // freed once with its layout.
                unsafe {
                    match (what, blocks.remove(&slot)) {
                        (0, Some(block)) => {
                            check(block);
                            let (start, old, mark) = block;
                            let to = allocator.realloc(start, old, size);
                            let kept = old.size().min(size);
                            let same = Layout::from_size_align(kept, old.align()).unwrap();
                            check((to, same, mark));
                            to.write_bytes(mark, size);
                            let new = Layout::from_size_align(size, old.align()).unwrap();
                            assert!(to.addr().is_multiple_of(old.align()));
                            blocks.insert(slot, (to, new, mark));
                        }
                        (_, Some(block)) => {
                            check(block);
                            allocator.dealloc(block.0, block.1);
                        }
                        (_, None) => {
                            let start = allocator.alloc(layout);
                            assert!(start.addr().is_multiple_of(layout.align()));
                            start.write_bytes(mark, size);
                            blocks.insert(slot, (start, layout, mark));
                        }
                    }
                }
            }
            for (_, block) in blocks {
                check(block);
                // SAFETY: as above.
                unsafe { allocator.dealloc(block.0, block.1) };
            }
        }
    }
}
