//! DataFusion's rules, with less time for the same plans.
//!
//! Join selection and the rule that repartitions and sorts ask for the statistics of the inputs of
//! each operator. DataFusion 55 computes those from the tables up every time, so the time of both
//! rules grows with the square of a plan's depth. Here an operator is given leaves that know the
//! properties and the statistics of its inputs, and aggregations without any order are leaves to
//! the steps that sort. A test compares the plans with those of DataFusion's own rules.
//!
//! Join selection may also be given other statistics of joins on several keys ([`several_keys`]).

mod by_node;
mod known_input;
mod requirements;
mod scan_filters;
mod several_keys;

use by_node::ByNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use requirements::Requirements;
use scan_filters::ScanFilters;
use std::sync::Arc;

/// Replaces DataFusion's rules by the quick ones.
///
/// `by_all_keys` says whether the sides of joins are chosen by all keys of the joins below.
pub(crate) fn replace(
    rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>],
    by_all_keys: bool,
) {
    let requirements = Requirements::default();
    for rule in rules {
        let name = rule.name();
        if name == ByNode::NAME {
            *rule = Arc::new(ByNode::new(Arc::clone(rule), by_all_keys));
        } else if name == requirements.name() {
            *rule = Arc::new(Requirements::default());
        } else if [ScanFilters::NAME, ScanFilters::DYNAMIC].contains(&name) {
            *rule = Arc::new(ScanFilters(Arc::clone(rule)));
        }
    }
}
