//! Page audit of routed blocks at the moment of highest memory use.
//!
//! A peak ends when the first block after it is freed; by then its blocks have been written. With
//! [`watch_peak`] on, the thread that is about to free that block first queries the kernel: the
//! node of each page (`move_pages`), and the resident bytes of the reserved range (`numa_maps`).

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

/// Pages per `move_pages` call; the addresses are on the stack, since an audit may not allocate.
const BATCH_PAGES: usize = 512;
const PAGE_BYTES: usize = 4096;
/// Up to this many bytes every page is queried, beyond it every second, third and so on.
const FULL_BYTES: u64 = 1 << 30;
/// How often an audit looks for a moment in which no pages are being populated or released, and how
/// long it sleeps after each failure: about 2 s in all.
const STILL_TRIES: usize = 2000;
const STILL_WAIT: Duration = Duration::from_millis(1);
/// A peak is audited again once it is higher by one part in this many: 2 %. Without a step, a query
/// whose memory grows slowly would be audited at each free.
const STEP_DIVISOR: u64 = 50;

/// Where the pages of one class were.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassAudit {
    /// The class whose blocks were audited.
    pub class: Class,
    /// Bytes of its blocks in use; estimated where only a sample of the pages was queried.
    pub bytes: u64,
    /// Bytes by node number, for nodes that have any.
    pub by_node: Vec<(u32, u64)>,
    /// Bytes without a page: never touched, or the kernel did not report them.
    pub absent_bytes: u64,
}

/// Where all routed blocks were at the highest peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeakAudit {
    /// Bytes in use, as the router counts them.
    pub accounted_bytes: u64,
    /// Bytes in use and cached for reuse, as the router counts them.
    pub held_bytes: u64,
    /// Resident bytes of the reserved range, as the kernel counts them; `None` where `numa_maps`
    /// cannot be read.
    pub kernel_bytes: Option<u64>,
    /// Resident bytes of the whole process.
    ///
    /// They include tables and the allocations that are too small to be routed.
    pub process_bytes: Option<u64>,
    /// The classes that had blocks.
    pub classes: Vec<ClassAudit>,
}

/// Bytes by node; the last element counts pages that are on no node.
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

    /// Bytes in use at the highest audited peak.
    #[cfg(test)]
    pub(super) fn peak_bytes(&self) -> u64 {
        self.raw().accounted
    }

    /// Whether peaks are watched.
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Audits all blocks if notably more memory is in use than at the last audit.
    pub(super) fn before_free(&self, router: &Router) {
        if !self.is_on() {
            return;
        }
        let total = router.total.current();
        let audited = self.audited.load(Ordering::Relaxed);
        if total <= audited + audited / STEP_DIVISOR {
            return;
        }
        // If another thread is auditing, this peak is being covered; waiting for it would serialise
        // all frees.
        let mut raw = match self.raw.try_lock() {
            Ok(raw) => raw,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.audited.store(total, Ordering::Relaxed);
        look(router, &mut raw);
    }
}

/// Queries the kernel for every block in use, without allocating.
///
/// All slots are locked meanwhile, so threads that allocate or free large memory wait.
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

/// Locks all slots, if possible at a moment at which no pages are being populated or released.
fn still(router: &Router) -> [Locked<'_>; SLOTS] {
    for _ in 0..STILL_TRIES {
        let slots = router.lock_all();
        if router.stretches.is_still() {
            return slots;
        }
        drop(slots);
        std::thread::sleep(STILL_WAIT);
    }
    // Under constant load the moment may never come; an audit whose figures are slightly off is
    // better than none.
    router.lock_all()
}

/// Pages for the next `move_pages` call.
struct Batch {
    addresses: [usize; BATCH_PAGES],
    count: usize,
    /// Bytes that each sampled page represents.
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
            // A negative status (such as `-ENOENT`) means no page, and so does a failed call.
            let node = usize::try_from(*status).ok().filter(|_| asked.is_ok());
            found[node.map_or(MAX_NODES, |node| node.min(MAX_NODES))] += self.weight;
        }
    }
}

/// Turns the audit of peaks on or off, and discards earlier results.
///
/// It costs a page query per page of each new peak, about a millisecond for 100 MiB: meant for
/// tests and diagnosis.
pub fn watch_peak(on: bool) {
    ROUTER.watch.start(on);
    ROUTER.reset_peaks();
}

/// The audit of the highest peak since [`watch_peak`]; `None` if nothing has been freed since.
pub fn peak_audit() -> Option<PeakAudit> {
    let raw = ROUTER.watch.raw();
    (raw.accounted > 0).then(|| report(&raw))
}

/// The audit of the highest peak since the last call (or [`watch_peak`]); the search then restarts.
///
/// This gives an audit per query while the peaks of places and operators continue. `None` if
/// nothing has been freed meanwhile.
pub fn next_peak() -> Option<PeakAudit> {
    let watch = &ROUTER.watch;
    let found = peak_audit();
    watch.audited.store(0, Ordering::Relaxed);
    *watch.raw() = Raw::EMPTY;
    found
}

/// Audits all blocks now, whether or not peaks are watched.
pub fn audit_now() -> PeakAudit {
    audit_of(&ROUTER)
}

pub(super) fn audit_of(router: &Router) -> PeakAudit {
    let mut raw = Raw::EMPTY;
    look(router, &mut raw);
    report(&raw)
}

fn report(raw: &Raw) -> PeakAudit {
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
