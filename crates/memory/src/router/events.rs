//! Ring buffer of the last allocations that did not come from the first place of their class.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Class;
use super::kernel::now_ns;

/// Events kept; older ones are overwritten.
const KEPT: usize = 256;
/// A repetition of the last event within this time is added to it, so that a query that overflows
/// in thousands of allocations fills one entry and not the ring.
const JOIN_WITHIN_NS: u64 = 100_000_000;

/// Why a place could not give memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The class has reached its limit there.
    Limit,
    /// The node has too little free memory.
    NodeFull,
    /// The control group's limit leaves too little. Going over it gets the process killed, not
    /// refused.
    GroupFull,
    /// The kernel refused with this errno.
    ///
    /// `ENODEV`: the node is offline. `EINVAL`: the cpuset or a memory policy forbids it.
    Refused(i32),
    /// The slot's reserved addresses are used up.
    Addresses,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Limit => f.write_str("limit reached"),
            Why::NodeFull => f.write_str("node full"),
            Why::GroupFull => f.write_str("memory limit of the control group reached"),
            Why::Refused(libc::ENODEV) => f.write_str("node offline"),
            Why::Refused(libc::EINVAL) => f.write_str("node not allowed (cpuset) or offline"),
            Why::Refused(errno) => write!(f, "refused by the kernel (errno {errno})"),
            Why::Addresses => f.write_str("reserved addresses used up"),
        }
    }
}

/// An event in the form that needs no allocation: places by index, not by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawEvent {
    pub(super) time_ns: u64,
    pub(super) class: Class,
    pub(super) bytes: u64,
    pub(super) count: u32,
    pub(super) from: u8,
    /// `None`: the allocation failed.
    pub(super) to: Option<u8>,
    pub(super) why: Why,
}

/// Ring of events. Recording allocates nothing and makes no system call but reading the clock.
#[derive(Debug)]
pub(super) struct Events {
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    kept: [Option<RawEvent>; KEPT],
    /// Events recorded so far; the next one goes to this index modulo [`KEPT`].
    count: usize,
}

impl Events {
    pub(super) const fn new() -> Self {
        Self {
            ring: Mutex::new(Ring {
                kept: [None; KEPT],
                count: 0,
            }),
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, class: Class, bytes: u64, from: u8, to: Option<u8>, why: Why) {
        let time_ns = now_ns();
        let mut ring = self.ring();
        // Before the first event this wraps around to the last slot, which is empty.
        let last = ring.count.wrapping_sub(1) % KEPT;
        if let Some(event) = &mut ring.kept[last]
            && (event.class, event.from, event.to, event.why) == (class, from, to, why)
            && time_ns.saturating_sub(event.time_ns) < JOIN_WITHIN_NS
        {
            event.bytes += bytes;
            event.count += 1;
            return;
        }
        let at = ring.count % KEPT;
        ring.kept[at] = Some(RawEvent {
            time_ns,
            class,
            bytes,
            count: 1,
            from,
            to,
            why,
        });
        ring.count += 1;
    }

    /// The events in the ring, oldest first.
    pub(super) fn all(&self) -> Vec<RawEvent> {
        // The capacity is reserved before the lock is taken: an allocation under the lock could be
        // routed, overflow and record an event, which would lock again.
        let mut all = Vec::with_capacity(KEPT);
        let ring = self.ring();
        let oldest = ring.count.saturating_sub(KEPT);
        all.extend((oldest..ring.count).filter_map(|index| ring.kept[index % KEPT]));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_events_are_one_and_old_ones_make_room() {
        let events = Events::new();
        for _ in 0..10 {
            events.record(Class::SortRun, 5, 0, Some(1), Why::Limit);
        }
        let all = events.all();
        assert_eq!((all.len(), all[0].count, all[0].bytes), (1, 10, 50));
        for index in 0..2 * KEPT as u64 {
            let class = Class::ALL[index as usize % 2];
            events.record(class, index, 0, None, Why::NodeFull);
        }
        let all = events.all();
        assert_eq!(all.len(), KEPT);
        assert_eq!(
            all.last().map(|event| event.bytes),
            Some(2 * KEPT as u64 - 1)
        );
    }
}
