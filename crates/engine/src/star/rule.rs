//! Finding star joins in physical plans.

use super::NotFused;
use super::compile::{Aggregation, compile};
use super::exec::StarExec;
use super::lower::lower;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use std::sync::Arc;

/// Replaces aggregations over star joins by a [`StarExec`] under their final step; see the module's text.
#[derive(Debug, Default)]
pub struct StarJoinRule;

impl PhysicalOptimizerRule for StarJoinRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            match aggregate.mode() {
                AggregateMode::Final | AggregateMode::FinalPartitioned => {
                    let Some(partial) = partial_below(aggregate) else {
                        return Ok(Transformed::no(node));
                    };
                    match fuse(partial) {
                        Ok(star) => Ok(Transformed::yes(Arc::clone(&node).replace_children(
                            vec![Arc::new(star)],
                            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
                        )?)),
                        Err(_) => Ok(Transformed::no(node)),
                    }
                }
                AggregateMode::Single | AggregateMode::SinglePartitioned => {
                    match in_two_steps(aggregate) {
                        Ok(Some(plan)) => Ok(Transformed::yes(plan)),
                        _ => Ok(Transformed::no(node)),
                    }
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "tierloom_star_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The partial aggregation that feeds a final one.
fn partial_below(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    let mut below = aggregate.input();
    loop {
        if let Some(partial) = below.downcast_ref::<AggregateExec>() {
            return (*partial.mode() == AggregateMode::Partial).then_some(partial);
        }
        let passes = below.downcast_ref::<RepartitionExec>().is_some()
            || below.downcast_ref::<CoalescePartitionsExec>().is_some();
        if !passes {
            return None;
        }
        below = below.children()[0];
    }
}

/// An aggregation in one step as partial states from a star join and a final step.
fn in_two_steps(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        Arc::new(aggregate.group_expr().clone()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let Ok(star) = fuse(&partial) else {
        return Ok(None);
    };
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        Arc::new(aggregate.group_expr().as_final()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::new(star),
        aggregate.input_schema(),
    )?;
    let last = last.with_limit_options(aggregate.limit_options());
    Ok((last.schema() == aggregate.schema()).then(|| Arc::new(last) as Arc<dyn ExecutionPlan>))
}

/// A star join that gives the states of `partial`.
fn fuse(partial: &AggregateExec) -> std::result::Result<StarExec, NotFused> {
    if partial.filter_expr().iter().any(Option::is_some) {
        return NotFused::because("an aggregate has a filter of its own");
    }
    let grouping = partial.group_expr();
    if grouping.has_grouping_set() || grouping.groups().len() > 1 {
        return NotFused::because("it has grouping sets");
    }
    let aggregation = Aggregation {
        groups: grouping.expr().iter().map(|(e, _)| Arc::clone(e)).collect(),
        aggregates: partial.aggr_expr().to_vec(),
    };
    if aggregation.aggregates.is_empty() && aggregation.groups.is_empty() {
        return NotFused::because("it computes nothing");
    }
    let lowered = lower(partial.input())?;
    let schema = partial.schema();
    // Tried without the dimensions' rows: what only they can show is seen when it runs.
    compile(&lowered, &aggregation, &schema, &[])?;
    let fallback: Arc<dyn ExecutionPlan> = Arc::new(partial.clone());
    Ok(StarExec::new(lowered, aggregation, schema, fallback))
}

/// What became of each aggregation of a finished plan: fused, or why not.
pub fn notes(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut found = Vec::new();
    collect(plan, &mut found);
    found
}

fn collect(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<String>) {
    if let Some(star) = plan.downcast_ref::<StarExec>() {
        found.push(format!("fused: {}", star.summary()));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && matches!(
            aggregate.mode(),
            AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
        )
        && let Err(why) = fuse(aggregate)
    {
        found.push(format!("not fused: {why}"));
    }
    plan.children()
        .into_iter()
        .for_each(|child| collect(child, found));
}
