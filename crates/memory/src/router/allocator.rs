//! The `#[global_allocator]` wrapper: sends large requests to the router, all others to the inner
//! allocator.

use std::alloc::{GlobalAlloc, Layout};

use super::route::{AllocationOutcome, Router};
use super::scope::current;

/// Requests of this many bytes or more are routed.
///
/// Smaller blocks are always the inner allocator's, so freeing one needs no check of its address.
pub const THRESHOLD_BYTES: usize = 64 << 10;

/// Routes large allocations by the thread's scope and leaves everything else to `A`.
///
/// A small allocation costs one comparison more than with `A` alone. Nothing is routed before
/// [`super::configure`] has been called.
///
/// ```
/// use tierloom_memory::router::TierAllocator;
/// #[global_allocator]
/// static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);
/// # fn main() { assert_eq!(vec![1; 100_000].len(), 100_000); }
/// ```
#[derive(Debug)]
pub struct TierAllocator<A> {
    inner: A,
    router: &'static Router,
}

impl<A> TierAllocator<A> {
    /// Wraps `inner`; usable in a `static`.
    pub const fn new(inner: A) -> Self {
        Self {
            inner,
            router: &super::ROUTER,
        }
    }

    #[cfg(test)]
    pub(super) const fn with_router(inner: A, router: &'static Router) -> Self {
        Self { inner, router }
    }
}

impl<A: GlobalAlloc> TierAllocator<A> {
    /// Asks the router for a block for the scope that the thread is in.
    fn routed(&self, layout: Layout) -> AllocationOutcome {
        let Some(scope) = current() else {
            super::scope::answer();
            return AllocationOutcome::Inner;
        };
        if !self.router.is_enabled() {
            return AllocationOutcome::Inner;
        }
        self.router.allocate(scope, layout.size(), layout.align())
    }

    // The paths of large blocks are out of line, which keeps those of small ones short enough to be
    // inlined.
    #[inline(never)]
    fn alloc_large(&self, layout: Layout) -> *mut u8 {
        match self.routed(layout) {
            AllocationOutcome::Block(block) => pointer(block.address),
            AllocationOutcome::Refused => std::ptr::null_mut(),
            // SAFETY: the layout is the caller's, whose size is not 0.
            AllocationOutcome::Inner => unsafe { self.inner.alloc(layout) },
        }
    }

    #[inline(never)]
    fn alloc_zeroed_large(&self, layout: Layout) -> *mut u8 {
        match self.routed(layout) {
            AllocationOutcome::Block(block) => {
                let start = pointer(block.address);
                if !block.zeroed {
                    // SAFETY: the block was allocated just now, nobody else has its address, and it
                    // has at least `layout.size()` bytes, readable and writable.
                    unsafe { start.write_bytes(0, layout.size()) };
                }
                start
            }
            AllocationOutcome::Refused => std::ptr::null_mut(),
            // SAFETY: the layout is the caller's, whose size is not 0.
            AllocationOutcome::Inner => unsafe { self.inner.alloc_zeroed(layout) },
        }
    }

    /// # Safety
    /// Same as for [`GlobalAlloc::dealloc`].
    #[inline(never)]
    unsafe fn dealloc_large(&self, start: *mut u8, layout: Layout) {
        if self.router.contains(start.addr()) {
            self.router.free(start.addr());
        } else {
            // SAFETY: the block is outside the router's range, so the inner allocator made it, with
            // this layout.
            unsafe { self.inner.dealloc(start, layout) }
        }
    }

    /// # Safety
    /// Same as for [`GlobalAlloc::realloc`].
    #[inline(never)]
    unsafe fn realloc_large(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `new_size`, rounded up to the alignment, does not
        // overflow `isize`, and the alignment is one of a valid layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if !self.router.contains(start.addr()) {
            // A block that grows past the threshold inside a scope moves to the router. One that
            // was large already stays with the inner allocator, which may be able to grow it in
            // place.
            if layout.size() < THRESHOLD_BYTES
                && let AllocationOutcome::Block(block) = self.routed(new_layout)
            {
                // SAFETY: `start` is a block of `layout`; the new block has `new_size` bytes and is
                // fresh, so they do not overlap.
                return unsafe { self.moved(start, layout, pointer(block.address), new_size) };
            }
            // SAFETY: the block is outside the router's range, so the inner allocator made it; the
            // other arguments are the caller's.
            return unsafe { self.inner.realloc(start, layout, new_size) };
        }
        // Blocks below the threshold always belong to the inner allocator, because `dealloc` tells
        // the owner of a small block by its size alone. A block that shrinks below it must move.
        let to = if new_size < THRESHOLD_BYTES {
            // SAFETY: `realloc` is never called with a new size of 0, so the layout is not empty.
            unsafe { self.inner.alloc(new_layout) }
        } else if self.router.resize(start.addr(), new_size) {
            return start;
        } else {
            self.elsewhere(start, new_layout)
        };
        if to.is_null() {
            return to;
        }
        // SAFETY: `start` is a block of `layout`; the new block is not null, has `new_size` bytes
        // and is fresh, so they do not overlap.
        unsafe { self.moved(start, layout, to, new_size) }
    }

    /// Allocates a larger block for the class and operator of the old one, whatever the thread's
    /// scope.
    ///
    /// Falls back to the inner allocator if the router has no addresses for it.
    fn elsewhere(&self, start: *mut u8, layout: Layout) -> *mut u8 {
        let answer = self
            .router
            .scope_of(start.addr())
            .map_or(AllocationOutcome::Inner, |scope| {
                self.router.allocate(scope, layout.size(), layout.align())
            });
        match answer {
            AllocationOutcome::Block(block) => pointer(block.address),
            AllocationOutcome::Refused => std::ptr::null_mut(),
            // SAFETY: the layout has the new size, which is not 0, and the caller's alignment.
            AllocationOutcome::Inner => unsafe { self.inner.alloc(layout) },
        }
    }

    /// Copies a block to its new address and frees the old one.
    ///
    /// # Safety
    /// `from` is a block of `layout`, `to` a block of at least `new_size` bytes, and they do not
    /// overlap.
    unsafe fn moved(&self, from: *mut u8, layout: Layout, to: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: both blocks have at least the copied bytes and do not overlap, as the caller
        // guarantees. Nothing uses the old block after this.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, layout.size().min(new_size));
            self.dealloc(from, layout);
        }
        to
    }
}

fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

// SAFETY: every block goes back to the allocator that made it: below the threshold always the inner
// one, above it the one whose address range contains the block. `realloc` keeps this true, since it
// moves blocks that cross the threshold downwards. The router's blocks are disjoint, at least as
// large and as aligned as requested, and stay mapped until they are freed. No path unwinds: the
// router aborts instead of panicking, and it allocates nothing through this allocator.
unsafe impl<A: GlobalAlloc> GlobalAlloc for TierAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < THRESHOLD_BYTES {
            // SAFETY: the caller guarantees a layout that is not empty.
            return unsafe { self.inner.alloc(layout) };
        }
        self.alloc_large(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < THRESHOLD_BYTES {
            // SAFETY: the caller guarantees a layout that is not empty.
            return unsafe { self.inner.alloc_zeroed(layout) };
        }
        self.alloc_zeroed_large(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `start` is a block of this allocator and `layout`; a
        // small one was made by the inner allocator.
        unsafe {
            if layout.size() < THRESHOLD_BYTES {
                self.inner.dealloc(start, layout);
            } else {
                self.dealloc_large(start, layout);
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the same, and the caller guarantees a valid new size. A block that is small
        // before and after stays with the inner allocator.
        unsafe {
            if layout.size() < THRESHOLD_BYTES && new_size < THRESHOLD_BYTES {
                self.inner.realloc(start, layout, new_size)
            } else {
                self.realloc_large(start, layout, new_size)
            }
        }
    }
}
