//! One slot: the memory of one class at one place, a part of the reserved addresses with one memory
//! policy.
//!
//! ```text
//!   | below 4 MiB: granules of 64 KiB, base pages | from 4 MiB on: granules of 2 MiB, huge pages |
//!
//!   allocate ── cached or locked extent ───────────────────────────────► block
//!           └── fresh: draw from ledger, open addresses, [unlocked] populate ─► block, or give up
//!   free ────── this configuration, room in the cache ──► cached
//!           └── else [unlocked] release pages ──► released; refused by the kernel ──► locked,
//!                                                 or stale if of an earlier configuration
//! ```
//! Small and large extents are in separate ranges, so that a small extent never shares a huge page
//! with a neighbour and accounted bytes are resident bytes. Pages are populated and released with
//! the lock open, since both take milliseconds for large blocks; a change of configuration waits
//! until none of it is under way. Blocks of an earlier configuration are counted separately, and
//! their pages are released when they are freed.

mod change;
mod range;

pub(super) use change::Config;

use std::sync::atomic::{AtomicU64, Ordering};

use super::account::Level;
use super::events::Why;
use super::extents::{Extent, Free, Holder, Tag};
use super::holds::{broken, ensure};
use super::kernel::{Kernel, Nodes};
use super::ledger::{Draw, Ledger};
use super::pool::Lender;
use super::present::make_present;
use super::shares::Shares;
use super::stretches::{Moving, Stretches};
use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use range::{PageSource, Range};

/// Granule of small extents.
pub(super) const SMALL_GRANULE: usize = 64 << 10;
/// Granule of large extents: one huge page.
pub(super) const LARGE_GRANULE: usize = 2 << 20;
/// Blocks of this many bytes or more are large; rounding them up to huge pages adds less than half.
pub(super) const LARGE_FROM: usize = 4 << 20;
/// Divisor: the part of a slot's addresses that is for small extents (a quarter).
const SMALL_SHARE: usize = 4;

/// A block that the router handed out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) address: usize,
    /// Bytes counted for it: whole granules.
    pub(super) bytes: u64,
    /// Its pages are fresh from the kernel, so they read as zeroes.
    pub(super) zeroed: bool,
}

/// Effect of a free or resize on its owner's account.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) owner: u32,
    pub(super) bytes: u64,
    /// The block is of an earlier configuration.
    pub(super) earlier: bool,
}

/// Outcome of resizing a block in place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Resized {
    /// The number of granules stays the same.
    Same,
    Grown(Change),
    Shrunk(Change),
    /// It cannot be resized in place.
    No,
}

/// What a slot needs from the router for an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) ledger: &'a Ledger,
    pub(super) stretches: &'a Stretches,
    pub(super) lender: &'a Lender,
}

/// What the lock protects.
#[derive(Debug)]
struct SlotState {
    ranges: [Range; 2],
    nodes: Nodes,
    limit_bytes: u64,
    cache_limit_bytes: u64,
    cached_bytes: u64,
    /// Errno with which the kernel refused the policy; allocations fail while it is set.
    refused: Option<i32>,
    /// Position of the next extent in the round of weights, in granules.
    phase: u64,
    /// Number of the current configuration.
    config: u32,
    /// A new configuration is waiting: no page may be populated under the old one any more.
    closed: bool,
    /// Blocks being populated, and extents being released, with the lock open.
    coming: u32,
    going: u32,
}

/// One slot; see the module.
#[derive(Debug)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    /// Signalled when pages were populated or released, and when a configuration has changed.
    changed: Condvar,
    /// Bytes in use, of the current configuration.
    pub(super) level: Level,
    /// Bytes in use, cached, locked and being released: everything that may be resident.
    pub(super) held: Level,
    /// The same two for blocks of earlier configurations.
    pub(super) earlier: Level,
    pub(super) earlier_held: Level,
    pub(super) allocations: AtomicU64,
    /// Allocations that an earlier place of the class could not serve.
    pub(super) fallbacks: AtomicU64,
}

/// Outcome of the search for an extent.
enum Claim<'a> {
    /// A reused extent: its pages are present.
    Kept(Extent),
    Fresh(Extent, Option<Draw<'a>>, Moving<'a>),
    /// Try again after a signal: pages are being released, or a new configuration is waiting.
    Wait,
}

impl Slot {
    pub(super) const fn new() -> Self {
        Self {
            state: Mutex::new(SlotState {
                ranges: [Range::NONE, Range::NONE],
                nodes: Nodes::ANY,
                limit_bytes: u64::MAX,
                cache_limit_bytes: super::options::DEFAULT_CACHE_BYTES,
                cached_bytes: 0,
                refused: None,
                phase: 0,
                config: 0,
                closed: false,
                coming: 0,
                going: 0,
            }),
            changed: Condvar::new(),
            level: Level::zero(),
            held: Level::zero(),
            earlier: Level::zero(),
            earlier_held: Level::zero(),
            allocations: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, SlotState>) -> MutexGuard<'a, SlotState> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of tags that a slot of `len` bytes needs, for small and for large extents.
    pub(super) fn tags(len: usize) -> (usize, usize) {
        let small = len / SMALL_SHARE;
        (small / SMALL_GRANULE, (len - small) / LARGE_GRANULE)
    }

    /// Ranges for small and large extents: start, length, whether to ask for huge pages.
    pub(super) fn parts(base: usize, len: usize) -> [(usize, usize, bool); 2] {
        let small = len / SMALL_SHARE;
        [(base, small, false), (base + small, len - small, true)]
    }

    /// Sets the slot's addresses and tags, once, after the reservation. Its pages are the pool's if
    /// there are numbers for its ranges.
    pub(super) fn found(
        &self,
        base: usize,
        len: usize,
        tags: (&'static mut [Tag], &'static mut [Tag]),
        lent: Option<[usize; 2]>,
    ) {
        let [(small, ..), (large, ..)] = Self::parts(base, len);
        let backing = |kind: usize| match lent {
            Some(numbers) => PageSource::Pool {
                number: numbers[kind],
                lent: None,
            },
            None => PageSource::Nodes,
        };
        self.state().ranges = [
            Range::over(tags.0, small, SMALL_GRANULE, backing(0)),
            Range::over(tags.1, large, LARGE_GRANULE, backing(1)),
        ];
    }

    /// Errno with which the kernel refused the policy, if it did.
    pub(super) fn refused(&self) -> Option<i32> {
        self.state().refused
    }

    /// Most bytes that may be held; `u64::MAX` for no limit.
    pub(super) fn limit_bytes(&self) -> u64 {
        self.state().limit_bytes
    }

    /// Allocates a block of at least `size` bytes for `owner`, aligned to its granule.
    pub(super) fn allocate(
        &self,
        machine: Machine<'_>,
        size: usize,
        owner: u32,
    ) -> Result<Block, Why> {
        let kind = usize::from(size >= LARGE_FROM);
        let mut state = self.state();
        let (extent, draw, moving) = loop {
            match self.claim(&mut state, machine, kind, size, owner)? {
                Claim::Kept(extent) => {
                    let block = state.block(kind, extent, false);
                    self.level.add(block.bytes);
                    self.allocations.fetch_add(1, Ordering::Relaxed);
                    return Ok(block);
                }
                Claim::Fresh(extent, draw, moving) => break (extent, draw, moving),
                Claim::Wait => state = self.wait(state),
            }
        };
        let lent = state.ranges[kind].is_lent();
        // What is in a pool's memory at first can be anything.
        let block = state.block(kind, extent, !lent);
        // Counted before it is populated and with the lock still held, so that other threads cannot
        // exceed the limit meanwhile.
        self.level.add(block.bytes);
        self.held.add(block.bytes);
        self.allocations.fetch_add(1, Ordering::Relaxed);
        if draw.is_none() && !lent {
            return Ok(block);
        }
        // The shares were drawn for this phase under the same lock; the next block continues the
        // round. `coming` keeps the configuration from changing while the lock is open.
        let (nodes, phase) = (state.nodes, state.phase);
        let granule = state.ranges[kind].granule;
        state.phase += u64::from(extent.len);
        state.coming += 1;
        drop(state);
        let range = (block.address, block.bytes as usize);
        // A file system that is full shows now, and not as a SIGBUS at first touch.
        let came = match lent {
            true => (machine.kernel.touch)(range.0, range.1),
            false => make_present(machine.kernel, &nodes, range, granule, phase),
        };
        // On success the interval ends before the lock is taken: an audit that holds the lock can
        // then go on. On failure it lasts until the counts are corrected.
        let moving = came.is_err().then_some(moving);
        let mut state = self.state();
        state.coming -= 1;
        drop(draw);
        self.changed.notify_all();
        if let Err(errno) = came {
            self.allocations.fetch_sub(1, Ordering::Relaxed);
            self.give_up(state, machine, kind, extent);
            drop(moving);
            return Err(Why::Refused(errno));
        }
        Ok(block)
    }

    /// Takes back an extent that was counted and not fully populated.
    ///
    /// If the pages that did come cannot be released, the extent becomes stale: it is unusable
    /// until a trim releases them.
    fn give_up(
        &self,
        state: MutexGuard<'_, SlotState>,
        machine: Machine<'_>,
        kind: usize,
        extent: Extent,
    ) {
        let bytes = state.ranges[kind].bytes(extent) as u64;
        self.level.sub_added(bytes);
        self.held.sub_added(bytes);
        self.earlier_held.add(bytes);
        self.put_away(state, machine, kind, extent, (true, false));
    }

    /// Finds an extent for `size` bytes; evicts as much cached memory as the limit requires.
    fn claim<'a>(
        &self,
        state: &mut SlotState,
        machine: Machine<'a>,
        kind: usize,
        size: usize,
        owner: u32,
    ) -> Result<Claim<'a>, Why> {
        if state.closed {
            return Ok(Claim::Wait);
        }
        if let Some(errno) = state.refused {
            return Err(Why::Refused(errno));
        }
        let holder = Holder {
            owner,
            config: state.config,
        };
        let range = &mut state.ranges[kind];
        let len = range.granules(size).ok_or(Why::Addresses)?;
        let bytes = u64::from(len) * range.granule as u64;
        // The limit applies to bytes in use first: no eviction can help if these alone exceed it.
        if self.level.current() + bytes > state.limit_bytes {
            return Err(Why::Limit);
        }
        if let Some((extent, free)) = range.take_kept(len, holder) {
            state.uncache(free, bytes);
            return Ok(Claim::Kept(extent));
        }
        while self.held.current() + bytes > state.limit_bytes {
            if !self.evict(state, machine) {
                // Releases in progress will lower `held`; without any, the limit is final.
                return match state.going {
                    0 => Err(Why::Limit),
                    _ => Ok(Claim::Wait),
                };
            }
        }
        // From here until its pages are populated, the block is counted and not resident.
        let moving = machine.stretches.begin();
        let shares = Shares::of(&state.nodes, state.ranges[kind].granule, state.phase, len);
        let draw = machine.ledger.draw(machine.kernel, shares)?;
        let range = &mut state.ranges[kind];
        let extent = range.take_fresh(len, holder).ok_or(Why::Addresses)?;
        if let Err(errno) = range.open(machine, extent) {
            range.extents.give(extent, Free::Released);
            return Err(Why::Refused(errno));
        }
        Ok(Claim::Fresh(extent, draw, moving))
    }

    /// Releases one cached extent; `false` if there is none. Large ones first: they free the most
    /// bytes per system call.
    fn evict(&self, state: &mut SlotState, machine: Machine<'_>) -> bool {
        for kind in [1, 0] {
            if let Some(extent) = state.ranges[kind].extents.evict(Free::Cached) {
                let bytes = state.ranges[kind].bytes(extent) as u64;
                state.uncache(Free::Cached, bytes);
                let _moving = machine.stretches.begin();
                let range = &state.ranges[kind];
                let release = range.release(machine.kernel);
                let gone = release(range.address(extent), range.bytes(extent)).is_ok();
                self.put_down(state, kind, extent, false, gone);
                return true;
            }
        }
        false
    }

    /// Gives what a pool has lent back to it, if nothing of it is in use.
    pub(super) fn give_back(&self, machine: Machine<'_>) {
        let mut state = self.state();
        let used = self.level.current() + self.earlier.current();
        if used > 0 || state.coming > 0 || state.going > 0 {
            return;
        }
        self.trim_locked(&mut state, machine);
        let _moving = machine.stretches.begin();
        let mut all = true;
        for range in &mut state.ranges {
            all &= range.give_back(machine.lender);
        }
        if all {
            // Pages that could not be released in place are gone with the rest.
            self.held.take();
            self.earlier_held.take();
        }
    }

    /// Releases everything that is cached, and what could not be released before.
    pub(super) fn trim(&self, machine: Machine<'_>) {
        let mut state = self.state();
        self.trim_locked(&mut state, machine);
    }

    fn trim_locked(&self, state: &mut SlotState, machine: Machine<'_>) {
        while self.evict(state, machine) {}
        for (kind, free) in [
            (0, Free::Locked),
            (1, Free::Locked),
            (0, Free::Stale),
            (1, Free::Stale),
        ] {
            while let Some(extent) = state.ranges[kind].extents.evict(free) {
                let _moving = machine.stretches.begin();
                let range = &state.ranges[kind];
                let release = range.release(machine.kernel);
                let gone = release(range.address(extent), range.bytes(extent)).is_ok();
                self.put_down(state, kind, extent, free == Free::Stale, gone);
                // Still locked. `give` has put the extent back, so another round would find it
                // again.
                if !gone {
                    break;
                }
            }
        }
    }

    /// Frees the block at `address`; its pages are cached if `keep` and the limits allow it.
    pub(super) fn free(&self, machine: Machine<'_>, address: usize, keep: bool) -> Change {
        let state = self.state();
        let kind = usize::from(address >= state.ranges[1].base);
        let Some((extent, holder)) = state.ranges[kind].used(address) else {
            broken("a block was freed that is not in use");
        };
        let bytes = state.ranges[kind].bytes(extent) as u64;
        let earlier = holder.config != state.config;
        self.level_of(earlier).sub_added(bytes);
        self.put_away(state, machine, kind, extent, (earlier, keep));
        Change {
            owner: holder.owner,
            bytes,
            earlier,
        }
    }

    fn level_of(&self, earlier: bool) -> &Level {
        if earlier { &self.earlier } else { &self.level }
    }

    /// Caches a freed extent if it may be kept, and otherwise releases its pages. Pages of an
    /// earlier configuration are always released, since they are on other nodes.
    fn put_away(
        &self,
        mut state: MutexGuard<'_, SlotState>,
        machine: Machine<'_>,
        kind: usize,
        extent: Extent,
        (earlier, keep): (bool, bool),
    ) {
        let len = state.ranges[kind].bytes(extent);
        let bytes = len as u64;
        if keep && !earlier && bytes <= state.cache_limit_bytes {
            while state.cached_bytes + bytes > state.cache_limit_bytes
                && self.evict(&mut state, machine)
            {}
            state.cached_bytes += bytes;
            state.ranges[kind].extents.give(extent, Free::Cached);
            return;
        }
        let address = state.ranges[kind].address(extent);
        let release = state.ranges[kind].release(machine.kernel);
        // In this order: `going` holds off a new configuration before the lock opens, and the
        // extent is in no list meanwhile, so that no other thread can take it.
        state.ranges[kind].extents.leave(extent);
        state.going += 1;
        let _moving = machine.stretches.begin();
        drop(state);
        let gone = release(address, len).is_ok();
        let mut state = self.state();
        state.going -= 1;
        // `earlier` still holds: a new configuration waits until nothing is being released.
        self.put_down(&mut state, kind, extent, earlier, gone);
        self.changed.notify_all();
    }

    /// Frees a leaving extent: released if its pages are gone, locked or stale otherwise.
    fn put_down(
        &self,
        state: &mut SlotState,
        kind: usize,
        extent: Extent,
        earlier: bool,
        gone: bool,
    ) {
        let bytes = state.ranges[kind].bytes(extent) as u64;
        let free = match (gone, earlier) {
            (true, _) => Free::Released,
            (false, false) => Free::Locked,
            (false, true) => Free::Stale,
        };
        state.ranges[kind].extents.give(extent, free);
        match (gone, earlier) {
            (true, true) => self.earlier_held.sub_added(bytes),
            (true, false) => self.held.sub_added(bytes),
            (false, _) => {}
        }
    }

    /// Owner and bytes of the block at an address; `None` if there is none.
    pub(super) fn owner(&self, address: usize) -> Option<Change> {
        let state = self.state();
        let kind = usize::from(address >= state.ranges[1].base);
        let (extent, holder) = state.ranges[kind].used(address)?;
        Some(Change {
            owner: holder.owner,
            bytes: state.ranges[kind].bytes(extent) as u64,
            earlier: holder.config != state.config,
        })
    }

    /// Locks the slot, for an audit.
    pub(super) fn locked(&self) -> Locked<'_> {
        Locked {
            state: self.state(),
        }
    }
}

impl SlotState {
    fn block(&self, kind: usize, extent: Extent, zeroed: bool) -> Block {
        Block {
            address: self.ranges[kind].address(extent),
            bytes: self.ranges[kind].bytes(extent) as u64,
            zeroed,
        }
    }

    /// Subtracts an extent that leaves the cache; locked ones are not counted there.
    fn uncache(&mut self, free: Free, bytes: u64) {
        if free == Free::Cached {
            ensure(
                self.cached_bytes >= bytes,
                "more memory was reused than was kept",
            );
            self.cached_bytes -= bytes;
        }
    }
}

/// A slot whose lock is held: its extents do not change.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    state: MutexGuard<'a, SlotState>,
}

impl Locked<'_> {
    /// Calls `see` with address and bytes of each block in use. `see` must not allocate large
    /// memory: that would lock a slot again.
    pub(super) fn each_used(&self, mut see: impl FnMut(usize, usize)) {
        for range in &self.state.ranges {
            range
                .extents
                .each_used(|extent, _| see(range.address(extent), range.bytes(extent)));
        }
    }
}
