//! What operators know of the session that runs them.

use datafusion::execution::TaskContext;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::collections::HashMap;
use std::sync::Arc;

/// A context for one execution in the session of `context`.
///
/// It names no functions: an operator has those that it calls, and copying the names of all of them
/// takes longer than some statements.
pub fn task_context(context: &SessionContext) -> Arc<TaskContext> {
    let state = context.state_ref();
    let state = state.read();
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        Arc::clone(state.runtime_env()),
    ))
}

/// `context` with other settings, and without names of functions as in [`task_context`].
pub fn with_settings(context: &TaskContext, settings: SessionConfig) -> TaskContext {
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        settings,
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        context.runtime_env(),
    )
}
