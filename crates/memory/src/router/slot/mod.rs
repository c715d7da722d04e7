//! The memory of one class at one place: a part of the reserved addresses with a policy of its own.
//!
//! ```text
//!   | below 4 MiB: granules of 64 KiB, base pages | from 4 MiB on: granules of 2 MiB, huge pages |
//!
//!   allocate ── kept pages (cached, locked) ───────────────────────────────────────► block
//!           └── fresh: ledger draws, addresses opened, [lock open] pages come ─► block, or given up
//!   free ────── this configuration, room in the cache ──► cached
//!           └── else [lock open] pages go ──► released; refused by the kernel ──► locked,
//!                                             or stale if of an earlier configuration
//! ```
//! The two kinds are kept apart so that a small extent never shares a huge page with a neighbour:
//! what is accounted is what is resident. Another configuration waits until no pages come or go.
//! Blocks of an earlier one are counted apart; their pages go back when they are freed.

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
use super::present::make_present;
use super::shares::Shares;
use super::stretches::{Moving, Stretches};
use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use range::Range;

/// Bytes of a granule of small extents.
pub(super) const SMALL_GRANULE: usize = 64 << 10;
/// Bytes of a granule of large extents: a huge page.
pub(super) const LARGE_GRANULE: usize = 2 << 20;
/// Extents of so many bytes are large.
pub(super) const LARGE_FROM: usize = 4 << 20;
/// Part of a slot's addresses for small extents (a quarter).
const SMALL_SHARE: usize = 4;

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
    /// The block's place has other nodes by now.
    pub(super) earlier: bool,
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

/// What a slot works with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) ledger: &'a Ledger,
    pub(super) stretches: &'a Stretches,
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
    /// Number of the configuration.
    config: u32,
    /// Another configuration waits until no pages come or go.
    closed: bool,
    /// Blocks whose pages come, and extents whose pages go, outside of the lock.
    coming: u32,
    going: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slot {
    state: Mutex<State>,
    /// Pages came or went, or another configuration is there.
    changed: Condvar,
    /// Bytes in use.
    pub(super) level: Level,
    /// Bytes in use, kept for reuse, and on their way back.
    pub(super) held: Level,
    /// Both of earlier configurations.
    pub(super) earlier: Level,
    pub(super) earlier_held: Level,
    pub(super) allocations: AtomicU64,
    /// Allocations that came here because another place could not give them.
    pub(super) fallbacks: AtomicU64,
}

/// What came of looking for an extent.
enum Claim<'a> {
    /// Its pages are there.
    Kept(Extent),
    Fresh(Extent, Option<Draw<'a>>, Moving<'a>),
    /// Pages are on their way back, or another configuration is coming.
    Wait,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Tags that a slot of `len` bytes needs for its small and its large extents.
    pub(super) fn tags(len: usize) -> (usize, usize) {
        let small = len / SMALL_SHARE;
        (small / SMALL_GRANULE, (len - small) / LARGE_GRANULE)
    }

    /// The addresses of its small and its large extents: start, length, whether they shall have
    /// huge pages.
    pub(super) fn parts(base: usize, len: usize) -> [(usize, usize, bool); 2] {
        let small = len / SMALL_SHARE;
        [(base, small, false), (base + small, len - small, true)]
    }

    /// Gives the slot its addresses.
    pub(super) fn found(
        &self,
        base: usize,
        len: usize,
        tags: (&'static mut [Tag], &'static mut [Tag]),
    ) {
        let [(small, ..), (large, ..)] = Self::parts(base, len);
        self.state().ranges = [
            Range::over(tags.0, small, SMALL_GRANULE),
            Range::over(tags.1, large, LARGE_GRANULE),
        ];
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
        let block = state.block(kind, extent, true);
        self.level.add(block.bytes);
        self.held.add(block.bytes);
        self.allocations.fetch_add(1, Ordering::Relaxed);
        let Some(draw) = draw else {
            return Ok(block);
        };
        let (nodes, phase) = (state.nodes, state.phase);
        let granule = state.ranges[kind].granule;
        state.phase += u64::from(extent.len);
        state.coming += 1;
        drop(state);
        let range = (block.address, block.bytes as usize);
        let came = make_present(machine.kernel, &nodes, range, granule, phase);
        // Whoever looks at all slots holds this one, and waits for this stretch.
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

    /// Takes an extent back that was counted but did not get all of its pages. If those that came
    /// cannot go either it is never used again.
    fn give_up(
        &self,
        state: MutexGuard<'_, State>,
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

    /// An extent of `size` bytes. Memory kept for reuse goes back where it stands in the way.
    fn claim<'a>(
        &self,
        state: &mut State,
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
        if self.level.current() + bytes > state.limit_bytes {
            return Err(Why::Limit);
        }
        if let Some((extent, free)) = range.take_kept(len, holder) {
            state.uncache(free, bytes);
            return Ok(Claim::Kept(extent));
        }
        while self.held.current() + bytes > state.limit_bytes {
            if !self.evict(state, machine) {
                return match state.going {
                    0 => Err(Why::Limit),
                    _ => Ok(Claim::Wait),
                };
            }
        }
        // Until its pages are there a fresh block is counted without them.
        let moving = machine.stretches.begin();
        let shares = Shares::of(&state.nodes, state.ranges[kind].granule, state.phase, len);
        let draw = machine.ledger.draw(machine.kernel, shares)?;
        let range = &mut state.ranges[kind];
        let extent = range.take_fresh(len, holder).ok_or(Why::Addresses)?;
        if let Err(errno) = range.open(machine.kernel, extent) {
            range.extents.give(extent, Free::Released);
            return Err(Why::Refused(errno));
        }
        Ok(Claim::Fresh(extent, draw, moving))
    }

    /// Gives one extent that was kept for reuse back to the kernel; false if there is none.
    fn evict(&self, state: &mut State, machine: Machine<'_>) -> bool {
        for kind in [1, 0] {
            if let Some(extent) = state.ranges[kind].extents.evict(Free::Cached) {
                let bytes = state.ranges[kind].bytes(extent) as u64;
                state.uncache(Free::Cached, bytes);
                let _moving = machine.stretches.begin();
                let range = &state.ranges[kind];
                let gone =
                    (machine.kernel.release)(range.address(extent), range.bytes(extent)).is_ok();
                self.put_down(state, kind, extent, false, gone);
                return true;
            }
        }
        false
    }

    /// Gives everything that is kept for reuse back, and what could not be given back before.
    pub(super) fn trim(&self, machine: Machine<'_>) {
        let mut state = self.state();
        self.trim_locked(&mut state, machine);
    }

    fn trim_locked(&self, state: &mut State, machine: Machine<'_>) {
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
                let gone =
                    (machine.kernel.release)(range.address(extent), range.bytes(extent)).is_ok();
                self.put_down(state, kind, extent, free == Free::Stale, gone);
                if !gone {
                    break;
                }
            }
        }
    }

    /// Takes a block back.
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

    /// Keeps an extent that was used for reuse if it shall, or lets its pages go. Pages of an
    /// earlier configuration always go.
    fn put_away(
        &self,
        mut state: MutexGuard<'_, State>,
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
        state.ranges[kind].extents.leave(extent);
        state.going += 1;
        let _moving = machine.stretches.begin();
        drop(state);
        let gone = (machine.kernel.release)(address, len).is_ok();
        let mut state = self.state();
        state.going -= 1;
        // No other configuration came meanwhile: it waits for what is going.
        self.put_down(&mut state, kind, extent, earlier, gone);
        self.changed.notify_all();
    }

    /// Makes a leaving extent free: its pages are gone, or the kernel would not take them.
    fn put_down(&self, state: &mut State, kind: usize, extent: Extent, earlier: bool, gone: bool) {
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

    /// Who owns the block at an address, and its bytes.
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

    /// The slot, with nothing coming or going.
    pub(super) fn locked(&self) -> Locked<'_> {
        Locked {
            state: self.state(),
        }
    }
}

impl State {
    fn block(&self, kind: usize, extent: Extent, zeroed: bool) -> Block {
        Block {
            address: self.ranges[kind].address(extent),
            bytes: self.ranges[kind].bytes(extent) as u64,
            zeroed,
        }
    }

    /// Pages that were kept are used again, or go.
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
