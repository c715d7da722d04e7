//! The operator that a thread is in, and the thread's counters.

use super::Counting;
use super::running::{OperatorId, Slot};
use super::tally::{CountedStep, Tallies};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;
use tierloom_counters::stalls::{Slice, Snapshot, ThreadMeter};

/// Share of a thread's time in which it may read counters.
const READ_SHARE: f64 = 0.005;

/// Time for reads that a thread may use before it has worked for it, ns; also the most that it
/// saves up.
const MOST_CREDIT_NS: f64 = 20_000.0;

/// Share of what a thread did between two reads that counts as all of it.
const MOST_OF_IT: f64 = 0.75;

/// Reads of counters that the shortest counted stretch takes as long as: where a shorter one begins
/// and ends is not known well enough.
const SHORTEST_READS: f64 = 10.0;

thread_local! {
    static THREAD: RefCell<Thread> = const { RefCell::new(Thread::new()) };
}

/// The operator that a thread is in.
#[derive(Debug, Clone)]
pub(crate) struct CurrentOperator {
    counting: Arc<Counting>,
    operator: Arc<Tallies>,
}

/// Goes back to the operator before when it is dropped, also during unwinding.
#[must_use = "the thread leaves the operator when the guard is dropped"]
pub(crate) struct Entered {
    before: Option<CurrentOperator>,
    // The thread that entered has to leave.
    _not_send: PhantomData<*const ()>,
}

/// The thread is in the operator until the guard is dropped.
pub(crate) fn enter(counting: &Arc<Counting>, operator: &Arc<Tallies>) -> Entered {
    let next = CurrentOperator {
        counting: Arc::clone(counting),
        operator: Arc::clone(operator),
    };
    next.enter()
}

/// From now on the operator that this thread is in probes: its probe side has returned.
pub(crate) fn probe() {
    THREAD.with_borrow_mut(|thread| {
        let Some((current, CountedStep::First)) = &thread.current else {
            return;
        };
        current.operator.probes();
        let again = current.clone();
        thread.change(Some(again));
    });
}

/// The operator that this thread is in, for a task that it spawns.
pub(crate) fn current() -> Option<CurrentOperator> {
    THREAD.with_borrow(|thread| thread.current.as_ref().map(|(current, _)| current.clone()))
}

impl CurrentOperator {
    /// The thread is in this operator until the guard is dropped.
    pub(crate) fn enter(self) -> Entered {
        Entered {
            before: THREAD.with_borrow_mut(|thread| thread.change(Some(self))),
            _not_send: PhantomData,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        // A thread that is exiting has dropped its state already.
        let _ = THREAD.try_with(|thread| {
            if let Ok(mut thread) = thread.try_borrow_mut() {
                thread.change(before);
            }
        });
    }
}

struct Thread {
    current: Option<(CurrentOperator, CountedStep)>,
    /// Start of the present stretch, and what the counters showed then if they were read.
    since: Option<Instant>,
    snapshot: Option<Snapshot>,
    /// What the counters showed last, and the time in operators since then, ns.
    last: Option<Snapshot>,
    busy_ns: u64,
    /// The counters, and what they were opened for.
    meter: Option<(Arc<Counting>, Option<ThreadMeter>)>,
    /// Where others see the operator that the thread is in.
    slot: Option<Arc<Slot>>,
    /// Time that the thread may still use for reads, ns.
    credit_ns: f64,
    /// State of the choice of stretches.
    random: u32,
}

impl Thread {
    const fn new() -> Self {
        Thread {
            current: None,
            since: None,
            snapshot: None,
            last: None,
            busy_ns: 0,
            meter: None,
            slot: None,
            credit_ns: MOST_CREDIT_NS,
            random: 1,
        }
    }

    /// Ends the present stretch and begins one of `next`; returns the operator before.
    fn change(&mut self, next: Option<CurrentOperator>) -> Option<CurrentOperator> {
        let now = Instant::now();
        let start = self.snapshot.take();
        let mut read = None;
        let before = self.current.take().map(|(current, step)| {
            let ns = self.since.map_or(0, |since| {
                u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX)
            });
            self.busy_ns = self.busy_ns.saturating_add(ns);
            self.credit_ns = (self.credit_ns + ns as f64 * READ_SHARE).min(MOST_CREDIT_NS);
            let slice = match start {
                Some(start) => {
                    read = self.read();
                    let slice = read.and_then(|end| self.between(&start, &end));
                    slice.filter(|_| self.is_long(ns))
                }
                None => self.long_slice(ns, &mut read),
            };
            current.operator.of(step).add(ns, slice.as_ref());
            current
        });
        self.current = next.map(|next| {
            let step = next.operator.step();
            self.meter_of(&next.counting);
            if self.is_counted(&next, step, read.is_some()) {
                self.snapshot = read.or_else(|| self.read());
                read = self.snapshot;
            }
            (next, step)
        });
        if let Some(slot) = &self.slot {
            let current = self.current.as_ref();
            slot.set(current.map(|(current, step)| OperatorId::of(&current.operator, *step)));
        }
        // Time of reads is nobody's.
        self.since = Some(match read {
            Some(_) => Instant::now(),
            None => now,
        });
        before
    }

    /// What was counted in a stretch of `ns` that ends, if it is most of what the thread has done
    /// since it last read its counters.
    ///
    /// Long stretches are known at their end only, and most of the time is in them.
    fn long_slice(&mut self, ns: u64, read: &mut Option<Snapshot>) -> Option<Slice> {
        let last = self.last?;
        let (_, meter) = self.meter.as_ref()?;
        let is_most = ns as f64 >= MOST_OF_IT * self.busy_ns as f64;
        if !is_most || !self.is_long(ns) || self.credit_ns < meter.as_ref()?.read_ns() {
            return None;
        }
        *read = self.read();
        let end = (*read)?;
        // The thread may have worked for statements that are not counted.
        let all_ns = end.on_processor_ns().saturating_sub(last.on_processor_ns());
        let share = ns as f64 / all_ns.max(1) as f64;
        let slice = self.between(&last, &end)?;
        (share >= MOST_OF_IT).then(|| slice.times(share.min(1.0)))
    }

    fn is_long(&self, ns: u64) -> bool {
        let meter = self.meter.as_ref().and_then(|(_, meter)| meter.as_ref());
        meter.is_some_and(|meter| ns as f64 >= SHORTEST_READS * meter.read_ns())
    }

    fn between(&self, start: &Snapshot, end: &Snapshot) -> Option<Slice> {
        let (_, meter) = self.meter.as_ref()?;
        Some(meter.as_ref()?.between(start, end))
    }

    /// Opens the counters of this thread, if that was not tried yet.
    fn meter_of(&mut self, counting: &Arc<Counting>) {
        let is_open = self
            .meter
            .as_ref()
            .is_some_and(|(of, _)| Arc::ptr_eq(of, counting));
        if is_open {
            return;
        }
        // Without a hardware counter there is nothing to open for the next query either.
        let meter = match counting.problem.get() {
            Some(_) => None,
            None => counting
                .source
                .open()
                .map_err(|problem| counting.problem.set(problem))
                .ok(),
        };
        self.meter = Some((Arc::clone(counting), meter));
        self.slot = Some(counting.running().slot());
        self.last = None;
        self.read();
    }

    /// Whether the counters are read at both ends of a stretch that begins.
    ///
    /// The less time is left for reads, the fewer stretches: chosen by chance, because operators
    /// take turns, and every second stretch could always be that of the same one.
    fn is_counted(&mut self, next: &CurrentOperator, step: CountedStep, just_read: bool) -> bool {
        let Some((_, Some(meter))) = &self.meter else {
            return false;
        };
        let reads = if just_read { 1.0 } else { 2.0 };
        if self.credit_ns < reads * meter.read_ns() {
            return false;
        }
        // Marsaglia, "Xorshift RNGs", 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let chance = f64::from(self.random) / f64::from(u32::MAX);
        next.operator.of(step).is_uncounted() || chance < self.credit_ns / MOST_CREDIT_NS
    }

    fn read(&mut self) -> Option<Snapshot> {
        let (_, meter) = self.meter.as_mut()?;
        let open = meter.as_mut()?;
        self.credit_ns -= open.read_ns();
        match open.read() {
            Ok(snapshot) => {
                (self.last, self.busy_ns) = (Some(snapshot), 0);
                Some(snapshot)
            }
            Err(_) => {
                // Only a closed or revoked counter fails; times go on.
                *meter = None;
                None
            }
        }
    }
}
