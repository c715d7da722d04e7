//! Windows whose frame ends before the current row's value.

use crate::walk::Walk;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// Runs `RANGE BETWEEN ... AND n PRECEDING` on whole partitions.
///
/// For rows whose sort key is NULL such a frame ends with the last NULL. The operator of DataFusion
/// 55 that works batch by batch takes it for complete as soon as it has the row, and leaves out the
/// NULLs of later batches. The rule must run after those that choose between the two operators.
#[derive(Debug, Default)]
pub(crate) struct WholeRangeFrames;

impl PhysicalOptimizerRule for WholeRangeFrames {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut whole = |node: Arc<dyn ExecutionPlan>| {
            let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else {
                return Ok(Transformed::no(node));
            };
            let frames = window.window_expr();
            let is_affected = frames.iter().any(|e| ends_before(e.get_window_frame()));
            // Unsorted partitions cannot be kept whole.
            if !is_affected || window.input_order_mode != InputOrderMode::Sorted {
                return Ok(Transformed::no(node));
            }
            let separate = !window.partition_keys().is_empty();
            let whole =
                WindowAggExec::try_new(frames.to_vec(), Arc::clone(window.input()), separate)?;
            Ok(Transformed::yes(Arc::new(whole) as _))
        };
        plan.up(&mut whole).data()
    }

    fn name(&self) -> &str {
        "tierloom_whole_range_frames"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn ends_before(frame: &WindowFrame) -> bool {
    let by_value = matches!(
        frame.units,
        WindowFrameUnits::Range | WindowFrameUnits::Groups
    );
    let before = |value: &ScalarValue| !value.is_null();
    by_value && matches!(&frame.end_bound, WindowFrameBound::Preceding(value) if before(value))
}
