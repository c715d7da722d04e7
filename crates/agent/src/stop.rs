//! A flag that asks work to stop early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A flag that is set once, and that others poll or wait for.
///
/// Clones share it. A poll costs one relaxed load.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requested: AtomicBool,
    lock: Mutex<()>,
    waiting: Condvar,
    tasks: Notify,
}

impl Stop {
    /// A new flag, not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a stop was requested.
    pub fn requested(&self) -> bool {
        self.0.requested.load(Ordering::Relaxed)
    }

    /// Sets the flag and wakes all waiters. It cannot be cleared.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        // Taking the lock closes the gap between a waiter's check of the flag and its sleep.
        drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.waiting.notify_all();
        self.0.tasks.notify_waiters();
    }

    /// Sleeps until the flag is set, but at most for `timeout`. Returns whether the flag is set.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.requested() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            guard = self
                .0
                .waiting
                .wait_timeout(guard, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Waits for the flag in an async task, without a limit.
    pub(crate) async fn wait(&self) {
        let mut notified = std::pin::pin!(self.0.tasks.notified());
        // Register before the check, so that a request in between is not missed.
        notified.as_mut().enable();
        if !self.requested() {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_wakes_a_sleeper_and_is_seen_by_clones() {
        let stop = Stop::new();
        let sleeper = std::thread::spawn({
            let stop = stop.clone();
            move || stop.wait_timeout(Duration::from_secs(60))
        });
        stop.request();
        assert!(sleeper.join().unwrap());
        assert!(stop.clone().requested());
    }

    #[test]
    fn waiting_ends_without_a_request() {
        assert!(!Stop::new().wait_timeout(Duration::from_millis(1)));
    }

    #[test]
    fn a_task_that_waits_after_the_request_does_not_hang() {
        let stop = Stop::new();
        stop.request();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(stop.wait());
    }
}
