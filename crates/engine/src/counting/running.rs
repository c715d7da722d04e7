//! The operators that the threads of a counted execution are in at a moment.
//!
//! A thread writes it down whenever it changes operators; another thread may look at any time.

use super::tally::{CountedStep, Tallies};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An operator of a plan that is alive, and its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OperatorId(usize);

/// No operator.
const NONE: usize = 0;

impl OperatorId {
    pub(crate) fn of(operator: &Tallies, step: CountedStep) -> Self {
        // Sums are aligned to eight bytes, so that the lowest bit of an address is free.
        let address = std::ptr::from_ref(operator).addr();
        OperatorId(address | usize::from(step == CountedStep::Probe))
    }
}

/// Where a thread writes down its operator.
#[derive(Debug, Default)]
pub(super) struct Slot(AtomicUsize);

impl Slot {
    pub(super) fn set(&self, operator: Option<OperatorId>) {
        // Relaxed: nothing else is published by it, and whoever looks gets a sample.
        self.0
            .store(operator.map_or(NONE, |id| id.0), Ordering::Relaxed);
    }
}

/// The slots of all threads that have worked for counted executions.
#[derive(Debug, Default)]
pub(crate) struct RunningOperators(Mutex<Vec<Weak<Slot>>>);

impl RunningOperators {
    /// A slot for the calling thread, for as long as it keeps it.
    pub(super) fn slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    /// Adds the operators that threads are in now to `found`.
    pub(crate) fn now(&self, found: &mut Vec<OperatorId>) {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = slots.iter().filter_map(Weak::upgrade);
        let ids = ids.map(|slot| slot.0.load(Ordering::Relaxed));
        found.extend(ids.filter(|id| *id != NONE).map(OperatorId));
    }
}
