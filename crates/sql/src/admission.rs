//! Which statements run now: a limited number at a time, the others wait in order.

use super::error::SqlError;
use super::run::{Flow, Sink, Watch};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tierloom_memory::router::place_usage;

/// How often a waiting statement looks whether it is to stop.
pub(super) const POLL: Duration = Duration::from_millis(10);

/// What sessions may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// Statements that run at a time; further ones wait in order.
    pub statements: usize,
    /// Bytes of operator memory from which on a further statement waits for others to end; `None`
    /// for no limit. One statement always runs.
    pub operator_bytes: Option<u64>,
    /// How long a statement waits before it fails.
    pub patience: Duration,
}

impl Default for AdmissionOptions {
    /// No limits, as one session has no use for them.
    fn default() -> Self {
        AdmissionOptions {
            statements: usize::MAX,
            operator_bytes: None,
            patience: Duration::MAX,
        }
    }
}

/// Lets statements run, in the order in which they came.
#[derive(Default)]
pub(super) struct Admission {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    options: AdmissionOptions,
    running: usize,
    /// Whether the one that runs is alone.
    alone: bool,
    next: u64,
    waiting: VecDeque<u64>,
}

/// The right to run; given back when dropped.
pub(super) struct Turn<'a> {
    admission: &'a Admission,
    alone: bool,
    /// Whether it is given back for a while.
    resting: bool,
}

impl Admission {
    pub fn limit(&self, options: AdmissionOptions) {
        self.lock().options = options;
        self.changed.notify_all();
    }

    /// Statements that run and that wait.
    pub fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting.len())
    }

    /// Waits for a turn; with `alone`, until nothing else runs, and nothing does until it ends.
    ///
    /// # Errors
    /// [`SqlError::Interrupted`], or [`SqlError::Busy`] after the time that statements may wait.
    pub fn enter(&self, alone: bool, watch: &dyn Watch) -> Result<Turn<'_>, SqlError> {
        self.wait(alone, watch)?;
        Ok(Turn {
            admission: self,
            alone,
            resting: false,
        })
    }

    fn wait(&self, alone: bool, watch: &dyn Watch) -> Result<(), SqlError> {
        let start = Instant::now();
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back(ticket);
        loop {
            if state.waiting.front() == Some(&ticket) && state.has_room(alone) {
                state.waiting.pop_front();
                state.running += 1;
                state.alone = alone;
                // The next in the order may fit as well.
                self.changed.notify_all();
                return Ok(());
            }
            let error = if watch.stopped() {
                Some(SqlError::Interrupted)
            } else if start.elapsed() > state.options.patience {
                Some(state.busy())
            } else {
                None
            };
            if let Some(error) = error {
                state.waiting.retain(|other| *other != ticket);
                self.changed.notify_all();
                return Err(error);
            }
            let waited = self.changed.wait_timeout(state, POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts are changed in one step each, so a panic elsewhere leaves them consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, alone: bool) -> bool {
        if self.running == 0 {
            return true;
        }
        let memory = |limit: u64| operator_bytes() < limit;
        !alone
            && !self.alone
            && self.running < self.options.statements
            && self.options.operator_bytes.is_none_or(memory)
    }

    fn busy(&self) -> SqlError {
        SqlError::Busy(format!(
            "the statement waited {} s for others to end: {} run now, and {} are waiting; try again later",
            self.options.patience.as_secs(),
            self.running,
            self.waiting.len()
        ))
    }
}

/// Bytes that operators use now, at all places.
pub(super) fn operator_bytes() -> u64 {
    place_usage().iter().map(|place| place.current_bytes).sum()
}

impl Turn<'_> {
    fn rest(&mut self) {
        if !self.resting {
            self.resting = true;
            let mut state = self.admission.lock();
            state.running -= 1;
            if self.alone {
                state.alone = false;
            }
            self.admission.changed.notify_all();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.rest();
    }
}

/// A sink whose statement does not count as running while its reader takes no rows.
///
/// A reader that fetches a part of the rows and then does something else would otherwise keep the
/// statements of others waiting.
pub(super) struct Considerate<'a> {
    pub sink: &'a mut dyn Sink,
    pub turn: Turn<'a>,
    pub watch: &'a dyn Watch,
}

impl Sink for Considerate<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        self.sink.begin(schema)
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        if self.turn.alone || self.sink.is_ready() {
            return self.sink.rows(batch);
        }
        self.turn.rest();
        let flow = self.sink.rows(batch)?;
        if flow == Flow::More {
            self.turn.admission.wait(false, self.watch)?;
            self.turn.resting = false;
        }
        Ok(flow)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        self.sink.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Silent;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn limited(statements: usize, patience: Duration) -> Arc<Admission> {
        let admission = Arc::new(Admission::default());
        admission.limit(AdmissionOptions {
            statements,
            operator_bytes: None,
            patience,
        });
        admission
    }

    #[test]
    fn never_more_statements_run_than_allowed_and_all_get_their_turn() {
        let admission = limited(3, Duration::MAX);
        let (now, most, done) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for _ in 0..24 {
                scope.spawn(|| {
                    let turn = admission.enter(false, &Silent::default()).unwrap();
                    let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(running, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(turn);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(done.into_inner(), 24);
        assert!(most.into_inner() <= 3);
        assert_eq!(admission.load(), (0, 0));
    }

    #[test]
    fn one_that_waits_too_long_fails_and_leaves_the_order() {
        let admission = limited(1, Duration::from_millis(30));
        let first = admission.enter(false, &Silent::default()).unwrap();
        let error = admission.enter(false, &Silent::default()).err();
        assert!(matches!(error, Some(SqlError::Busy(_))), "{error:?}");
        drop(first);
        drop(admission.enter(false, &Silent::default()).unwrap());
        assert_eq!(admission.load(), (0, 0));
    }

    #[test]
    fn one_that_is_stopped_while_it_waits_does_not_run() {
        let admission = limited(1, Duration::MAX);
        let _first = admission.enter(false, &Silent::default()).unwrap();
        let stopped = Silent::default();
        stopped.stop().store(true, Ordering::SeqCst);
        let error = admission.enter(false, &stopped).err();
        assert_eq!(error, Some(SqlError::Interrupted));
    }

    #[test]
    fn nothing_runs_beside_one_that_must_be_alone() {
        let admission = limited(8, Duration::from_millis(30));
        let alone = admission.enter(true, &Silent::default()).unwrap();
        assert!(admission.enter(false, &Silent::default()).is_err());
        drop(alone);
        let _other = admission.enter(false, &Silent::default()).unwrap();
        assert!(admission.enter(true, &Silent::default()).is_err());
    }
}
