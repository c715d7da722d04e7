//! Functions like malloc over memory with a placement, for engines that take a memory resource.

mod pool;

use crate::audit::tl_audit;
use crate::border::{check, free, guarded, guarded_or, hand_out, reference};
use crate::host::Host;
use crate::region::{page_size_of, whole_pages};
use crate::sized::{self, Versioned};
use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use pool::{Pool, Supply};
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;
use std::sync::{Mutex, MutexGuard};
use tierloom_memory::RegionOptions;

/// The strictest alignment that an allocation can have.
pub const TL_MAX_ALIGN: usize = 4096;

/// Memory that an allocator takes at a time unless its options say otherwise.
const CHUNK_BYTES: usize = 16 << 20;
/// The most that it can take at a time.
const MAX_CHUNK_BYTES: usize = 32 << 30;

/// An allocator over memory with a placement; freed with `tl_allocator_free`.
///
/// All threads may use one at once; its functions wait for each other.
pub struct tl_allocator {
    pool: Mutex<Pool>,
}

/// How an allocator is made; see `tl_allocator_create`. A field of 0 or an empty text is the
/// default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_allocator_options {
    /// Set to `sizeof(tl_allocator_options)`.
    pub size: usize,
    /// Name in messages; default `allocator`.
    pub name: tl_str,
    /// As in `tl_region_options`.
    pub placement: tl_str,
    /// As in `tl_region_options`.
    pub page_size: tl_str,
    /// As in `tl_region_options`.
    pub tiers: tl_str,
    /// Memory that is taken from the system at a time; default 16 MiB. Allocations of half of it
    /// and more get memory of their own, which goes back to the system when they are freed.
    pub chunk_bytes: usize,
    /// The most memory to take from the system; by default there is no limit.
    pub limit_bytes: usize,
    /// Threads that touch new pages; by default one per CPU.
    pub threads: u32,
    /// 0; for later versions.
    pub reserved: u32,
}

// SAFETY: the first field is the size; the others are numbers and texts, which are checked when
// they are read.
unsafe impl Versioned for tl_allocator_options {
    const NAME: &'static str = "tl_allocator_options";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_allocator_options {
            size: size_of::<Self>(),
            name: tl_str::EMPTY,
            placement: tl_str::EMPTY,
            page_size: tl_str::EMPTY,
            tiers: tl_str::EMPTY,
            chunk_bytes: 0,
            limit_bytes: 0,
            threads: 0,
            reserved: 0,
        }
    }
}

/// What an allocator has given out; see `tl_allocator_usage`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_usage {
    /// Set to `sizeof(tl_usage)` before the call.
    pub size: usize,
    /// Allocations that were not freed.
    pub allocations: u64,
    /// Their bytes, as they were asked for.
    pub allocated_bytes: u64,
    /// Memory that was taken from the system.
    pub reserved_bytes: u64,
}

// SAFETY: the first field is the size, and all fields are plain numbers.
unsafe impl Versioned for tl_usage {
    const NAME: &'static str = "tl_usage";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_usage {
            size: size_of::<Self>(),
            allocations: 0,
            allocated_bytes: 0,
            reserved_bytes: 0,
        }
    }
}

impl tl_allocator {
    fn pool(&self) -> Result<MutexGuard<'_, Pool>, Fault> {
        self.pool.lock().map_err(|_| {
            let text = "this allocator is unusable after a defect in an earlier call";
            Fault::new(tl_status::TL_PANIC, text)
        })
    }
}

/// Makes an allocator. It takes memory from the system with the first allocation.
///
/// A placement that this machine does not have is refused here; too little free memory shows when
/// memory is allocated. Null for `options` means all defaults.
///
/// # Safety
/// `options` and its texts can be read, and a pointer can be written to `allocator`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_allocator_create(
    options: *const tl_allocator_options,
    allocator: *mut *mut tl_allocator,
) -> tl_status {
    guarded(|| {
        check(allocator, "the place for the allocator")?;
        // SAFETY: as for this function.
        let (options, tiers) = unsafe {
            let options = sized::read(options)?;
            (options, options.tiers.read("tiers")?)
        };
        let host = Host::here(tiers)?;
        // SAFETY: as for this function.
        let supply = unsafe { supply(&options, host) }?;
        let made = tl_allocator {
            pool: Mutex::new(Pool::new(supply)),
        };
        // SAFETY: as for this function.
        unsafe { hand_out(allocator, made, "the place for the allocator") }
    })
}

/// # Safety
/// The texts of `options` can be read.
unsafe fn supply(options: &tl_allocator_options, host: Host) -> Result<Supply, Fault> {
    // SAFETY: as for this function.
    let (name, placement, page_size) = unsafe {
        (
            options.name.read("name")?,
            options.placement.read("placement")?,
            options.page_size.read("page_size")?,
        )
    };
    let chunk_bytes = match options.chunk_bytes {
        0 => CHUNK_BYTES,
        bytes if bytes > MAX_CHUNK_BYTES => {
            return Err(Fault::argument(format!(
                "chunk_bytes is {bytes}; it can be at most {MAX_CHUNK_BYTES}"
            )));
        }
        bytes => bytes,
    };
    let page_size = page_size_of(page_size)?;
    let name = if name.is_empty() { "allocator" } else { name };
    let wanted = RegionOptions {
        page_size,
        threads: options.threads as usize,
        ..RegionOptions::new(
            name,
            whole_pages(chunk_bytes, page_size)?,
            host.placement(placement)?,
        )
    };
    Ok(Supply::new(host, wanted, options.limit_bytes))
}

/// Allocates memory; null if that fails.
///
/// `align` is a power of two up to `TL_MAX_ALIGN`, or 0 for that of `max_align_t`. Nothing is said
/// about the bytes. An allocation of 0 bytes has a pointer of its own, too.
///
/// # Safety
/// `allocator` is null or an allocator that is not freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_allocate(
    allocator: *const tl_allocator,
    bytes: usize,
    align: usize,
) -> *mut c_void {
    guarded_or(ptr::null_mut(), || {
        // SAFETY: as for this function.
        let allocator = unsafe { reference(allocator, "allocator") }?;
        let found = allocator.pool()?.allocate(bytes, align)?;
        Ok(found.as_ptr().cast())
    })
}

/// Changes the size of an allocation, which may move; null if that fails, and the allocation is as
/// it was.
///
/// The bytes up to the smaller size are kept. Null for `memory` allocates. `align` is that of the
/// new allocation.
///
/// # Safety
/// `allocator` is null or an allocator that is not freed meanwhile, and nobody uses the bytes of
/// `memory` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_reallocate(
    allocator: *const tl_allocator,
    memory: *mut c_void,
    bytes: usize,
    align: usize,
) -> *mut c_void {
    guarded_or(ptr::null_mut(), || {
        // SAFETY: as for this function.
        let allocator = unsafe { reference(allocator, "allocator") }?;
        let mut pool = allocator.pool()?;
        let found = match ptr::NonNull::new(memory.cast::<u8>()) {
            None => pool.allocate(bytes, align)?,
            Some(memory) => pool.reallocate(memory, bytes, align)?,
        };
        Ok(found.as_ptr().cast())
    })
}

/// Frees an allocation; null is fine. A pointer that is none of the allocator's, or was freed
/// before, is refused.
///
/// # Safety
/// `allocator` is an allocator that is not freed meanwhile, and nobody uses the bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_deallocate(
    allocator: *const tl_allocator,
    memory: *mut c_void,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let allocator = unsafe { reference(allocator, "allocator") }?;
        match ptr::NonNull::new(memory.cast::<u8>()) {
            None => Ok(()),
            Some(memory) => allocator.pool()?.deallocate(memory),
        }
    })
}

/// What an allocator has given out.
///
/// # Safety
/// `allocator` is an allocator that is not freed meanwhile, and `usage` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_allocator_usage(
    allocator: *const tl_allocator,
    usage: *mut tl_usage,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let allocator = unsafe { reference(allocator, "allocator") }?;
        let now = allocator.pool()?.usage();
        // SAFETY: as for this function.
        unsafe { sized::write(usage, &now) }
    })
}

/// Asks the kernel where the memory of an allocator is, used or not.
///
/// # Safety
/// `allocator` is an allocator that is not freed meanwhile, and a pointer can be written to
/// `audit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_allocator_audit(
    allocator: *const tl_allocator,
    audit: *mut *mut tl_audit,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let allocator = unsafe { reference(allocator, "allocator") }?;
        let made = tl_audit::of(allocator.pool()?.audit()?);
        // SAFETY: as for this function.
        unsafe { hand_out(audit, made, "the place for the audit") }
    })
}

/// Frees an allocator with all of its memory; null is fine.
///
/// # Safety
/// `allocator` is null or an allocator that nobody uses any more, nor memory of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_allocator_free(allocator: *mut tl_allocator) {
    // SAFETY: as for this function.
    unsafe { free(allocator) }
}
