//! Checks attached tables in the background.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tierloom_pool::Attached;

/// Part of the time that the sweep works: the rest is for queries.
const DUTY: f64 = 0.1;

/// A thread that checks every chunk of some tables, slowly, and ends with this value.
///
/// A damaged chunk is noted in the pool ([`Attached::is_damaged`]); nothing else happens until a
/// statement uses the table.
#[derive(Debug)]
pub struct Sweep {
    stop: Arc<(AtomicBool, Mutex<()>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Sweep {
    /// Starts the thread. Tables that nobody else uses any more are left out.
    ///
    /// A machine that refuses a thread has no sweep: tables are checked at their first use anyway.
    pub fn start(tables: Vec<Weak<Attached>>) -> Self {
        let stop = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
        let shared = Arc::clone(&stop);
        let work = move || tables.iter().for_each(|table| sweep(table, &shared));
        let thread = std::thread::Builder::new().name("tierloom-verify".into());
        Sweep {
            stop,
            thread: thread.spawn(work).ok(),
        }
    }
}

fn sweep(table: &Weak<Attached>, (stop, lock, wake): &(AtomicBool, Mutex<()>, Condvar)) {
    let mut at = 0;
    loop {
        // Not held while it waits: the table may be dropped meanwhile.
        let Some(attached) = table.upgrade() else {
            return;
        };
        let (chunk, bytes) = (attached.chunk_bytes(), attached.bytes().len() as u64);
        if at >= bytes || stop.load(Ordering::Relaxed) {
            return;
        }
        let part = at..(at + chunk).min(bytes);
        at = part.end;
        if attached.is_verified(part.clone()) {
            continue;
        }
        let start = Instant::now();
        if attached.verify(part).is_err() {
            return;
        }
        drop(attached);
        let pause = start.elapsed().mul_f64((1.0 - DUTY) / DUTY);
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !stop.load(Ordering::Relaxed) {
            // Spurious wakes only shorten a pause.
            drop(wake.wait_timeout(guard, pause.min(Duration::from_secs(1))));
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        drop(self.stop.1.lock());
        self.stop.2.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported by it.
            let _ = thread.join();
        }
    }
}
