//! Finds windows that can be computed in one pass.

use super::exec::RunningWindowExec;
use super::whole::WholeWindowExec;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Replaces window operators whose functions all run from the first row of a partition to the
/// current one, and those whose functions all have whole partitions.
#[derive(Debug)]
pub(crate) struct RunningWindows;

impl PhysicalOptimizerRule for RunningWindows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.up(&mut |node| {
            if let Some(running) = RunningWindowExec::of(&node)? {
                return Ok(Transformed::yes(Arc::new(running)));
            }
            Ok(match WholeWindowExec::of(&node)? {
                Some(whole) => Transformed::yes(Arc::new(whole)),
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
