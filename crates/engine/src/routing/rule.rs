//! The rule that wraps each operator.

use super::class::class_of;
use super::exec::RoutedExec;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use std::sync::Arc;
use tierloom_memory::router::Class;

/// Wraps each operator of a finished plan so that its memory goes to its class. Runs last: other rules look at concrete operators.
#[derive(Debug)]
pub struct RouteOperators;

impl PhysicalOptimizerRule for RouteOperators {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // `EXPLAIN` and `ANALYZE` are no operators: what they show was planned before, or is below them.
        wrap(plan, None, true)
    }

    fn name(&self) -> &str {
        "route_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `parent_after`: the class of the parent once this node has returned rows.
fn wrap(
    plan: Arc<dyn ExecutionPlan>,
    parent_after: Option<Class>,
    is_root: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if RoutedExec::of(plan.as_ref()).is_some() {
        return Ok(plan);
    }
    let class = match class_of(plan.name()) {
        // What leaves the root is the answer, unless the operator holds more than that.
        Class::Other if is_root => Class::Result,
        class => class,
    };
    let after_probe = if is_root { Class::Result } else { Class::Other };
    let builds = class == Class::JoinBuild && plan.children().len() == 2;
    let children = plan.children().into_iter().cloned().collect::<Vec<_>>();
    let plan = if children.is_empty() {
        plan
    } else {
        let wrapped = children
            .into_iter()
            .enumerate()
            .map(|(index, child)| {
                let probe_side = builds && index == 1;
                wrap(child, probe_side.then_some(after_probe), false)
            })
            .collect::<Result<Vec<_>>>()?;
        // A wrapper has the properties of its node: none of the parent's change.
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        plan.replace_children(wrapped, keep)?
    };
    Ok(RoutedExec::wrap(plan, class, parent_after))
}
