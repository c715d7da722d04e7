//! The allocator that a program declares as its global one.

use std::alloc::{GlobalAlloc, Layout};

use super::route::{Answer, Router};
use super::scope::current;

/// Allocations of so many bytes are routed.
pub const THRESHOLD_BYTES: usize = 64 << 10;

/// Routes large allocations by the scope of the thread that makes them; everything else is `A`'s.
///
/// Small allocations cost one comparison more than `A`'s own. Nothing is routed before
/// [`super::configure`] was called.
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
    /// Wraps `inner`.
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
    /// A block of the router for the scope the thread is in.
    fn routed(&self, layout: Layout) -> Answer {
        let Some(scope) = current() else {
            super::scope::answer();
            return Answer::Inner;
        };
        if !self.router.is_enabled() {
            return Answer::Inner;
        }
        self.router.allocate(scope, layout.size(), layout.align())
    }

    #[inline(never)]
    fn alloc_large(&self, layout: Layout) -> *mut u8 {
        match self.routed(layout) {
            Answer::Block(block) => pointer(block.address),
            Answer::Refused => std::ptr::null_mut(),
            // SAFETY: the layout is that of our caller.
            Answer::Inner => unsafe { self.inner.alloc(layout) },
        }
    }

    #[inline(never)]
    fn alloc_zeroed_large(&self, layout: Layout) -> *mut u8 {
        match self.routed(layout) {
            Answer::Block(block) => {
                let start = pointer(block.address);
                if !block.zeroed {
                    // SAFETY: the block was handed out just now and has at least so many bytes.
                    unsafe { start.write_bytes(0, layout.size()) };
                }
                start
            }
            Answer::Refused => std::ptr::null_mut(),
            // SAFETY: the layout is that of our caller.
            Answer::Inner => unsafe { self.inner.alloc_zeroed(layout) },
        }
    }

    /// # Safety
    /// As for [`GlobalAlloc::dealloc`].
    #[inline(never)]
    unsafe fn dealloc_large(&self, start: *mut u8, layout: Layout) {
        if self.router.contains(start.addr()) {
            self.router.free(start.addr());
        } else {
            // SAFETY: a block that is not the router's is the inner allocator's.
            unsafe { self.inner.dealloc(start, layout) }
        }
    }

    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    #[inline(never)]
    unsafe fn realloc_large(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size does not overflow with this alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if !self.router.contains(start.addr()) {
            // A block that outgrows the threshold inside a scope becomes the router's; one that is
            // large already keeps its home.
            if layout.size() < THRESHOLD_BYTES
                && let Answer::Block(block) = self.routed(new_layout)
            {
                // SAFETY: the caller's block is given up for the new one.
                return unsafe { self.moved(start, layout, pointer(block.address), new_size) };
            }
            // SAFETY: a block that is not the router's is the inner allocator's.
            return unsafe { self.inner.realloc(start, layout, new_size) };
        }
        // A block below the threshold is always the inner allocator's: that is how its owner is
        // known by its size.
        let to = if new_size < THRESHOLD_BYTES {
            // SAFETY: the layout is not empty, its size is that of a block that shrinks.
            unsafe { self.inner.alloc(new_layout) }
        } else if self.router.resize(start.addr(), new_size) {
            return start;
        } else {
            self.elsewhere(start, new_layout)
        };
        if to.is_null() {
            return to;
        }
        // SAFETY: the caller's block is given up for the new one.
        unsafe { self.moved(start, layout, to, new_size) }
    }

    /// A larger block of the same class and operator, whoever asks; of the allocator inside if the
    /// router has no addresses for one.
    fn elsewhere(&self, start: *mut u8, layout: Layout) -> *mut u8 {
        let answer = self
            .router
            .scope_of(start.addr())
            .map_or(Answer::Inner, |scope| {
                self.router.allocate(scope, layout.size(), layout.align())
            });
        match answer {
            Answer::Block(block) => pointer(block.address),
            Answer::Refused => std::ptr::null_mut(),
            // SAFETY: the layout is that of our caller with the new size, which is not 0.
            Answer::Inner => unsafe { self.inner.alloc(layout) },
        }
    }

    /// Copies a block to its new home and frees the old one.
    ///
    /// # Safety
    /// `from` is a block of `layout`, `to` one of `new_size` bytes that does not overlap it.
    unsafe fn moved(&self, from: *mut u8, layout: Layout, to: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: both blocks have so many bytes and do not overlap; the old one is not used after
        // this.
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

// SAFETY: blocks of the inner allocator are only given to the inner allocator; blocks of the router
// are disjoint, large and aligned enough, and stay until they are freed. Which of the two a block
// belongs to follows from its size (below the threshold: the inner one) and else from its address.
// Nothing here unwinds or allocates through itself.
unsafe impl<A: GlobalAlloc> GlobalAlloc for TierAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < THRESHOLD_BYTES {
            // SAFETY: the caller's promise.
            return unsafe { self.inner.alloc(layout) };
        }
        self.alloc_large(layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < THRESHOLD_BYTES {
            // SAFETY: the caller's promise.
            return unsafe { self.inner.alloc_zeroed(layout) };
        }
        self.alloc_zeroed_large(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe {
            if layout.size() < THRESHOLD_BYTES && new_size < THRESHOLD_BYTES {
                self.inner.realloc(start, layout, new_size)
            } else {
                self.realloc_large(start, layout, new_size)
            }
        }
    }
}
