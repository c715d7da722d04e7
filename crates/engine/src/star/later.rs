//! Rules that the operators behind an early star join have not been through.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, OnceLock};

/// The name of the rule that finds star joins early.
pub(super) const EARLY: &str = "tierloom_early_star_joins";

/// That of the rule which finds the others at the end.
pub(super) const LATE: &str = "tierloom_star_join";

/// Rules that a plan still has to go through before it can run.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaterRules(Arc<OnceLock<Vec<Rule>>>);

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

impl LaterRules {
    /// Sets the rules: those of `rules` after that of early star joins, without star joins.
    pub fn set(&self, rules: &[Rule]) {
        let early = rules.iter().position(|rule| rule.name() == EARLY);
        let later = rules.iter().skip(early.map_or(0, |at| at + 1));
        let later = later.filter(|rule| rule.name() != LATE);
        let _ = self.0.set(later.cloned().collect());
    }

    /// The plan after these rules.
    ///
    /// # Errors
    /// Of the rules.
    pub fn applied(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rules = self.0.get().into_iter().flatten();
        rules.try_fold(plan, |plan, rule| rule.optimize(plan, options))
    }
}
