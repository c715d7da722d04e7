//! Cuts the plan of a statement into what nodes do on their shards, and what is left.
//!
//! ```text
//!   SortExec                                    FinalPlanExec: SortExec
//!     AggregateExec (single)         ──►          AggregateExec (final)
//!       HashJoinExec                                InputExec 0
//!         date   (everywhere)                     node plan 0, on every node:
//!         lineorder (in shards)                     AggregateExec (partial)
//!                                                     HashJoinExec: date, lineorder's shards
//! ```
//! The plan that comes in is one for a single thread: nothing in it is repartitioned. Each process
//! adds partitions for its own threads.

mod place;
#[cfg(test)]
mod tests;

use crate::codec::plan_bytes;
use crate::map::Holders;
use crate::plan::{FinalPlanExec, collected, node_plan};
use crate::scan::{InputExec, TableScanExec};
use crate::wire::NodePlanHeader;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, displayable, replace_children_if_necessary};
pub(crate) use place::states_merge;
use place::{Place, place_of};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tierloom_engine::{final_step, partial_step};

/// A statement in parts.
pub(crate) struct Distributed {
    /// The whole as the scheduler gets it.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The node plans.
    pub nodes: Vec<NodePlan>,
    /// The final plan, with an [`InputExec`] for each node plan; `None` if there is none.
    pub last: Option<Arc<dyn ExecutionPlan>>,
    /// Whether nodes have once given more rows than a client should hold.
    pub gave_many: AtomicBool,
}

/// A node plan that is part of a statement.
pub(crate) struct NodePlan {
    /// What it reads, and where.
    pub header: NodePlanHeader,
    /// Its operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The same for a message.
    pub bytes: Arc<Vec<u8>>,
}

impl Distributed {
    /// Whether the client can do the final plan, as far as operators tell: what each node plan
    /// gives is what an aggregation left, or the first rows.
    pub fn has_small_results(&self) -> bool {
        self.last.is_none() || self.nodes.iter().all(|node| is_small(&node.plan))
    }
}

fn is_small(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = plan.downcast_ref::<TableScanExec>() {
        return scan.header.limit.is_some();
    }
    if plan.fetch().is_some() || plan.downcast_ref::<AggregateExec>().is_some() {
        return true;
    }
    match plan.children().as_slice() {
        [] => true,
        [one] => is_small(one),
        _ => false,
    }
}

/// A plan as indented text.
pub(crate) fn text_of(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// Cuts `plan`.
///
/// # Errors
/// DataFusion's, for an operator that cannot be sent to another process.
pub(crate) fn distribute(plan: Arc<dyn ExecutionPlan>) -> Result<Distributed> {
    let plan = plan.transform_up(without_marks).data()?;
    let mut cutter = Cutter::default();
    let place = place_of(&plan)?;
    if place != Place::Mixed {
        let leaf = cutter.leaf(&plan, &place)?;
        return Ok(Distributed {
            plan: leaf,
            nodes: cutter.nodes,
            last: None,
            gave_many: AtomicBool::new(false),
        });
    }
    let rest = cutter.rest(plan)?;
    let inputs = cutter.leaves.into_iter().map(collected).collect();
    let bytes = plan_bytes(&rest)?;
    Ok(Distributed {
        plan: Arc::new(FinalPlanExec::new(bytes, rest.schema(), inputs)),
        nodes: cutter.nodes,
        last: Some(rest),
        gave_many: AtomicBool::new(false),
    })
}

/// Takes out operators that do nothing to rows: one hides values from the planner's rules, one lets
/// others have their turn. Each process puts them where it needs them; in front of a placed scan,
/// which takes turns by itself, the second would stand in the way of a star join.
pub(crate) fn without_marks(
    node: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let input = match node.children().as_slice() {
        [input] if node.name() == "AnyValuesExec" || node.is::<CooperativeExec>() => {
            Some(Arc::clone(input))
        }
        _ => None,
    };
    Ok(match input {
        Some(input) => Transformed::yes(input),
        None => Transformed::no(node),
    })
}

#[derive(Default)]
struct Cutter {
    leaves: Vec<Arc<dyn ExecutionPlan>>,
    nodes: Vec<NodePlan>,
}

impl Cutter {
    /// The leaf for a plan that nodes can run on tables in this place.
    fn leaf(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        place: &Place,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut tables = BTreeSet::new();
        collect_tables(plan, &mut tables);
        let holders = match place {
            Place::Sharded { holders, .. } => Holders::clone(holders),
            Place::Everywhere | Place::Mixed => Holders::new(),
        };
        let header = NodePlanHeader {
            tables,
            shards: (0..holders.len() as u32).collect(),
            holders,
        };
        let bytes = plan_bytes(plan)?;
        self.nodes.push(NodePlan {
            header: header.clone(),
            plan: Arc::clone(plan),
            bytes: Arc::clone(&bytes),
        });
        Ok(node_plan(header, plan.schema(), bytes))
    }

    /// The place of a node plan's results.
    fn input(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        place: &Place,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let leaf = self.leaf(plan, place)?;
        self.leaves.push(leaf);
        let index = self.leaves.len() - 1;
        Ok(Arc::new(InputExec::new(index, plan.schema())))
    }

    /// `plan` with inputs in the place of what nodes do.
    fn rest(&mut self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let place = place_of(&plan)?;
        if place != Place::Mixed {
            return self.input(&plan, &place);
        }
        if plan.downcast_ref::<TableScanExec>().is_some() {
            // Of a table that is everywhere, some rows: they are those of one node.
            return self.input(&plan, &Place::Everywhere);
        }
        if let Some(split) = self.split(&plan)? {
            return Ok(split);
        }
        let children = plan.children().into_iter().cloned();
        let children = children.map(|child| self.rest(child));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }

    /// An operator of which nodes do a part on their shards, as its last step over these parts.
    fn split(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.split_aggregate(aggregate);
        }
        let [below] = plan.children()[..] else {
            return Ok(None);
        };
        let place = place_of(below)?;
        if !matches!(place, Place::Sharded { .. }) {
            return Ok(None);
        }
        // Of the first rows of all shards together each is among the first of its shard.
        if let Some(sort) = plan.downcast_ref::<SortExec>()
            && sort.fetch().is_some()
        {
            let input = self.input(plan, &place)?;
            let sorted = SortExec::new(sort.expr().clone(), input).with_fetch(sort.fetch());
            return Ok(Some(Arc::new(sorted)));
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>()
            && let Some(fetch) = limit.fetch()
        {
            let most = Some(fetch.saturating_add(limit.skip()));
            let part: Arc<dyn ExecutionPlan> =
                Arc::new(GlobalLimitExec::new(Arc::clone(below), 0, most));
            let input = self.input(&part, &place)?;
            let limited = GlobalLimitExec::new(input, limit.skip(), limit.fetch());
            return Ok(Some(Arc::new(limited)));
        }
        Ok(None)
    }

    /// An aggregation in one step over shards, as states of each node and their final step.
    fn split_aggregate(
        &mut self,
        aggregate: &AggregateExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let single = matches!(
            aggregate.mode(),
            AggregateMode::Single | AggregateMode::SinglePartitioned
        );
        if !single || !states_merge(aggregate) {
            return Ok(None);
        }
        let place = place_of(aggregate.input())?;
        if !matches!(place, Place::Sharded { .. }) {
            return Ok(None);
        }
        let partial: Arc<dyn ExecutionPlan> = Arc::new(partial_step(aggregate)?);
        let states = InputExec::new(self.leaves.len(), partial.schema());
        let last = final_step(aggregate, Arc::new(states))?;
        // The operators above were planned with these columns.
        if last.schema() != aggregate.schema() {
            return Ok(None);
        }
        self.input(&partial, &place)?;
        Ok(Some(Arc::new(last)))
    }
}

fn collect_tables(plan: &Arc<dyn ExecutionPlan>, found: &mut BTreeSet<crate::wire::TableRef>) {
    if let Some(scan) = plan.downcast_ref::<TableScanExec>() {
        found.insert(scan.header.table.clone());
    }
    let children = plan.children().into_iter();
    children.for_each(|child| collect_tables(child, found));
}
