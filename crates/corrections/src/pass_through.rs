//! An operator that returns the rows of its input unchanged.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, StatisticsArgs,
};
use std::fmt;
use std::sync::Arc;

/// An operator between two others that the planner cannot look through: nothing is pushed below it
/// but limits.
#[derive(Debug)]
pub struct PassThrough {
    /// Name of the operator in plans.
    pub name: &'static str,
    /// Whether the planner learns nothing of values and order of the rows.
    pub hides_values: bool,
    /// Changes how batches are delivered, but no row and no order of rows.
    pub stream: fn(SendableRecordBatchStream) -> SendableRecordBatchStream,
}

impl PassThrough {
    /// The operator on top of `input`.
    pub fn over(&'static self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let mut properties = Arc::clone(input.properties());
        if self.hides_values {
            let nothing = EquivalenceProperties::new(input.schema());
            let known = PlanProperties::clone(&properties);
            properties = Arc::new(known.with_eq_properties(nothing));
        }
        Arc::new(PassThroughExec {
            kind: self,
            input,
            properties,
        })
    }

    /// The input of `plan` if it is this operator.
    pub fn input_of<'p>(
        &self,
        plan: &'p Arc<dyn ExecutionPlan>,
    ) -> Option<&'p Arc<dyn ExecutionPlan>> {
        let found = plan.downcast_ref::<PassThroughExec>();
        found
            .filter(|found| found.kind.name == self.name)
            .map(|found| &found.input)
    }
}

#[derive(Debug)]
struct PassThroughExec {
    kind: &'static PassThrough,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for PassThroughExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PassThroughExec {
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        self.kind.over(input)
    }
}

impl ExecutionPlan for PassThroughExec {
    fn name(&self) -> &str {
        self.kind.name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![!self.kind.hides_values]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    crate::with_one_input!(input, over);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        Ok((self.kind.stream)(rows))
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("{} has one input", self.kind.name),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
