//! Signs of life of hosts that do not share a kernel.
//!
//! A host renews its line; another one looks whether the line changes within a time by its own
//! monotonic clock. Clocks are never compared. Nothing that a commit promises rests on a lease: it
//! only keeps people from replacing a host that is alive.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tierloom_memory::Clock;
use uuid::Uuid;

use crate::format::{HOST_MAGIC, HostLine};
use crate::layout::host_line;
use crate::line::{self, Found};
use crate::medium::{MappedMedium, Medium, Readable};
use crate::store::wall_ns;

/// Renewals per lease: some may be late.
const RENEWALS: u32 = 5;
/// Leases without a change after which a host is silent.
pub(crate) const SILENT_AFTER: u32 = 2;

/// The line of a host; `None` if it never wrote one, is writing it now, or it is damaged.
pub(crate) fn read(medium: &impl Readable, pool: Uuid, slot: u16) -> Option<HostLine> {
    match line::read(medium, pool, host_line(slot), HOST_MAGIC) {
        Found::Whole(line) => Some(HostLine::of(&line)),
        Found::Empty | Found::Damaged => None,
    }
}

/// Writes the line of this host. Nobody else writes it.
pub(crate) fn write(
    medium: &impl Medium,
    pool: Uuid,
    slot: u16,
    incarnation: u64,
    counter: u64,
    left: bool,
) {
    let host = HostLine {
        incarnation,
        counter,
        left,
        wall_ns: wall_ns(),
    };
    line::write(medium, pool, host_line(slot), &host.line());
}

/// Whether a host renews its line within two leases. Returns early if it does, or has left.
pub(crate) fn is_alive(
    medium: &impl Readable,
    pool: Uuid,
    slot: u16,
    lease: Duration,
    clock: &dyn Clock,
) -> bool {
    let sign = |host: HostLine| (host.incarnation, host.counter);
    let first = read(medium, pool, slot);
    if first.is_some_and(|host| host.left) {
        return false;
    }
    let start = clock.now();
    while clock.now().saturating_sub(start) < lease * SILENT_AFTER {
        clock.sleep(lease / (RENEWALS * 2));
        match (first, read(medium, pool, slot)) {
            (Some(before), Some(now)) if sign(before) != sign(now) => return true,
            (None, Some(now)) if !now.left => return true,
            _ => {}
        }
    }
    false
}

/// A thread that renews a host's line until it is dropped, which says that the host has left.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub(crate) fn start(
        medium: MappedMedium,
        pool: Uuid,
        slot: u16,
        incarnation: u64,
        lease: Duration,
    ) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (ended, changed) = &*asked;
            let mut counter = 0;
            let mut guard = ended.lock().unwrap_or_else(PoisonError::into_inner);
            while !*guard {
                counter += 1;
                write(&medium, pool, slot, incarnation, counter, false);
                let waited = changed.wait_timeout(guard, lease / RENEWALS);
                guard = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            write(&medium, pool, slot, incarnation, counter + 1, true);
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself.
            let _ = thread.join();
        }
    }
}
