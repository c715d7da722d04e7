//! Physical optimizer rule that wraps each operator for memory routing.
//!
//! It also decides the class of a join's memory after the build: rows that the probe returns are
//! the join's output, not its build side.

use super::exec::RoutedExec;
use crate::operators::class_of;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use std::sync::Arc;
use tierloom_memory::router::Class;

/// Wraps each operator of a finished plan so that its memory is accounted to its class.
///
/// Must run last: other rules match on concrete operators.
#[derive(Debug)]
pub struct RouteOperators;

impl PhysicalOptimizerRule for RouteOperators {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // `EXPLAIN` and `ANALYZE` nodes need no exception: what they show was planned before, or is
        // below them.
        wrap(plan, None, true)
    }

    fn name(&self) -> &str {
        "route_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Wraps `plan` and its inputs.
///
/// `parent_after` is the parent's class once this node has returned rows.
fn wrap(
    plan: Arc<dyn ExecutionPlan>,
    parent_after: Option<Class>,
    is_root: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if RoutedExec::of(plan.as_ref()).is_some() {
        return Ok(plan);
    }
    let class = match class_of(plan.name()) {
        // The root's output is the result; an operator that holds more than its output keeps its
        // class.
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
        // A wrapper has the properties of its node, so the parent's need not be recomputed.
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        plan.replace_children(wrapped, keep)?
    };
    Ok(RoutedExec::wrap(plan, class, parent_after))
}
