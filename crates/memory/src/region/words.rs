//! Regions as words that threads share.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Region;
use crate::{Audit, AuditMode, MemoryError};

/// A region given over to threads that read and write its words at the same time.
///
/// It owns the region, so that nobody has its bytes as plain memory any more; what is left of the
/// region is its words and the audit of its pages. Clones are of the same words.
#[derive(Debug, Clone)]
pub struct RegionWords {
    start: NonNull<AtomicU64>,
    words: usize,
    region: Arc<Region>,
}

// SAFETY: the words are atomics, which all threads may use at once; the region that they are in
// lives as long as any clone, and gives out no plain reference to its bytes: nobody else has it.
unsafe impl Send for RegionWords {}
// SAFETY: as above.
unsafe impl Sync for RegionWords {}

impl RegionWords {
    /// Shares the words of `region`.
    pub fn new(mut region: Region) -> Self {
        let bytes = region.as_mut_slice();
        let words = bytes.len() / size_of::<AtomicU64>();
        // Regions begin at pages, so the words are aligned.
        let start = NonNull::from(bytes).cast::<AtomicU64>();
        Self {
            start,
            words,
            region: Arc::new(region),
        }
    }

    /// Size of the region in bytes.
    pub fn size_bytes(&self) -> usize {
        self.region.size_bytes()
    }

    /// As [`Region::audit`].
    ///
    /// # Errors
    /// As there.
    pub fn audit(&self, mode: AuditMode) -> Result<Audit, MemoryError> {
        self.region.audit(mode)
    }
}

impl AsRef<[AtomicU64]> for RegionWords {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: the words are inside the region, aligned and initialised, and stay mapped while
        // `self` keeps the region. The pointer is from an exclusive borrow, so it may be written
        // through, and since then nobody has accessed the bytes but as these atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{FakeBackend, FakeNode, Placement, RegionOptions, fake_topology};

    #[test]
    fn threads_change_words_of_a_region_at_once_and_clones_see_it() {
        let node = FakeNode {
            node: 0,
            cpus: 2,
            memory_bytes: 1 << 30,
        };
        let topology = fake_topology(&[node]).unwrap();
        let backend = Arc::new(FakeBackend::with_nodes(&[(0, 1 << 30)]));
        let options = RegionOptions::new("rows", 3 * 4096, Placement::kernel_default());
        let region = Region::create(backend, &topology, options).unwrap();
        let words = RegionWords::new(region);
        assert_eq!(words.as_ref().len() * 8, words.size_bytes());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let words = words.clone();
                scope.spawn(move || {
                    for _ in 0..1000 {
                        words.as_ref()[511].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let last = words.clone();
        drop(words);
        assert_eq!(last.as_ref()[511].load(Ordering::Relaxed), 2000);
        assert_eq!(last.audit(AuditMode::Full).unwrap().pages_total, 3);
    }
}
