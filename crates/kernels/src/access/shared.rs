//! Bytes that several threads may read and write at once.

use std::marker::PhantomData;

/// A range of memory that kernels of several threads touch at the same time, racing on purpose.
///
/// It is made from an exclusive borrow, so nobody holds a reference into it meanwhile; its bytes
/// are reached by inline assembly and atomics only, which have no data races in the sense of the
/// language.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *mut u8,
    len: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: the bytes are only touched by assembly and atomics (see the type), which may race; the
// borrow keeps them alive and everyone else out.
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

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The part from `start`, `len` bytes long, cut to what is there.
    pub fn part(self, start: usize, len: usize) -> Self {
        let start = start.min(self.len);
        Self {
            // SAFETY: `start` is at most the length.
            start: unsafe { self.start.add(start) },
            len: len.min(self.len - start),
            borrow: PhantomData,
        }
    }

    /// Address of the first byte.
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.start
    }
}
