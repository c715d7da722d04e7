//! All corrections of DataFusion's wrong answers that need nothing of ours.

use crate::counted_sets::CountedSets;
use crate::float_extremes::float_extremes;
use crate::grouping_sets::HiddenConstants;
use crate::null_filled::NullFilled;
use crate::null_in::ThreeValuedIn;
use crate::scan_statistics::ScanStatistics;
use crate::whole_order::WholeOrders;
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use std::sync::Arc;

/// Adds the rules and functions that correct wrong answers of DataFusion 55 to a session with its
/// default features.
///
/// The optimizer's rules are replaced by [`logical_rules`], the physical ones by DataFusion's with
/// corrections. The fuzzer corrects its plain session in the same way, because known faults would
/// hide others.
#[must_use]
pub fn corrected(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut physical = ScanStatistics::among_defaults();
    physical.insert(0, Arc::new(NullFilled));
    let mut builder = builder
        .with_analyzer_rule(Arc::new(CountedSets))
        .with_analyzer_rule(Arc::new(HiddenConstants))
        .with_analyzer_rule(Arc::new(ThreeValuedIn))
        .with_optimizer_rules(logical_rules())
        .with_physical_optimizer_rules(physical);
    // Later functions replace earlier ones of the same name.
    let functions = builder.aggregate_functions().get_or_insert_default();
    functions.extend(float_extremes());
    builder
}

/// DataFusion's logical rules, corrected.
pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    WholeOrders::among(Optimizer::new().rules)
}
