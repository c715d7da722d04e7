//! Waits for the engine without the interpreter's lock, and for signals at the same time.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tierloom_sql::Watch;

/// How long a signal can wait until it is noticed.
pub const SIGNALS: Duration = Duration::from_millis(100);

/// The stop flag of one statement.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks the statement to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Watch for Stop {
    fn stop(&self) -> &AtomicBool {
        &self.0
    }
}

/// What comes next from `messages`; `None` if the sender is gone.
///
/// # Errors
/// What a handler of a signal raises, such as `KeyboardInterrupt`. The sender goes on.
pub fn next<T: Send>(py: Python<'_>, messages: &Mutex<Receiver<T>>) -> PyResult<Option<T>> {
    loop {
        let received = py.detach(|| locked(messages).recv_timeout(SIGNALS));
        // Also after a message: a fast sender must not keep signals waiting.
        py.check_signals()?;
        match received {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The value behind a lock, also after a panic elsewhere.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
