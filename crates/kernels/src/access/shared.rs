//! Bytes that several threads may read and write at once.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// A range of memory that kernels of several threads touch at the same time, racing on purpose.
///
/// It is created from an exclusive borrow, so no reference into it exists meanwhile. Its bytes are
/// accessed only by inline assembly and atomics, for which races are defined.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *mut u8,
    len: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: the bytes are touched only by assembly and atomics (see the type), for which races are
// defined. The exclusive borrow keeps the memory alive, and keeps everyone else out.
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// Shares `bytes` for as long as they are borrowed.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
            borrow: PhantomData,
        }
    }

    /// Length of the range in bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the range is empty.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `start` on, cut off at the end of the range.
    pub fn part(self, start: usize, len: usize) -> Self {
        let start = start.min(self.len);
        Self {
            // SAFETY: `start` is at most the length, so the result is in bounds or one past the
            // end.
            start: unsafe { self.start.add(start) },
            len: len.min(self.len - start),
            borrow: PhantomData,
        }
    }

    /// The whole, aligned 64-bit words of the range, for threads that share them.
    pub fn words(self) -> &'a [AtomicU64] {
        let skip = self.start.align_offset(align_of::<AtomicU64>());
        let words = self.len.saturating_sub(skip) / size_of::<AtomicU64>();
        if words == 0 {
            return &[];
        }
        // SAFETY: the words are inside the range, which is borrowed for `'a`, and aligned. All
        // others touch them with atomics and assembly alone, as this type demands.
        unsafe { std::slice::from_raw_parts(self.start.add(skip).cast(), words) }
    }

    /// Address of the first byte; valid while the borrow lasts.
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.start
    }
}
