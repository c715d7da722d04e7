//! Regions: memory with a placement.

use crate::audit::tl_audit;
use crate::border::{check, free, guarded, guarded_or, hand_out, reference};
use crate::host::Host;
use crate::sized::{self, Versioned};
use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use crate::text::{text_out, tl_text};
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_memory::{AuditMode, MigrationOptions, PageSize, Region, RegionOptions};

/// Memory with a placement; freed with `tl_region_free`.
///
/// Several threads may use one at once. What they write into the memory is theirs to order.
pub struct tl_region {
    pub(crate) region: Arc<Region>,
    host: Host,
    /// One migration at a time: two would undo each other's work.
    moving: Mutex<()>,
}

/// How a region is made; see `tl_region_create`. A field of 0 or an empty text is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_region_options {
    /// Set to `sizeof(tl_region_options)`.
    pub size: usize,
    /// Name in messages; default `region`.
    pub name: tl_str,
    /// Where its pages go: a node (`0`), a tier (`cxl`), weights (`3:2`, `dram:3,cxl:2`,
    /// `0:3,2:2`) or shares (`0=70%,2=30%`). By default the kernel chooses.
    pub placement: tl_str,
    /// Size of its pages: `4k` (default), `thp`, `2m` or `1g`. It is the unit of placement.
    pub page_size: tl_str,
    /// Which nodes are which tier, as in `dram=0,1;cxl=2-5`. By default what the system reports.
    pub tiers: tl_str,
    /// Threads that touch the pages; by default one per CPU.
    pub threads: u32,
    /// 0; for later versions.
    pub reserved: u32,
}

// SAFETY: the first field is the size; the others are numbers and texts, which are checked when
// they are read.
unsafe impl Versioned for tl_region_options {
    const NAME: &'static str = "tl_region_options";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_region_options {
            size: size_of::<Self>(),
            name: tl_str::EMPTY,
            placement: tl_str::EMPTY,
            page_size: tl_str::EMPTY,
            tiers: tl_str::EMPTY,
            threads: 0,
            reserved: 0,
        }
    }
}

/// What a migration did; see `tl_region_migrate`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_migration {
    /// Set to `sizeof(tl_migration)` before the call.
    pub size: usize,
    /// Pages of the region.
    pub pages: u64,
    /// Pages that were moved.
    pub moved: u64,
    /// Pages that were where they belong already.
    pub already_there: u64,
    /// Pages that could not be moved and are where they were.
    pub failed: u64,
    /// Pages that nobody has touched since they were given back or swapped out.
    pub absent: u64,
}

// SAFETY: the first field is the size, and all fields are plain numbers.
unsafe impl Versioned for tl_migration {
    const NAME: &'static str = "tl_migration";
    const FIRST: usize = size_of::<Self>();

    fn base() -> Self {
        tl_migration {
            size: size_of::<Self>(),
            pages: 0,
            moved: 0,
            already_there: 0,
            failed: 0,
            absent: 0,
        }
    }
}

/// Reserves memory and puts its pages where the placement says. The bytes are 0.
///
/// `bytes` is rounded up to whole pages. Null for `options` means all defaults. A node or tier that
/// this machine does not have is `TL_UNAVAILABLE`, too little free memory there `TL_NO_MEMORY`;
/// nothing is left behind then.
///
/// # Safety
/// `options` and its texts can be read, and a pointer can be written to `region`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_create(
    bytes: usize,
    options: *const tl_region_options,
    region: *mut *mut tl_region,
) -> tl_status {
    guarded(|| {
        check(region, "the place for the region")?;
        // SAFETY: as for this function.
        let (options, tiers) = unsafe {
            let options = sized::read(options)?;
            (options, options.tiers.read("tiers")?)
        };
        let host = Host::here(tiers)?;
        // SAFETY: as for this function.
        let wanted = unsafe { wanted(bytes, &options, &host) }?;
        let made = tl_region::create(host, wanted)?;
        // SAFETY: as for this function.
        unsafe { hand_out(region, made, "the place for the region") }
    })
}

/// # Safety
/// The texts of `options` can be read.
unsafe fn wanted(
    bytes: usize,
    options: &tl_region_options,
    host: &Host,
) -> Result<RegionOptions, Fault> {
    // SAFETY: as for this function.
    let (name, placement, page_size) = unsafe {
        (
            options.name.read("name")?,
            options.placement.read("placement")?,
            options.page_size.read("page_size")?,
        )
    };
    let page_size = page_size_of(page_size)?;
    let name = if name.is_empty() { "region" } else { name };
    Ok(RegionOptions {
        page_size,
        threads: options.threads as usize,
        ..RegionOptions::new(
            name,
            whole_pages(bytes, page_size)?,
            host.placement(placement)?,
        )
    })
}

/// The page size of a text; empty for base pages.
pub(crate) fn page_size_of(text: &str) -> Result<PageSize, Fault> {
    if text.is_empty() {
        return Ok(PageSize::Base);
    }
    Ok(text.parse::<PageSize>()?)
}

/// `bytes` in whole pages, if there can be that many.
pub(crate) fn whole_pages(bytes: usize, page_size: PageSize) -> Result<usize, Fault> {
    if bytes > isize::MAX as usize {
        let text = format!("{bytes} bytes are more than a process can address");
        return Err(Fault::argument(text));
    }
    Ok(page_size.round_up(bytes))
}

impl tl_region {
    fn create(host: Host, wanted: RegionOptions) -> Result<tl_region, Fault> {
        let region = Region::create(Arc::clone(&host.backend), &host.topology, wanted)?;
        Ok(tl_region {
            region: Arc::new(region),
            host,
            moving: Mutex::new(()),
        })
    }

    fn migrate(&self, text: &str) -> Result<tl_migration, Fault> {
        // A panic of an earlier migration leaves pages on either node, which a new one sorts out.
        let _one = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let to = self.host.placement(text)?;
        let options = MigrationOptions::default();
        let mut migration = self.region.migrate(&to, &self.host.topology, options)?;
        let state = migration.run_to_end(&AtomicBool::new(false))?;
        Ok(tl_migration {
            size: size_of::<tl_migration>(),
            pages: state.pages_total,
            moved: state.moved_pages,
            already_there: state.already_there_pages,
            failed: state.failed_pages.values().sum(),
            absent: state.absent_pages,
        })
    }
}

/// The first byte of a region, aligned to its pages; null for no region.
///
/// # Safety
/// `region` is null or a region that is not freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_data(region: *const tl_region) -> *mut c_void {
    guarded_or(ptr::null_mut(), || {
        // SAFETY: as for this function.
        let region = unsafe { reference(region, "region") }?;
        // The library itself keeps no reference to the bytes, so the program may write them.
        Ok(ptr::with_exposed_provenance_mut(region.region.address()))
    })
}

/// Size of a region in bytes, in whole pages; 0 for no region.
///
/// # Safety
/// `region` is null or a region that is not freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_bytes(region: *const tl_region) -> usize {
    guarded_or(0, || {
        // SAFETY: as for this function.
        let region = unsafe { reference(region, "region") }?;
        Ok(region.region.size_bytes())
    })
}

/// Where the pages of a region are wanted, as a placement with node numbers.
///
/// # Safety
/// `region` is a region, and a pointer can be written to `placement`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_placement(
    region: *const tl_region,
    placement: *mut *mut tl_text,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let region = unsafe { reference(region, "region") }?;
        // SAFETY: as for this function.
        unsafe { text_out(placement, region.region.placement().to_string()) }
    })
}

/// Moves the pages of a region to another placement, and waits until that is done.
///
/// The memory can be read and written meanwhile. Pages that the kernel does not move are counted in
/// `migration`, which may be null, and are no failure of the call. Migrations of one region wait
/// for each other.
///
/// # Safety
/// `region` is a region, the text can be read, and `migration` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_migrate(
    region: *const tl_region,
    placement: tl_str,
    migration: *mut tl_migration,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let (region, placement) = unsafe {
            if !migration.is_null() {
                sized::expect(migration)?;
            }
            (reference(region, "region")?, placement.read("placement")?)
        };
        if placement.is_empty() {
            return Err(Fault::input(
                "the placement is empty; say where the pages are to go",
            ));
        }
        let done = region.migrate(placement)?;
        if migration.is_null() {
            return Ok(());
        }
        // SAFETY: as for this function.
        unsafe { sized::write(migration, &done) }
    })
}

/// Asks the kernel where each page of a region is.
///
/// # Safety
/// `region` is a region, and a pointer can be written to `audit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_audit(
    region: *const tl_region,
    audit: *mut *mut tl_audit,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let region = unsafe { reference(region, "region") }?;
        let made = tl_audit::of(region.region.audit(AuditMode::Full)?);
        // SAFETY: as for this function.
        unsafe { hand_out(audit, made, "the place for the audit") }
    })
}

/// Frees a region; null is fine. Its memory stays mapped until the last slice of it is released.
///
/// # Safety
/// `region` is null or a region whose handle and, but for slices, memory nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_free(region: *mut tl_region) {
    // SAFETY: as for this function.
    unsafe { free(region) }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
