//! The keys of joins from their build sides to scans, for each execution.

use super::code_filter::CodeFilter;
use super::keys::KeyCollector;
use super::per_execution::PerExecution;
use crate::table::PlacedTable;
use datafusion::execution::TaskContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::watch;

/// The keys of one join, from its build side to scans of its probe side.
///
/// There are keys for each execution of a plan.
#[derive(Debug, Default)]
pub(crate) struct RuntimeFilter {
    runs: PerExecution<ExecutionKeys>,
}

/// The keys of one execution.
#[derive(Debug, Default)]
pub(crate) struct ExecutionKeys {
    collected: OnceLock<KeyCollector>,
    /// Whether a build side collects them.
    begun: AtomicBool,
    /// Whether the keys are known, or will never be.
    settled: watch::Sender<bool>,
    compiled: Mutex<Vec<KeysOfColumn>>,
}

/// What the keys are for a column.
#[derive(Debug)]
struct KeysOfColumn {
    /// Address of the table and index of the column.
    column: (usize, usize),
    /// `None` if the keys are no help.
    filter: Option<CodeFilter>,
}

impl RuntimeFilter {
    /// The keys of the execution of `context`; they may not be there yet.
    pub fn run(&self, context: &Arc<TaskContext>) -> Arc<ExecutionKeys> {
        self.runs.find(context, |_| true)
    }

    /// The same for the build side that begins to collect them.
    ///
    /// A build side that is executed again has keys of its own.
    pub fn begin(&self, context: &Arc<TaskContext>) -> Arc<ExecutionKeys> {
        let run = self.runs.find(context, |run| run.collected.get().is_none());
        run.begun.store(true, Ordering::Release);
        run
    }
}

impl ExecutionKeys {
    /// Makes the keys known, which are then complete.
    pub fn complete(&self, keys: KeyCollector) {
        // The second of two is the same: an execution has one build side.
        drop(self.collected.set(keys));
    }

    /// Whether the keys are known.
    pub fn is_complete(&self) -> bool {
        self.collected.get().is_some()
    }

    /// Says that the keys are known by now, or will never be.
    pub fn settle(&self) {
        self.settled.send_replace(true);
    }

    /// Returns once that has been said, or at once if nobody will say it: the build side may run
    /// elsewhere, under another context.
    pub async fn wait(&self) {
        // A join begins its build side before its probe side.
        if !self.begun.load(Ordering::Acquire) {
            return;
        }
        // It fails when the sender is gone, which `self` has.
        drop(self.settled.subscribe().wait_for(|settled| *settled).await);
    }

    /// The rows of a column that have one of the keys; `None` if that is no help, or the keys are
    /// not known yet.
    pub fn filter(&self, table: &Arc<PlacedTable>, column: usize) -> Option<CodeFilter> {
        let keys = &self.collected.get()?.keys;
        let of = (Arc::as_ptr(table).addr(), column);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.iter().find(|known| known.column == of) {
            return known.filter.clone();
        }
        let filter = CodeFilter::of_keys(table, column, keys);
        compiled.push(KeysOfColumn {
            column: of,
            filter: filter.clone(),
        });
        filter
    }
}
