//! Plans statements on a separate thread, so that the waiting thread can cancel.
//!
//! Planning evaluates constant expressions and samples filters, so it can take as long as running.
//! It runs on the runtime's threads; cancellation ends the wait, and a panic fails its statement
//! only.

use crate::EngineError;
use crate::plan_cache::Sources;
use crate::stack;
use crate::wait::Waiter;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tierloom_corrections::{Walk, WalkAll};
use tierloom_planner::{read_statement, read_with_names};
use tokio::runtime::Handle;

/// A physical plan, and what it depends on if it may be cached.
pub(crate) struct PlannedStatement {
    pub plan: Arc<dyn ExecutionPlan>,
    pub sources: Option<Sources>,
}

/// Plans the query `sql`, which may have been `parsed` already.
///
/// # Errors
/// DataFusion's, or a statement that is not a query.
pub(crate) async fn query(
    context: &SessionContext,
    sql: &str,
    parsed: Option<Statement>,
) -> Result<PlannedStatement> {
    let state = context.state();
    let statement = match parsed {
        Some(statement) => statement,
        None => tierloom_corrections::statement(&state, sql)?,
    };
    let (logical, names) = read_with_names(&state, sql, statement).await?;
    expect_query(&logical)?;
    let sources = Sources::of(context, &logical, names).await;
    let plan = physical(&state, &logical).await?;
    Ok(PlannedStatement { plan, sources })
}

/// The optimised logical plan of the query `sql`.
///
/// # Errors
/// DataFusion's, or a statement that is not a query.
pub(crate) async fn optimised(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    let logical = read_statement(state, sql).await?;
    expect_query(&logical)?;
    state.optimize(&logical)
}

/// Refuses statements that change data, the catalog or settings.
fn expect_query(logical: &LogicalPlan) -> Result<()> {
    match logical {
        LogicalPlan::Ddl(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::Statement(_) => Err(plan_datafusion_err!("expected a query here")),
        _ => Ok(()),
    }
}

/// The physical plan of a logical one.
///
/// # Errors
/// DataFusion's, and plans that are known to return wrong rows.
pub(crate) async fn physical(
    state: &SessionState,
    logical: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let optimised = state.optimize(logical)?;
    refuse_list_casts(&optimised)?;
    // `SessionState::create_physical_plan` would optimise the plan again.
    let planner = state.query_planner();
    planner.create_physical_plan(&optimised, state).await
}

/// Refuses casts of lists to fixed-size lists.
///
/// Arrow 59 reads wrong values from arrays that do not start at their buffer's start.
fn refuse_list_casts(plan: &LogicalPlan) -> Result<()> {
    plan.each_of_all(&mut |node| {
        node.each_expression(&mut |expr| {
            expr.each(&mut |e| {
                let (Expr::Cast(Cast { expr: inner, field })
                | Expr::TryCast(TryCast { expr: inner, field })) = e
                else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                let to = field.data_type();
                if !matches!(to, DataType::FixedSizeList(..)) {
                    return Ok(TreeNodeRecursion::Continue);
                }
                let from = inner.get_type(&merge_schema(&node.inputs()));
                match from {
                    Ok(from) if !is_list(&from) => Ok(TreeNodeRecursion::Continue),
                    _ => Err(DataFusionError::NotImplemented(format!(
                        "a cast of a list to {to} is refused, as Arrow gets it wrong; keep the list"
                    ))),
                }
            })
        })
    })
    .map(drop)
}

fn is_list(data_type: &DataType) -> bool {
    use DataType::{LargeList, LargeListView, List, ListView};
    matches!(
        data_type,
        List(_) | LargeList(_) | ListView(_) | LargeListView(_)
    )
}

/// Runs `work` on a thread of the runtime with a stack for `levels` of nesting.
///
/// Waits for the result or for `stop`, which is polled every 10 ms. Stopped work continues in the
/// background until its next await point, and its result is dropped.
///
/// # Errors
/// [`EngineError::Interrupted`] and [`EngineError::Panicked`].
pub(crate) fn aside<T, F>(
    handle: &Handle,
    name: &str,
    levels: usize,
    stop: &(dyn Fn() -> bool + Sync),
    work: F,
) -> std::result::Result<T, EngineError>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let inside = handle.clone();
    // A blocking thread: planning is CPU-bound and would hold up an async worker.
    let task = handle.spawn_blocking(move || {
        stack::with(levels, || {
            std::panic::catch_unwind(AssertUnwindSafe(|| inside.block_on(work)))
        })
    });
    match Waiter::new(handle).until_stopped(stop, task) {
        None => Err(EngineError::Interrupted),
        Some(Ok(Ok(outcome))) => Ok(outcome),
        Some(Ok(Err(panic))) => Err(EngineError::panicked(name, panic.as_ref())),
        // The runtime is shutting down.
        Some(Err(_)) => Err(EngineError::Interrupted),
    }
}
