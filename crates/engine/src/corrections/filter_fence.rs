//! Filters that are pushed down where columns are told apart by more than their names.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// One of DataFusion's two rules that push filters down a physical plan, kept out of operators that
/// have two columns of one name.
///
/// Most operators of DataFusion 55 find the columns of a filter in their input by name and take the
/// first. Above a join of tables that share names, once its sides are swapped and a projection puts
/// the columns back, that is the wrong one: `l RIGHT JOIN r ON l.k = r.k WHERE l.i IS NULL` tested
/// `r.i` in the place of `l.i`.
#[derive(Debug)]
pub(crate) struct FencedFilters(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl FencedFilters {
    /// How DataFusion's rules begin their names.
    pub(crate) const NAMES: &str = "FilterPushdown";
}

impl PhysicalOptimizerRule for FencedFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|node| Ok(is_ambiguous(node)))? {
            return self.0.optimize(plan, config);
        }
        let fence = |inner| match is_ambiguous(&inner) {
            true => Ok(Transformed::yes(Arc::new(Fence { inner }) as _)),
            false => Ok(Transformed::no(inner)),
        };
        let fenced = plan.transform_up(fence).data()?;
        let pushed = self.0.optimize(fenced, config)?;
        let unfence = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<Fence>() {
            Some(fence) => Ok(Transformed::yes(Arc::clone(&fence.inner))),
            None => Ok(Transformed::no(node)),
        };
        pushed.transform_up(unfence).data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
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

/// An operator that lets no filter through to `inner`; there only while the rule runs.
#[derive(Debug)]
struct Fence {
    inner: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Fence {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Fence {
    fn name(&self) -> &str {
        "Fence"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Fence { inner })),
            _ => internal_err!("a fence has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recompute)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }
}
