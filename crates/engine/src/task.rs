//! What operators know of the session that runs them.

use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
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
    let runtime = Arc::clone(state.runtime_env());
    let id = state.session_id().to_owned();
    Arc::new(without_functions(None, id, state.config().clone(), runtime))
}

/// `context` with other settings, and without names of functions as in [`task_context`].
pub fn with_settings(context: &TaskContext, settings: SessionConfig) -> TaskContext {
    let (task, session) = (context.task_id(), context.session_id());
    without_functions(task, session, settings, context.runtime_env())
}

fn without_functions(
    task: Option<String>,
    session: String,
    settings: SessionConfig,
    runtime: Arc<RuntimeEnv>,
) -> TaskContext {
    let (scalar, higher_order) = (HashMap::new(), HashMap::new());
    let (aggregate, window) = (HashMap::new(), HashMap::new());
    TaskContext::new(
        task,
        session,
        settings,
        scalar,
        higher_order,
        aggregate,
        window,
        runtime,
    )
}
