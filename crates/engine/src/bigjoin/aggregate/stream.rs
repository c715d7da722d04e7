//! The aggregation of one partition.
//!
//! Reads all input, then emits the groups. A partial aggregation that finds nearly as many groups
//! as rows stops grouping and passes rows on as states, as DataFusion's operator does.

use super::NAME;
use super::groups::{GroupKeys, Groups};
use crate::breakdown::guarded;
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use futures::StreamExt;
use std::sync::Arc;

/// One aggregate function with its arguments.
pub(super) struct Aggregate {
    pub accumulator: Box<dyn GroupsAccumulator>,
    pub arguments: Vec<Arc<dyn PhysicalExpr>>,
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

/// When a partial aggregation stops grouping because it hardly reduces the number of rows.
#[derive(Clone, Copy)]
pub(super) struct SkipWhen {
    /// Number of input rows before the check,
    pub rows: usize,
    /// and the number of groups per row above which it stops.
    pub groups_per_row: f64,
}

pub(super) struct AggregatePlan {
    pub schema: SchemaRef,
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    pub key_types: Vec<DataType>,
    /// The input consists of states of an earlier aggregation, not raw rows.
    pub merges: bool,
    /// The output consists of final values, not states.
    pub finishes: bool,
    pub skip: Option<SkipWhen>,
    pub batch_rows: usize,
}

enum AggregateState {
    Reading(Box<Groups>),
    /// The groups have been emitted; every further row becomes its own state.
    Skipping,
    Done,
}

/// Output of any size, and the number of rows already returned.
enum Ready {
    Batch(RecordBatch, usize),
    /// Keys become columns piece by piece, so that they do not exist twice.
    Groups {
        keys: GroupKeys,
        values: Vec<ArrayRef>,
        sent: usize,
    },
}

pub(super) struct AggregateStream {
    plan: AggregatePlan,
    input: SendableRecordBatchStream,
    aggregates: Vec<Aggregate>,
    state: AggregateState,
    ready: Option<Ready>,
    input_rows: usize,
    numbers: Vec<usize>,
    reservation: MemoryReservation,
    skipped_rows: Count,
    metrics: BaselineMetrics,
}

impl AggregateStream {
    pub fn new(
        plan: AggregatePlan,
        input: SendableRecordBatchStream,
        aggregates: Vec<Aggregate>,
        groups: Groups,
        reservation: MemoryReservation,
        skipped_rows: Count,
        metrics: BaselineMetrics,
    ) -> Self {
        Self {
            plan,
            input,
            aggregates,
            state: AggregateState::Reading(Box::new(groups)),
            ready: None,
            input_rows: 0,
            numbers: Vec::new(),
            reservation,
            skipped_rows,
            metrics,
        }
    }

    /// The next batch of groups, at most `batch_rows` rows.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.next_slice()? {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if matches!(self.state, AggregateState::Done) {
                return Ok(None);
            }
            let batch = self.input.next().await.transpose()?;
            let elapsed = self.metrics.elapsed_compute().clone();
            let _timer = elapsed.timer();
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => guarded(NAME, || self.take_in(&batch))?,
                None => {
                    if let AggregateState::Reading(groups) =
                        std::mem::replace(&mut self.state, AggregateState::Done)
                    {
                        guarded(NAME, || self.emit(*groups))?;
                    }
                }
            }
        }
    }

    fn next_slice(&mut self) -> Result<Option<RecordBatch>> {
        let limit = self.plan.batch_rows;
        match &mut self.ready {
            None => return Ok(None),
            Some(Ready::Batch(batch, sent)) => {
                let rows = limit.min(batch.num_rows() - *sent);
                let slice = batch.slice(*sent, rows);
                *sent += rows;
                if rows > 0 {
                    return Ok(Some(slice));
                }
            }
            Some(Ready::Groups { keys, values, sent }) => {
                let rows = limit.min(keys.len() - *sent);
                let time = self.metrics.elapsed_compute().clone();
                let _timer = time.timer();
                if rows > 0 {
                    let mut columns = guarded(NAME, || keys.columns(*sent..*sent + rows))?;
                    columns.extend(values.iter().map(|values| values.slice(*sent, rows)));
                    *sent += rows;
                    let schema = Arc::clone(&self.plan.schema);
                    return Ok(Some(RecordBatch::try_new(schema, columns)?));
                }
            }
        }
        self.ready = None;
        // All groups belong to the consumer now.
        if !matches!(self.state, AggregateState::Reading(_)) {
            self.reservation.try_resize(0)?;
        }
        Ok(None)
    }

    fn take_in(&mut self, batch: &RecordBatch) -> Result<()> {
        let AggregateState::Reading(groups) = &mut self.state else {
            return self.pass_on(batch);
        };
        let keys = evaluate_expressions_to_arrays(&self.plan.keys, batch)?;
        groups.assign(&keys, &mut self.numbers)?;
        let total = groups.len();
        for aggregate in &mut self.aggregates {
            let (values, filter) = evaluate(aggregate, batch)?;
            if self.plan.merges {
                aggregate
                    .accumulator
                    .merge_batch(&values, &self.numbers, total)?;
            } else {
                aggregate.accumulator.update_batch(
                    &values,
                    &self.numbers,
                    filter.as_ref(),
                    total,
                )?;
            }
        }
        // Resized after the fact: accumulators do not announce their growth. Without a memory limit
        // this cannot fail.
        let states: usize = self.aggregates.iter().map(|a| a.accumulator.size()).sum();
        self.reservation.try_resize(groups.size_bytes() + states)?;
        self.input_rows += batch.num_rows();
        let skips = self.plan.skip.is_some_and(|when| {
            self.input_rows >= when.rows
                && total as f64 > when.groups_per_row * self.input_rows as f64
        });
        // The groups so far are emitted as states; the final aggregation merges them with the rows
        // that follow.
        if skips
            && let AggregateState::Reading(groups) =
                std::mem::replace(&mut self.state, AggregateState::Skipping)
        {
            self.emit(*groups)?;
        }
        Ok(())
    }

    /// Converts each row of a batch to its own state, without grouping.
    fn pass_on(&mut self, batch: &RecordBatch) -> Result<()> {
        self.skipped_rows.add(batch.num_rows());
        let mut columns = evaluate_expressions_to_arrays(&self.plan.keys, batch)?;
        for aggregate in &self.aggregates {
            let (values, filter) = evaluate(aggregate, batch)?;
            columns.extend(
                aggregate
                    .accumulator
                    .convert_to_state(&values, filter.as_ref())?,
            );
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?;
        self.ready = Some(Ready::Batch(batch, 0));
        Ok(())
    }

    fn emit(&mut self, groups: Groups) -> Result<()> {
        // There is at least one group column, so no input means no output row.
        if groups.len() == 0 {
            return Ok(());
        }
        let keys = groups.into_keys()?;
        let mut values = Vec::new();
        for aggregate in &mut self.aggregates {
            if self.plan.finishes {
                values.push(aggregate.accumulator.evaluate(EmitTo::All)?);
            } else {
                values.extend(aggregate.accumulator.state(EmitTo::All)?);
            }
        }
        self.ready = Some(Ready::Groups {
            keys,
            values,
            sent: 0,
        });
        Ok(())
    }
}

fn evaluate(
    aggregate: &Aggregate,
    batch: &RecordBatch,
) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
    let values = evaluate_expressions_to_arrays(&aggregate.arguments, batch)?;
    let filter = aggregate.filter.as_ref();
    let filter = filter
        .map(|f| f.evaluate(batch)?.into_array(batch.num_rows()))
        .transpose()?;
    Ok((values, filter.map(|f| f.as_boolean().clone())))
}
