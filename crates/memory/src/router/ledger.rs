//! What nodes can still give, so that a bound range never asks a full node: the kernel answers that with its out-of-memory killer.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::events::Why;
use super::kernel::{Kernel, MAX_NODES, Nodes};

/// Bytes that may still be taken from each node before the kernel is asked again.
#[derive(Debug)]
pub(super) struct Ledger {
    left: [AtomicI64; MAX_NODES],
    /// The same by the limit of the control group.
    group_left: AtomicI64,
    /// Stretches in which pages come or go that are counted already, or still; and those that are over.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// While it lives, pages and counts may differ.
#[derive(Debug)]
pub(super) struct Moving<'a> {
    ledger: &'a Ledger,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.ledger.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ledger {
    pub(super) const fn new() -> Self {
        Self {
            left: [const { AtomicI64::new(0) }; MAX_NODES],
            group_left: AtomicI64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Begins a stretch in which pages come or go.
    pub(super) fn moving(&self) -> Moving<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Moving { ledger: self }
    }

    /// Whether no pages come or go.
    pub(super) fn is_still(&self) -> bool {
        // In this order: a stretch that ends between the two makes them differ.
        let ended = self.ended.load(Ordering::SeqCst);
        ended == self.begun.load(Ordering::SeqCst)
    }

    /// Takes `bytes` off the nodes in the ratio of their weights, and off the control group. The kernel's choice is not accounted.
    ///
    /// # Errors
    /// [`Why::NodeFull`], [`Why::GroupFull`], or [`Why::Refused`] for a node that is gone; nothing is taken then.
    pub(super) fn draw(&self, kernel: &Kernel, nodes: &Nodes, bytes: u64) -> Result<(), Why> {
        if nodes.parts().is_empty() {
            return Ok(());
        }
        self.draw_group(kernel, bytes)?;
        let drawn = self.draw_nodes(kernel, nodes, bytes);
        if drawn.is_err() {
            self.group_left.fetch_add(signed(bytes), Ordering::Relaxed);
        }
        drawn
    }

    fn draw_group(&self, kernel: &Kernel, bytes: u64) -> Result<(), Why> {
        let bytes = signed(bytes);
        if take(&self.group_left, bytes) {
            return Ok(());
        }
        let free = (kernel.group_free_bytes)().map_or(i64::MAX / 2, signed);
        self.group_left
            .store((free - bytes).max(0), Ordering::Relaxed);
        if free < bytes {
            return Err(Why::GroupFull);
        }
        Ok(())
    }

    fn draw_nodes(&self, kernel: &Kernel, nodes: &Nodes, bytes: u64) -> Result<(), Why> {
        for (index, (node, part)) in parts(nodes, bytes).enumerate() {
            if let Err(why) = self.draw_one(kernel, node, part) {
                for (node, part) in parts(nodes, bytes).take(index) {
                    self.left[usize::from(node)].fetch_add(part, Ordering::Relaxed);
                }
                return Err(why);
            }
        }
        Ok(())
    }

    fn draw_one(&self, kernel: &Kernel, node: u8, bytes: i64) -> Result<(), Why> {
        let left = &self.left[usize::from(node)];
        if take(left, bytes) {
            return Ok(());
        }
        let free = (kernel.free_bytes)(node).map_err(Why::Refused)?;
        let free = signed(free);
        left.store((free - bytes).max(0), Ordering::Relaxed);
        if free < bytes {
            return Err(Why::NodeFull);
        }
        Ok(())
    }

    /// Pages that went back to the kernel can be taken again.
    pub(super) fn give_back(&self, nodes: &Nodes, bytes: u64) {
        for (node, part) in parts(nodes, bytes) {
            self.left[usize::from(node)].fetch_add(part, Ordering::Relaxed);
        }
        if !nodes.parts().is_empty() {
            self.group_left.fetch_add(signed(bytes), Ordering::Relaxed);
        }
    }

    /// The kernel is asked again before the next page is taken.
    pub(super) fn forget(&self) {
        self.group_left.store(0, Ordering::Relaxed);
        self.left
            .iter()
            .for_each(|left| left.store(0, Ordering::Relaxed));
    }
}

/// Takes `bytes` off what is left, if that is enough.
fn take(left: &AtomicI64, bytes: i64) -> bool {
    let less = |now: i64| (now >= bytes).then_some(now - bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn parts(nodes: &Nodes, bytes: u64) -> impl Iterator<Item = (u8, i64)> {
    let round: u64 = nodes.parts().iter().map(|(_, w)| u64::from(*w)).sum();
    let share = move |weight: u32| {
        let part = u128::from(bytes) * u128::from(weight) / u128::from(round.max(1));
        i64::try_from(part).unwrap_or(i64::MAX)
    };
    nodes
        .parts()
        .iter()
        .map(move |(node, weight)| (*node, share(*weight)))
}
