//! Populating (pre-faulting) pages of a mapping.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, Ordering};

use super::mapping::Backing;
use super::{Mapping, base_page_bytes, last_errno};

impl Mapping {
    /// Populates the pages of a byte range under the calling thread's policy; the contents do not
    /// change.
    ///
    /// # Errors
    /// The errno; `EINVAL` for a range that is not inside the mapping or not of whole pages.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> Result<(), i32> {
        let end = offset.checked_add(len).ok_or(libc::EINVAL)?;
        if end > self.size_bytes()
            || !offset.is_multiple_of(base_page_bytes())
            || !len.is_multiple_of(base_page_bytes())
        {
            return Err(libc::EINVAL);
        }
        match self.make_present(offset, len, libc::MADV_POPULATE_WRITE) {
            // Linux before 5.14 does not have MADV_POPULATE_WRITE.
            Err(libc::EINVAL) => self.populate_by_touch(offset, len),
            done => done,
        }
    }

    /// Makes the pages of a byte range present without changing them; on a file, those that it has.
    ///
    /// # Errors
    /// The errno; `EINVAL` for a range that is not inside the mapping, and on Linux before 5.14.
    pub(crate) fn populate_for_reading(&self, offset: usize, len: usize) -> Result<(), i32> {
        let end = offset.checked_add(len).ok_or(libc::EINVAL)?;
        if end > self.size_bytes() {
            return Err(libc::EINVAL);
        }
        self.make_present(offset, len, libc::MADV_POPULATE_READ)
    }

    /// Gives `advice`, MADV_POPULATE_WRITE or MADV_POPULATE_READ, about bytes inside the mapping.
    fn make_present(&self, offset: usize, len: usize, advice: libc::c_int) -> Result<(), i32> {
        loop {
            // SAFETY: the range is inside the mapping, which `self` keeps mapped. Both kinds of
            // advice fault pages in and change no contents, and a page that cannot be had is an
            // errno and not a signal.
            let answer =
                unsafe { libc::madvise(self.address.as_ptr().add(offset).cast(), len, advice) };
            if answer == 0 {
                return Ok(());
            }
            match last_errno() {
                libc::EINTR | libc::EAGAIN => {}
                errno => return Err(errno),
            }
        }
    }

    /// Populates with one page fault per page.
    ///
    /// The blocks of a file are allocated first, so that a full file system is an error and not a
    /// SIGBUS. A device is only read: another host may be writing to it, and its pages are writable
    /// as soon as they are mapped.
    fn populate_by_touch(&self, offset: usize, len: usize) -> Result<(), i32> {
        if let Backing::SharedFile { file, offset_bytes } = &self.backing {
            let start = i64::try_from(offset_bytes + offset as u64).map_err(|_| libc::EFBIG)?;
            // SAFETY: no pointers are passed and the descriptor is open.
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, start, len as libc::off_t) } != 0
                && last_errno() != libc::EOPNOTSUPP
            {
                return Err(last_errno());
            }
        }
        let read_only = matches!(self.backing, Backing::Device { .. });
        for page in (offset..offset + len).step_by(base_page_bytes()) {
            // SAFETY: `page` is inside the mapping, so the byte is valid for reads and writes while
            // `self` lives. Access is atomic, so other threads that populate do not race with it.
            let byte = unsafe { AtomicU8::from_ptr(self.address.as_ptr().add(page)) };
            if read_only {
                byte.load(Ordering::Relaxed);
            } else {
                // Replaces 0 by 0: a write fault that changes nothing. A page with another value is
                // present already.
                let _ = byte.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::*;
    use crate::PageSize;

    const PAGE: usize = 4096;

    #[test]
    fn touching_keeps_the_bytes_of_every_kind_of_mapping() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[5; 4 * PAGE]).unwrap();
        let shared = Backing::SharedFile {
            file: file.try_clone().unwrap(),
            offset_bytes: PAGE as u64,
        };
        let private = Backing::PrivateFile {
            file: file.try_clone().unwrap(),
        };
        for backing in [shared, private] {
            let (mapping, _) = Mapping::timed(2 * PAGE, true, backing, PageSize::Base).unwrap();
            mapping.populate_by_touch(0, 2 * PAGE).unwrap();
            assert!(mapping.as_slice().iter().all(|byte| *byte == 5));
        }
        let anonymous = Mapping::anonymous(2 * PAGE, PageSize::Base).unwrap();
        anonymous.populate_by_touch(PAGE, PAGE).unwrap();
        assert!(anonymous.as_slice().iter().all(|byte| *byte == 0));
        let mut back = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut back).unwrap();
        assert_eq!(back, vec![5; 4 * PAGE]);
    }
}
