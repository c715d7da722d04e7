//! Which joins are replaced.

use super::exec::BigJoinExec;
use super::keys::{MAX_COLUMNS, is_key_type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::sync::Arc;

/// When [`BigJoinRule`] replaces a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigJoinOptions {
    /// Build rows, as the planner estimates them, from which on a join is replaced. A build side without an estimate counts as large.
    pub min_build_rows: usize,
}

impl Default for BigJoinOptions {
    fn default() -> Self {
        Self {
            min_build_rows: DEFAULT_MIN_BUILD_ROWS,
        }
    }
}

/// 21 bytes a row: tables of 1 MiB and more, which leave the L2 cache.
const DEFAULT_MIN_BUILD_ROWS: usize = 48 << 10;

/// Replaces hash joins whose build side leaves the cache by [`BigJoinExec`]. Runs after the rules that choose join sides and push filters and
/// projections down.
#[derive(Debug, Default)]
pub struct BigJoinRule {
    options: BigJoinOptions,
}

impl BigJoinRule {
    /// With its thresholds.
    pub fn new(options: BigJoinOptions) -> Self {
        Self { options }
    }

    fn replace(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
            return Ok(Transformed::no(plan));
        };
        if unsupported(join)?.is_some() {
            return Ok(Transformed::no(plan));
        }
        let rows = StatisticsContext::new()
            .compute(join.left().as_ref(), &StatisticsArgs::new())?
            .num_rows;
        let why = match rows {
            Precision::Exact(rows) | Precision::Inexact(rows)
                if rows < self.options.min_build_rows =>
            {
                return Ok(Transformed::no(plan));
            }
            Precision::Exact(rows) => format!("{rows} build rows"),
            Precision::Inexact(rows) => format!("about {rows} build rows"),
            Precision::Absent => "build rows unknown".into(),
        };
        let big = BigJoinExec::try_new(Arc::new(join.builder().build()?), why)?;
        Ok(Transformed::yes(Arc::new(big)))
    }
}

impl PhysicalOptimizerRule for BigJoinRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| self.replace(plan)).data()
    }

    fn name(&self) -> &str {
        "big_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Why [`BigJoinExec`] cannot stand for `join`, if so.
pub(super) fn unsupported(join: &HashJoinExec) -> Result<Option<String>> {
    let kind = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::RightSemi
            | JoinType::RightAnti
    );
    if !kind {
        return Ok(Some(format!("{} joins stay as they are", join.join_type())));
    }
    if *join.partition_mode() == PartitionMode::Auto {
        return Ok(Some("its mode is not chosen yet".into()));
    }
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(Some("its NULLs match or count".into()));
    }
    if join.fetch().is_some() {
        return Ok(Some("it ends after a number of rows".into()));
    }
    if !(1..=MAX_COLUMNS).contains(&join.on().len()) {
        return Ok(Some(format!("{} key columns", join.on().len())));
    }
    for (left, right) in join.on() {
        let left = left.data_type(&join.left().schema())?;
        if !is_key_type(&left) || left != right.data_type(&join.right().schema())? {
            return Ok(Some(format!("keys of type {left}")));
        }
    }
    if feeds_a_filter(join)? {
        return Ok(Some("its build side filters the probe side's scan".into()));
    }
    Ok(None)
}

/// Whether an operator below the probe side waits for what the join learns about its build side.
fn feeds_a_filter(join: &HashJoinExec) -> Result<bool> {
    let ids: Vec<u64> = join
        .dynamic_expressions_produced()
        .iter()
        .filter_map(|e| e.expression_id())
        .collect();
    let mut found = false;
    if !ids.is_empty() {
        join.right().apply(|node| {
            node.apply_expressions(&mut |root| {
                root.apply(|expr| {
                    found |= expr.expression_id().is_some_and(|id| ids.contains(&id));
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}
