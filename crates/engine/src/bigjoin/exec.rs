//! The physical operator of the join.
//!
//! It wraps the `HashJoinExec` that it replaces and answers all planning questions from it, so
//! schema, partitioning, ordering and statistics are DataFusion's.

use super::build::{BuildMetrics, BuildPlan, collect};
use super::keys::{MAX_COLUMNS, can_join};
use super::stream::{Probe, ProbeMetrics, ProbePlan, SharedBuild};
use crate::replaced;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
};
use futures::FutureExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_corrections::Walk;

/// A hash join on integer keys for build sides larger than the cache; see the module documentation.
pub struct BigJoinExec {
    /// The replaced join; answers the planner's questions and is never run.
    join: Arc<HashJoinExec>,
    why: String,
    columns: Vec<ColumnIndex>,
    metrics: ExecutionPlanMetricsSet,
    /// The build side shared by all partitions in `CollectLeft` mode.
    shared: Mutex<Option<SharedBuild>>,
}

impl BigJoinExec {
    /// Replaces `join`; `why` is shown in `EXPLAIN`.
    ///
    /// # Errors
    /// If the operator cannot do this join; [`super::BigJoinRule`] checks first.
    pub fn try_new(join: Arc<HashJoinExec>, why: String) -> Result<Self> {
        if let Some(reason) = unsupported(&join)? {
            return internal_err!("BigJoinExec cannot replace this join: {reason}");
        }
        let (_, all) = build_join_schema(
            &join.left().schema(),
            &join.right().schema(),
            join.join_type(),
        );
        let columns = match join.projection.as_ref() {
            Some(projection) => projection.iter().map(|i| all[*i].clone()).collect(),
            None => all,
        };
        Ok(Self {
            join,
            why,
            columns,
            metrics: ExecutionPlanMetricsSet::new(),
            shared: Mutex::default(),
        })
    }

    /// The replaced join. It is not run, so it has no metrics.
    pub fn join(&self) -> &Arc<HashJoinExec> {
        &self.join
    }

    /// Why the join was replaced, as shown in `EXPLAIN`.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Per build column, whether the output or the filter reads it.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.join.left().schema().fields().len()];
        let filter = self.join.filter().map_or(&[][..], |f| f.column_indices());
        for column in self.columns.iter().chain(filter) {
            if column.side == JoinSide::Left {
                needed[column.index] = true;
            }
        }
        needed
    }

    fn build(&self, partition: usize, context: &Arc<TaskContext>) -> Result<SharedBuild> {
        let collected = *self.join.partition_mode() == PartitionMode::CollectLeft;
        let (part, name, streams) = if collected {
            let streams = self.join.right().output_partitioning().partition_count();
            (0, CONSUMER.to_owned(), streams)
        } else {
            (partition, format!("{CONSUMER}[{partition}]"), 1)
        };
        let plan = BuildPlan {
            on: self.join.on().iter().map(|(l, _)| Arc::clone(l)).collect(),
            needed: self.needed(),
            // The probe streams wait for the build, so their threads are free to help.
            builders: streams,
            streams,
            // Only these join types return build rows by whether they matched.
            remember: matches!(
                self.join.join_type(),
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Left | JoinType::Full
            ),
        };
        let reservation = MemoryConsumer::new(name).register(context.memory_pool());
        let stream = self.join.left().execute(part, Arc::clone(context))?;
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, part);
        let metrics = BuildMetrics {
            time: MetricBuilder::new(&self.metrics).subset_time("build_time", part),
            elapsed: MetricBuilder::new(&self.metrics).elapsed_compute(part),
            batches: counter("build_input_batches"),
            rows: counter("build_input_rows"),
            memory: MetricBuilder::new(&self.metrics).gauge("build_mem_used", part),
            dense: counter("array_map_created_count"),
        };
        Ok(async move {
            collect(plan, stream, reservation, metrics)
                .await
                .map(Arc::new)
                .map_err(Arc::new)
        }
        .boxed()
        .shared())
    }

    /// The build side of a partition; the same for all partitions in `CollectLeft` mode.
    fn build_of(&self, partition: usize, context: &Arc<TaskContext>) -> Result<SharedBuild> {
        if *self.join.partition_mode() != PartitionMode::CollectLeft {
            return self.build(partition, context);
        }
        // The first partition starts the build and the others wait for its shared future.
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(build) = shared.as_ref() {
            return Ok(build.clone());
        }
        let build = self.build(partition, context)?;
        *shared = Some(build.clone());
        Ok(build)
    }

    fn around(&self, join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(join) = join.downcast_ref::<HashJoinExec>() else {
            return internal_err!("a hash join became another operator");
        };
        let join = Arc::new(join.builder().build()?);
        Ok(Arc::new(Self::try_new(join, self.why.clone())?))
    }
}

/// Memory consumer name of the build side, the one that `HashJoinExec` uses.
const CONSUMER: &str = "HashJoinInput";

impl ExecutionPlan for BigJoinExec {
    fn name(&self) -> &'static str {
        super::NAME
    }

    tierloom_corrections::planned_as!(join);

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join).replace_children(children, options)?;
        self.around(join)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join)
            .builder()
            .recompute_properties()
            .with_new_children(children)?
            .build_exec()?;
        self.around(join)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // A new operator, because the shared build side of the last execution must not be reused.
        Ok(Arc::new(Self::try_new(
            Arc::clone(&self.join),
            self.why.clone(),
        )?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let build = self.build_of(partition, &context)?;
        let counter =
            |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let metrics = ProbeMetrics {
            baseline: BaselineMetrics::new(&self.metrics, partition),
            join_time: MetricBuilder::new(&self.metrics).subset_time("join_time", partition),
            input_batches: counter("input_batches"),
            input_rows: counter("input_rows"),
        };
        let plan = ProbePlan {
            schema: self.schema(),
            join_type: *self.join.join_type(),
            on: self.join.on().iter().map(|(_, r)| Arc::clone(r)).collect(),
            filter: self.join.filter().cloned(),
            columns: self.columns.clone(),
            batch_rows: context.session_config().batch_size(),
        };
        let right = self.join.right().execute(partition, context)?;
        let probe = Probe::new(Arc::new(plan), build, right, metrics);
        let batches = futures::stream::try_unfold(probe, |mut probe| async move {
            Ok(probe.next().await?.map(|batch| (batch, probe)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    tierloom_corrections::estimated_as!(join);
}

impl DisplayAs for BigJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // HashJoinExec's own text, with the other name and the reason appended.
        let text = replaced::text(self.join.as_ref(), t);
        match text.strip_prefix("HashJoinExec") {
            Some(rest) => write!(f, "BigJoinExec{rest}, hash table: {}", self.why),
            None => writeln!(f, "{}\n{}", text.trim_end(), self.why),
        }
    }
}

impl fmt::Debug for BigJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigJoinExec")
            .field("join", &self.join)
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}

/// Why [`BigJoinExec`] cannot replace `join`; `None` if it can.
pub(super) fn unsupported(join: &HashJoinExec) -> Result<Option<String>> {
    let kind = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Left
            | JoinType::Right
            | JoinType::Full
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::RightSemi
            | JoinType::RightAnti
    );
    if !kind {
        return Ok(Some(format!("{} joins stay as they are", join.join_type())));
    }
    if *join.partition_mode() == PartitionMode::Auto {
        return Ok(Some("its mode is not chosen yet".into()));
    }
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(Some("its NULLs match or count".into()));
    }
    if join.fetch().is_some() {
        return Ok(Some("it ends after a number of rows".into()));
    }
    if !(1..=MAX_COLUMNS).contains(&join.on().len()) {
        return Ok(Some(format!("{} key columns", join.on().len())));
    }
    for (left, right) in join.on() {
        let left = left.data_type(&join.left().schema())?;
        if !can_join(&left) || left != right.data_type(&join.right().schema())? {
            return Ok(Some(format!("keys of type {left}")));
        }
    }
    if feeds_a_filter(join)? {
        return Ok(Some("its build side filters the probe side's scan".into()));
    }
    Ok(None)
}

/// Whether an operator below the probe side uses a dynamic filter that this join produces.
fn feeds_a_filter(join: &HashJoinExec) -> Result<bool> {
    // This operator does not fill in dynamic filters, so a consumer would never get the bounds of
    // its build side.
    let ids: Vec<u64> = join
        .dynamic_expressions_produced()
        .iter()
        .filter_map(|e| e.expression_id())
        .collect();
    let mut found = false;
    if !ids.is_empty() {
        join.right().each(&mut |node| {
            node.apply_expressions(&mut |root| {
                root.each(&mut |expr| {
                    found |= expr.expression_id().is_some_and(|id| ids.contains(&id));
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}
