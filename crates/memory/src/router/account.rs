//! Byte and allocation counts per operator.
//!
//! All counters are relaxed atomics: each is an independent sum, and no other data is published
//! through them. Accounts are in a fixed array, since nothing may be allocated while the allocator
//! counts.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::OperatorId;
use super::holds::ensure;

/// Operators that can be counted separately at a time, the dummy account 0 included.
const OPERATORS: usize = 8192;
/// Places of a class: those on nodes, the one in a pool and the fallback place.
pub(super) const PLACES: usize = super::options::MAX_PLACES + 2;
/// Index of the bytes of blocks whose place has been given other nodes since they were allocated.
pub(super) const EARLIER: usize = PLACES;

/// A count of bytes with its highest value.
#[derive(Debug)]
pub(super) struct Level {
    current: AtomicU64,
    peak: AtomicU64,
}

impl Level {
    pub(super) const fn zero() -> Self {
        Self {
            current: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    pub(super) fn add(&self, bytes: u64) {
        let now = self.current.fetch_add(bytes, Ordering::Relaxed);
        let now = at_least_none(now.wrapping_add(bytes));
        // Most additions are below the peak: the shared line is only written when it rises.
        if now > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Subtracts bytes that another thread may only be about to add; the sum may be negative for a
    /// moment.
    pub(super) fn sub(&self, bytes: u64) {
        self.current.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that were certainly added before.
    pub(super) fn sub_added(&self, bytes: u64) {
        let before = self.current.fetch_sub(bytes, Ordering::Relaxed);
        ensure(
            before >= bytes,
            "more bytes were given back than were taken",
        );
    }

    /// Resets the count to zero and returns what it was.
    pub(super) fn take(&self) -> u64 {
        self.current.swap(0, Ordering::Relaxed)
    }

    pub(super) fn current(&self) -> u64 {
        at_least_none(self.current.load(Ordering::Relaxed))
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Restarts the peak from what is in use now.
    pub(super) fn reset_peak(&self) {
        self.peak.store(self.current(), Ordering::Relaxed);
    }
}

/// Reads a count that wrapped below zero between the two halves of a transfer as zero.
fn at_least_none(bytes: u64) -> u64 {
    if bytes > i64::MAX as u64 { 0 } else { bytes }
}

/// Account of one operator.
#[derive(Debug)]
pub(super) struct OperatorAccount {
    taken: AtomicBool,
    /// Bytes in use, over all places.
    pub(super) level: Level,
    pub(super) by_place: [Level; PLACES + 1],
    pub(super) allocations: AtomicU64,
    pub(super) fallbacks: AtomicU64,
    /// All places of its class were full; see [`super::Overflow::Signal`].
    pub(super) over: AtomicBool,
}

impl OperatorAccount {
    const fn empty() -> Self {
        Self {
            taken: AtomicBool::new(false),
            level: Level::zero(),
            by_place: [const { Level::zero() }; PLACES + 1],
            allocations: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn reset(&self) {
        self.level.reset_peak();
        self.by_place.iter().for_each(Level::reset_peak);
        self.allocations.store(0, Ordering::Relaxed);
        self.fallbacks.store(0, Ordering::Relaxed);
        self.over.store(false, Ordering::Relaxed);
    }
}

/// Accounts of all operators, by operator number.
#[derive(Debug)]
pub(super) struct Operators {
    accounts: [OperatorAccount; OPERATORS],
    /// Where the search for a free account starts. It advances with each registration, so that a
    /// number is reused as late as possible.
    next: AtomicU32,
}

impl Operators {
    pub(super) const fn new() -> Self {
        Self {
            accounts: [const { OperatorAccount::empty() }; OPERATORS],
            next: AtomicU32::new(0),
        }
    }

    /// The account of an operator. Operator 0 is a dummy account: it is written and never read.
    pub(super) fn of(&self, operator: OperatorId) -> &OperatorAccount {
        let index = operator.0 as usize;
        &self.accounts[if index < OPERATORS { index } else { 0 }]
    }

    /// Allocates an account with its peaks and counts reset; [`OperatorId::NONE`] if there is none
    /// left.
    ///
    /// Accounts with memory still in use (a result that outlives its query) are skipped: their
    /// bytes must not be attributed to another operator.
    pub(super) fn register(&self) -> OperatorId {
        for _ in 1..OPERATORS {
            let index = self.next.fetch_add(1, Ordering::Relaxed) as usize % OPERATORS;
            let account = &self.accounts[index];
            if index == 0 || account.level.current() > 0 {
                continue;
            }
            // Two threads may have reached the same account; the swap gives it to one of them.
            if !account.taken.swap(true, Ordering::Relaxed) {
                account.reset();
                return OperatorId(index as u32);
            }
        }
        OperatorId::NONE
    }

    /// Releases an account for reuse.
    pub(super) fn release(&self, operator: OperatorId) {
        self.of(operator).taken.store(false, Ordering::Relaxed);
    }

    /// Restarts an operator's peaks and counts.
    pub(super) fn reset(&self, operator: OperatorId) {
        self.of(operator).reset();
    }
}
