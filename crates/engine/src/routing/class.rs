//! Maps operators to classes of operator memory.
//!
//! The mapping is by operator name, so operators of other crates that follow DataFusion's naming
//! are covered as well.

use tierloom_memory::router::Class;

/// The class of memory that an operator allocates, by its `ExecutionPlan::name`.
///
/// Operators do not say what their memory is for, so the name decides. Unknown operators are
/// [`Class::Other`].
pub fn class_of(operator: &str) -> Class {
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
