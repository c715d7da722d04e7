//! Finds filters with patterns.

use super::expr::PatternLike;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_expr::expressions::LikeExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Evaluates `LIKE` in filters by patterns.
///
/// Must run after the rules that look for `LIKE`.
#[derive(Debug)]
pub(crate) struct TextPatterns;

impl PhysicalOptimizerRule for TextPatterns {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.has(&mut |node| predicate(node).map_or(Ok(false), has_like))? {
            return Ok(plan);
        }
        plan.up(&mut |node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(node));
            };
            let quick = Arc::clone(filter.predicate()).up(&mut |expr| {
                Ok(match PatternLike::of(expr.as_ref()) {
                    Some(quick) => Transformed::yes(Arc::new(quick) as _),
                    None => Transformed::no(expr),
                })
            })?;
            if !quick.transformed {
                return Ok(Transformed::no(node));
            }
            let filter = FilterExecBuilder::from(filter).with_predicate(quick.data);
            Ok(Transformed::yes(Arc::new(filter.build()?)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "tierloom_text_patterns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn predicate(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn PhysicalExpr>> {
    Some(node.downcast_ref::<FilterExec>()?.predicate())
}

fn has_like(predicate: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    predicate.has(&mut |expr| Ok(expr.is::<LikeExpr>()))
}
