//! Plans that another process has made, with operators of this engine.

use crate::session::Engine;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

impl Engine {
    /// `plan`, which was planned elsewhere, with this engine's operators for large inputs in the
    /// place of DataFusion's. Partitions and columns stay.
    ///
    /// # Errors
    /// DataFusion's, from making operators.
    pub fn with_big_operators(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = self.context().state();
        let mut rules = self.options().big_operators().into_iter();
        rules.try_fold(plan, |plan, rule| {
            rule.optimize(plan, state.config_options())
        })
    }
}
