//! The memory of one class at one place: a part of the reserved addresses with a policy of its own.
//!
//! ```text
//!   | extents below 4 MiB, granules of 64 KiB, base pages | extents from 4 MiB on, granules of 2 MiB, huge pages |
//! ```
//! The two kinds are kept apart so that a small extent never shares a huge page with a neighbour: what is accounted is what is resident.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::account::Level;
use super::events::Why;
use super::extents::{Extent, Extents, Free, Tag};
use super::kernel::{self, Kernel, Nodes};
use super::ledger::Ledger;
use super::present::make_present;

/// Bytes of a granule of small extents.
pub(super) const SMALL_GRANULE: usize = 64 << 10;
/// Bytes of a granule of large extents: a huge page.
pub(super) const LARGE_GRANULE: usize = 2 << 20;
/// Extents of so many bytes are large.
pub(super) const LARGE_FROM: usize = 4 << 20;
/// Part of a slot's addresses for small extents (one eighth).
const SMALL_SHARE: usize = 8;

/// A block that the router handed out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) address: usize,
    /// Bytes accounted: whole granules.
    pub(super) bytes: u64,
    /// The kernel gives zeroes on first touch.
    pub(super) zeroed: bool,
}

/// What a change did to an owner's account.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) owner: u32,
    pub(super) bytes: u64,
}

/// How a block changed in place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Resized {
    /// Its granules suffice.
    Same,
    Grown(Change),
    Shrunk(Change),
    /// It has to move.
    No,
}

/// Extents of one granule.
#[derive(Debug)]
struct Range {
    extents: Extents,
    base: usize,
    granule: usize,
}

impl Range {
    const NONE: Range = Range {
        extents: Extents::none(),
        base: 0,
        granule: 1,
    };

    fn granules(&self, size: usize) -> Option<u32> {
        u32::try_from(size.div_ceil(self.granule)).ok()
    }

    fn address(&self, extent: Extent) -> usize {
        self.base + extent.start as usize * self.granule
    }

    fn bytes(&self, extent: Extent) -> usize {
        extent.len as usize * self.granule
    }

    fn used(&self, address: usize) -> Option<(Extent, u32)> {
        let start = u32::try_from((address - self.base) / self.granule).ok()?;
        self.extents.used(start)
    }
}

/// Everything that the lock protects.
#[derive(Debug)]
struct State {
    ranges: [Range; 2],
    nodes: Nodes,
    limit_bytes: u64,
    cache_limit_bytes: u64,
    cached_bytes: u64,
    /// The kernel refused the policy.
    refused: Option<i32>,
    /// Where in the round of weights the next extent starts.
    phase: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slot {
    state: Mutex<State>,
    /// Bytes in use.
    pub(super) level: Level,
    /// Bytes in use and kept for reuse.
    pub(super) held: Level,
    pub(super) allocations: AtomicU64,
    /// Allocations that came here because another place could not give them.
    pub(super) fallbacks: AtomicU64,
}

impl Slot {
    pub(super) const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                ranges: [Range::NONE, Range::NONE],
                nodes: Nodes::ANY,
                limit_bytes: u64::MAX,
                cache_limit_bytes: super::options::DEFAULT_CACHE_BYTES,
                cached_bytes: 0,
                refused: None,
                phase: 0,
            }),
            level: Level::zero(),
            held: Level::zero(),
            allocations: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tags that a slot of `len` bytes needs for its small and its large extents.
    pub(super) fn tags(len: usize) -> (usize, usize) {
        let small = len / SMALL_SHARE;
        (small / SMALL_GRANULE, (len - small) / LARGE_GRANULE)
    }

    /// Gives the slot its addresses.
    pub(super) fn found(
        &self,
        base: usize,
        len: usize,
        tags: (&'static mut [Tag], &'static mut [Tag]),
    ) {
        let small = len / SMALL_SHARE;
        let ranges = [
            Range {
                extents: Extents::over(tags.0),
                base,
                granule: SMALL_GRANULE,
            },
            Range {
                extents: Extents::over(tags.1),
                base: base + small,
                granule: LARGE_GRANULE,
            },
        ];
        self.state().ranges = ranges;
        kernel::advise_huge(base, small, false);
        kernel::advise_huge(base + small, len - small, true);
    }

    /// Sets where new pages come from and how many. Memory in use stays where it is; what was kept for reuse goes back first.
    pub(super) fn configure(
        &self,
        nodes: Nodes,
        limit_bytes: u64,
        cache_limit_bytes: u64,
        ledger: &Ledger,
    ) {
        self.trim(ledger);
        let mut state = self.state();
        state.nodes = nodes;
        state.limit_bytes = limit_bytes;
        state.cache_limit_bytes = cache_limit_bytes;
    }

    /// Tells the kernel (again) where the slot's pages come from; it may have changed its mind about what is allowed.
    pub(super) fn bind(&self, kernel: &Kernel, base: usize, len: usize) {
        let mut state = self.state();
        let gone = state.nodes.parts().iter().find_map(|(node, _)| {
            (kernel.free_bytes)(*node)
                .err()
                .filter(|e| *e == libc::ENODEV)
        });
        let answer = (kernel.bind)(base, len, &state.nodes);
        state.refused = gone.or(answer.err());
    }

    /// Whether the kernel refused the place.
    pub(super) fn refused(&self) -> Option<i32> {
        self.state().refused
    }

    /// Bytes of the limit.
    pub(super) fn limit_bytes(&self) -> u64 {
        self.state().limit_bytes
    }

    /// A block of at least `size` bytes for `owner`, aligned to its granule.
    pub(super) fn allocate(
        &self,
        kernel: &Kernel,
        ledger: &Ledger,
        size: usize,
        owner: u32,
    ) -> Result<Block, Why> {
        let mut state = self.state();
        if let Some(errno) = state.refused {
            return Err(Why::Refused(errno));
        }
        let kind = usize::from(size >= LARGE_FROM);
        let len = state.ranges[kind].granules(size).ok_or(Why::Addresses)?;
        let bytes = u64::from(len) * state.ranges[kind].granule as u64;
        if self.level.current() + bytes > state.limit_bytes {
            return Err(Why::Limit);
        }
        let (extent, moving) = match state.ranges[kind].extents.take(len, Free::Cached, owner) {
            Some(extent) => {
                state.cached_bytes -= bytes;
                (extent, None)
            }
            None => {
                // Until its pages are there a fresh block is counted without them.
                let moving = ledger.moving();
                let extent = self.fresh(&mut state, kernel, ledger, kind, len, owner)?;
                (extent, Some(moving))
            }
        };
        self.level.add(bytes);
        let block = Block {
            address: state.ranges[kind].address(extent),
            bytes,
            zeroed: moving.is_some(),
        };
        if let Some(moving) = moving {
            self.held.add(bytes);
            let (nodes, phase) = (state.nodes, state.phase);
            let granule = state.ranges[kind].granule;
            state.phase += u64::from(len);
            drop(state);
            if let Err(errno) = make_present(kernel, &nodes, block, granule, phase) {
                self.free(ledger, block.address, false);
                return Err(Why::Refused(errno));
            }
            drop(moving);
        }
        self.allocations.fetch_add(1, Ordering::Relaxed);
        Ok(block)
    }

    /// Granules without pages. Memory kept for reuse goes back where it stands in the way.
    fn fresh(
        &self,
        state: &mut State,
        kernel: &Kernel,
        ledger: &Ledger,
        kind: usize,
        len: u32,
        owner: u32,
    ) -> Result<Extent, Why> {
        let bytes = u64::from(len) * state.ranges[kind].granule as u64;
        while self.level.current() + state.cached_bytes + bytes > state.limit_bytes {
            if !self.evict(state, ledger) {
                break;
            }
        }
        ledger.draw(kernel, &state.nodes, bytes)?;
        let extents = &mut state.ranges[kind].extents;
        let taken = extents
            .take(len, Free::Released, owner)
            .or_else(|| extents.take_new(len, owner));
        taken.ok_or_else(|| {
            ledger.give_back(&state.nodes, bytes);
            Why::Addresses
        })
    }

    /// Gives one extent that was kept for reuse back to the kernel; false if there is none.
    fn evict(&self, state: &mut State, ledger: &Ledger) -> bool {
        let nodes = state.nodes;
        for range in state.ranges.iter_mut().rev() {
            let Some(extent) = range.extents.evict() else {
                continue;
            };
            let (address, len) = (range.address(extent), range.bytes(extent));
            let _moving = ledger.moving();
            // SAFETY: the extent is free and off the lists, so nobody uses it.
            let _ = unsafe { kernel::release(address, len) };
            range.extents.give(extent, Free::Released);
            state.cached_bytes -= len as u64;
            self.held.sub(len as u64);
            ledger.give_back(&nodes, len as u64);
            return true;
        }
        false
    }

    /// Gives everything that is kept for reuse back.
    pub(super) fn trim(&self, ledger: &Ledger) {
        let mut state = self.state();
        while self.evict(&mut state, ledger) {}
    }

    /// Takes a block back; `None` if there is none at that address.
    pub(super) fn free(&self, ledger: &Ledger, address: usize, keep: bool) -> Option<Change> {
        let state = self.state();
        let kind = usize::from(address >= state.ranges[1].base);
        let (extent, owner) = state.ranges[kind].used(address)?;
        let bytes = state.ranges[kind].bytes(extent) as u64;
        self.level.sub(bytes);
        self.put_away(state, ledger, kind, extent, keep);
        Some(Change { owner, bytes })
    }

    /// Keeps a used extent for reuse, or lets its pages go.
    fn put_away(
        &self,
        mut state: MutexGuard<'_, State>,
        ledger: &Ledger,
        kind: usize,
        extent: Extent,
        keep: bool,
    ) {
        let len = state.ranges[kind].bytes(extent);
        let bytes = len as u64;
        if keep && bytes <= state.cache_limit_bytes {
            while state.cached_bytes + bytes > state.cache_limit_bytes
                && self.evict(&mut state, ledger)
            {}
            state.cached_bytes += bytes;
            state.ranges[kind].extents.give(extent, Free::Cached);
            return;
        }
        let address = state.ranges[kind].address(extent);
        let nodes = state.nodes;
        state.ranges[kind].extents.leave(extent);
        drop(state);
        let _moving = ledger.moving();
        // SAFETY: the extent was freed by its owner and is on no list: nobody uses it.
        let _ = unsafe { kernel::release(address, len) };
        self.state().ranges[kind]
            .extents
            .give(extent, Free::Released);
        self.held.sub(bytes);
        ledger.give_back(&nodes, bytes);
    }

    /// Makes a block longer or shorter where it is.
    pub(super) fn resize(
        &self,
        kernel: &Kernel,
        ledger: &Ledger,
        address: usize,
        size: usize,
    ) -> Resized {
        let mut state = self.state();
        let kind = usize::from(address >= state.ranges[1].base);
        let Some((extent, owner)) = state.ranges[kind].used(address) else {
            return Resized::No;
        };
        let Some(len) = state.ranges[kind].granules(size) else {
            return Resized::No;
        };
        let granule = state.ranges[kind].granule as u64;
        if len == extent.len {
            return Resized::Same;
        }
        if let Some(end) = state.ranges[kind].extents.split(extent, len) {
            let bytes = u64::from(end.len) * granule;
            self.level.sub(bytes);
            self.put_away(state, ledger, kind, end, true);
            return Resized::Shrunk(Change { owner, bytes });
        }
        let bytes = u64::from(len.saturating_sub(extent.len)) * granule;
        let grows_here = (kind == 1 || size < LARGE_FROM)
            && state.nodes.by_policy()
            && state.refused.is_none()
            && self.level.current() + state.cached_bytes + bytes <= state.limit_bytes
            && ledger.draw(kernel, &state.nodes, bytes).is_ok();
        if !grows_here {
            return Resized::No;
        }
        let _moving = ledger.moving();
        let grown = state.ranges[kind].extents.grow(extent, len);
        match grown {
            Some(Free::Released) => {
                self.held.add(bytes);
            }
            Some(Free::Cached) => {
                state.cached_bytes -= bytes;
                ledger.give_back(&state.nodes, bytes);
            }
            None => {
                ledger.give_back(&state.nodes, bytes);
                return Resized::No;
            }
        }
        self.level.add(bytes);
        let bound = !state.nodes.parts().is_empty();
        drop(state);
        if bound {
            // Pages that are refused now come at the first touch, or from a block that moves.
            let start = address + extent.len as usize * granule as usize;
            let _ = (kernel.touch)(start, bytes as usize);
        }
        Resized::Grown(Change { owner, bytes })
    }

    /// Who owns the block at an address, and its bytes.
    pub(super) fn owner(&self, address: usize) -> Option<Change> {
        let state = self.state();
        let kind = usize::from(address >= state.ranges[1].base);
        let (extent, owner) = state.ranges[kind].used(address)?;
        let bytes = state.ranges[kind].bytes(extent) as u64;
        Some(Change { owner, bytes })
    }

    /// The slot, with nothing coming or going.
    pub(super) fn locked(&self) -> Locked<'_> {
        Locked {
            state: self.state(),
        }
    }
}

/// A slot as it stands still.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    state: MutexGuard<'a, State>,
}

impl Locked<'_> {
    /// Shows address and bytes of each block in use. `see` must not allocate large memory.
    pub(super) fn each_used(&self, mut see: impl FnMut(usize, usize)) {
        for range in &self.state.ranges {
            range
                .extents
                .each_used(|extent, _| see(range.address(extent), range.bytes(extent)));
        }
    }
}
