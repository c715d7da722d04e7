//! Plans that another process has made, with operators of this engine.

use crate::session::Engine;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// Names of the rules for large inputs.
const BIG_OPERATORS: [&str; 5] = [
    "tierloom_running_windows",
    "tierloom_window_tops",
    "tierloom_big_sorts",
    "big_join",
    "big_aggregate",
];

impl Engine {
    /// `plan`, which was planned elsewhere, with this engine's operators for large inputs in the
    /// place of DataFusion's. Partitions and columns stay.
    ///
    /// # Errors
    /// DataFusion's, from making operators.
    pub fn with_big_operators(
        &self,
        mut plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = self.context().state();
        for rule in state.physical_optimizers() {
            if BIG_OPERATORS.contains(&rule.name()) {
                plan = rule.optimize(plan, state.config_options())?;
            }
        }
        Ok(plan)
    }
}
