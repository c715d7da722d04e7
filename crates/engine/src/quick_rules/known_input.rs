//! An operator's input as a leaf.

use super::{kept_codes, several_keys};
use crate::scan::PlacedScanExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Rows of a series that is generated, such as the days of a calendar, for want of a better
/// estimate: a table that it is joined with is not to be put into a hash table.
const GENERATED_ROWS: usize = 1_000;

/// Stands for a plan; there only while a rule runs.
#[derive(Debug)]
pub(super) struct KnownInput {
    /// Its own inputs may be such leaves too.
    plan: Arc<dyn ExecutionPlan>,
    /// Statistics of all partitions together, once they were asked for.
    statistics: OnceLock<Arc<Statistics>>,
    /// Whether statistics are estimated better than by DataFusion.
    estimated: bool,
}

impl KnownInput {
    /// `estimated` says whether statistics are estimated better than by DataFusion.
    pub(super) fn of(plan: Arc<dyn ExecutionPlan>, estimated: bool) -> Arc<dyn ExecutionPlan> {
        Arc::new(KnownInput {
            plan,
            statistics: OnceLock::new(),
            estimated,
        })
    }

    /// Whether better estimates than DataFusion's may be known of `plan`.
    pub(super) fn corrects(plan: &dyn ExecutionPlan) -> bool {
        plan.is::<LazyMemoryExec>() || plan.is::<FilterExec>() || several_keys::corrects(plan)
    }
}

/// The filter that `plan` is, and the placed table that it is of.
fn filtered(plan: &dyn ExecutionPlan) -> Option<(&FilterExec, &PlacedScanExec)> {
    let filter = plan.downcast_ref::<FilterExec>()?;
    let mut input = stood_for(filter.input());
    // As of expressions that a filter has twice and that are computed once.
    while let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        input = stood_for(projection.input());
    }
    Some((filter, input.downcast_ref::<PlacedScanExec>()?))
}

/// What a leaf stands for; any other plan itself.
fn stood_for(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<KnownInput>() {
        Some(known) => stood_for(&known.plan),
        None => plan,
    }
}

/// The plan with what its leaves stand for in their place.
///
/// Both have the same properties, so no operator computes its own again.
pub(super) fn replaced(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    replaced_but(plan, &|_| false)
}

/// Same but for the leaves that stand for plans that are `kept` as leaves.
pub(super) fn replaced_but(
    plan: &Arc<dyn ExecutionPlan>,
    kept: &dyn Fn(&dyn ExecutionPlan) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(known) = plan.downcast_ref::<KnownInput>() {
        return match kept(known.plan.as_ref()) {
            true => Ok(Arc::clone(plan)),
            false => replaced_but(&known.plan, kept),
        };
    }
    let inputs = plan.children().into_iter();
    let inputs: Result<Vec<_>> = inputs.map(|input| replaced_but(input, kept)).collect();
    replace_children_if_necessary(Arc::clone(plan), inputs?)
}

impl DisplayAs for KnownInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for KnownInput {
    fn name(&self) -> &str {
        "KnownInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    tierloom_corrections::without_inputs!();

    fn fetch(&self) -> Option<usize> {
        self.plan.fetch()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        self.plan.repartitioned(target_partitions, config)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("{} stands for a plan and cannot run", self.name())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let compute = || StatisticsContext::new().compute(self.plan.as_ref(), args);
        if args.partition().is_some() {
            return compute();
        }
        if let Some(known) = self.statistics.get() {
            return Ok(Arc::clone(known));
        }
        let mut computed = compute()?;
        if self.estimated {
            let mut statistics = Arc::unwrap_or_clone(computed);
            if self.plan.is::<LazyMemoryExec>() && statistics.num_rows == Precision::Absent {
                statistics.num_rows = Precision::Inexact(GENERATED_ROWS);
            }
            if let Some((filter, scan)) = filtered(self.plan.as_ref()) {
                statistics = kept_codes::corrected(filter, scan, statistics);
            }
            let statistics = several_keys::corrected(self.plan.as_ref(), statistics, args)?;
            computed = Arc::new(statistics);
        }
        Ok(Arc::clone(self.statistics.get_or_init(|| computed)))
    }
}
