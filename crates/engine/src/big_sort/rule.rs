//! Finds sorts that packed keys can do.

use super::exec::BigSortExec;
use crate::breakdown::caught;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Replaces sorts without a limit by [`BigSortExec`].
///
/// Must run after the rules that look for `SortExec`.
#[derive(Debug)]
pub(crate) struct BigSorts;

impl PhysicalOptimizerRule for BigSorts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.up(&mut |node| {
            if !node.is::<SortExec>() {
                return Ok(Transformed::no(node));
            }
            let sort = caught(|| BigSortExec::of(&node));
            Ok(match sort.ok().and_then(Result::ok).flatten() {
                Some(sort) => Transformed::yes(Arc::new(sort)),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "tierloom_big_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
