//! From a statement's text to a physical plan, away from the thread that waits for it.
//!
//! Planning evaluates constant expressions and tries filters, so it can take as long as running
//! can: it goes on in the runtime's own threads, a wish to stop ends the waiting, and a panic is
//! the error of its statement alone.

use crate::EngineError;
use crate::plan_cache::Sources;
use crate::stack;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// A plan and what it was made from, if it may be kept.
pub(crate) struct Planned {
    pub plan: Arc<dyn ExecutionPlan>,
    pub sources: Option<Sources>,
}

/// Plans the query `sql`.
///
/// # Errors
/// DataFusion's, and a statement that is no query.
pub(crate) async fn query(context: &SessionContext, sql: &str) -> Result<Planned> {
    let state = context.state();
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect)?;
    let names = state.resolve_table_references(&statement)?;
    let logical = state.statement_to_plan(statement).await?;
    expect_query(&logical)?;
    let sources = Sources::of(context, &logical, names).await;
    let plan = physical(&state, &logical).await?;
    Ok(Planned { plan, sources })
}

/// The optimised logical plan of the query `sql`.
///
/// # Errors
/// DataFusion's, and a statement that is no query.
pub(crate) async fn optimised(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect)?;
    let logical = state.statement_to_plan(statement).await?;
    expect_query(&logical)?;
    state.optimize(&logical)
}

/// Refuses a statement that makes, drops, fills or sets something.
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
/// DataFusion's, and plans that are known to give wrong rows.
pub(crate) async fn physical(
    state: &SessionState,
    logical: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let optimised = state.optimize(logical)?;
    refuse_list_casts(&optimised)?;
    let planner = state.query_planner();
    planner.create_physical_plan(&optimised, state).await
}

/// Refuses casts of lists to lists of a fixed size: Arrow 59 reads the wrong values wherever an
/// array does not begin at its buffer's start.
fn refuse_list_casts(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
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

/// Runs `work` on a thread of the runtime, with a stack for `levels` of nesting, and waits for it
/// or for the wish to stop (asked every 10 ms). What is stopped goes on in the background until it
/// next looks up, and its outcome is dropped.
///
/// # Errors
/// [`EngineError::Interrupted`], [`EngineError::Panicked`].
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
    let task = handle.spawn_blocking(move || {
        stack::with(levels, || {
            std::panic::catch_unwind(AssertUnwindSafe(|| inside.block_on(work)))
        })
    });
    let done = handle.block_on(async {
        tokio::select! {
            done = task => Some(done),
            () = stopped(stop) => None,
        }
    });
    match done {
        None => Err(EngineError::Interrupted),
        Some(Ok(Ok(outcome))) => Ok(outcome),
        Some(Ok(Err(panic))) => Err(EngineError::panicked(name, panic.as_ref())),
        // The runtime is going down.
        Some(Err(_)) => Err(EngineError::Interrupted),
    }
}

async fn stopped(stop: &(dyn Fn() -> bool + Sync)) {
    while !stop() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
