//! Physical optimizer rule that replaces aggregations with many groups.
//!
//! An aggregation qualifies by its keys and accumulators, and by the planner's estimate of its
//! groups. Small group tables stay with DataFusion: looking up batches pays only where lookups miss
//! the cache.

use super::exec::{BigAggregateExec, unsupported};
use crate::breakdown::caught;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Thresholds of [`BigAggregateRule`]; lower ones are for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigAggregateOptions {
    /// Smallest estimated number of groups that is replaced.
    ///
    /// Without an estimate an aggregation counts as large.
    pub min_groups: usize,
}

impl Default for BigAggregateOptions {
    fn default() -> Self {
        Self {
            min_groups: DEFAULT_MIN_GROUPS,
        }
    }
}

/// Groups take 21 bytes each plus their states, so this many exceed an L2 cache.
const DEFAULT_MIN_GROUPS: usize = 32 << 10;

/// Replaces aggregations with many groups by [`BigAggregateExec`].
///
/// Must run after the rules that choose modes and orders.
#[derive(Debug, Default)]
pub struct BigAggregateRule {
    options: BigAggregateOptions,
}

impl BigAggregateRule {
    /// Creates the rule with its threshold.
    pub fn new(options: BigAggregateOptions) -> Self {
        Self { options }
    }

    fn replace(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
            return Ok(Transformed::no(plan));
        };
        if unsupported(aggregate)?.is_some() {
            return Ok(Transformed::no(plan));
        }
        // The number of output rows is the number of groups.
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
        let why = match statistics.num_rows {
            Precision::Exact(groups) | Precision::Inexact(groups)
                if groups < self.options.min_groups =>
            {
                return Ok(Transformed::no(plan));
            }
            Precision::Exact(groups) | Precision::Inexact(groups) => {
                format!("at most about {groups} groups")
            }
            Precision::Absent => "number of groups unknown".into(),
        };
        let big = BigAggregateExec::try_new(plan, why)?;
        Ok(Transformed::yes(Arc::new(big)))
    }
}

impl PhysicalOptimizerRule for BigAggregateRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.up(&mut |plan| {
            let replaced = caught(|| self.replace(Arc::clone(&plan)));
            // An error or panic while analysing leaves the operator as it is.
            Ok(replaced
                .ok()
                .and_then(Result::ok)
                .unwrap_or_else(|| Transformed::no(plan)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "big_aggregate"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
