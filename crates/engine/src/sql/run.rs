//! Running a plan to its end: rows to a sink, batch by batch, and the wish to stop obeyed.

use super::checks;
use super::error::SqlError;
use super::session::SqlSession;
use crate::EngineError;
use crate::capture::{HostCosts, capture};
use crate::session::Execution;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, channel};

/// Whether a sink wants more rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    More,
    /// The reader has gone; the query is stopped without an error.
    Enough,
}

/// Where the rows of a statement go.
pub trait Sink {
    /// Rows with these columns follow; called once before the first.
    ///
    /// # Errors
    /// Columns that cannot be shown, a stream that cannot be written.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError>;

    /// Takes rows.
    ///
    /// # Errors
    /// A stream that cannot be written.
    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError>;

    /// All rows were given.
    ///
    /// # Errors
    /// A stream that cannot be written.
    fn end(&mut self) -> Result<(), SqlError>;
}

/// What progress is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files or of rows in memory.
    Bytes,
    /// Rows.
    Rows,
}

/// Who watches a statement: is told of progress, and says when to stop.
pub trait Watch: Sync {
    /// Set when the statement is to stop.
    fn stop(&self) -> &AtomicBool;

    /// Work of `total` bytes or rows begins.
    fn begin(&self, _what: &str, _total: u64, _unit: Unit) {}

    /// So many more of them are done.
    fn advance(&self, _more: u64) {}

    /// The work is done, or has failed.
    fn end(&self) {}

    /// Whether the statement is to stop.
    fn stopped(&self) -> bool {
        self.stop().load(Ordering::Relaxed)
    }
}

/// Nobody watches.
#[derive(Debug, Default)]
pub struct Silent(AtomicBool);

impl Watch for Silent {
    fn stop(&self) -> &AtomicBool {
        &self.0
    }
}

/// Where the time of a statement went, measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// Parsing and planning.
    pub planning: Duration,
    /// From the start of the plan to its last row, with `delivering`.
    pub running: Duration,
    /// Of `running`, in the sink: formatting and writing.
    pub delivering: Duration,
}

/// What a statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows given to the sink; `None` for a statement that has none to give.
    pub rows: Option<u64>,
    /// What there is to say about it ("table t: 10 rows").
    pub message: Option<String>,
    /// Where its time went.
    pub timing: Timing,
}

/// A plan that came to its end.
pub(super) struct Ran {
    /// Rows given to the sink.
    pub rows: u64,
    /// The plan that ran, whose operators hold their metrics.
    pub plan: Arc<dyn ExecutionPlan>,
}

impl SqlSession {
    /// Runs `plan` and gives its rows to `sink`.
    pub(super) fn stream(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
        timing: &mut Timing,
    ) -> Result<Ran, SqlError> {
        if self.settings.engine.routing.is_some() {
            // Nodes may have gone or come since the last statement.
            tierloom_memory::router::refresh();
        }
        let plan = reset_plan_states(Arc::clone(plan))
            .and_then(with_pauses)
            .map_err(|e| SqlError::running(&e))?;
        let driver = self.driver_of(&plan);
        let stop = || watch.stopped();
        let prepared = match &driver {
            Some(driver) => Some(driver.begin(&self.statement, &plan, &stop)?),
            None => None,
        };
        let context = self.engine.context().task_ctx();
        let handle = self.engine.handle().clone();
        let start = Instant::now();
        let result: Result<(u64, Flow), SqlError> = (|| {
            let _inside = handle.enter();
            sink.begin(&plan.schema())?;
            let stream =
                execute_stream(Arc::clone(&plan), context).map_err(|e| SqlError::running(&e))?;
            let mut stream = Running::of(stream);
            let mut rows = 0;
            while let Some(batch) = handle.block_on(async {
                tokio::select! {
                    biased;
                    () = stopped(watch) => Err(SqlError::Interrupted),
                    batch = stream.next() => batch,
                }
            })? {
                checks::digits(&batch)?;
                rows += batch.num_rows() as u64;
                let delivering = Instant::now();
                let flow = sink.rows(&batch)?;
                timing.delivering += delivering.elapsed();
                if flow == Flow::Enough {
                    return Ok((rows, flow));
                }
            }
            checks::joins(&plan)?;
            let delivering = Instant::now();
            sink.end()?;
            timing.delivering += delivering.elapsed();
            Ok((rows, Flow::More))
        })();
        timing.running += start.elapsed();
        let (rows, flow) = result?;
        let execution = Execution {
            batches: Vec::new(),
            time: start.elapsed(),
            plan: Arc::clone(&plan),
        };
        if let (Some(prepared), Flow::More) = (prepared, flow) {
            prepared.finish(&execution);
        }
        self.learn_heat(&execution);
        Ok(Ran { rows, plan })
    }

    /// Adds what an execution read from each column to the session's heat.
    fn learn_heat(&mut self, execution: &Execution) {
        let host = HostCosts {
            stream_ns_per_byte: 0.0,
            working_set_bytes: 0,
        };
        for (column, bytes) in capture(execution, &host).column_reads {
            *self.reads.entry(column).or_default() += bytes;
        }
    }
}

/// A stream that runs as a task of its own: an operator that is long about one batch keeps nobody from stopping it.
/// Dropped, the task ends where it next waits.
struct Running {
    batches: Receiver<datafusion::common::Result<RecordBatch>>,
    task: Option<SpawnedTask<()>>,
}

impl Running {
    /// Must be called inside of a runtime.
    fn of(mut stream: SendableRecordBatchStream) -> Self {
        let (send, batches) = channel(BATCHES_AHEAD);
        let task = SpawnedTask::spawn(async move {
            while let Some(batch) = stream.next().await {
                if send.send(batch).await.is_err() {
                    return;
                }
            }
        });
        Running {
            batches,
            task: Some(task),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(batch) = self.batches.recv().await {
            return batch.map(Some).map_err(|e| SqlError::running(&e));
        }
        // The task is over; whether it came to its end is known now.
        match self.task.take() {
            Some(task) => match task.await {
                Ok(()) => Ok(None),
                Err(error) => Err(match error.try_into_panic() {
                    Ok(panic) => EngineError::panicked("the statement", panic.as_ref()).into(),
                    Err(error) => SqlError::failed(format!("the statement was lost: {error}")),
                }),
            },
            None => Ok(None),
        }
    }
}

/// Joins that can make many batches of one give other tasks, and the wish to stop, a chance in between.
fn with_pauses(plan: Arc<dyn ExecutionPlan>) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
    let paused = plan.transform_up(|node| {
        if MULTIPLYING.contains(&node.name()) {
            let paused: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(node));
            Ok(Transformed::yes(paused))
        } else {
            Ok(Transformed::no(node))
        }
    })?;
    Ok(paused.data)
}

/// Operators that loop over their input without a pause.
const MULTIPLYING: [&str; 2] = ["CrossJoinExec", "NestedLoopJoinExec"];

/// Batches that may wait for the sink.
const BATCHES_AHEAD: usize = 2;

async fn stopped(watch: &dyn Watch) {
    while !watch.stopped() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Keeps all rows of the last statement that has some.
#[derive(Debug, Default)]
pub struct Kept {
    /// Their columns; `None` before the first such statement.
    pub schema: Option<SchemaRef>,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl Sink for Kept {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        self.schema = Some(Arc::clone(schema));
        self.batches.clear();
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        self.batches.push(batch.clone());
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}
