//! Waits for work of the engine's threads while polling a wish to stop.

use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// How often a wish to stop is looked for.
const POLLED_EVERY: Duration = Duration::from_millis(10);

/// A thread outside of the engine that waits for its tasks.
///
/// It has its own clock: that of the engine stands still while all its threads are busy.
pub struct Waiter {
    own: Option<Runtime>,
    engine: Handle,
}

impl Waiter {
    /// Waits for tasks of `engine`; with that one's clock if the thread can have none.
    pub fn new(engine: &Handle) -> Self {
        let own = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        Waiter {
            own: own.ok(),
            engine: engine.clone(),
        }
    }

    /// The output of `work`, or `None` as soon as `stop` returns true.
    ///
    /// `work` waits for tasks and computes nothing itself.
    pub fn until_stopped<T>(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let either = async {
            // Without `biased` a query with many ready batches could hide a cancellation for a
            // while.
            tokio::select! {
                biased;
                () = stopped(stop) => None,
                done = work => Some(done),
            }
        };
        match &self.own {
            Some(own) => own.block_on(either),
            None => self.engine.block_on(either),
        }
    }
}

/// Returns once `stop` returns true.
pub(crate) async fn stopped(stop: &(dyn Fn() -> bool + Sync)) {
    while !stop() {
        tokio::time::sleep(POLLED_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_wish_to_stop_is_seen_while_all_threads_of_the_engine_are_busy() {
        let engine = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        static OVER: AtomicBool = AtomicBool::new(false);
        let busy = engine.spawn(async {
            while !OVER.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let start = std::time::Instant::now();
        let stop = || start.elapsed() > Duration::from_millis(50);
        let done = Waiter::new(engine.handle()).until_stopped(&stop, busy);
        OVER.store(true, Ordering::Relaxed);
        assert!(done.is_none());
    }
}
