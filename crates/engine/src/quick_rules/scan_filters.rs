//! Filters for the scans of placed tables.
//!
//! DataFusion asks every operator which filters its inputs may take. Logical rules have moved the
//! filters to the tables already, and scans of placed tables take them only as hints, so that it is
//! enough to look at each filter and its input.

use crate::scan::PlacedScanExec;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// DataFusion's rule that moves filters into scans, run only where there are other scans than those
/// of placed tables.
#[derive(Debug)]
pub(super) struct ScanFilters(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl ScanFilters {
    /// The name of DataFusion's rule that this can run.
    pub const NAME: &str = "FilterPushdown";

    /// That of the same rule for filters that change while a query runs, which no placed table
    /// takes.
    pub const DYNAMIC: &str = "FilterPushdown(Post)";
}

impl PhysicalOptimizerRule for ScanFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.has(&mut |node| Ok(is_other_scan(node)))? {
            return self.0.optimize(plan, config);
        }
        // Scans of placed tables have their hints already.
        Ok(plan)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Gives scans of placed tables their filters as hints before the sides of joins are chosen, which
/// depends on how many rows pass.
#[derive(Debug)]
pub(super) struct ScanHints;

impl PhysicalOptimizerRule for ScanHints {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        hinted(plan)
    }

    fn name(&self) -> &str {
        "tierloom_scan_hints"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan`, whose scans of placed tables have the conditions of filters above as hints.
fn hinted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let hinted = plan.up(&mut |node| {
        let filter = node.downcast_ref::<FilterExec>();
        match filter.and_then(|filter| noted(filter.input(), filter.predicate())) {
            Some(input) => replace_children_if_necessary(node, vec![input?]).map(Transformed::yes),
            None => Ok(Transformed::no(node)),
        }
    });
    hinted.data()
}

fn is_other_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_known =
        plan.is::<PlacedScanExec>() || plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>();
    plan.children().is_empty() && !is_known
}

/// The scan `input`, or the scans of all groups of rows of a table, with `predicate` as a hint,
/// also below projections; `None` if it is another operator.
fn noted(
    input: &Arc<dyn ExecutionPlan>,
    predicate: &Arc<dyn PhysicalExpr>,
) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = input.downcast_ref::<PlacedScanExec>() {
        let filtered = scan.with_hint(std::slice::from_ref(predicate))?;
        return Some(Ok(Arc::new(filtered)));
    }
    if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        // As of expressions that a filter has twice and that are computed once.
        let computed = update_expr(predicate, projection.expr(), true).ok()??;
        let below = noted(projection.input(), &computed)?;
        let above = below.and_then(|b| replace_children_if_necessary(Arc::clone(input), vec![b]));
        return Some(above);
    }
    input.downcast_ref::<UnionExec>()?;
    let scans = input.children().into_iter();
    let scans = scans.map(|scan| noted(scan, predicate).unwrap_or_else(|| Ok(Arc::clone(scan))));
    let scans = scans.collect::<Result<Vec<_>>>();
    Some(scans.and_then(|scans| replace_children_if_necessary(Arc::clone(input), scans)))
}
