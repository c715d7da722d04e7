//! Epochs: when a node that was taken out of the tree can be used again.
//!
//! ```text
//!   session pinned in epoch 7 ──┐          ┌── node retired in 7: free once the epoch is 9
//!   session pinned in epoch 8 ──┴─ epoch 8 ┘  it advances when all pinned ones have seen it
//! ```
//! A session is pinned while it works. Two epochs after a node was retired, all sessions that could
//! have its number have finished what they did then (Fraser, "Practical Lock-Freedom", 2004).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::NodeKind;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, PoisonError, fence};

/// Retired nodes from which on it is worth looking for free ones.
const COLLECT_FROM: usize = 64;
const PINNED: u64 = 1;

/// The epoch of the tree, and those of its sessions.
#[derive(Debug)]
pub(crate) struct Epochs {
    now: AtomicU64,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Nodes with the epoch in which they were retired, oldest first.
    retired: Mutex<VecDeque<(u64, NodeKind, u32)>>,
}

/// The epoch of one session. Aligned so that no two of them share a pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// The epoch times two, plus [`PINNED`]; 0 outside of operations.
    state: AtomicU64,
    /// Whether it belongs to a session.
    used: AtomicBool,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self {
            now: AtomicU64::new(1),
            slots: Mutex::new(Vec::new()),
            retired: Mutex::new(VecDeque::new()),
        }
    }

    /// A slot for a new session: one that a session before it has left, or another.
    pub(crate) fn enter(&self) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let left = slots.iter().find(|slot| !slot.used.load(Ordering::Acquire));
        let slot = match left {
            Some(slot) => Arc::clone(slot),
            None => {
                let slot = Arc::new(Slot {
                    state: AtomicU64::new(0),
                    used: AtomicBool::new(true),
                });
                slots.push(Arc::clone(&slot));
                slot
            }
        };
        slot.used.store(true, Ordering::Relaxed);
        slot
    }

    /// Begins an operation: what is in the tree from here on stays readable.
    #[inline]
    pub(crate) fn pin(&self, slot: &Slot) {
        let now = self.now.load(Ordering::Relaxed);
        slot.state.store(now << 1 | PINNED, Ordering::Relaxed);
        // Either who advances the epoch sees the slot, or this session sees what was taken out.
        fence(Ordering::SeqCst);
    }

    /// Notes a node that was taken out of the tree; true if there are enough to collect.
    pub(crate) fn retire(&self, kind: NodeKind, number: u32) -> bool {
        fence(Ordering::SeqCst);
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the epochs ascend.
        let now = self.now.load(Ordering::Relaxed);
        retired.push_back((now, kind, number));
        retired.len() >= COLLECT_FROM
    }

    /// Advances the epoch if it can, and hands nodes that nobody can still be reading to `free`.
    pub(crate) fn collect(&self, mut free: impl FnMut(NodeKind, u32)) {
        self.advance();
        let now = self.now.load(Ordering::Acquire);
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(&(epoch, kind, number)) = retired.front()
            && epoch + 2 <= now
        {
            retired.pop_front();
            free(kind, number);
        }
    }

    fn advance(&self) {
        let now = self.now.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = slots.iter().any(|slot| {
            let state = slot.state.load(Ordering::Relaxed);
            state & PINNED != 0 && state >> 1 != now
        });
        if behind {
            return;
        }
        // What sessions did before they were unpinned is done.
        fence(Ordering::Acquire);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        // Another thread may have advanced it already, which is as good.
        let _ = self.now.compare_exchange(now, now + 1, success, failure);
    }

    /// Retired nodes that are not free yet.
    pub(crate) fn waiting(&self) -> u64 {
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.len() as u64
    }

    /// Forgets all retired nodes.
    pub(crate) fn clear(&mut self) {
        let retired = self.retired.lock();
        retired.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Slot {
    /// Ends an operation.
    #[inline]
    pub(crate) fn unpin(&self) {
        self.state.store(0, Ordering::Release);
    }

    /// Ends the session.
    pub(crate) fn leave(&self) {
        self.unpin();
        self.used.store(false, Ordering::Release);
    }
}
