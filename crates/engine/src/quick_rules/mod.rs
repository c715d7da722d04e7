//! DataFusion's rules, with less time for the same plans.
//!
//! Join selection and the rule that repartitions and sorts ask for the statistics of the inputs of
//! each operator. DataFusion 55 computes those from the tables up every time, so the time of both
//! rules grows with the square of a plan's depth. Here an operator is given leaves that know the
//! properties and the statistics of its inputs, and aggregations without any order are leaves to
//! the steps that sort. A test compares the plans with those of DataFusion's own rules.
//!
//! Join selection may also be given better estimates: of joins on several keys ([`several_keys`]),
//! and of filters ([`kept_codes`]), whose conditions scans then evaluate on codes before it.

mod by_node;
mod kept_codes;
mod known_input;
mod requirements;
mod scan_filters;
mod several_keys;

use by_node::ByNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use requirements::Requirements;
use scan_filters::{ScanFilters, ScanHints};
use std::sync::Arc;

/// Replaces DataFusion's rules by the quick ones.
///
/// `estimated` says whether the sides of joins are chosen by better estimates.
pub(crate) fn replace(
    rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    estimated: bool,
) {
    let requirements = Requirements::default();
    for rule in rules.iter_mut() {
        let name = rule.name();
        if name == ByNode::NAME {
            *rule = Arc::new(ByNode::new(Arc::clone(rule), estimated));
        } else if name == requirements.name() {
            *rule = Arc::new(Requirements::default());
        } else if [ScanFilters::NAME, ScanFilters::DYNAMIC].contains(&name) {
            *rule = Arc::new(ScanFilters(Arc::clone(rule)));
        }
    }
    let at = rules.iter().position(|rule| rule.name() == ByNode::NAME);
    rules.insert(at.unwrap_or(0), Arc::new(ScanHints));
}
