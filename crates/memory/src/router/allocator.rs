//! The `#[global_allocator]` wrapper: sends large requests to the router, all others to the inner
//! allocator.

use std::alloc::{GlobalAlloc, Layout};

use super::recent::{self, SizeClass};
use super::route::{AllocationOutcome, Router};
use super::scope::current;

/// Requests of this many bytes or more are routed.
///
/// Smaller blocks are always the inner allocator's, so freeing one needs no check of its address.
pub const THRESHOLD_BYTES: usize = 64 << 10;

/// Routes large allocations by the thread's scope and leaves everything else to `A`.
///
/// Blocks of up to 1 KiB that a thread has freed are handed out again by the same thread, the last
/// one first and at most 1 MiB of them, if `A` has no state. Nothing is routed before
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

impl<A: GlobalAlloc + 'static> TierAllocator<A> {
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

    #[inline]
    fn alloc_small(&self, class: SizeClass) -> *mut u8 {
        match recent::take::<A>(class) {
            // SAFETY: the layout of a class is not empty, as no caller asks for 0 bytes.
            none if none.is_null() => unsafe { self.inner.alloc(class.layout()) },
            block => block,
        }
    }

    /// # Safety
    /// As of [`GlobalAlloc::dealloc`], for a block of this class.
    #[inline]
    unsafe fn dealloc_small(&self, start: *mut u8, class: SizeClass) {
        // SAFETY: all blocks of a class are made by the inner allocator with the layout of the
        // class, and the caller has given this one up.
        unsafe {
            if !recent::keep::<A>(start, class) {
                self.inner.dealloc(start, class.layout());
            }
        }
    }

    /// Resizes a block that is small before, after or both.
    ///
    /// # Safety
    /// As of [`GlobalAlloc::realloc`].
    unsafe fn realloc_small(&self, start: *mut u8, layout: Layout, new: Layout) -> *mut u8 {
        let class = SizeClass::of(layout);
        if class.is_some() && class == SizeClass::of(new) {
            return start;
        }
        // SAFETY: the new size is not 0. The blocks do not overlap: one is in use, the other new.
        unsafe {
            match self.alloc(new) {
                to if to.is_null() => to,
                to => self.moved(start, layout, to, new.size()),
            }
        }
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
// moves blocks that cross the threshold downwards, and those that become or were small. A small
// block was made for its class, by this allocator or one of the same type without state, and is
// handed out only after it was freed. The router's blocks are disjoint, at least as large and as
// aligned as requested, and stay mapped until they are freed. No path unwinds: the router aborts
// instead of panicking, and it allocates nothing through this allocator.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for TierAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(class) = SizeClass::of(layout) {
            return self.alloc_small(class);
        }
        if layout.size() < THRESHOLD_BYTES {
            // SAFETY: the caller guarantees a layout that is not empty.
            return unsafe { self.inner.alloc(layout) };
        }
        self.alloc_large(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(class) = SizeClass::of(layout) {
            let start = self.alloc_small(class);
            if !start.is_null() {
                // SAFETY: the block has at least this size, and nobody else has its address.
                unsafe { start.write_bytes(0, layout.size()) };
            }
            return start;
        }
        if layout.size() < THRESHOLD_BYTES {
            // SAFETY: the caller guarantees a layout that is not empty.
            return unsafe { self.inner.alloc_zeroed(layout) };
        }
        self.alloc_zeroed_large(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `start` is a block of this allocator and `layout`; one
        // below the threshold was made by the inner allocator.
        unsafe {
            if let Some(class) = SizeClass::of(layout) {
                self.dealloc_small(start, class);
            } else if layout.size() < THRESHOLD_BYTES {
                self.inner.dealloc(start, layout);
            } else {
                self.dealloc_large(start, layout);
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the same, and the caller guarantees that the new size, rounded up to the
        // alignment, does not overflow `isize`.
        unsafe {
            let new = Layout::from_size_align_unchecked(new_size, layout.align());
            if SizeClass::of(layout).is_some() || SizeClass::of(new).is_some() {
                self.realloc_small(start, layout, new)
            } else if layout.size() < THRESHOLD_BYTES && new_size < THRESHOLD_BYTES {
                // A block that is below the threshold before and after stays with the inner
                // allocator.
                self.inner.realloc(start, layout, new_size)
            } else {
                self.realloc_large(start, layout, new_size)
            }
        }
    }
}
