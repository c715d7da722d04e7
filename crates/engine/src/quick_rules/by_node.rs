//! Rules that look at one operator after the other, each given its inputs as leaves.

use super::known_input::{KnownInput, replaced};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use std::sync::Arc;

/// A rule that decides for each operator by the properties and statistics of its inputs alone.
#[derive(Debug)]
pub(crate) struct ByNode {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    /// Whether the statistics of inputs are estimated better than by DataFusion.
    estimated: bool,
}

impl ByNode {
    /// The name of DataFusion's rule that this can run: join selection.
    pub(crate) const NAME: &str = "join_selection";

    pub(crate) fn new(rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>, estimated: bool) -> Self {
        ByNode { rule, estimated }
    }

    /// The plan after the rule, with leaves for the inputs of its operators.
    fn known(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs: Result<Vec<Arc<dyn ExecutionPlan>>> = plan
            .children()
            .into_iter()
            .map(|input| Ok(KnownInput::of(self.known(input, config)?, self.estimated)))
            .collect();
        let plan = replace_children_if_necessary(Arc::clone(plan), inputs?)?;
        self.rule.optimize(plan, config)
    }
}

impl PhysicalOptimizerRule for ByNode {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.optimizer.use_statistics_registry {
            // Other statistics, of which leaves know nothing.
            return self.rule.optimize(plan, config);
        }
        replaced(&self.known(&plan, config)?)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}
