//! What operators know of the session that runs them.

use crate::counting::Counting;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::collections::HashMap;
use std::sync::Arc;

/// A context for one execution of `plan` in the session of `context`.
///
/// It names functions only if the plan reads a table that the session makes of itself, as
/// `information_schema` does: other operators have those that they call, and copying the names of
/// all of them takes longer than some statements.
pub fn task_context(context: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Arc<TaskContext> {
    let of_the_session = plan.exists(|node| Ok(node.is::<StreamingTableExec>()));
    if of_the_session.is_ok_and(|found| found) {
        return context.task_ctx();
    }
    let state = context.state_ref();
    let state = state.read();
    let runtime = Arc::clone(state.runtime_env());
    let id = state.session_id().to_owned();
    Arc::new(without_functions(None, id, state.config().clone(), runtime))
}

/// `context` for an execution whose operators are counted.
pub fn counted_context(context: &TaskContext, counting: Arc<Counting>) -> Arc<TaskContext> {
    let settings = context.session_config().clone().with_extension(counting);
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        settings,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

/// `context` with other settings, and without names of functions.
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
