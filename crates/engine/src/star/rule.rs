//! Physical optimizer rule that finds star joins and fuses them.
//!
//! It runs after DataFusion's rules have inserted partial and final aggregations and
//! repartitionings, and has to leave a plan that still satisfies the distribution requirements of
//! the operators above.

use super::NotFused;
use super::compile::{Aggregation, compile};
use super::exec::StarExec;
use super::finish::Finish;
use super::later::{EARLY, LATE, LaterRules};
use super::lower::{Lowered, lower, whole_table_rows};
use crate::breakdown::caught;
use crate::join_order::COMPARED;
use crate::steps::{final_step, partial_step};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
};
use std::sync::Arc;
use tierloom_corrections::Walk;
use tierloom_star::StarPlan;

/// A dimension of fewer rows is prepared in less than a millisecond.
const MANY_ROWS: usize = 100_000;

/// How many times as many rows as are left of the facts a whole table may have as a dimension.
/// Query 12 of TPC-H has 50 times as many orders and is faster with a hash join.
const TOO_MANY_TIMES: f64 = 8.0;

/// From about so many groups in a hash table, `BigAggregateExec` is quicker where all rows are
/// grouped: it has fewer cache misses per row than a star join, and all threads return groups.
const MANY_GROUPS: usize = 256 << 10;

/// Fuses star joins before DataFusion repartitions, sorts and moves projections: that takes longer
/// than the rest of the physical plan of a star join, and what is fused needs none of it.
///
/// The replaced operators go through these rules only if they have to run.
#[derive(Debug, Default)]
pub(crate) struct EarlyStarJoins(pub LaterRules);

impl EarlyStarJoins {
    /// The name of the rule of DataFusion before which it runs.
    pub const BEFORE: &str = "EnsureRequirements";
}

impl PhysicalOptimizerRule for EarlyStarJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut early = |node: Arc<dyn ExecutionPlan>| {
            Ok(match fused(&node, Some(&self.0))? {
                Some(star) => Transformed::yes(star),
                None => Transformed::no(node),
            })
        };
        let fused = caught(|| Arc::clone(&plan).down(&mut early).data());
        Ok(fused.ok().and_then(Result::ok).unwrap_or(plan))
    }

    fn name(&self) -> &str {
        EARLY
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces aggregations over star joins by a [`StarExec`]; see the module documentation of `star`.
#[derive(Debug, Default)]
pub struct StarJoinRule;

impl PhysicalOptimizerRule for StarJoinRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // An operator above may reject a star join because it does not meet its requirements. The
        // rule is an optimization only, so an error or panic keeps DataFusion's plan.
        let fused = caught(|| rewritten(Arc::clone(&plan)));
        Ok(fused.ok().and_then(Result::ok).unwrap_or(plan))
    }

    fn name(&self) -> &str {
        LATE
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces every aggregation of `plan` that can be fused.
fn rewritten(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    // A plan that ends in the first step of an aggregation is for another process to finish.
    if let Some(star) = fused_states(&plan, None) {
        return Ok(star);
    }
    // `InterleaveExec` requires inputs with equal hash partitioning; without one, a single
    // partition is fine.
    let interleaved = plan.has(&mut |node| Ok(node.downcast_ref::<InterleaveExec>().is_some()))?;
    let fused = plan.down(&mut |node| {
        Ok(match fused(&node, None)? {
            Some(star) => Transformed::yes(parted(star, &node, interleaved)?),
            None => Transformed::no(node),
        })
    })?;
    match fused.transformed {
        true => fused.data.up(&mut same_partitions).data(),
        false => Ok(fused.data),
    }
}

/// The replacement of `node`, if that is an aggregation that can be fused; `later` are the rules
/// that it has not been through.
fn fused(
    node: &Arc<dyn ExecutionPlan>,
    later: Option<&LaterRules>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    match aggregate.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let Some(partial) = partial_below(aggregate) else {
                return Ok(None);
            };
            let Ok(star) = fuse(partial, later) else {
                return Ok(None);
            };
            if let Some(finish) = Finish::of(aggregate, &partial.schema()) {
                return Ok(Some(Arc::new(star.finishing(finish, node))));
            }
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            let star: Arc<dyn ExecutionPlan> = Arc::new(star);
            Arc::clone(node)
                .replace_children(vec![star], options)
                .map(Some)
        }
        AggregateMode::Single | AggregateMode::SinglePartitioned => {
            in_two_steps(node, aggregate, later)
        }
        // Below it are grouping sets, and below these the first step.
        AggregateMode::PartialReduce => {
            let sets = aggregate.input();
            let [partial] = sets.children()[..] else {
                return Ok(None);
            };
            let Some(star) = fused_states(partial, later) else {
                return Ok(None);
            };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            let sets = Arc::clone(sets).replace_children(vec![star], options)?;
            Arc::clone(node)
                .replace_children(vec![sets], options)
                .map(Some)
        }
        _ => Ok(None),
    }
}

/// Restores the hash partitioning of `before` if a parent requires co-partitioned inputs.
fn parted(
    star: Arc<dyn ExecutionPlan>,
    before: &Arc<dyn ExecutionPlan>,
    interleaved: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    match before.output_partitioning() {
        by @ Partitioning::Hash(_, parts) if interleaved && *parts > 1 => {
            Ok(Arc::new(RepartitionExec::try_new(star, by.clone())?))
        }
        _ => Ok(star),
    }
}

/// Repartitions the inputs of an operator that requires them co-partitioned.
///
/// A star join has one output partition where the aggregation may have had several.
fn same_partitions(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let wanted = node.input_distribution_requirements().into_per_child();
    let hashed = wanted
        .iter()
        .filter(|d| matches!(d, Distribution::KeyPartitioned(_)));
    let children = node.children();
    let count = |c: &Arc<dyn ExecutionPlan>| c.output_partitioning().partition_count();
    let most = children.iter().map(|c| count(c)).max().unwrap_or(1);
    if hashed.count() < 2 || children.iter().all(|c| count(c) == most) {
        return Ok(Transformed::no(node));
    }
    let mut parted: Vec<Arc<dyn ExecutionPlan>> = Vec::with_capacity(children.len());
    for (child, wanted) in children.into_iter().zip(&wanted) {
        parted.push(match wanted {
            Distribution::KeyPartitioned(keys) if count(child) != most => {
                let by = Partitioning::Hash(keys.clone(), most);
                Arc::new(RepartitionExec::try_new(Arc::clone(child), by)?)
            }
            _ => Arc::clone(child),
        });
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Transformed::yes(node.replace_children(parted, options)?))
}

/// The partial aggregation that feeds a final one, below repartitioning operators only.
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

/// Splits a single-step aggregation into a star join that gives partial states and a final step.
fn in_two_steps(
    node: &Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
    later: Option<&LaterRules>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let partial = partial_step(aggregate)?;
    let Ok(star) = fuse(&partial, later) else {
        return Ok(None);
    };
    let states = partial.schema();
    let above = final_step(aggregate, Arc::new(partial))?;
    // The replacement must have the same schema, nullability included.
    if above.schema() != aggregate.schema() {
        return Ok(None);
    }
    Ok(Some(match Finish::of(&above, &states) {
        Some(finish) => Arc::new(star.finishing(finish, node)),
        None => Arc::new(final_step(aggregate, Arc::new(star))?),
    }))
}

/// A star join that computes the states of `partial`.
fn fuse(
    partial: &AggregateExec,
    later: Option<&LaterRules>,
) -> std::result::Result<StarExec, NotFused> {
    caught(|| try_fuse(partial, later)).unwrap_or_else(|said| Err(NotFused::broke_down(&said)))
}

fn try_fuse(
    partial: &AggregateExec,
    later: Option<&LaterRules>,
) -> std::result::Result<StarExec, NotFused> {
    let grouping = partial.group_expr();
    if grouping.has_grouping_set() || grouping.groups().len() > 1 {
        return NotFused::because("it has grouping sets");
    }
    let aggregation = Aggregation {
        groups: grouping.expr().iter().map(|(e, _)| Arc::clone(e)).collect(),
        aggregates: partial.aggr_expr().to_vec(),
        filters: partial.filter_expr().to_vec(),
    };
    if aggregation.aggregates.is_empty() && aggregation.groups.is_empty() {
        return NotFused::because("it computes nothing");
    }
    let lowered = lower(partial.input(), later.is_some())?;
    let schema = partial.schema();
    // A dry run without dimension rows. Problems that only the rows show are found at run time.
    let mut compiled = compile(&lowered, &aggregation, &schema, &[])?;
    check_dimensions(&lowered, &compiled.plan)?;
    // Each has its own accumulators, on which it depends whether they are arrays.
    let partitioning = partial.input().output_partitioning();
    compiled.plan.workers = partitioning.partition_count();
    check_groups(&lowered, &compiled.plan)?;
    let fallback: Arc<dyn ExecutionPlan> = Arc::new(partial.clone());
    let later = later.cloned();
    Ok(StarExec::new(lowered, aggregation, schema, fallback, later))
}

/// Checks that no dimension is a whole table of far more rows than the fact table's own filters
/// leave: looking up those few rows takes less time than preparing all of the dimension's.
fn check_dimensions(lowered: &Lowered, plan: &StarPlan) -> std::result::Result<(), NotFused> {
    let shares = plan.filters.iter().map(|filter| filter.expected_share);
    let conditions = plan.conditions.iter().map(|_| COMPARED);
    let left = plan.rows as f64 * shares.chain(conditions).product::<f64>();
    for dimension in &lowered.dimensions {
        let rows = whole_table_rows(&dimension.plan).unwrap_or(0);
        if rows > MANY_ROWS && rows as f64 > TOO_MANY_TIMES * left {
            return NotFused::because(format!(
                "{} has {rows} rows, far more than filters leave of {} (about {left:.0})",
                dimension.name,
                lowered.fact.name()
            ));
        }
    }
    Ok(())
}

/// Checks that a group-by of all rows of a table has no more groups than a star join is for.
fn check_groups(lowered: &Lowered, plan: &StarPlan) -> std::result::Result<(), NotFused> {
    let is_of_all =
        lowered.dimensions.is_empty() && plan.filters.is_empty() && plan.conditions.is_empty();
    if !is_of_all || plan.dense_bytes().is_ok_and(|bytes| bytes.is_some()) {
        return Ok(());
    }
    let statistics = lowered.fact.statistics();
    let values = |column: &usize| {
        let of_column = &statistics.column_statistics[*column];
        of_column.distinct_count.get_value().copied()
    };
    let columns = plan.groups.iter().map(|part| part.column);
    let columns = columns.filter_map(|column| lowered.fact_columns.get(column));
    match columns.filter_map(values).max() {
        Some(groups) if groups >= MANY_GROUPS => NotFused::because(format!(
            "at least about {groups} groups of all rows of {}",
            lowered.fact.name()
        )),
        _ => Ok(()),
    }
}

/// The states of the partial aggregation `plan`, by a star join; `None` if it is none or does not
/// fit.
fn fused_states(
    plan: &Arc<dyn ExecutionPlan>,
    later: Option<&LaterRules>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let partial = plan.downcast_ref::<AggregateExec>()?;
    if *partial.mode() != AggregateMode::Partial {
        return None;
    }
    Some(Arc::new(fuse(partial, later).ok()?))
}

/// Lists for each aggregation of a finished plan that it was fused, or why not.
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
        && let Err(why) = fuse(aggregate, None)
    {
        found.push(format!("not fused: {why}"));
    }
    plan.children()
        .into_iter()
        .for_each(|child| collect(child, found));
}
