//! The rules that put operators for large inputs in, and expressions for many rows.

use crate::big_sort::BigSorts;
use crate::bigjoin::{BigAggregateOptions, BigAggregateRule, BigJoinOptions, BigJoinRule};
use crate::running_window::{RunningWindows, WindowTops};
use crate::text_pattern::TextPatterns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use std::sync::Arc;

/// All of them, in their order.
pub(crate) fn big_operators(
    joins: &BigJoinOptions,
    aggregates: &BigAggregateOptions,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    vec![
        Arc::new(RunningWindows),
        Arc::new(WindowTops),
        Arc::new(BigSorts),
        Arc::new(BigJoinRule::new(joins.clone())),
        Arc::new(BigAggregateRule::new(aggregates.clone())),
        Arc::new(TextPatterns),
    ]
}
