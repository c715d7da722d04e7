//! Reconfiguring a slot, and resizing blocks in place.

use super::super::extents::{Extent, Free};
use super::super::holds::ensure;
use super::super::kernel::Nodes;
use super::super::shares::Shares;
use super::super::sync::MutexGuard;
use super::{Change, LARGE_FROM, Machine, Resized, Slot, SlotState};

/// Configuration of a place.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Config {
    pub(in super::super) nodes: Nodes,
    pub(in super::super) limit_bytes: u64,
    pub(in super::super) cache_limit_bytes: u64,
}

impl Slot {
    /// Sets the nodes and limits of the slot.
    ///
    /// Memory in use stays where it is. If the nodes change, it counts as of an earlier
    /// configuration, and `moved` is called with owner and bytes of each such block. Cached memory
    /// is released first.
    pub(in super::super) fn configure(
        &self,
        machine: Machine<'_>,
        config: Config,
        mut moved: impl FnMut(u32, u64),
    ) {
        let mut state = self.state();
        if config.nodes == state.nodes {
            self.trim_locked(&mut state, machine);
        } else {
            while state.closed {
                state = self.wait(state);
            }
            // From here on no thread starts to populate pages, so the two counts below can only
            // fall.
            state.closed = true;
            while state.coming > 0 || state.going > 0 {
                state = self.wait(state);
            }
            self.trim_locked(&mut state, machine);
            self.begin_config(&mut state, &mut moved);
            state.nodes = config.nodes;
            state.closed = false;
            self.changed.notify_all();
        }
        state.limit_bytes = config.limit_bytes;
        state.cache_limit_bytes = config.cache_limit_bytes;
        bind_locked(&mut state, machine);
    }

    /// Makes all blocks in use blocks of an earlier configuration.
    fn begin_config(&self, state: &mut SlotState, moved: &mut dyn FnMut(u32, u64)) {
        let config = state.config;
        for range in &mut state.ranges {
            // Pages still locked are on the old nodes: they must not be handed out as the new
            // ones'.
            while let Some(extent) = range.extents.evict(Free::Locked) {
                range.extents.give(extent, Free::Stale);
            }
            range.extents.each_used(|extent, holder| {
                if holder.config == config {
                    moved(holder.owner, range.bytes(extent) as u64);
                }
            });
        }
        self.earlier.add(self.level.take());
        self.earlier_held.add(self.held.take());
        state.config = config.wrapping_add(1);
        state.phase = 0;
    }

    /// Sets the memory policy again: the kernel's answer may have changed with the cpuset or with
    /// nodes that went offline or came online.
    pub(in super::super) fn bind(&self, machine: Machine<'_>) {
        bind_locked(&mut self.state(), machine);
    }

    /// Resizes a block in place, if possible.
    pub(in super::super) fn resize(
        &self,
        machine: Machine<'_>,
        address: usize,
        size: usize,
    ) -> Resized {
        let mut state = self.state();
        let kind = usize::from(address >= state.ranges[1].base);
        let range = &mut state.ranges[kind];
        let Some((extent, holder)) = range.used(address) else {
            return Resized::No;
        };
        let Some(len) = range.granules(size) else {
            return Resized::No;
        };
        if len == extent.len {
            return Resized::Same;
        }
        let (owner, earlier) = (holder.owner, holder.config != state.config);
        let range = &mut state.ranges[kind];
        let change = |bytes| Change {
            owner,
            bytes,
            earlier,
        };
        if let Some(end) = range.extents.split(extent, len) {
            let bytes = range.bytes(end) as u64;
            self.level_of(earlier).sub_added(bytes);
            self.put_away(state, machine, kind, end, (earlier, true));
            return Resized::Shrunk(change(bytes));
        }
        // A block of an earlier configuration would get pages of both places, and a large block
        // belongs into large granules.
        if earlier || (kind == 0 && size >= LARGE_FROM) {
            return Resized::No;
        }
        let bytes = u64::from(len - extent.len) * range.granule as u64;
        match self.grow(state, machine, kind, extent, len) {
            true => Resized::Grown(change(bytes)),
            false => Resized::No,
        }
    }

    /// Extends a block of the current configuration in place, if the granules behind it are free
    /// and the limits allow it.
    fn grow<'a>(
        &'a self,
        mut state: MutexGuard<'a, SlotState>,
        machine: Machine<'_>,
        kind: usize,
        extent: Extent,
        len: u32,
    ) -> bool {
        let more = len - extent.len;
        let granule = state.ranges[kind].granule;
        let bytes = u64::from(more) * granule as u64;
        let over = |used: u64| used.saturating_add(bytes) > state.limit_bytes;
        // Unequal weights are not extended in place: the block's position in their round is not
        // stored.
        if state.closed
            || !state.nodes.by_policy()
            || state.refused.is_some()
            || over(self.level.current())
        {
            return false;
        }
        let Some(free) = state.ranges[kind].extents.behind(extent, more) else {
            return false;
        };
        let fresh = free == Free::Released;
        if fresh && over(self.held.current()) {
            return false;
        }
        let mut moving = fresh.then(|| machine.stretches.begin());
        // Any phase will do: the policy of the range places the pages.
        let shares = Shares::of(&state.nodes, granule, 0, more);
        let drawn = fresh.then(|| machine.ledger.draw(machine.kernel, shares));
        let Ok(draw) = drawn.transpose() else {
            return false;
        };
        let grown = state.ranges[kind].extents.grow(extent, len);
        ensure(grown == Some(free), "what is behind a block changed");
        self.level.add(bytes);
        if !fresh {
            state.uncache(free, bytes);
            return true;
        }
        self.held.add(bytes);
        let whole = Extent { len, ..extent };
        let mut came = state.ranges[kind].open(machine, whole);
        let draw = draw.flatten();
        if (draw.is_some() || state.ranges[kind].is_lent()) && came.is_ok() {
            let start = state.ranges[kind].address(whole) + state.ranges[kind].bytes(extent);
            state.coming += 1;
            drop(state);
            came = (machine.kernel.touch)(start, bytes as usize);
            moving = moving.filter(|_| came.is_err());
            state = self.state();
            state.coming -= 1;
            drop(draw);
            self.changed.notify_all();
        }
        if came.is_ok() {
            return true;
        }
        // The block has to move, since the kernel gives no pages here and another place may have
        // some. The added granules are given back.
        let Some(end) = state.ranges[kind].extents.split(whole, extent.len) else {
            return true;
        };
        self.give_up(state, machine, kind, end);
        drop(moving);
        false
    }
}

/// Sets the policy of a slot's addresses. Where the kernel chooses the node, a refusal does not
/// matter.
fn bind_locked(state: &mut SlotState, machine: Machine<'_>) {
    let [small, large] = &state.ranges;
    // The pages of a pool are where the pool has them.
    if small.is_lent() {
        return;
    }
    let (base, len) = (small.base, large.end() - small.base);
    // `mbind` accepts a node without memory as long as one node of the mask has some, so each node
    // is checked.
    let gone = state.nodes.parts().iter().find_map(|(node, _)| {
        (machine.kernel.free_bytes)(*node)
            .err()
            .filter(|errno| *errno == libc::ENODEV)
    });
    let answer = (machine.kernel.bind)(base, len, &state.nodes);
    let refused = gone.or(answer.err());
    state.refused = refused.filter(|_| !state.nodes.parts().is_empty());
}
