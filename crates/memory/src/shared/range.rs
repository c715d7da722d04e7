//! One range of addresses over pieces of files.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::{Access, LINE_BYTES, lines};
use crate::sys::lost::Watched;

/// Alignment of the range, so that devices and huge pages of this size can be mapped into it.
const ALIGN_BYTES: usize = 2 << 20;

/// Pieces of files or devices, mapped shared one after the other into one range of addresses.
///
/// The bytes are given out as slices. The caller sees to it that nobody changes bytes that are
/// mapped for reading, and that bytes that are mapped for writing have no other user: the owner of
/// the files has locks and records for that. Access past the end of a file that was made shorter
/// meanwhile finds zeroes, see [`SharedRange::has_lost_pages`].
pub struct SharedRange {
    start: NonNull<u8>,
    /// Addresses that belong to this value.
    reserved_bytes: usize,
    /// They are part of a larger reservation, and stay reserved when this value is gone.
    within: bool,
    /// Lost pages are replaced and noted; `None` if that is not possible.
    watched: Option<Watched>,
    /// Those of them that are backed by files, from the start on.
    mapped_bytes: usize,
    access: Access,
}

// SAFETY: the mapping is plain memory that this value owns, valid at the same address on every
// thread. `&SharedRange` gives out only shared bytes; writes need `&mut SharedRange`.
unsafe impl Send for SharedRange {}
// SAFETY: shared access only reads, and cache instructions change no byte.
unsafe impl Sync for SharedRange {}

impl fmt::Debug for SharedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRange")
            .field("start", &self.start)
            .field("mapped_bytes", &self.mapped_bytes)
            .finish_non_exhaustive()
    }
}

impl SharedRange {
    /// Reserves addresses for `most_bytes`, rounded up to 2 MiB; nothing is mapped yet.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn reserve(most_bytes: usize, access: Access) -> io::Result<Self> {
        let too_large = || io::Error::from_raw_os_error(libc::ENOMEM);
        let reserved_bytes = most_bytes
            .checked_next_multiple_of(ALIGN_BYTES)
            .and_then(|bytes| bytes.checked_add(ALIGN_BYTES))
            .ok_or_else(too_large)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: the kernel chooses free addresses, so no existing mapping changes.
        let address = unsafe { libc::mmap(null, reserved_bytes, libc::PROT_NONE, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = address.cast::<u8>();
        let head_bytes = first.addr().next_multiple_of(ALIGN_BYTES) - first.addr();
        if head_bytes > 0 {
            // SAFETY: the head belongs to the reservation above, and nothing uses it.
            unsafe { libc::munmap(address, head_bytes) };
        }
        // SAFETY: less than ALIGN_BYTES, of which there is one more than needed.
        let start = unsafe { first.add(head_bytes) };
        let wanted_bytes = reserved_bytes - ALIGN_BYTES;
        let tail_bytes = ALIGN_BYTES - head_bytes;
        // SAFETY: the tail belongs to the reservation above, and nothing uses it.
        unsafe { libc::munmap(start.add(wanted_bytes).cast(), tail_bytes) };
        Ok(Self {
            start: NonNull::new(start).ok_or_else(too_large)?,
            reserved_bytes: wanted_bytes,
            within: false,
            watched: Watched::range(start.addr(), wanted_bytes),
            mapped_bytes: 0,
            access,
        })
    }

    /// A range for writing over addresses that are reserved already and stay so. Nothing is mapped
    /// yet.
    ///
    /// Only for the router's reservation: nobody else may use the addresses meanwhile.
    pub(crate) fn within(address: usize, size_bytes: usize) -> Self {
        let start = std::ptr::with_exposed_provenance_mut(address);
        Self {
            start: NonNull::new(start).expect("reserved addresses are not 0"),
            reserved_bytes: size_bytes,
            within: true,
            watched: Watched::range(address, size_bytes),
            mapped_bytes: 0,
            access: Access::Write,
        }
    }

    /// Unmaps what lies behind the first `size_bytes`; the addresses stay reserved.
    ///
    /// # Panics
    /// If fewer bytes are mapped.
    pub fn truncate(&mut self, size_bytes: usize) {
        assert!(
            size_bytes <= self.mapped_bytes,
            "{size_bytes} bytes are not mapped"
        );
        let tail_bytes = self.mapped_bytes - size_bytes;
        self.mapped_bytes = size_bytes;
        if tail_bytes == 0 {
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: within the reservation.
        let at = unsafe { self.start.as_ptr().add(size_bytes) };
        // SAFETY: the addresses belong to this value, and no reference into them can be alive:
        // `&mut self` excludes it.
        let answer = unsafe { libc::mmap(at.cast(), tail_bytes, libc::PROT_NONE, flags, -1, 0) };
        if answer == libc::MAP_FAILED {
            // They are given up: nobody reaches them through this value any more.
            self.reserved_bytes = size_bytes;
        }
    }

    /// Maps `size_bytes` of `file` from `offset_bytes` on behind what is mapped already.
    ///
    /// Whole pages of the file; the file must be that long.
    ///
    /// # Errors
    /// `ENOMEM` if the reserved addresses do not suffice; otherwise what `mmap` says.
    pub fn append(&mut self, file: &File, offset_bytes: u64, size_bytes: usize) -> io::Result<()> {
        if size_bytes > self.room_bytes() {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let offset = libc::off_t::try_from(offset_bytes)
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let protection = match self.access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: within the reservation.
        let at = unsafe { self.start.as_ptr().add(self.mapped_bytes) };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let file = file.as_raw_fd();
        // SAFETY: the addresses are reserved by this value and not given out yet, so replacing what
        // is mapped there takes nothing from anybody.
        let answer = unsafe { libc::mmap(at.cast(), size_bytes, protection, flags, file, offset) };
        if answer == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // The kernel may have given the addresses up, and another thread may have them now.
            self.reserved_bytes = self.mapped_bytes;
            return Err(error);
        }
        self.mapped_bytes += size_bytes;
        Ok(())
    }

    /// Whether pages were found to be gone, because a file was made shorter or memory failed. They
    /// are zeroes since then, and stores to them reach no file.
    pub fn has_lost_pages(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::has_lost)
    }

    /// Bytes of reserved addresses that nothing is mapped to.
    pub fn room_bytes(&self) -> usize {
        self.reserved_bytes - self.mapped_bytes
    }

    /// Mapped bytes.
    pub fn size_bytes(&self) -> usize {
        self.mapped_bytes
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The mapped bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped readable while `self` lives; nobody writes meanwhile, as the type's
        // documentation asks of the caller, and writers here need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.mapped_bytes) }
    }

    /// The mapped bytes, for writing.
    ///
    /// # Panics
    /// If the range is for reading.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert_eq!(self.access, Access::Write, "the range is not for writing");
        // SAFETY: as in `as_slice`; also mapped writable, and `&mut self` makes this the only
        // access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.mapped_bytes) }
    }

    /// Writes the cache lines of these bytes back to memory and removes them from this host's
    /// caches: what it wrote is then in memory, and what it reads next comes from there.
    ///
    /// # Panics
    /// If the bytes are not inside the mapping.
    pub fn evict(&self, bytes: Range<usize>) {
        assert!(bytes.end <= self.mapped_bytes, "{bytes:?} is outside");
        let first = bytes.start - bytes.start % LINE_BYTES;
        lines::fence();
        for at in (first..bytes.end).step_by(LINE_BYTES) {
            // SAFETY: inside the mapping.
            unsafe { lines::evict(self.start.as_ptr().add(at)) };
        }
        lines::fence();
    }
}

impl Drop for SharedRange {
    fn drop(&mut self) {
        // The addresses may be another's as soon as they are unmapped.
        self.watched = None;
        if self.within {
            self.truncate(0);
        } else if self.reserved_bytes > 0 {
            // SAFETY: the addresses belong to this value, and no reference into them can outlive
            // it.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved_bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_two_files_are_one_range_and_grow_in_place() {
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        files.iter().for_each(|file| file.set_len(1 << 20).unwrap());
        let mut range = SharedRange::reserve(3 << 20, Access::Write).unwrap();
        assert!(range.as_slice().is_empty());
        range.append(&files[1], 8192, 4096).unwrap();
        range.append(&files[0], 0, 8192).unwrap();
        let start = range.start();
        assert!(start.addr().is_multiple_of(ALIGN_BYTES));
        range.as_mut_slice().fill(7);
        range.append(&files[1], 0, 4096).unwrap();
        assert_eq!((range.start(), range.size_bytes()), (start, 16384));
        assert_eq!(range.as_slice()[12288..], [0; 4096]);
        range.evict(0..16384);
        let mut read = SharedRange::reserve(16384, Access::Read).unwrap();
        read.append(&files[1], 0, 16384).unwrap();
        assert_eq!(read.as_slice()[..8192], [0; 8192]);
        assert_eq!(read.as_slice()[8192..12288], [7; 4096]);
        range.truncate(4096);
        assert_eq!(range.size_bytes(), 4096);
        range.append(&files[0], 4096, 4096).unwrap();
        assert_eq!(range.as_slice(), [7; 8192]);
    }

    #[test]
    fn pages_that_are_gone_are_zeroes_and_reported_and_others_are_untouched() {
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        files.iter().for_each(|file| file.set_len(8 << 20).unwrap());
        let ranges = files.each_ref().map(|file| {
            let mut range = SharedRange::reserve(8 << 20, Access::Write).unwrap();
            range.append(file, 0, 8 << 20).unwrap();
            range.as_mut_slice().fill(7);
            range
        });
        let before = super::super::lost_pages();
        files[0].set_len(3 << 20).unwrap();
        assert_eq!(ranges[0].as_slice()[0], 7);
        assert!(!ranges[0].has_lost_pages());
        let sum: u64 = ranges[0]
            .as_slice()
            .iter()
            .map(|byte| u64::from(*byte))
            .sum();
        assert!(ranges[0].has_lost_pages() && !ranges[1].has_lost_pages());
        // The last page of the file lies in a piece of 2 MiB that is lost as a whole.
        assert!((7 * (2 << 20)..=7 * (3 << 20)).contains(&sum), "{sum}");
        assert!(super::super::lost_pages() > before);
        assert!(ranges[1].as_slice().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn more_than_reserved_and_odd_offsets_are_errors_and_what_is_mapped_stays() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        let mut range = SharedRange::reserve(4096, Access::Read).unwrap();
        range.append(&file, 4096, 4096).unwrap();
        assert!(range.append(&file, 0, 8 << 20).is_err());
        assert!(range.append(&file, 1, 4096).is_err());
        assert_eq!(range.as_slice(), [0; 4096]);
    }
}
