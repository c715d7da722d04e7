//! The two steps of an aggregation that was planned in one.

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use std::sync::Arc;

/// The step that makes states of the rows of `aggregate`, which has one step.
///
/// # Errors
/// DataFusion's, from making the operator.
pub fn partial_step(aggregate: &AggregateExec) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Partial,
        Arc::new(aggregate.group_expr().clone()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )
}

/// The step that makes the rows of `aggregate` of the states that `input` gives.
///
/// Its columns may differ in nullability from those of `aggregate`: compare the schemas.
///
/// # Errors
/// DataFusion's, from making the operator.
pub fn final_step(
    aggregate: &AggregateExec,
    input: Arc<dyn ExecutionPlan>,
) -> Result<AggregateExec> {
    last_step(AggregateMode::Final, aggregate, input)
}

/// Same as [`final_step`] over states that are partitioned by the groups. `aggregate` may be a
/// final step itself.
///
/// # Errors
/// Same as [`final_step`].
pub fn final_step_by_key(
    aggregate: &AggregateExec,
    input: Arc<dyn ExecutionPlan>,
) -> Result<AggregateExec> {
    last_step(AggregateMode::FinalPartitioned, aggregate, input)
}

fn last_step(
    mode: AggregateMode,
    aggregate: &AggregateExec,
    input: Arc<dyn ExecutionPlan>,
) -> Result<AggregateExec> {
    let last = AggregateExec::try_new(
        mode,
        Arc::new(aggregate.group_expr().as_final()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        aggregate.input_schema(),
    )?;
    Ok(last.with_limit_options(aggregate.limit_options()))
}
