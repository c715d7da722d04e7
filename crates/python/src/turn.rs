//! Whose turn it is on a connection: one statement at a time.
//!
//! A statement of another thread waits for its turn. One of the same thread would wait for itself,
//! so it is refused.

use super::error::Error;
use super::wait::{SIGNALS, locked};
use pyo3::prelude::*;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// The turns of one connection.
#[derive(Debug, Default)]
pub struct Turns {
    /// The thread whose statement runs, if any.
    holder: Mutex<Option<ThreadId>>,
    free: Condvar,
}

/// The right to run a statement, until it is dropped.
#[derive(Debug)]
pub struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        *locked(&self.0.holder) = None;
        self.0.free.notify_one();
    }
}

/// Waits for the turn.
///
/// # Errors
/// An earlier result of the same thread still delivers rows, or a signal.
pub fn take(py: Python<'_>, turns: &Arc<Turns>) -> PyResult<Turn> {
    let this = thread::current().id();
    loop {
        let taken = py.detach(|| {
            let holder = locked(&turns.holder);
            let waits = |holder: &mut Option<ThreadId>| holder.is_some_and(|id| id != this);
            let waited = turns.free.wait_timeout_while(holder, SIGNALS, waits);
            let (mut holder, _) = waited.unwrap_or_else(PoisonError::into_inner);
            match *holder {
                None => {
                    *holder = Some(this);
                    Some(true)
                }
                Some(id) if id == this => Some(false),
                Some(_) => None,
            }
        });
        py.check_signals()?;
        match taken {
            Some(true) => return Ok(Turn(Arc::clone(turns))),
            Some(false) => {
                return Err(Error::new_err(
                    "an earlier result of this connection still delivers rows: read it to its \
                     end, close() it, or use a second connection",
                ));
            }
            None => {}
        }
    }
}
