//! Owned memory mappings: `mmap`, alignment for huge pages, `munmap`.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{files, last_errno};
use crate::PageSize;
use crate::shared::SharedRange;

/// Called just before the memory is unmapped.
type BeforeUnmap = Box<dyn FnOnce() + Send + Sync>;

/// Attempts to get an aligned address before an unaligned one is accepted: between two calls
/// another thread may map the address.
const ALIGN_ATTEMPTS: usize = 8;

/// What backs a mapping. Files stay open while it exists, which keeps their locks.
pub(crate) enum Backing {
    /// Anonymous memory, private or shared.
    Anonymous,
    /// Memory of another owner, who keeps it mapped and gets it back through `before_unmap`.
    Lent,
    /// Part of a range that others read too. Nobody writes to it.
    Shared { _kept: Kept },
    /// A file, mapped shared from this offset on.
    SharedFile { file: File, offset_bytes: u64 },
    /// A file, mapped copy-on-write from its start.
    PrivateFile { file: File },
    /// Device memory, mapped shared from this offset on.
    Device { file: File, offset_bytes: u64 },
}

/// What a part of a shared range keeps. In this order: the range is let go before its owner.
pub(crate) struct Kept {
    _range: Arc<SharedRange>,
    _owner: Arc<dyn Send + Sync>,
}

impl Backing {
    /// Arguments for `mmap`: flags, descriptor and offset.
    fn arguments(&self) -> Result<(libc::c_int, libc::c_int, libc::off_t), i32> {
        let offset = |bytes: u64| libc::off_t::try_from(bytes).map_err(|_| libc::EOVERFLOW);
        Ok(match self {
            Self::Anonymous => (libc::MAP_ANONYMOUS, -1, 0),
            Self::Lent | Self::Shared { .. } => return Err(libc::EINVAL),
            Self::SharedFile { file, offset_bytes } | Self::Device { file, offset_bytes } => {
                (libc::MAP_SHARED, file.as_raw_fd(), offset(*offset_bytes)?)
            }
            Self::PrivateFile { file } => (libc::MAP_PRIVATE, file.as_raw_fd(), 0),
        })
    }
}

/// An owned, readable and writable range of mapped memory; dropping it unmaps it.
///
/// Only the constructors below make one, so a `Mapping` is always valid memory of its length, with
/// initialised bytes (zero pages, or the contents of a file or device).
pub struct Mapping {
    pub(super) address: NonNull<u8>,
    /// 0 after `unmap_timed`, so that the drop does nothing.
    size_bytes: usize,
    pub(super) backing: Backing,
    before_unmap: Option<BeforeUnmap>,
}

// SAFETY: the mapping is plain memory that this value owns, valid at the same address on every
// thread. `&Mapping` gives out only its address and shared bytes; writes need `&mut Mapping`.
unsafe impl Send for Mapping {}
// SAFETY: shared access only reads, except for `populate`, which changes no byte's value: it runs
// in the kernel, or (on old kernels) writes the present value atomically, before the region is
// handed out.
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
    /// Reserves private anonymous memory of `size_bytes`, aligned for `page_size`.
    ///
    /// No page is touched.
    ///
    /// # Errors
    /// The errno of `mmap` or `madvise`; for hugetlb sizes `ENOMEM` means that the pool is too
    /// small.
    pub fn anonymous(size_bytes: usize, page_size: PageSize) -> Result<Self, i32> {
        let lazy = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let mapping = match page_size {
            PageSize::Base => Self::map(size_bytes, lazy, Backing::Anonymous)?,
            PageSize::Thp => Self::aligned(size_bytes, page_size.bytes(), lazy)?,
            // Without MAP_NORESERVE, so that the pool is checked now; otherwise a pool that is too
            // small would be a SIGBUS at first touch.
            PageSize::Huge2M | PageSize::Huge1G => Self::map(
                size_bytes,
                libc::MAP_PRIVATE | pool_flags(page_size),
                Backing::Anonymous,
            )?,
        };
        mapping.advise_page_size(page_size)?;
        Ok(mapping)
    }

    /// Maps `size_bytes` of `file` from `offset_bytes` on, shared.
    ///
    /// The file must be that long, and must not be truncated while it is mapped.
    ///
    /// # Errors
    /// The errno of `mmap` or `madvise`; `EINVAL` if the offset is not a multiple of the page size.
    pub fn shared_file_at(
        file: File,
        offset_bytes: u64,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Self, i32> {
        let mapping = Self::map(size_bytes, 0, Backing::SharedFile { file, offset_bytes })?;
        mapping.advise_page_size(page_size)?;
        Ok(mapping)
    }

    /// Maps `size_bytes` of a DAX device from `offset_bytes` on, both multiples of its alignment.
    ///
    /// The kernel aligns the address, and the device's alignment is its page size, so no advice is
    /// given.
    ///
    /// # Errors
    /// The errno of `mmap`.
    pub(crate) fn device(file: File, offset_bytes: u64, size_bytes: usize) -> Result<Self, i32> {
        Self::map(size_bytes, 0, Backing::Device { file, offset_bytes })
    }

    /// Wraps memory that is mapped already and stays mapped; the owner gets it back through
    /// [`Mapping::before_unmap`].
    ///
    /// # Safety
    /// The range is mapped readable and writable, its bytes are initialised, and nobody else uses
    /// it until the mapping is dropped.
    pub(crate) unsafe fn lent(address: usize, size_bytes: usize) -> Self {
        let start = std::ptr::with_exposed_provenance_mut(address);
        Self {
            address: NonNull::new(start).unwrap_or(NonNull::dangling()),
            size_bytes,
            backing: Backing::Lent,
            before_unmap: None,
        }
    }

    /// A part of a shared range, for reading; it keeps the range mapped, and then its owner.
    ///
    /// # Errors
    /// `EINVAL` for bytes outside the range, or none.
    pub(crate) fn shared(
        range: Arc<SharedRange>,
        bytes: Range<usize>,
        owner: Arc<dyn Send + Sync>,
    ) -> Result<Self, i32> {
        let part = range.as_slice().get(bytes).filter(|part| !part.is_empty());
        let part = NonNull::from(part.ok_or(libc::EINVAL)?);
        Ok(Self {
            address: part.cast(),
            size_bytes: part.len(),
            backing: Backing::Shared {
                _kept: Kept {
                    _range: range,
                    _owner: owner,
                },
            },
            before_unmap: None,
        })
    }

    /// Makes one `mmap` as a program would, and returns the time of the call.
    ///
    /// With [`PageSize::Thp`] the address is aligned for huge pages; it is chosen before the clock
    /// starts. Advice about the page size is not timed.
    ///
    /// # Errors
    /// The errno of `mmap` or `madvise`.
    pub(crate) fn timed(
        size_bytes: usize,
        shared: bool,
        backing: Backing,
        page_size: PageSize,
    ) -> Result<(Self, Duration), i32> {
        let anonymous = matches!(backing, Backing::Anonymous);
        let advised = !matches!(backing, Backing::Device { .. });
        let mut flags = 0;
        if anonymous {
            flags |= if shared {
                libc::MAP_SHARED
            } else {
                libc::MAP_PRIVATE
            };
            if page_size.is_hugetlb() {
                flags |= pool_flags(page_size);
            }
        }
        let (mapping, took) = if anonymous && page_size == PageSize::Thp {
            Self::timed_aligned(size_bytes, flags, page_size.bytes())?
        } else {
            Self::map_at(0, size_bytes, flags, backing)?
        };
        if advised {
            mapping.advise_page_size(page_size)?;
        }
        Ok((mapping, took))
    }

    fn timed_aligned(
        size_bytes: usize,
        flags: libc::c_int,
        align_bytes: usize,
    ) -> Result<(Self, Duration), i32> {
        let mut attempt = 1;
        loop {
            let reserved = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
            // The temporary mapping is dropped at once, so its aligned address is free and can be
            // the hint for the timed call. The kernel uses a hint if it is free.
            let address = Self::aligned(size_bytes, align_bytes, reserved)?.address();
            let (mapping, took) = Self::map_at(address, size_bytes, flags, Backing::Anonymous)?;
            if mapping.address().is_multiple_of(align_bytes) || attempt == ALIGN_ATTEMPTS {
                return Ok((mapping, took));
            }
            attempt += 1;
        }
    }

    /// Unmaps now, and returns the time of `munmap`.
    ///
    /// # Errors
    /// The errno; the range then stays mapped until the process ends.
    pub(crate) fn unmap_timed(mut self) -> Result<Duration, i32> {
        if let Some(action) = self.before_unmap.take() {
            action();
        }
        let size_bytes = std::mem::take(&mut self.size_bytes);
        let address = self.address.as_ptr().cast();
        let start = Instant::now();
        // SAFETY: the range is owned by this value, which is consumed here. Its size is 0 now, so
        // the drop does not unmap it again.
        let answer = unsafe { libc::munmap(address, size_bytes) };
        let took = start.elapsed();
        if answer == 0 {
            Ok(took)
        } else {
            Err(last_errno())
        }
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

    /// Length in bytes; whole pages.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Whether the pages are device memory, mapped directly. The kernel then reports them as
    /// absent.
    pub(crate) fn is_device_memory(&self) -> bool {
        match &self.backing {
            Backing::Device { .. } => true,
            Backing::SharedFile { file, .. } => files::is_on_dax(file),
            Backing::Anonymous
            | Backing::Lent
            | Backing::Shared { .. }
            | Backing::PrivateFile { .. } => false,
        }
    }

    /// The bytes of the mapping, all of them initialised.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the range is mapped readable while `self` lives, and its bytes are initialised;
        // writers need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.size_bytes) }
    }

    /// The bytes of the mapping, for writing.
    ///
    /// # Panics
    /// If it is a part of a shared range, which others read.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let is_shared = matches!(self.backing, Backing::Shared { .. });
        assert!(!is_shared, "the mapping is not for writing");
        // SAFETY: as in `as_slice`; the range is also mapped writable, and `&mut self` makes this
        // the only access.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.size_bytes) }
    }

    fn map(size_bytes: usize, flags: libc::c_int, backing: Backing) -> Result<Self, i32> {
        Self::map_at(0, size_bytes, flags, backing).map(|(mapping, _)| mapping)
    }

    /// Calls `mmap`. `hint` is an address to prefer if it is free; 0 lets the kernel choose.
    fn map_at(
        hint: usize,
        size_bytes: usize,
        flags: libc::c_int,
        backing: Backing,
    ) -> Result<(Self, Duration), i32> {
        let (own_flags, descriptor, offset) = backing.arguments()?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let hint = std::ptr::without_provenance_mut(hint);
        let flags = flags | own_flags;
        let start = Instant::now();
        // SAFETY: without MAP_FIXED the kernel uses only free addresses, whatever the hint, so no
        // existing mapping changes.
        let address =
            unsafe { libc::mmap(hint, size_bytes, protection, flags, descriptor, offset) };
        let took = start.elapsed();
        if address == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let address = NonNull::new(address.cast::<u8>()).ok_or(libc::ENOMEM)?;
        let mapping = Self {
            address,
            size_bytes,
            backing,
            before_unmap: None,
        };
        Ok((mapping, took))
    }

    /// Reserves `align_bytes` more than needed and unmaps the unaligned ends.
    fn aligned(size_bytes: usize, align_bytes: usize, flags: libc::c_int) -> Result<Self, i32> {
        let reserve_bytes = size_bytes.checked_add(align_bytes).ok_or(libc::ENOMEM)?;
        let mut mapping = Self::map(reserve_bytes, flags, Backing::Anonymous)?;
        let head_bytes = mapping.address().next_multiple_of(align_bytes) - mapping.address();
        let tail_bytes = reserve_bytes - head_bytes - size_bytes;
        mapping.cut_ends(head_bytes, tail_bytes)?;
        Ok(mapping)
    }

    fn cut_ends(&mut self, head_bytes: usize, tail_bytes: usize) -> Result<(), i32> {
        // Address and size follow each step that succeeds, so after a failure the rest is still
        // unmapped on drop.
        let tail_start = self.size_bytes - tail_bytes;
        if tail_bytes > 0 {
            // SAFETY: the tail is inside the mapping, page-aligned and not handed out, and
            // `size_bytes` is reduced below so that nothing uses it later.
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
        // SAFETY: `head_bytes` is at most the mapping's length, so the result is in bounds or one
        // past it.
        self.address = unsafe { self.address.add(head_bytes) };
        self.size_bytes -= head_bytes;
        Ok(())
    }

    fn advise_page_size(&self, page_size: PageSize) -> Result<(), i32> {
        let advice = match page_size {
            // Larger folios would cross the ends of runs and put pages on the wrong node.
            PageSize::Base => libc::MADV_NOHUGEPAGE,
            PageSize::Thp => libc::MADV_HUGEPAGE,
            PageSize::Huge2M | PageSize::Huge1G => return Ok(()),
        };
        // SAFETY: the range is exactly this mapping, and the advice changes no contents.
        let answer =
            unsafe { libc::madvise(self.address.as_ptr().cast(), self.size_bytes, advice) };
        // EINVAL: a kernel without huge pages, where neither advice matters. The audit reports the
        // result.
        if answer == 0 || last_errno() == libc::EINVAL {
            Ok(())
        } else {
            Err(last_errno())
        }
    }
}

/// `mmap` flags for a hugetlb page size; 0 for others.
fn pool_flags(page_size: PageSize) -> libc::c_int {
    match page_size {
        PageSize::Base | PageSize::Thp => 0,
        PageSize::Huge2M => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
        PageSize::Huge1G => libc::MAP_HUGETLB | libc::MAP_HUGE_1GB,
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(action) = self.before_unmap.take() {
            action();
        }
        if self.size_bytes != 0 && !matches!(self.backing, Backing::Lent | Backing::Shared { .. }) {
            // SAFETY: the range is owned by this value, and no reference into it can outlive it.
            // `munmap` of a whole mapping fails only if the kernel lacks memory; the range then
            // stays mapped, which is safe.
            unsafe { libc::munmap(self.address.as_ptr().cast(), self.size_bytes) };
        }
        if let Backing::SharedFile { file, .. } | Backing::Device { file, .. } = &self.backing {
            files::unlock(file);
        }
    }
}
