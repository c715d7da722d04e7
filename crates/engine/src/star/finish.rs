//! The final step of an aggregation over groups that are already complete.
//!
//! The workers' accumulators are merged before the states leave the star join, so every group
//! occurs once and its states only have to be evaluated. A hash aggregation above would look up
//! every group again just to find it alone.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use std::sync::Arc;

/// Evaluates states to values with DataFusion's own accumulators.
#[derive(Debug, Clone)]
pub(super) struct Finish {
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// Number of group columns; they come first in both schemas.
    groups: usize,
    schema: SchemaRef,
}

impl Finish {
    /// The evaluation that `last` does over states; `None` if it does more than that.
    ///
    /// Without group columns DataFusion's operator is kept: it returns one row even for an empty
    /// input.
    pub(super) fn of(last: &AggregateExec, states: &SchemaRef) -> Option<Finish> {
        let groups = last.group_expr().expr().len();
        let plain = groups > 0
            && last.group_expr().is_single()
            && !last.group_expr().has_grouping_set()
            && last.limit_options().is_none()
            && last.properties().output_ordering().is_none();
        let schema = last.schema();
        let columns = 0..groups;
        let same = |i: usize| {
            let (from, to) = (states.fields().get(i), schema.fields().get(i));
            from.zip(to)
                .is_some_and(|(from, to)| from.data_type() == to.data_type())
        };
        let batched = |a: &Arc<AggregateFunctionExpr>| {
            a.groups_accumulator_supported() && a.order_bys().is_empty()
        };
        (plain && columns.into_iter().all(same) && last.aggr_expr().iter().all(batched)).then(
            || Finish {
                aggregates: last.aggr_expr().to_vec(),
                groups,
                schema,
            },
        )
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Evaluates `states` in batches of at most `rows` rows.
    pub(super) fn batches(&self, states: &RecordBatch, rows: usize) -> Result<Vec<RecordBatch>> {
        let rows = rows.max(1);
        let mut accumulators = Vec::with_capacity(self.aggregates.len());
        for aggregate in &self.aggregates {
            let states = aggregate.state_fields()?.len();
            accumulators.push((aggregate.create_groups_accumulator()?, states));
        }
        let numbers: Vec<usize> = (0..rows.min(states.num_rows())).collect();
        let mut batches = Vec::with_capacity(states.num_rows().div_ceil(rows));
        for start in (0..states.num_rows()).step_by(rows) {
            let part = states.slice(start, rows.min(states.num_rows() - start));
            let numbers = &numbers[..part.num_rows()];
            let mut columns: Vec<ArrayRef> = part.columns()[..self.groups].to_vec();
            let mut at = self.groups;
            for (accumulator, states) in &mut accumulators {
                let Some(values) = part.columns().get(at..at + *states) else {
                    return internal_err!("states of {} columns", part.num_columns());
                };
                accumulator.merge_batch(values, numbers, numbers.len())?;
                // Emitting all groups resets the accumulator for the next batch.
                columns.push(accumulator.evaluate(EmitTo::All)?);
                at += *states;
            }
            batches.push(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        }
        Ok(batches)
    }
}
