//! Finds windows that can be computed in one pass.

use super::exec::RunningWindowExec;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Replaces window operators whose functions all run from the first row of a partition to the
/// current one.
#[derive(Debug)]
pub(crate) struct RunningWindows;

impl PhysicalOptimizerRule for RunningWindows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.up(&mut |node| {
            if !node.is::<BoundedWindowAggExec>() {
                return Ok(Transformed::no(node));
            }
            Ok(match RunningWindowExec::of(&node)? {
                Some(running) => Transformed::yes(Arc::new(running)),
                None => Transformed::no(node),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        "tierloom_running_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
