//! What the operators of one execution of a plan share.

use datafusion::execution::TaskContext;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A value for each execution of a plan.
///
/// A plan may run several times, at the same time too; an execution is known by its
/// [`TaskContext`].
#[derive(Debug)]
pub(super) struct PerExecution<T> {
    runs: Mutex<Vec<(Weak<TaskContext>, Weak<T>)>>,
}

impl<T> Default for PerExecution<T> {
    fn default() -> Self {
        PerExecution {
            runs: Mutex::default(),
        }
    }
}

impl<T: Default> PerExecution<T> {
    /// The value of the execution of `context`; a new one if there is none that `fits`.
    pub fn find(&self, context: &Arc<TaskContext>, fits: impl Fn(&T) -> bool) -> Arc<T> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|(context, run)| context.strong_count() > 0 && run.strong_count() > 0);
        let context = Arc::downgrade(context);
        let at = runs.iter().position(|(of, _)| of.ptr_eq(&context));
        if let Some(at) = at {
            match runs[at].1.upgrade() {
                Some(run) if fits(&run) => return run,
                _ => drop(runs.swap_remove(at)),
            }
        }
        let run = Arc::new(T::default());
        runs.push((context, Arc::downgrade(&run)));
        run
    }
}
