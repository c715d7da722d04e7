//! The operator that repeats groups for each set.

use super::over_groups;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy, evaluate_group_by};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{EmissionType, replace_children_if_necessary};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PhysicalExpr, PlanProperties, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Gives each group, a row of keys and states, once for every set, with NULL for the keys that the
/// set has not, and the set's number.
#[derive(Debug)]
pub(super) struct GroupingSetsExec {
    input: Arc<dyn ExecutionPlan>,
    sets: PhysicalGroupBy,
    /// The aggregation that is replaced, without rows: what it gives for a partition without groups
    /// is given here too, the total of nothing.
    of_nothing: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupingSetsExec {
    /// Makes what `aggregate` gives of `input`: states of groups by all columns of its sets.
    pub fn new(input: Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> Result<Self> {
        let nothing: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(aggregate.input().schema()));
        let aggregate_plan: Arc<dyn ExecutionPlan> = Arc::new(aggregate.clone());
        let of_nothing = replace_children_if_necessary(aggregate_plan, vec![nothing])?;
        let sets = over_groups(aggregate.group_expr());
        Ok(Self::of_parts(input, sets, of_nothing))
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let (sets, of_nothing) = (self.sets.clone(), Arc::clone(&self.of_nothing));
        Arc::new(Self::of_parts(input, sets, of_nothing))
    }

    fn of_parts(
        input: Arc<dyn ExecutionPlan>,
        sets: PhysicalGroupBy,
        of_nothing: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let parts = input.output_partitioning().partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(of_nothing.schema()),
            Partitioning::UnknownPartitioning(parts),
            EmissionType::Incremental,
            input.boundedness(),
        ));
        GroupingSetsExec {
            input,
            sets,
            of_nothing,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// The groups of a batch for every set.
fn repeated(
    batch: &RecordBatch,
    sets: &PhysicalGroupBy,
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>> {
    let states = &batch.columns()[sets.expr().len()..];
    let with_states = |mut columns: Vec<ArrayRef>| {
        columns.extend_from_slice(states);
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    };
    let keys = evaluate_group_by(sets, batch)?;
    keys.into_iter().map(with_states).collect()
}

impl DisplayAs for GroupingSetsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |set: &Vec<bool>| {
            let keys = self.sets.expr().iter().zip(set);
            let named = keys.filter(|(_, is_null)| !**is_null);
            let names: Vec<&str> = named.map(|((_, name), _)| name.as_str()).collect();
            format!("({})", names.join(", "))
        };
        let sets: Vec<String> = self.sets.groups().iter().map(names).collect();
        write!(f, "GroupingSetsExec: sets=[{}]", sets.join(", "))
    }
}

impl ExecutionPlan for GroupingSetsExec {
    fn name(&self) -> &'static str {
        "GroupingSetsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut goes_on = TreeNodeRecursion::Continue;
        for (key, _) in self.sets.expr() {
            goes_on = goes_on.visit_sibling(|| f(key))?;
        }
        Ok(goes_on)
    }

    tierloom_corrections::with_one_input!(input, over);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let groups = self.input.execute(partition, Arc::clone(&context))?;
        let (sets, schema) = (self.sets.clone(), self.schema());
        let of_nothing = Arc::clone(&self.of_nothing);
        let mut groups = groups.peekable();
        let rows = async move {
            // Batches have rows, but for what an operator gives at its end.
            while let Some(Ok(batch)) = std::pin::Pin::new(&mut groups).peek().await {
                if batch.num_rows() > 0 {
                    break;
                }
                groups.next().await;
            }
            if std::pin::Pin::new(&mut groups).peek().await.is_none() {
                return of_nothing.execute(0, context);
            }
            let of_sets = Arc::clone(&schema);
            let batches = groups.map(move |batch| {
                let timer = metrics.elapsed_compute().timer();
                let batches = batch.and_then(|batch| repeated(&batch, &sets, &of_sets))?;
                timer.done();
                for batch in &batches {
                    metrics.output_rows().add(batch.num_rows());
                }
                Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
            });
            let rows: SendableRecordBatchStream =
                Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten()));
            Ok(rows)
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [groups] = inputs else {
            return internal_err!("{} has one input", self.name());
        };
        let sets = Precision::Exact(self.sets.groups().len());
        Ok(Arc::new(Statistics {
            num_rows: groups.num_rows.multiply(&sets).to_inexact(),
            ..Statistics::new_unknown(&self.schema())
        }))
    }
}
