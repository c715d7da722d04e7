//! Selection of joins, one after the other, each given its inputs as leaves.

use super::known_input::{KnownInput, replaced};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use std::sync::Arc;

/// A rule that decides for each join by the properties and statistics of its inputs alone.
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

    /// The plan after the rule, with leaves for inputs whose statistics it asks for.
    ///
    /// Those are the inputs of joins and, below them, what has statistics of its own kind; all
    /// other operators keep their inputs, so they are not put together again.
    fn known(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_join = is_join(plan.as_ref());
        let known = |input: &Arc<dyn ExecutionPlan>| {
            let known = self.known(input, config)?;
            Ok(match is_join || self.is_corrected(known.as_ref()) {
                true => KnownInput::of(known, self.estimated),
                false => known,
            })
        };
        let inputs: Result<Vec<_>> = plan.children().into_iter().map(known).collect();
        let plan = replace_children_if_necessary(Arc::clone(plan), inputs?)?;
        match is_join {
            true => self.rule.optimize(plan, config),
            false => Ok(plan),
        }
    }

    /// Whether statistics of this operator may be other ones than DataFusion's.
    fn is_corrected(&self, plan: &dyn ExecutionPlan) -> bool {
        self.estimated && KnownInput::corrects(plan)
    }
}

/// Whether the rule may change this operator.
fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<HashJoinExec>() || plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>()
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
