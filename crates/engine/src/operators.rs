//! What the operators of a plan are to placement and to the model: the one place that knows them.
//!
//! An operator has a memory class ([`class_of`]), and a [`Role`] from which its phases follow, both
//! estimated before a run (`adapt::describe`) and measured after it (`capture`). A new operator
//! that scans, filters, joins, aggregates or sorts is described by one arm of [`Role::of`].

use crate::big_sort::BigSortExec;
use crate::bigjoin::{BigAggregateExec, BigJoinExec};
use crate::scan::PlacedScanExec;
use crate::star::StarExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;
use tierloom_memory::router::Class;

/// The hash join that an operator is.
pub(crate) fn join_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let big = plan.downcast_ref::<BigJoinExec>();
    big.map_or_else(
        || plan.downcast_ref::<HashJoinExec>(),
        |big| Some(big.join().as_ref()),
    )
}

/// The aggregation that an operator is.
pub(crate) fn aggregate_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    match plan.downcast_ref::<BigAggregateExec>() {
        Some(big) => big.aggregate().ok(),
        None => plan.downcast_ref::<AggregateExec>(),
    }
}

/// What an operator does, as far as phases depend on it.
pub(crate) enum Role<'p> {
    /// Reads columns of a placed table.
    Scan(&'p PlacedScanExec),
    /// Drops rows by a predicate.
    Filter(&'p FilterExec),
    /// Builds a hash table of its left input and probes it with its right one; the join that says
    /// on what.
    HashJoin(&'p HashJoinExec),
    /// Keeps a group table.
    Aggregate(AggregateRole<'p>),
    /// Joins, filters and aggregates in one pass over a fact table.
    Star(&'p StarExec),
    /// Collects and sorts its input.
    Sort,
    Other,
}

/// A group-by or an aggregation of all rows.
pub(crate) struct AggregateRole<'p> {
    /// The aggregation as DataFusion has it.
    pub(crate) plan: &'p AggregateExec,
    /// Whether it merges states that other operators have made: it then starts a pipeline.
    pub(crate) is_final: bool,
}

impl<'p> Role<'p> {
    /// The role of the operator at the root of `plan`.
    pub(crate) fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Role<'p> {
        if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
            Role::Scan(scan)
        } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            Role::Filter(filter)
        } else if let Some(join) = join_of(plan) {
            Role::HashJoin(join)
        } else if let Some(aggregate) = aggregate_of(plan) {
            Role::aggregate(aggregate)
        } else if let Some(star) = plan.downcast_ref::<StarExec>() {
            Role::Star(star)
        } else if plan.is::<SortExec>() || plan.is::<BigSortExec>() {
            Role::Sort
        } else {
            Role::Other
        }
    }

    fn aggregate(plan: &'p AggregateExec) -> Role<'p> {
        let is_final = matches!(
            plan.mode(),
            AggregateMode::Final | AggregateMode::FinalPartitioned
        );
        Role::Aggregate(AggregateRole { plan, is_final })
    }
}

/// The class of memory that an operator allocates, by its `ExecutionPlan::name`.
///
/// Operators do not say what their memory is for, so the name decides; operators of other crates
/// that follow DataFusion's naming are covered as well. Unknown operators are [`Class::Other`].
pub(crate) fn class_of(operator: &str) -> Class {
    let name = operator.strip_suffix("Exec").unwrap_or(operator);
    match name {
        "Repartition" | "CoalescePartitions" => Class::Repartition,
        "DataSink" | "RecursiveQuery" | "WorkTable" => Class::TempTable,
        "Star" => Class::Aggregation,
        // Window functions buffer the rows of a partition, as a sort does.
        _ if name.contains("Window") || name.contains("Sort") && !name.contains("Join") => {
            Class::SortRun
        }
        _ if name.contains("Join") => Class::JoinBuild,
        _ if name.contains("Aggregate") => Class::Aggregation,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_hold_much_memory_have_a_class_of_their_own() {
        let expected = [
            ("HashJoinExec", Class::JoinBuild),
            ("SortMergeJoinExec", Class::JoinBuild),
            ("NestedLoopJoinExec", Class::JoinBuild),
            ("CrossJoinExec", Class::JoinBuild),
            ("AggregateExec", Class::Aggregation),
            ("StarExec", Class::Aggregation),
            ("SortExec", Class::SortRun),
            ("BigSortExec", Class::SortRun),
            ("SortPreservingMergeExec", Class::SortRun),
            ("BoundedWindowAggExec", Class::SortRun),
            ("RepartitionExec", Class::Repartition),
            ("DataSinkExec", Class::TempTable),
            ("FilterExec", Class::Other),
            ("PlacedScanExec", Class::Other),
        ];
        for (name, class) in expected {
            assert_eq!(class_of(name), class, "{name}");
        }
    }
}
