//! Owned memory mappings.

use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::{base_page_bytes, last_errno};
use crate::PageSize;

/// What to do just before the memory goes.
type BeforeUnmap = Box<dyn FnOnce() + Send + Sync>;

/// An owned, readable and writable range of mapped memory; dropping it unmaps it.
///
/// Can only be made by the constructors below, so a `Mapping` always is valid memory of its length whose bytes are
/// initialised (zero pages or file contents).
pub struct Mapping {
    address: NonNull<u8>,
    size_bytes: usize,
    file: Option<File>,
    before_unmap: Option<BeforeUnmap>,
}

// SAFETY: the mapping is plain memory owned by this value; `&Mapping` only hands out its address and shared bytes, writes need
// `&mut Mapping`, and moving it to another thread leaves the memory where it is.
unsafe impl Send for Mapping {}
// SAFETY: as above: shared access is read-only, except `populate`, which changes no byte's value: it runs in the kernel, or (old
// kernels) as an atomic write of the value that is there, before the region is handed out.
unsafe impl Sync for Mapping {}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("address", &self.address)
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}

impl Mapping {
    /// Reserves private anonymous memory of `size_bytes`, aligned for `page_size`, no page touched.
    ///
    /// # Errors
    /// The errno of `mmap` or `madvise`; `ENOMEM` for hugetlb sizes means that the pool is too small.
    pub fn anonymous(size_bytes: usize, page_size: PageSize) -> Result<Self, i32> {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = match page_size {
            PageSize::Base => Self::map(size_bytes, private | libc::MAP_NORESERVE, None)?,
            PageSize::Thp => {
                Self::aligned(size_bytes, page_size.bytes(), private | libc::MAP_NORESERVE)?
            }
            // Without MAP_NORESERVE: the pool is asked now instead of failing at the first touch.
            PageSize::Huge2M => Self::map(
                size_bytes,
                private | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
                None,
            )?,
            PageSize::Huge1G => Self::map(
                size_bytes,
                private | libc::MAP_HUGETLB | libc::MAP_HUGE_1GB,
                None,
            )?,
        };
        mapping.advise_page_size(page_size)?;
        Ok(mapping)
    }

    /// Maps the first `size_bytes` of `file` shared. The file must be that long; it must not be truncated while mapped.
    ///
    /// # Errors
    /// The errno of `mmap` or `madvise`.
    pub fn shared_file(file: File, size_bytes: usize, page_size: PageSize) -> Result<Self, i32> {
        let mapping = Self::map(size_bytes, libc::MAP_SHARED, Some(file))?;
        mapping.advise_page_size(page_size)?;
        Ok(mapping)
    }

    /// Runs `action` when the mapping is dropped, just before its addresses become free for others.
    pub fn before_unmap(mut self, action: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.before_unmap = Some(Box::new(action));
        self
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.address.as_ptr().addr()
    }

    /// Length in bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range is mapped readable for as long as `self` lives and its bytes are initialised; writers need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.size_bytes) }
    }

    /// The bytes, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, mapped writable, and `&mut self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.size_bytes) }
    }

    /// Makes the pages of the byte range present, allocated under the calling thread's policy. Bytes keep their values.
    ///
    /// # Errors
    /// The errno; `EINVAL` for a range that is not inside the mapping or not whole pages.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> Result<(), i32> {
        let end = offset.checked_add(len).ok_or(libc::EINVAL)?;
        if end > self.size_bytes
            || !offset.is_multiple_of(base_page_bytes())
            || !len.is_multiple_of(base_page_bytes())
        {
            return Err(libc::EINVAL);
        }
        loop {
            // SAFETY: the range lies inside the mapping; MADV_POPULATE_WRITE faults pages in and changes no byte.
            let answer = unsafe {
                libc::madvise(
                    self.address.as_ptr().add(offset).cast(),
                    len,
                    libc::MADV_POPULATE_WRITE,
                )
            };
            if answer == 0 {
                return Ok(());
            }
            match last_errno() {
                libc::EINTR | libc::EAGAIN => {}
                // Linux before 5.14 does not know the advice.
                libc::EINVAL => return self.populate_by_touch(offset, len),
                errno => return Err(errno),
            }
        }
    }

    /// The old way: one write fault per page. A file gets its blocks first, so that a full one is an error and no SIGBUS.
    fn populate_by_touch(&self, offset: usize, len: usize) -> Result<(), i32> {
        if let Some(file) = &self.file {
            let (start, bytes) = (offset as libc::off_t, len as libc::off_t);
            // SAFETY: plain system call on an open file.
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, start, bytes) } != 0
                && last_errno() != libc::EOPNOTSUPP
            {
                return Err(last_errno());
            }
        }
        for page in (offset..offset + len).step_by(base_page_bytes()) {
            // SAFETY: `page` is inside the mapping, and an atomic access is never torn.
            let byte =
                unsafe { std::sync::atomic::AtomicU8::from_ptr(self.address.as_ptr().add(page)) };
            // Writes 0 over 0: a write fault, no new value. Any other value shows that the page is present already.
            let _ = byte.compare_exchange(
                0,
                0,
                std::sync::atomic::Ordering::Relaxed,
                std::sync::atomic::Ordering::Relaxed,
            );
        }
        Ok(())
    }

    fn map(size_bytes: usize, flags: libc::c_int, file: Option<File>) -> Result<Self, i32> {
        let descriptor = file.as_ref().map_or(-1, |file| file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                descriptor,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let address = NonNull::new(address.cast::<u8>()).ok_or(libc::ENOMEM)?;
        Ok(Self {
            address,
            size_bytes,
            file,
            before_unmap: None,
        })
    }

    /// Reserves more than is needed and gives the unaligned ends back.
    fn aligned(size_bytes: usize, align_bytes: usize, flags: libc::c_int) -> Result<Self, i32> {
        let reserve_bytes = size_bytes.checked_add(align_bytes).ok_or(libc::ENOMEM)?;
        let mut mapping = Self::map(reserve_bytes, flags, None)?;
        let head_bytes = mapping.address().next_multiple_of(align_bytes) - mapping.address();
        let tail_bytes = reserve_bytes - head_bytes - size_bytes;
        mapping.cut_ends(head_bytes, tail_bytes)?;
        Ok(mapping)
    }

    fn cut_ends(&mut self, head_bytes: usize, tail_bytes: usize) -> Result<(), i32> {
        let tail_start = self.size_bytes - tail_bytes;
        if tail_bytes > 0 {
            // SAFETY: the tail is inside the mapping, page-aligned, never handed out, and forgotten by `size_bytes` below.
            let answer =
                unsafe { libc::munmap(self.address.as_ptr().add(tail_start).cast(), tail_bytes) };
            if answer != 0 {
                return Err(last_errno());
            }
        }
        self.size_bytes = tail_start;
        if head_bytes > 0 {
            // SAFETY: the same for the head; the address moves past it.
            let answer = unsafe { libc::munmap(self.address.as_ptr().cast(), head_bytes) };
            if answer != 0 {
                return Err(last_errno());
            }
        }
        // SAFETY: `head_bytes` is less than the mapping's length.
        self.address = unsafe { self.address.add(head_bytes) };
        self.size_bytes -= head_bytes;
        Ok(())
    }

    fn advise_page_size(&self, page_size: PageSize) -> Result<(), i32> {
        let advice = match page_size {
            // Larger folios would cross the ends of runs.
            PageSize::Base => libc::MADV_NOHUGEPAGE,
            PageSize::Thp => libc::MADV_HUGEPAGE,
            PageSize::Huge2M | PageSize::Huge1G => return Ok(()),
        };
        // SAFETY: the advice covers exactly this mapping and changes no byte.
        let answer =
            unsafe { libc::madvise(self.address.as_ptr().cast(), self.size_bytes, advice) };
        // EINVAL: a kernel without huge pages, where both advices are moot; the audit shows what became of it.
        if answer == 0 || last_errno() == libc::EINVAL {
            Ok(())
        } else {
            Err(last_errno())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(action) = self.before_unmap.take() {
            action();
        }
        // SAFETY: the range is owned by this value and nobody can hold a reference into it any more. Unmapping a whole mapping
        // of ours fails only for lack of kernel memory; the range then stays mapped, which is safe.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.size_bytes) };
    }
}
