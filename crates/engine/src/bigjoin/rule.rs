//! Physical optimizer rule that replaces joins with large build sides.
//!
//! A join qualifies by type, keys and NULL semantics, and by the planner's estimate of its build
//! rows. Joins for which DataFusion uses a dense array by key stay with DataFusion, which is faster
//! there.

use super::exec::{BigJoinExec, unsupported};
use crate::breakdown::caught;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Thresholds of [`BigJoinRule`]; lower ones are for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigJoinOptions {
    /// Smallest estimated number of build rows that is replaced.
    ///
    /// Without an estimate a build side counts as large.
    pub min_build_rows: usize,
    /// Whether to replace joins for which DataFusion uses a dense array by key.
    ///
    /// It does for one integer column in a narrow range. In measurements DataFusion is faster
    /// there up to about a million rows, so the default is false: only larger ones are replaced.
    pub dense_keys: bool,
}

impl Default for BigJoinOptions {
    fn default() -> Self {
        Self {
            min_build_rows: DEFAULT_MIN_BUILD_ROWS,
            dense_keys: false,
        }
    }
}

/// At 21 bytes per row, tables of 1 MiB and more, which exceed the L2 cache.
const DEFAULT_MIN_BUILD_ROWS: usize = 48 << 10;

/// Build rows from which an array by key is built by all threads here; DataFusion has one build it.
const MIN_DENSE_ROWS: usize = 1 << 20;

/// Replaces hash joins with large build sides by [`BigJoinExec`].
///
/// Must run after the rules that choose join sides and push down filters and projections.
#[derive(Debug, Default)]
pub struct BigJoinRule {
    options: BigJoinOptions,
}

impl BigJoinRule {
    /// Creates the rule with its thresholds.
    pub fn new(options: BigJoinOptions) -> Self {
        Self { options }
    }

    fn replace(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
            return Ok(Transformed::no(plan));
        };
        if unsupported(join)?.is_some() {
            return Ok(Transformed::no(plan));
        }
        let statistics =
            StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new())?;
        let rows = statistics.num_rows;
        let is_large = rows.get_value().is_some_and(|rows| *rows >= MIN_DENSE_ROWS);
        if !self.options.dense_keys && !is_large && may_be_dense(join, &statistics, config)? {
            return Ok(Transformed::no(plan));
        }
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
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.up(&mut |plan| {
            let replaced = caught(|| self.replace(Arc::clone(&plan), config));
            // An error or panic while analysing leaves the operator as it is.
            Ok(replaced
                .ok()
                .and_then(Result::ok)
                .unwrap_or_else(|| Transformed::no(plan)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "big_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether DataFusion uses, or may use, a dense array by key.
///
/// It does for one integer column whose range is small (`perfect_hash_join_small_build_threshold`)
/// or not much larger than the number of rows (`perfect_hash_join_min_key_density`). Without
/// statistics it decides when it sees the keys.
fn may_be_dense(join: &HashJoinExec, build: &Statistics, config: &ConfigOptions) -> Result<bool> {
    let [(key, _)] = join.on() else {
        return Ok(false);
    };
    if !key.data_type(&join.left().schema())?.is_integer() {
        return Ok(false);
    }
    // The range of an expression is unknown, so DataFusion may still find it dense.
    let Some(column) = key.downcast_ref::<Column>() else {
        return Ok(true);
    };
    let Some(column) = build.column_statistics.get(column.index()) else {
        return Ok(true);
    };
    let bound = |value: Option<&ScalarValue>| -> Option<i64> {
        match value?.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(value) => value,
            _ => None,
        }
    };
    let (min, max) = (
        bound(column.min_value.get_value()),
        bound(column.max_value.get_value()),
    );
    let (Some((min, max)), Some(rows)) = (min.zip(max), build.num_rows.get_value()) else {
        return Ok(true);
    };
    let range = max.abs_diff(min);
    let execution = &config.execution;
    let density = *rows as f64 / (range as f64 + 1.0);
    Ok(
        range < execution.perfect_hash_join_small_build_threshold as u64
            || density > execution.perfect_hash_join_min_key_density,
    )
}
