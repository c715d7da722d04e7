//! Corrections of wrong answers of DataFusion 55, and of its parser.
//!
//! Each module describes one fault. Most are rules of the planner in the place of one of
//! DataFusion's, or before or after them.

mod checked_sum;
mod comparisons;
mod constants;
mod counted_sets;
mod cross_joins;
mod equi_joins;
mod filter_fence;
mod float_extremes;
mod group_filters;
mod grouping_sets;
mod in_lists;
mod merged_columns;
mod null_filled;
mod null_in;
mod null_rules;
mod numbers;
mod one_row;
pub(crate) mod precedence;
mod range_frames;
mod scan_statistics;
mod timestamps;
mod whole_order;

pub(crate) use checked_sum::checked_sum;
pub(crate) use merged_columns::NoMergedOuterColumns;
pub(crate) use null_rules::{NullableSubqueries, PlainAntiJoins};

use comparisons::ExactComparisons;
use counted_sets::CountedSets;
use cross_joins::CrossJoins;
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use equi_joins::EquiJoins;
use float_extremes::float_extremes;
use group_filters::GroupFilters;
use grouping_sets::HiddenConstants;
use in_lists::MergedLists;
use null_filled::NullFilled;
use null_in::ThreeValuedIn;
use one_row::OneRowSubqueries;
use range_frames::WholeRangeFrames;
use scan_statistics::ScanStatistics;
use std::sync::Arc;
use whole_order::WholeOrders;

/// Adds the rules and functions that correct wrong answers of DataFusion 55 to a session with its
/// default features.
///
/// All rules of the optimizer are set, so a caller adds its own afterwards. The fuzzer corrects its
/// plain session in the same way, because known faults would hide others.
#[must_use]
pub fn corrected(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut physical = ScanStatistics::among_defaults();
    physical.insert(0, Arc::new(NullFilled));
    physical.push(Arc::new(WholeRangeFrames));
    let mut builder = builder
        .with_analyzer_rule(Arc::new(CountedSets))
        .with_analyzer_rule(Arc::new(HiddenConstants))
        .with_analyzer_rule(Arc::new(OneRowSubqueries))
        .with_analyzer_rule(Arc::new(ThreeValuedIn))
        .with_analyzer_rule(Arc::new(ExactComparisons))
        .with_analyzer_rule(Arc::new(MergedLists))
        .with_optimizer_rules(logical_rules())
        .with_physical_optimizer_rules(physical);
    // Later functions replace earlier ones of the same name.
    let functions = builder.aggregate_functions().get_or_insert_default();
    functions.extend(float_extremes());
    builder
}

/// DataFusion's logical rules, corrected.
pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let own = own_rules();
    let rules = Optimizer::new().rules.into_iter().map(|rule| {
        let own = own.iter().find(|own| own.name() == rule.name());
        own.map_or(rule, Arc::clone)
    });
    rules.collect()
}

/// The rules that replace the one of DataFusion with the same name.
fn own_rules() -> [Arc<dyn OptimizerRule + Send + Sync>; 4] {
    [
        Arc::new(WholeOrders::default()),
        Arc::new(GroupFilters::default()),
        Arc::new(CrossJoins::default()),
        Arc::new(EquiJoins::default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_of_ours_replaces_one_of_datafusion() {
        let rules = Optimizer::new().rules;
        for own in own_rules() {
            let same = rules.iter().filter(|rule| rule.name() == own.name());
            assert_eq!(same.count(), 1, "{}", own.name());
        }
        assert_eq!(logical_rules().len(), rules.len());
    }
}
