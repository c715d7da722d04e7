//! The physical operator of a star join.
//!
//! It has one output partition and parallelises internally: its workers draw morsels of the fact
//! table from one cursor. The replaced aggregation is kept as the fallback plan.

use super::compile::Aggregation;
use super::finish::Finish;
use super::later::LaterRules;
use super::lower::Lowered;
use super::morsels::PassOptions;
use super::run::{Run, StarObserved};
use crate::origin::values_of_table;
use crate::scan::{RuntimeFilter, takes_keys};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::TryStreamExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs a star join.
///
/// Returns partial aggregation states, or final values if it includes the last step.
///
/// Its children are the plans of the dimensions. They run first; then workers draw morsels of the
/// fact table from one cursor.
pub struct StarExec {
    lowered: Lowered,
    aggregation: Aggregation,
    /// Schema of the partial states.
    states: SchemaRef,
    /// Turns states into values; `None` if an operator above does.
    finish: Option<Finish>,
    /// The aggregation that this operator replaces.
    fallback: Arc<dyn ExecutionPlan>,
    /// Keys of joins above, by the fact column of the universe that has to have them.
    runtime_filters: Vec<(usize, Arc<RuntimeFilter>)>,
    /// Rules that the fallback has not been through; `None` if it is ready to run.
    later: Option<LaterRules>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    observed: Arc<Mutex<Option<StarObserved>>>,
    pass: Mutex<PassOptions>,
}

impl StarExec {
    pub(super) fn new(
        lowered: Lowered,
        aggregation: Aggregation,
        states: SchemaRef,
        fallback: Arc<dyn ExecutionPlan>,
        later: Option<LaterRules>,
    ) -> Self {
        StarExec {
            later,
            lowered,
            aggregation,
            finish: None,
            properties: properties(&states, &fallback),
            states,
            fallback,
            runtime_filters: Vec::new(),
            metrics: ExecutionPlanMetricsSet::new(),
            observed: Arc::default(),
            pass: Mutex::default(),
        }
    }

    /// Sets options of the next execution; resetting the operator's state clears them.
    pub fn set_pass(&self, pass: PassOptions) {
        *self.pass.lock().unwrap_or_else(PoisonError::into_inner) = pass;
    }

    /// Includes the last step of the aggregation; `replaced` is the complete aggregation.
    pub(super) fn finishing(self, finish: Finish, replaced: &Arc<dyn ExecutionPlan>) -> Self {
        StarExec {
            properties: properties(finish.schema(), replaced),
            finish: Some(finish),
            fallback: Arc::clone(replaced),
            ..self
        }
    }

    fn with(&self, lowered: Lowered, fallback: Arc<dyn ExecutionPlan>) -> Self {
        let states = Arc::clone(&self.states);
        let (aggregation, later) = (self.aggregation.clone(), self.later.clone());
        let star = StarExec {
            runtime_filters: self.runtime_filters.clone(),
            ..StarExec::new(lowered, aggregation, states, fallback, later)
        };
        let whole = Arc::clone(&star.fallback);
        match &self.finish {
            Some(finish) => star.finishing(finish.clone(), &whole),
            None => star,
        }
    }

    /// The fact table that the workers scan.
    pub fn fact(&self) -> &Arc<crate::PlacedTable> {
        &self.lowered.fact
    }

    /// Table indices of the fact columns that the operator may read.
    pub fn fact_columns(&self) -> &[usize] {
        &self.lowered.fact_columns
    }

    /// The operators that it replaces.
    pub(crate) fn fallback(&self) -> &Arc<dyn ExecutionPlan> {
        &self.fallback
    }

    /// The dimension whose column is the group at `column` of the output, and its index there.
    pub(crate) fn dimension_of_group(
        &self,
        column: usize,
    ) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
        let column = self.group_column(column)?;
        let dimension = &self.lowered.dimensions[self.lowered.owner(column)?];
        Some((&dimension.plan, column - dimension.offset))
    }

    /// The fact column, of the universe, that is the group at `column` of the output, if keys of
    /// the type `data_type` can be looked up in it; and the number of its values, if that is known.
    pub(crate) fn fact_group(
        &self,
        column: usize,
        data_type: &DataType,
    ) -> Option<(usize, Option<usize>)> {
        let column = self.group_column(column)?;
        let of_fact = *self.lowered.fact_columns.get(column)?;
        let fits = self.lowered.universe.field(column).data_type() == data_type
            && takes_keys(&self.lowered.fact, of_fact);
        let values = values_of_table(&self.lowered.fact, of_fact);
        fits.then_some((column, values.get_value().copied()))
    }

    /// The column of the universe that is the group at `column` of the output unchanged.
    fn group_column(&self, column: usize) -> Option<usize> {
        let group = self.aggregation.groups.get(column)?;
        let group = self.lowered.over_universe(group).ok()?;
        Some(group.downcast_ref::<Column>()?.index())
    }

    /// The filters by keys of joins above, by the fact column of the universe.
    pub(crate) fn runtime_filters(&self) -> &[(usize, Arc<RuntimeFilter>)] {
        &self.runtime_filters
    }

    /// The same operator without groups that lack the keys of joins above, by the fact column, of
    /// the universe, that has to have them.
    pub(crate) fn with_runtime_filters(&self, filters: &[(usize, Arc<RuntimeFilter>)]) -> Self {
        let mut star = self.with(self.lowered.clone(), Arc::clone(&self.fallback));
        star.runtime_filters.extend_from_slice(filters);
        star
    }

    /// Statistics of the last execution; `None` before it ended.
    pub fn observed(&self) -> Option<StarObserved> {
        self.observed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// One line with fact table, filters, dimensions, groups and aggregates, for `EXPLAIN`.
    pub fn summary(&self) -> String {
        let lowered = &self.lowered;
        let list = |exprs: Vec<String>| exprs.join(", ");
        let dimension = |d: &super::lower::Dimension| {
            format!(
                "{} on {}",
                d.name,
                lowered.universe.field(d.fact_key).name()
            )
        };
        let group = |e: &Arc<dyn PhysicalExpr>| {
            lowered
                .over_universe(e)
                .map_or_else(|e| e.to_string(), |e| plain(&e))
        };
        format!(
            "fact={}, rows={}, filters=[{}], dimensions=[{}], groups=[{}], aggregates=[{}]",
            lowered.fact.name(),
            lowered.fact.rows(),
            list(lowered.filters.iter().map(plain).collect()),
            list(lowered.dimensions.iter().map(dimension).collect()),
            list(self.aggregation.groups.iter().map(group).collect()),
            list(
                self.aggregation
                    .aggregates
                    .iter()
                    .map(|a| a.name().to_owned())
                    .collect()
            ),
        )
    }

    fn run(&self, context: &Arc<TaskContext>) -> Run {
        Run {
            lowered: self.lowered.clone(),
            aggregation: self.aggregation.clone(),
            states: Arc::clone(&self.states),
            finish: self.finish.clone(),
            awaited: self
                .runtime_filters
                .iter()
                .map(|(column, keys)| (*column, keys.run(context)))
                .collect(),
            context: Arc::clone(context),
            observed: Arc::clone(&self.observed),
            metrics: self.metrics.clone(),
            pass: *self.pass.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Properties of an operator with rows of `schema`, in no order, that replaces `replaced`.
fn properties(schema: &SchemaRef, replaced: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
    let mut equivalences = EquivalenceProperties::new(Arc::clone(schema));
    let known = replaced.properties().equivalence_properties();
    // Operators above were planned with the constants known: a window over a key that a filter
    // makes constant would not find its input sorted by it.
    if known.schema().fields().len() == schema.fields().len() {
        let _ = equivalences.add_constants(known.constants());
    }
    let properties = PlanProperties::new(
        equivalences,
        Partitioning::UnknownPartitioning(1),
        // No group is complete before the last morsel, so all output comes at the end.
        EmissionType::Final,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

/// An expression as SQL text, without column indices.
fn plain(expr: &Arc<dyn PhysicalExpr>) -> String {
    datafusion::physical_expr_common::physical_expr::fmt_sql(expr.as_ref()).to_string()
}

impl ExecutionPlan for StarExec {
    fn name(&self) -> &str {
        "StarExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.lowered.dimensions.iter().map(|d| &d.plan).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.lowered.dimensions.len()]
    }

    // Its expressions refer to the universe and not to a child's schema, so DataFusion's rewrites
    // must not visit them.
    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut lowered = self.lowered.clone();
        if children.len() != lowered.dimensions.len() {
            return internal_err!(
                "a star join of {} dimensions was given {}",
                lowered.dimensions.len(),
                children.len()
            );
        }
        for (dimension, child) in lowered.dimensions.iter_mut().zip(children) {
            dimension.plan = child;
        }
        Ok(Arc::new(self.with(lowered, Arc::clone(&self.fallback))))
    }

    tierloom_corrections::with_new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // The fallback is not a child, so DataFusion does not reset it.
        let fallback = reset_plan_states(Arc::clone(&self.fallback))?;
        Ok(Arc::new(self.with(self.lowered.clone(), fallback)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("partition {partition} of a star join does not exist");
        }
        let run = self.run(&context);
        let schema = self.schema();
        let (fallback, later) = (Arc::clone(&self.fallback), self.later.clone());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let fallbacks = MetricBuilder::new(&self.metrics).counter("fallbacks", partition);
        let stream = async move {
            match run.fused().await? {
                Ok(batches) => {
                    if let Some(seen) = run
                        .observed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .as_ref()
                    {
                        baseline.elapsed_compute().add_duration(seen.cpu);
                    }
                    baseline.record_output(batches.iter().map(RecordBatch::num_rows).sum());
                    let batches = futures::stream::iter(batches.into_iter().map(Ok));
                    Ok::<SendableRecordBatchStream, DataFusionError>(Box::pin(
                        RecordBatchStreamAdapter::new(schema, batches),
                    ))
                }
                Err(why) => {
                    fallbacks.add(1);
                    *run.observed.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(StarObserved {
                            fell_back: Some(why.0),
                            ..StarObserved::default()
                        });
                    let fallback = match later {
                        Some(later) => {
                            let options = context.session_config().options();
                            later.applied(fallback, options)?
                        }
                        None => fallback,
                    };
                    // The fallback shares operators with the dimensions, which have already run and
                    // whose streams are consumed.
                    let fallback = CoalescePartitionsExec::new(reset_plan_states(fallback)?);
                    fallback.execute(0, context)
                }
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::once(stream).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}

impl DisplayAs for StarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StarExec: {}", self.summary())?;
        if !self.runtime_filters.is_empty() {
            let columns = self.runtime_filters.iter();
            let names: Vec<&str> = columns
                .map(|(column, _)| self.lowered.universe.field(*column).name().as_str())
                .collect();
            write!(f, ", filtered by keys of joins in [{}]", names.join(", "))?;
        }
        if let Some(why) = self.observed().and_then(|o| o.fell_back) {
            write!(f, ", fell back: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for StarExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StarExec")
            .field("fact", &self.lowered.fact.name())
            .finish_non_exhaustive()
    }
}
