//! A flag that ends work early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A flag that somebody sets once and others look at or wait for. Clones share it. Looking costs one relaxed load.
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
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is set.
    pub fn requested(&self) -> bool {
        self.0.requested.load(Ordering::Relaxed)
    }

    /// Sets it, for good.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        // Taking the lock closes the gap between a waiter's look at the flag and its sleep.
        drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.waiting.notify_all();
        self.0.tasks.notify_waiters();
    }

    /// Sleeps until the flag is set, at most `timeout`. Returns whether it is set.
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

    /// The same for tasks, without a limit.
    pub(crate) async fn wait(&self) {
        let mut told = std::pin::pin!(self.0.tasks.notified());
        // Enrolled before the flag is looked at, so that no request falls between.
        told.as_mut().enable();
        if !self.requested() {
            told.await;
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
