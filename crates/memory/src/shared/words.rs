//! Words of 8 bytes that others may change at any time.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, LINE_BYTES, SharedRange, lines};

/// A mapped piece of a file or device that is read and written in aligned words of 8 bytes, which
/// is all that processors promise to be whole between hosts.
///
/// Words are in the machine's byte order. Order among them comes from [`SharedWords::fence`] alone.
pub struct SharedWords {
    range: SharedRange,
    access: Access,
}

impl fmt::Debug for SharedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedWords").field(&self.range).finish()
    }
}

impl SharedWords {
    /// Maps `size_bytes` of `file` from `offset_bytes` on, both whole pages of it.
    ///
    /// The file must be that long; if it becomes shorter, see [`SharedRange::has_lost_pages`].
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn map(
        file: &File,
        offset_bytes: u64,
        size_bytes: usize,
        access: Access,
    ) -> io::Result<Self> {
        let mut range = SharedRange::reserve(size_bytes, access)?;
        range.append(file, offset_bytes, size_bytes)?;
        Ok(Self { range, access })
    }

    /// As [`SharedRange::has_lost_pages`].
    pub fn has_lost_pages(&self) -> bool {
        self.range.has_lost_pages()
    }

    /// Mapped bytes.
    pub fn size_bytes(&self) -> usize {
        self.range.size_bytes()
    }

    /// The word at `offset` as this host sees it now.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8 or not inside the mapping.
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Changes the word at `offset`.
    ///
    /// # Panics
    /// As [`SharedWords::load`], and if the mapping is not for writing.
    pub fn store(&self, offset: usize, value: u64) {
        assert_eq!(self.access, Access::Write, "the mapping is not for writing");
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// Writes the cache line of `offset` back to memory, complete after the next fence.
    ///
    /// # Panics
    /// If `offset` is not inside the mapping.
    pub fn write_back(&self, offset: usize) {
        // SAFETY: `line` gives an address inside the mapping.
        unsafe { lines::write_back(self.line(offset)) };
    }

    /// Orders everything before with everything after, write-backs included.
    pub fn fence(&self) {
        lines::fence();
    }

    /// Removes the cache line of `offset` from this host's caches, so that the next load reads
    /// memory. Complete when it returns.
    ///
    /// # Panics
    /// If `offset` is not inside the mapping.
    pub fn invalidate(&self, offset: usize) {
        lines::fence();
        // SAFETY: `line` gives an address inside the mapping.
        unsafe { lines::evict(self.line(offset)) };
        lines::fence();
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "{offset} is no word");
        assert!(offset < self.size_bytes(), "{offset} is outside");
        // SAFETY: the word is inside the mapping (whose size is whole pages) and aligned, lives as
        // long as `self`, and everybody accesses it atomically: the mapping is not given out
        // otherwise.
        unsafe { AtomicU64::from_ptr(self.range.start().add(offset).cast()) }
    }

    fn line(&self, offset: usize) -> *const u8 {
        assert!(offset < self.size_bytes(), "{offset} is outside");
        let start = offset - offset % LINE_BYTES;
        // SAFETY: the offset is inside the mapping.
        unsafe { self.range.start().add(start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_see_each_others_words_and_the_file_has_them() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let map = |access| SharedWords::map(&file, 4096, 4096, access).unwrap();
        let (writer, reader) = (map(Access::Write), map(Access::Read));
        for at in (0..4096).step_by(8) {
            writer.store(at, at as u64 + 1);
        }
        writer.write_back(4095);
        writer.fence();
        reader.invalidate(4088);
        assert!(
            (0..4096)
                .step_by(8)
                .all(|at| reader.load(at) == at as u64 + 1)
        );
        let mut bytes = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 8184).unwrap();
        assert_eq!(bytes, 4089_u64.to_le_bytes());
    }

    #[test]
    #[should_panic(expected = "not for writing")]
    fn a_mapping_for_reading_refuses_stores_before_the_processor_does() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let words = SharedWords::map(&file, 0, 4096, Access::Read).unwrap();
        words.store(0, 1);
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn words_past_the_end_are_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let words = SharedWords::map(&file, 0, 4096, Access::Read).unwrap();
        words.load(4096);
    }
}
