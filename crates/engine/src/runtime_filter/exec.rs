//! The operator on top of a build side that collects its keys.

use crate::breakdown::caught;
use crate::scan::{ExecutionKeys, KeyCollector, RuntimeFilter};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, StatisticsArgs,
};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// A key of a build side and the filter that it fills.
#[derive(Debug, Clone)]
pub(crate) struct BuildKey {
    /// The key, over the columns of the build side.
    pub key: Arc<dyn PhysicalExpr>,
    pub filter: Arc<RuntimeFilter>,
    /// Build rows after which the filter is given up.
    pub most_rows: usize,
}

/// Returns the rows of a build side unchanged and makes their keys known at the end.
#[derive(Debug)]
pub(crate) struct RuntimeFilterExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<BuildKey>,
    /// Keeps the keys as long as the plan that runs: scans may begin after the build side's end.
    runs: Mutex<Vec<Arc<ExecutionKeys>>>,
}

impl RuntimeFilterExec {
    /// The operator on top of `input`, which has one partition.
    pub fn new(input: Arc<dyn ExecutionPlan>, keys: Vec<BuildKey>) -> Self {
        RuntimeFilterExec {
            input,
            keys,
            runs: Mutex::default(),
        }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(input, self.keys.clone()))
    }

    /// The keys that it collects.
    pub(crate) fn keys(&self) -> &[BuildKey] {
        &self.keys
    }
}

impl DisplayAs for RuntimeFilterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|k| k.key.to_string()).collect();
        write!(f, "RuntimeFilterExec: keys=[{}]", keys.join(", "))
    }
}

impl ExecutionPlan for RuntimeFilterExec {
    fn name(&self) -> &'static str {
        "RuntimeFilterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut goes_on = TreeNodeRecursion::Continue;
        for key in &self.keys {
            goes_on = goes_on.visit_sibling(|| f(&key.key))?;
        }
        Ok(goes_on)
    }

    tierloom_corrections::with_one_input!(input, over);

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(Arc::clone(&self.input)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let mut collecting = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let run = key.filter.begin(&context);
            let reservation = MemoryConsumer::new("RuntimeFilter").register(context.memory_pool());
            let data_type = key.key.data_type(&schema)?;
            collecting.push(Collecting {
                key: Arc::clone(&key.key),
                collector: KeyCollector::new(&data_type, key.most_rows, reservation),
                run: SettledWhenDropped(Arc::clone(&run)),
            });
            self.runs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(run);
        }
        Ok(Box::pin(KeyedRows {
            rows: self.input.execute(partition, context)?,
            schema,
            collecting,
        }))
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("RuntimeFilterExec has one input"),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// A key that is being collected.
struct Collecting {
    key: Arc<dyn PhysicalExpr>,
    collector: KeyCollector,
    run: SettledWhenDropped,
}

/// Where the keys will be known; scans stop waiting for them when it is dropped.
struct SettledWhenDropped(Arc<ExecutionKeys>);

impl Drop for SettledWhenDropped {
    fn drop(&mut self) {
        self.0.settle();
    }
}

impl Collecting {
    /// Adds the keys of a batch; false if the filter is given up.
    fn add(&mut self, batch: &RecordBatch) -> bool {
        // The join evaluates the same expression, and reports what is wrong with it.
        let added = caught(|| {
            let values = self.key.evaluate(batch)?;
            self.collector.add(&values.into_array(batch.num_rows())?)
        });
        matches!(added, Ok(Ok(true)))
    }
}

/// The rows of a build side, whose keys are collected on the way.
struct KeyedRows {
    rows: SendableRecordBatchStream,
    schema: SchemaRef,
    collecting: Vec<Collecting>,
}

impl Stream for KeyedRows {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let next = ready!(this.rows.poll_next_unpin(cx));
        match &next {
            Some(Ok(batch)) => this.collecting.retain_mut(|key| key.add(batch)),
            // The keys of a build side that failed are not all of them.
            Some(Err(_)) => this.collecting.clear(),
            None => {
                for key in this.collecting.drain(..) {
                    key.run.0.complete(key.collector);
                }
            }
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for KeyedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
