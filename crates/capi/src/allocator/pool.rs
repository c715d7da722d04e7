//! Allocations inside regions: small ones by a published algorithm (TLSF, crate `rlsf`), large ones
//! in a region each.

use super::{TL_MAX_ALIGN, tl_usage};
use crate::host::Host;
use crate::region::whole_pages;
use crate::status::{Fault, tl_status};
use rlsf::{FlexSource, FlexTlsf};
use std::alloc::Layout;
use std::collections::HashMap;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::Arc;
use tierloom_memory::{Audit, AuditMode, Region, RegionOptions};

/// Alignment of allocations that ask for none: that of `max_align_t` on this processor.
const ANY_ALIGN: usize = 16;

/// Lists of free blocks by their sizes: 32 powers of two above 32 bytes, each in 32 steps.
type Blocks = FlexTlsf<Supply, u32, u32, 32, 32>;

/// An allocation that was not freed.
#[derive(Debug)]
struct Live {
    bytes: usize,
    align: usize,
    /// The region that it has for itself, if it is large.
    own: Option<Region>,
}

pub(super) struct Pool {
    blocks: Blocks,
    /// By address. It is what tells pointers of the allocator from others.
    live: HashMap<usize, Live>,
    allocated_bytes: u64,
}

// SAFETY: the pointers of `blocks` lead into regions that the pool has for itself, and nothing
// there belongs to a thread.
unsafe impl Send for Pool {}

/// Where the pool gets regions from.
pub(super) struct Supply {
    host: Host,
    /// Of the next region; its size is that of a chunk.
    wanted: RegionOptions,
    limit_bytes: usize,
    reserved_bytes: usize,
    /// Regions with small allocations.
    regions: Vec<Region>,
    /// Why the last request for a region failed.
    fault: Option<Fault>,
}

impl Supply {
    pub(super) fn new(host: Host, wanted: RegionOptions, limit_bytes: usize) -> Supply {
        Supply {
            host,
            wanted,
            limit_bytes,
            reserved_bytes: 0,
            regions: Vec::new(),
            fault: None,
        }
    }

    /// A region of at least `bytes`.
    fn region(&mut self, bytes: usize) -> Result<Region, Fault> {
        let size_bytes = whole_pages(bytes, self.wanted.page_size)?;
        let reserved = self.reserved_bytes.saturating_add(size_bytes);
        if self.limit_bytes > 0 && reserved > self.limit_bytes {
            return Err(Fault::new(
                tl_status::TL_NO_MEMORY,
                format!(
                    "allocator `{}` has {} bytes and its limit is {}: {size_bytes} more do not \
                     fit; free some or raise limit_bytes",
                    self.wanted.name, self.reserved_bytes, self.limit_bytes
                ),
            ));
        }
        let wanted = RegionOptions {
            size_bytes,
            ..self.wanted.clone()
        };
        let backend = Arc::clone(&self.host.backend);
        let region = Region::create(backend, &self.host.topology, wanted)?;
        // The next region goes on with the round of weights, so that many small regions have the
        // shares of a large one.
        let round = self.wanted.placement.round_pages();
        self.wanted.start_page = (self.wanted.start_page + region.pages()) % round;
        self.reserved_bytes = reserved;
        Ok(region)
    }
}

// SAFETY: `alloc` returns memory of a region that stays mapped as long as the supply is there,
// which is as long as its user; nothing else gives that memory out.
unsafe impl FlexSource for Supply {
    unsafe fn alloc(&mut self, min_size: usize) -> Option<NonNull<[u8]>> {
        match self.region(min_size.max(self.wanted.size_bytes)) {
            Ok(region) => {
                let bytes = region.size_bytes();
                let start = memory_of(&region)?;
                self.regions.push(region);
                Some(NonNull::slice_from_raw_parts(start, bytes))
            }
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }

    fn min_align(&self) -> usize {
        TL_MAX_ALIGN
    }
}

/// The first byte of a region.
fn memory_of(region: &Region) -> Option<NonNull<u8>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(region.address()))
}

impl Pool {
    pub(super) fn new(supply: Supply) -> Pool {
        Pool {
            blocks: FlexTlsf::new(supply),
            live: HashMap::new(),
            allocated_bytes: 0,
        }
    }

    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, Fault> {
        let layout = layout(bytes, align)?;
        let chunk_bytes = self.blocks.source_ref().wanted.size_bytes;
        let (memory, own) = if layout.size() >= chunk_bytes / 2 {
            let region = self.supply().region(layout.size())?;
            let start = memory_of(&region);
            (start, Some(region))
        } else {
            (self.blocks.allocate(layout), None)
        };
        let Some(memory) = memory else {
            let fault = self.supply().fault.take();
            let full = || Fault::new(tl_status::TL_NO_MEMORY, "no block is large enough");
            return Err(fault.unwrap_or_else(full));
        };
        let live = Live {
            bytes,
            align: layout.align(),
            own,
        };
        self.live.insert(memory.addr().get(), live);
        self.allocated_bytes += bytes as u64;
        Ok(memory)
    }

    pub(super) fn reallocate(
        &mut self,
        memory: NonNull<u8>,
        bytes: usize,
        align: usize,
    ) -> Result<NonNull<u8>, Fault> {
        let kept = self.live(memory)?.bytes.min(bytes);
        let to = self.allocate(bytes, align)?;
        // SAFETY: both have at least `kept` bytes, and they are two allocations.
        unsafe { std::ptr::copy_nonoverlapping(memory.as_ptr(), to.as_ptr(), kept) };
        self.deallocate(memory)?;
        Ok(to)
    }

    pub(super) fn deallocate(&mut self, memory: NonNull<u8>) -> Result<(), Fault> {
        self.live(memory)?;
        let Some(live) = self.live.remove(&memory.addr().get()) else {
            return Ok(());
        };
        self.allocated_bytes -= live.bytes as u64;
        match live.own {
            Some(region) => self.supply().reserved_bytes -= region.size_bytes(),
            // SAFETY: it is an allocation of `blocks` with this alignment, and was not freed.
            None => unsafe { self.blocks.deallocate(memory, live.align) },
        }
        Ok(())
    }

    pub(super) fn usage(&self) -> tl_usage {
        tl_usage {
            size: size_of::<tl_usage>(),
            allocations: self.live.len() as u64,
            allocated_bytes: self.allocated_bytes,
            reserved_bytes: self.blocks.source_ref().reserved_bytes as u64,
        }
    }

    pub(super) fn audit(&self) -> Result<Audit, Fault> {
        let own = self.live.values().filter_map(|live| live.own.as_ref());
        let regions = self.blocks.source_ref().regions.iter().chain(own);
        let audits = regions.map(|region| region.audit(AuditMode::Full));
        let audits = audits.collect::<Result<Vec<_>, _>>()?;
        Audit::merge(&audits)
            .ok_or_else(|| Fault::input("the allocator has no memory yet; allocate some first"))
    }

    fn live(&self, memory: NonNull<u8>) -> Result<&Live, Fault> {
        self.live.get(&memory.addr().get()).ok_or_else(|| {
            Fault::argument("the pointer is no allocation of this allocator, or was freed before")
        })
    }

    fn supply(&mut self) -> &mut Supply {
        // SAFETY: the supply is not replaced, and its regions stay where they are.
        unsafe { self.blocks.source_mut_unchecked() }
    }
}

/// Size and alignment, if an allocation can have them.
fn layout(bytes: usize, align: usize) -> Result<Layout, Fault> {
    let align = if align == 0 { ANY_ALIGN } else { align };
    if !align.is_power_of_two() || align > TL_MAX_ALIGN {
        return Err(Fault::argument(format!(
            "align is {align}; expected a power of two up to {TL_MAX_ALIGN}"
        )));
    }
    let layout = Layout::from_size_align(bytes.max(1), align);
    layout.map_err(|_| Fault::argument(format!("{bytes} bytes are more than can be addressed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::fake::host;
    use tierloom_memory::Placement;

    fn pool(placement: &str, limit_bytes: usize) -> Pool {
        let host = host();
        let placement: Placement = host.placement(placement).unwrap();
        let wanted = RegionOptions::new("pool", 64 * 4096, placement);
        Pool::new(Supply::new(host, wanted, limit_bytes))
    }

    fn fill(memory: NonNull<u8>, bytes: usize, value: u8) {
        // SAFETY: the caller has just allocated that many bytes.
        unsafe { memory.as_ptr().write_bytes(value, bytes) };
    }

    #[test]
    fn allocations_do_not_overlap_and_keep_their_bytes() {
        let mut pool = pool("0:3,1:2", 0);
        let mut all = Vec::new();
        for round in 0..400_usize {
            let (bytes, align) = (1 + round * 37 % 9000, 1 << (round % 13));
            let memory = pool.allocate(bytes, align).unwrap();
            assert!(memory.addr().get().is_multiple_of(align));
            fill(memory, bytes, round as u8);
            all.push((memory, bytes, round as u8));
            if round % 3 == 2 {
                let (gone, ..) = all.swap_remove(round / 3);
                pool.deallocate(gone).unwrap();
            }
        }
        for (memory, bytes, value) in &all {
            // SAFETY: the allocation is live and was filled.
            let bytes = unsafe { std::slice::from_raw_parts(memory.as_ptr(), *bytes) };
            assert!(bytes.iter().all(|byte| byte == value));
        }
        let sum: usize = all.iter().map(|(_, bytes, _)| bytes).sum();
        assert_eq!(pool.usage().allocated_bytes, sum as u64);
        let audit = pool.audit().unwrap();
        assert_eq!((audit.misplaced_pages, audit.requested.len()), (0, 2));
        for (memory, ..) in all {
            pool.deallocate(memory).unwrap();
        }
        assert_eq!((pool.usage().allocations, pool.allocated_bytes), (0, 0));
    }

    #[test]
    fn large_allocations_go_back_to_the_system() {
        let mut pool = pool("1", 0);
        let memory = pool.allocate(1 << 20, 64).unwrap();
        assert_eq!(pool.usage().reserved_bytes, 1 << 20);
        fill(memory, 1 << 20, 7);
        let grown = pool.reallocate(memory, 3 << 20, 64).unwrap();
        // SAFETY: the allocation has 3 MiB, and the first was copied into it.
        let last = unsafe { grown.as_ptr().add((1 << 20) - 1).read() };
        assert_eq!((last, pool.usage().reserved_bytes), (7, 3 << 20));
        let shrunk = pool.reallocate(grown, 10, 0).unwrap();
        // SAFETY: the allocation has 10 bytes.
        assert_eq!(unsafe { shrunk.as_ptr().add(9).read() }, 7);
        assert_eq!(pool.usage().reserved_bytes, 64 * 4096);
    }

    #[test]
    fn limits_hold_and_leave_the_allocator_usable() {
        let mut pool = pool("0", 64 * 4096);
        let kept = pool.allocate(1000, 0).unwrap();
        let fault = pool.allocate(1 << 20, 0).unwrap_err();
        assert_eq!(fault.status, tl_status::TL_NO_MEMORY);
        assert!(fault.text.contains("raise limit_bytes"), "{}", fault.text);
        let fault = pool.reallocate(kept, 1 << 20, 0).unwrap_err();
        assert_eq!(fault.status, tl_status::TL_NO_MEMORY);
        while pool.allocate(30_000, 0).is_ok() {}
        pool.deallocate(kept).unwrap();
        pool.allocate(900, 0).unwrap();
    }

    #[test]
    fn foreign_pointers_and_impossible_sizes_are_refused() {
        let mut pool = pool("0", 0);
        let memory = pool.allocate(100, 8).unwrap();
        let inside = memory.map_addr(|at| at.saturating_add(8));
        for wrong in [inside, NonNull::dangling()] {
            let fault = pool.deallocate(wrong).unwrap_err();
            assert_eq!(fault.status, tl_status::TL_INVALID_ARGUMENT);
        }
        pool.deallocate(memory).unwrap();
        assert!(pool.deallocate(memory).is_err());
        for (bytes, align) in [(1, 3), (1, 8192), (usize::MAX, 1), (1 << 63, 8)] {
            let fault = pool.allocate(bytes, align).unwrap_err();
            assert_eq!(
                fault.status,
                tl_status::TL_INVALID_ARGUMENT,
                "{bytes} {align}"
            );
        }
        assert!(pool.allocate(1 << 46, 8).is_err());
    }

    #[test]
    fn many_small_regions_have_the_shares_of_a_large_one() {
        let mut pool = pool("0:3,1:2", 0);
        for _ in 0..10 {
            pool.allocate(33 * 4096, 8).unwrap();
        }
        let audit = pool.audit().unwrap();
        assert!(audit.worst_deviation() < 0.01, "{audit:?}");
    }
}
