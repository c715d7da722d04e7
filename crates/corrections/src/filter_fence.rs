//! Rules that push something down where they lose track of columns.

use crate::pass_through::PassThrough;
use crate::walk::Walk;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use std::collections::HashSet;
use std::sync::Arc;

/// Lets nothing through; there only while the rule runs.
static FENCE: PassThrough = PassThrough {
    name: "Fence",
    hides_values: false,
    stream: |rows| rows,
};

/// A rule of DataFusion 55 that pushes something down a physical plan, kept out of operators that
/// answer wrongly then.
///
/// * Filters, and operators that have two columns of one name. Most operators find the columns of a
///   filter in their input by name and take the first. Above a join of tables that share names,
///   once its sides are swapped and a projection puts the columns back, that is the wrong one: `l
///   RIGHT JOIN r ON l.k = r.k WHERE l.i IS NULL` tested `r.i` in the place of `l.i`.
/// * Projections, and sort-merge joins with a further condition. The condition keeps the positions
///   of its columns although the inputs change, so it tests others.
#[derive(Debug)]
pub(crate) struct Fenced {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    keeps_out: fn(&Arc<dyn ExecutionPlan>) -> bool,
}

impl Fenced {
    /// How DataFusion's rules that push filters begin their names.
    pub(crate) const FILTERS: &str = "FilterPushdown";
    /// The name of the rule that pushes projections.
    pub(crate) const PROJECTIONS: &str = "ProjectionPushdown";

    /// The rule with fences if it needs any.
    pub(crate) fn around(
        rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    ) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        let keeps_out = match rule.name() {
            name if name.starts_with(Self::FILTERS) => is_ambiguous,
            Self::PROJECTIONS => is_filtered_merge_join,
            _ => return rule,
        };
        Arc::new(Fenced { rule, keeps_out })
    }
}

impl PhysicalOptimizerRule for Fenced {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.has(&mut |node| Ok((self.keeps_out)(node)))? {
            return self.rule.optimize(plan, config);
        }
        let mut fence = |inner| match (self.keeps_out)(&inner) {
            true => Ok(Transformed::yes(FENCE.over(inner))),
            false => Ok(Transformed::no(inner)),
        };
        let fenced = plan.up(&mut fence).data()?;
        let pushed = self.rule.optimize(fenced, config)?;
        let mut unfence = |node: Arc<dyn ExecutionPlan>| match FENCE.input_of(&node) {
            Some(inner) => Ok(Transformed::yes(Arc::clone(inner))),
            None => Ok(Transformed::no(node)),
        };
        pushed.up(&mut unfence).data()
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

fn is_ambiguous(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut names = HashSet::new();
    !schema
        .fields()
        .iter()
        .all(|field| names.insert(field.name()))
}

fn is_filtered_merge_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let join = plan.downcast_ref::<SortMergeJoinExec>();
    join.is_some_and(|join| join.filter().is_some())
}
