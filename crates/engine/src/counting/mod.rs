//! Counts what each operator of a query does: the time of its threads, and hardware events.
//!
//! ```text
//!   RoutedStream::poll_next ─ enter(operator) ─▶ thread: what it did so far ─▶ operator before
//!     children are polled inside, and take the time from then on
//!   end of poll ───────────── drop(guard) ─────▶ thread: what it did so far ─▶ this operator
//! ```
//! A thread is in one operator at a time; whenever it changes, the time since the last change goes
//! to the operator that it leaves. So times of operators add up to that of the query. The streams
//! of [`crate::routing`] are the places where operators change, and tasks inherit the operator that
//! spawns them.
//!
//! Reading hardware counters is a system call, and may take 0.5% of the time of a thread.
//! So it reads them at the end of each long stretch, and at both ends of some short ones; the
//! counts of an operator are extrapolated from its counted stretches to its whole time.

mod metrics;
mod rows;
mod running;
mod tally;
mod thread;

pub(crate) use metrics::with_counts;
pub use rows::{CounterRow, counter_rows};
pub(crate) use running::{OperatorId, RunningOperators};
pub(crate) use tally::{CountedStep, Tallies};
pub(crate) use thread::{CurrentOperator, current, enter, probe};

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tierloom_counters::stalls::{StallCounts, StallPlan, StallSource};

/// What executions are counted with: an extension of the settings of their tasks.
#[derive(Debug)]
pub struct Counting {
    source: StallSource,
    /// Why a thread found no hardware counters.
    problem: OnceLock<String>,
    running: RunningOperators,
}

impl Counting {
    /// Counts with the events of `source`; only times if it cannot be opened.
    #[must_use]
    pub fn new(source: StallSource) -> Arc<Self> {
        Arc::new(Counting {
            source,
            problem: OnceLock::new(),
            running: RunningOperators::default(),
        })
    }

    /// Measures times only, with no hardware counter, and says why.
    pub(crate) fn of_times(source: StallSource, why: &str) -> Arc<Self> {
        let counting = Counting::new(source);
        let _ = counting.problem.set(why.to_owned());
        counting
    }

    /// The operators that threads are in now.
    pub(crate) fn running(&self) -> &RunningOperators {
        &self.running
    }

    /// The events, and what is derived from them.
    #[must_use]
    pub fn plan(&self) -> &Arc<StallPlan> {
        self.source.plan()
    }

    /// Why there are no hardware counters, with a remedy; `None` if no thread failed to open them.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.get().map(String::as_str)
    }
}

/// An operator of a counted execution.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedOperator {
    /// Name, such as "filter"; the two parts of a join are "build of hash join" and "hash join".
    pub operator: String,
    /// Name of the phase that it ran in.
    pub phase: String,
    /// What it did itself, without its inputs.
    pub counts: StallCounts,
}

/// What was counted of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedRun {
    /// The events.
    pub plan: Arc<StallPlan>,
    /// Why there are times only.
    pub problem: Option<String>,
    /// All operators.
    pub whole: StallCounts,
    /// Those of each phase, in the order of [`crate::capture::Captured::phases`].
    pub phases: Vec<StallCounts>,
    /// Each operator, from the leaves upwards.
    pub operators: Vec<CountedOperator>,
    /// The phase that each operator works in, as a number of `phases`.
    pub(crate) phase_of: HashMap<OperatorId, usize>,
}
