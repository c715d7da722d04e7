//! Where the pages of routed blocks really are, asked at the moment when most memory is in use.
//!
//! A peak is over when the first block after it is freed; by then its blocks have been written.
//! With [`watch_peak`] on, the thread that is about to free that block asks the kernel first: page
//! by page (`move_pages`), and by its own account of the reserved range (`numa_maps`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use serde::Serialize;

use super::account::PLACES;
use super::kernel::{self, MAX_NODES};
use super::reserve::SLOTS;
use super::route::{Router, index};
use super::slot::Locked;
use super::{Class, ROUTER};

/// Pages asked for in one call; their addresses lie on the stack.
const BATCH_PAGES: usize = 512;
const PAGE_BYTES: usize = 4096;
/// Up to so many bytes every page is asked for, beyond that every second, third, ...
const FULL_BYTES: u64 = 1 << 30;
/// How often a moment is looked for in which no pages come or go, and how long it waits after each
/// failure.
const STILL_TRIES: usize = 2000;
const STILL_WAIT: Duration = Duration::from_millis(1);
/// A new peak is worth an audit from this much more on: one part in so many.
const STEP_DIVISOR: u64 = 50;

/// Where the blocks of one class were.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassAudit {
    /// The class.
    pub class: Class,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Bytes found on each node.
    pub by_node: Vec<(u32, u64)>,
    /// Bytes whose pages were never touched.
    pub absent_bytes: u64,
}

/// Where all routed blocks were when most memory was in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeakAudit {
    /// Bytes in use by the router's account.
    pub accounted_bytes: u64,
    /// Bytes in use and kept for reuse by the router's account.
    pub held_bytes: u64,
    /// Bytes of the reserved range that are resident, as the kernel counts them; `None` if it does
    /// not tell.
    pub kernel_bytes: Option<u64>,
    /// Bytes of the whole process that were resident: with tables, and with allocations that are
    /// too small to be routed.
    pub process_bytes: Option<u64>,
    /// The classes with blocks.
    pub classes: Vec<ClassAudit>,
}

/// Bytes by node, then those that are nowhere.
type Found = [u64; MAX_NODES + 1];

#[derive(Debug)]
struct Raw {
    accounted: u64,
    held: u64,
    kernel: Option<u64>,
    process: Option<u64>,
    classes: [Found; Class::COUNT],
}

impl Raw {
    const EMPTY: Raw = Raw {
        accounted: 0,
        held: 0,
        kernel: None,
        process: None,
        classes: [[0; MAX_NODES + 1]; Class::COUNT],
    };
}

/// The audit of the highest peak so far.
#[derive(Debug)]
pub(super) struct PeakWatch {
    on: AtomicBool,
    audited: AtomicU64,
    raw: Mutex<Raw>,
}

impl PeakWatch {
    pub(super) const fn new() -> Self {
        Self {
            on: AtomicBool::new(false),
            audited: AtomicU64::new(0),
            raw: Mutex::new(Raw::EMPTY),
        }
    }

    fn raw(&self) -> MutexGuard<'_, Raw> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self, on: bool) {
        *self.raw() = Raw::EMPTY;
        self.audited.store(0, Ordering::Relaxed);
        self.on.store(on, Ordering::Relaxed);
    }

    /// Bytes in use at the highest peak so far.
    #[cfg(test)]
    pub(super) fn peak_bytes(&self) -> u64 {
        self.raw().accounted
    }

    /// Whether peaks are looked for.
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Looks at all blocks if more memory is in use than at the last audit.
    pub(super) fn before_free(&self, router: &Router) {
        if !self.is_on() {
            return;
        }
        let total = router.total.current();
        let audited = self.audited.load(Ordering::Relaxed);
        if total <= audited + audited / STEP_DIVISOR {
            return;
        }
        // One audit at a time is enough.
        let mut raw = match self.raw.try_lock() {
            Ok(raw) => raw,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.audited.store(total, Ordering::Relaxed);
        look(router, &mut raw);
    }
}

/// Asks the kernel for every block. Allocates nothing. Other threads wait where they allocate or
/// free large memory.
fn look(router: &Router, raw: &mut Raw) {
    let slots = still(router);
    *raw = Raw::EMPTY;
    for class in Class::ALL {
        for place in 0..PLACES {
            let slot = router.slot(class, place);
            raw.accounted += slot.level.current() + slot.earlier.current();
            raw.held += slot.held.current() + slot.earlier_held.current();
        }
    }
    let stride = PAGE_BYTES * (1 + (raw.accounted / FULL_BYTES) as usize);
    for class in Class::ALL {
        let mut batch = Batch {
            addresses: [0; BATCH_PAGES],
            count: 0,
            weight: stride as u64,
        };
        let found = &mut raw.classes[class.index()];
        for place in 0..PLACES {
            slots[index(class, place)].each_used(|start, len| {
                for address in (start..start + len).step_by(stride) {
                    batch.push(address, found);
                }
            });
        }
        batch.ask(found);
    }
    raw.kernel = router
        .span()
        .and_then(|span| kernel::resident_bytes(span.base, span.len()).ok());
    raw.process = kernel::process_bytes().ok();
}

/// All slots locked, in a moment in which no pages come or go if there is one soon.
fn still(router: &Router) -> [Locked<'_>; SLOTS] {
    for _ in 0..STILL_TRIES {
        let slots = router.lock_all();
        if router.stretches.is_still() {
            return slots;
        }
        drop(slots);
        std::thread::sleep(STILL_WAIT);
    }
    router.lock_all()
}

/// Pages to ask for.
struct Batch {
    addresses: [usize; BATCH_PAGES],
    count: usize,
    /// Bytes that each of them stands for.
    weight: u64,
}

impl Batch {
    fn push(&mut self, address: usize, found: &mut Found) {
        self.addresses[self.count] = address;
        self.count += 1;
        if self.count == BATCH_PAGES {
            self.ask(found);
        }
    }

    fn ask(&mut self, found: &mut Found) {
        let mut nodes = [-libc::ENOENT; BATCH_PAGES];
        let count = std::mem::take(&mut self.count);
        let asked = crate::sys::pages::query_addresses(&self.addresses[..count], &mut nodes);
        for status in &nodes[..count] {
            let node = usize::try_from(*status).ok().filter(|_| asked.is_ok());
            found[node.map_or(MAX_NODES, |node| node.min(MAX_NODES))] += self.weight;
        }
    }
}

/// Turns the audit of peaks on or off, and forgets what it found before. It costs a page query per
/// page of each new peak, about a millisecond for 100 MiB: for tests and diagnosis.
pub fn watch_peak(on: bool) {
    ROUTER.watch.start(on);
    ROUTER.reset_peaks();
}

/// What was found at the highest peak since [`watch_peak`]; `None` if nothing was freed since.
pub fn peak_audit() -> Option<PeakAudit> {
    let raw = ROUTER.watch.raw();
    (raw.accounted > 0).then(|| told(&raw))
}

/// What was found at the highest peak since the last call (or [`watch_peak`]), and starts to look
/// for the next one: an audit per query, where peaks of places and operators go on. `None` if
/// nothing was freed meanwhile.
pub fn next_peak() -> Option<PeakAudit> {
    let watch = &ROUTER.watch;
    let found = peak_audit();
    watch.audited.store(0, Ordering::Relaxed);
    *watch.raw() = Raw::EMPTY;
    found
}

/// Looks at all blocks now.
pub fn audit_now() -> PeakAudit {
    audit_of(&ROUTER)
}

pub(super) fn audit_of(router: &Router) -> PeakAudit {
    let mut raw = Raw::EMPTY;
    look(router, &mut raw);
    told(&raw)
}

fn told(raw: &Raw) -> PeakAudit {
    let class = |class: Class| {
        let found = &raw.classes[class.index()];
        let on_nodes = found[..MAX_NODES].iter().enumerate();
        ClassAudit {
            class,
            bytes: found.iter().sum(),
            by_node: on_nodes
                .filter(|(_, bytes)| **bytes > 0)
                .map(|(node, bytes)| (node as u32, *bytes))
                .collect(),
            absent_bytes: found[MAX_NODES],
        }
    };
    PeakAudit {
        accounted_bytes: raw.accounted,
        held_bytes: raw.held,
        kernel_bytes: raw.kernel,
        process_bytes: raw.process,
        classes: Class::ALL
            .map(class)
            .into_iter()
            .filter(|audit| audit.bytes > 0)
            .collect(),
    }
}
