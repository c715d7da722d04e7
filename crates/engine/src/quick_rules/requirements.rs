//! Repartitions and sorts where operators require it.

use super::known_input::{KnownInput, replaced, replaced_but};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::enforce_distribution::{
    DistributionContext, PlanWithKeyRequirements, adjust_input_keys_ordering, ensure_distribution,
};
use datafusion::physical_optimizer::enforce_sorting::replace_with_order_preserving_variants::{
    OrderPreservationContext, replace_with_order_preserving_variants,
};
use datafusion::physical_optimizer::enforce_sorting::sort_pushdown::{
    SortPushDown, assign_initial_requirements, pushdown_sorts,
};
use datafusion::physical_optimizer::enforce_sorting::{
    PlanWithCorrespondingCoalescePartitions, PlanWithCorrespondingSort, ensure_sorting,
    parallelize_sorts, replace_with_partial_sort,
};
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{Distribution, ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// DataFusion's rule [`EnsureRequirements`]: the step that repartitions looks at one operator after
/// the other, those that sort do not look below aggregations without order.
#[derive(Debug, Default)]
pub(crate) struct Requirements(EnsureRequirements);

impl PhysicalOptimizerRule for Requirements {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = &config.optimizer;
        // What is repartitioned already may be repartitioned otherwise, several operators at once.
        if !options.top_down_join_key_reordering
            || !options.repartition_sorts
            || plan.has(&mut |node| Ok(is_repartitioning(node)))?
        {
            return self.0.optimize(plan, config);
        }
        // The steps of DataFusion's rule, in its order.
        let plan = PlanWithKeyRequirements::new_default(plan)
            .down(&mut adjust_input_keys_ordering)
            .data()?
            .plan;
        let plan = distributed(&plan, config)?.context.plan;
        // No sort moves through an aggregation whose rows have no order.
        let plan = replaced_but(&plan, &|plan| plan.is::<AggregateExec>())?;
        let plan = PlanWithCorrespondingSort::new_default(plan)
            .up(&mut ensure_sorting)
            .data()?
            .plan;
        let plan = PlanWithCorrespondingCoalescePartitions::new_default(plan)
            .up(&mut parallelize_sorts)
            .data()?
            .plan;
        let plan = OrderPreservationContext::new_default(plan)
            .up(&mut |node| replace_with_order_preserving_variants(node, false, true, config))
            .data()?
            .plan;
        let mut sorts = SortPushDown::new_default(plan);
        assign_initial_requirements(&mut sorts);
        let plan = pushdown_sorts(sorts)?
            .plan
            .up(&mut |node| replace_with_partial_sort(node).map(Transformed::yes))
            .data()?;
        replaced(&plan)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn is_repartitioning(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
}

/// A plan that was repartitioned as its operators require.
struct Distributed {
    context: DistributionContext,
    /// Whether some operator gives its rows in an order or requires one. Operators above may give
    /// that up, so they must see it; everything else they may see as a leaf.
    is_ordered: bool,
}

fn distributed(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Distributed> {
    let mut is_ordered = plan.required_input_ordering().iter().any(Option::is_some);
    let mut inputs = Vec::new();
    for input in plan.children() {
        let input = distributed(input, config)?;
        is_ordered |= input.is_ordered;
        inputs.push(
            match input.is_ordered || is_repartitioning(&input.context.plan) {
                true => input.context,
                false => {
                    let known = KnownInput::of(input.context.plan, false);
                    DistributionContext::new(known, input.context.data, vec![])
                }
            },
        );
    }
    let is_satisfied = is_satisfied(plan.as_ref(), &inputs, config)?;
    let context = DistributionContext::new(Arc::clone(plan), false, inputs);
    let mut context = context.update_plan_from_children()?;
    if !is_satisfied {
        context = ensure_distribution(context, config)?.data;
    }
    is_ordered |= context.plan.output_ordering().is_some();
    Ok(Distributed {
        context,
        is_ordered,
    })
}

/// Whether the step would leave an operator over these inputs as it is.
///
/// DataFusion puts the operator together twice more to find that out.
fn is_satisfied(
    plan: &dyn ExecutionPlan,
    inputs: &[DistributionContext],
    config: &ConfigOptions,
) -> Result<bool> {
    // Windows may get another operator, unions are interleaved.
    if plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() || plan.is::<UnionExec>() {
        return Ok(false);
    }
    let requirements = plan.input_distribution_requirements().into_per_child();
    let gains = plan.benefits_from_input_partitioning();
    let orders = plan.required_input_ordering();
    for (((input, requirement), gains), order) in
        inputs.iter().zip(requirements).zip(gains).zip(orders)
    {
        // Leaves stand for inputs without order, whose partitions are their own.
        if !input.children.is_empty() || order.is_some() {
            return Ok(false);
        }
        let partitions = input.plan.output_partitioning().partition_count();
        let is_enough = match requirement {
            Distribution::UnspecifiedDistribution => {
                let is_whole = partitions >= config.execution.target_partitions || !gains;
                is_whole || !is_worth_more_partitions(input.plan.as_ref(), config)?
            }
            Distribution::SinglePartition => partitions == 1,
            _ => false,
        };
        let target = config.execution.target_partitions;
        if !is_enough || input.plan.repartitioned(target, config)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an input has more rows than one batch, or may have.
fn is_worth_more_partitions(input: &dyn ExecutionPlan, config: &ConfigOptions) -> Result<bool> {
    let execution = &config.execution;
    let batch_rows = execution.batch_size.get();
    let statistics = StatisticsContext::new().compute(input, &StatisticsArgs::new())?;
    Ok(match statistics.num_rows {
        Precision::Exact(rows) => rows > batch_rows,
        Precision::Inexact(rows) => {
            !execution.use_row_number_estimates_to_optimize_partitioning || rows > batch_rows
        }
        Precision::Absent => true,
    })
}
