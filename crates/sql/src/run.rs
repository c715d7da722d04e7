//! Runs a plan to its end: rows go to a sink batch by batch, and cancellation is checked meanwhile.
//!
//! The plan runs as a task of the engine's runtime. The calling thread delivers batches and polls
//! the watcher, so that even an operator that is busy with one batch does not delay cancellation.

use super::adaptive::SharedDriver;
use super::checks;
use super::counts::{BegunCount, SharedCounts};
use super::error::SqlError;
use super::pauses::with_pauses;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierloom_engine::adapt::Prepared;
use tierloom_engine::capture::{Captured, HostCosts, capture};
use tierloom_engine::counting::Counting;
use tierloom_engine::{Engine, EngineError, Execution, Waiter, counted_context, task_context};
use tierloom_memory::shared::lost_pages;
use tokio::sync::mpsc::{Receiver, channel};

/// Whether a sink takes more rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The sink takes further batches.
    More,
    /// The reader is gone; the query is stopped without an error.
    Enough,
}

/// Receives the rows of a statement.
pub trait Sink {
    /// Announces the columns; called once before the first batch.
    ///
    /// # Errors
    /// Columns that cannot be represented, or a failed write.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError>;

    /// Receives a batch of rows.
    ///
    /// # Errors
    /// A failed write.
    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError>;

    /// Whether the next batch would be taken without waiting for a reader.
    fn is_ready(&self) -> bool {
        true
    }

    /// All rows were delivered.
    ///
    /// # Errors
    /// A failed write.
    fn end(&mut self) -> Result<(), SqlError>;
}

/// Unit in which progress is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files, or of rows in memory.
    Bytes,
    /// Rows of a table.
    Rows,
}

/// Observes a statement: receives its progress and requests its cancellation.
pub trait Watch: Sync {
    /// The flag that requests cancellation; may be set from any thread.
    fn stop(&self) -> &AtomicBool;

    /// A step of `total` bytes or rows begins.
    fn begin(&self, _what: &str, _total: u64, _unit: Unit) {}

    /// `more` further bytes or rows are done.
    fn advance(&self, _more: u64) {}

    /// The step has finished or failed.
    fn end(&self) {}

    /// Whether cancellation is requested.
    fn stopped(&self) -> bool {
        self.stop().load(Ordering::Relaxed)
    }
}

/// A watcher that ignores progress and never cancels.
#[derive(Debug, Default)]
pub struct Silent(AtomicBool);

impl Watch for Silent {
    fn stop(&self) -> &AtomicBool {
        &self.0
    }
}

/// Measured durations of the parts of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementTiming {
    /// Time to parse and plan, or to find the cached plan.
    pub planning: Duration,
    /// Time from the start of the plan to its last row, `delivering` included.
    pub running: Duration,
    /// The part of `running` spent in the sink: formatting and writing.
    pub delivering: Duration,
}

/// The result of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of rows delivered, or changed; `None` for a statement that has and changes none.
    pub rows: Option<u64>,
    /// Message for the user, such as "table t: 10 rows".
    pub message: Option<String>,
    /// Durations of its parts.
    pub timing: StatementTiming,
}

pub(super) fn said(message: String, start: Instant) -> Outcome {
    Outcome {
        rows: None,
        message: Some(message),
        timing: StatementTiming {
            running: start.elapsed(),
            ..StatementTiming::default()
        },
    }
}

pub(super) struct Ran {
    /// Number of rows delivered.
    pub rows: u64,
    /// The executed plan, whose operators hold their metrics.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Its phases, and the bytes that it read of each column.
    pub captured: Captured,
    /// Set if the execution was counted.
    pub begun: Option<BegunCount>,
}

/// Runs `plan` and delivers its rows to `sink`.
///
/// The driver compares it with earlier runs of `statement`; its phases are freed of the costs of
/// `host`.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a part of the session that runs the plan"
)]
pub(super) fn stream(
    engine: &Engine,
    host: &HostCosts,
    (drive, counts): (&SharedDriver, &SharedCounts),
    statement: &str,
    plan: &Arc<dyn ExecutionPlan>,
    sink: &mut dyn Sink,
    watch: &dyn Watch,
    timing: &mut StatementTiming,
) -> Result<Ran, SqlError> {
    if engine.options().routing.is_some() {
        // Memory may have been added to or removed from nodes since the last statement.
        tierloom_memory::router::refresh();
    }
    let plan = reset_plan_states(Arc::clone(plan))
        .and_then(with_pauses)
        .map_err(|e| SqlError::running(&e))?;
    let driver = drive.of(&plan);
    let stop = || watch.stopped();
    let mut prepared = match &driver {
        Some(driver) => Some(driver.begin(statement, &plan, &stop)?),
        None => None,
    };
    let begun = counts.begin(&plan);
    let own = begun.as_ref().map(BegunCount::counting);
    let context = task_context(engine.context(), &plan);
    let context = counted_for(context, own, prepared.as_mut());
    let handle = engine.handle().clone();
    let start = Instant::now();
    let result: Result<(u64, Flow), SqlError> = (|| {
        // Operators may spawn tasks when they are executed, which requires the runtime's
        // context.
        let _inside = handle.enter();
        sink.begin(&plan.schema())?;
        let stream =
            execute_stream(Arc::clone(&plan), context).map_err(|e| SqlError::running(&e))?;
        let mut stream = RunningStream::of(stream);
        let mut rows = 0;
        let lost_before = lost_pages();
        let waiter = Waiter::new(&handle);
        while let Some(batch) = waiter
            .until_stopped(&stop, stream.next())
            .unwrap_or(Err(SqlError::Interrupted))?
        {
            checks::digits(&batch)?;
            // Before the batch is delivered: zeroes may have been read in the place of values.
            check_pages(lost_before)?;
            rows += batch.num_rows() as u64;
            let delivering = Instant::now();
            let flow = sink.rows(&batch)?;
            timing.delivering += delivering.elapsed();
            if flow == Flow::Enough {
                return Ok((rows, flow));
            }
        }
        // Before the sink ends: a file appears under its name only after `end`.
        checks::joins(&plan)?;
        check_pages(lost_before)?;
        let delivering = Instant::now();
        sink.end()?;
        timing.delivering += delivering.elapsed();
        Ok((rows, Flow::More))
    })();
    timing.running += start.elapsed();
    let (rows, flow) = result?;
    // The driver learns only from complete runs: a sink that stops early cuts phases short.
    let execution = Execution {
        batches: Vec::new(),
        time: start.elapsed(),
        plan: Arc::clone(&plan),
    };
    if let (Some(prepared), Flow::More) = (prepared, flow) {
        prepared.finish(&execution);
    }
    Ok(Ran {
        rows,
        captured: capture(&execution, host),
        plan,
        begun,
    })
}

/// The context of a run that the session counts with `own`, if at all, and the driver prepared.
fn counted_for(
    context: Arc<TaskContext>,
    own: Option<&Arc<Counting>>,
    prepared: Option<&mut Prepared<'_>>,
) -> Arc<TaskContext> {
    let counting = match prepared {
        Some(prepared) => prepared.counting(own),
        None => own.cloned(),
    };
    match counting {
        Some(counting) => counted_context(&context, counting),
        None => context,
    }
}

/// An error if pages of mapped files were found to be gone since there were `before` such pages.
fn check_pages(before: u64) -> Result<(), SqlError> {
    match lost_pages() == before {
        true => Ok(()),
        false => Err(SqlError::failed(
            "memory of the pool is gone while the statement used it: its file was made shorter, or \
             the memory failed (`dmesg`)",
        )),
    }
}

/// A stream that runs as a separate task.
///
/// An operator busy with one batch then does not delay cancellation.
///
/// Dropping it aborts the task at its next await point.
struct RunningStream {
    batches: Receiver<datafusion::common::Result<RecordBatch>>,
    task: Option<SpawnedTask<()>>,
}

impl RunningStream {
    /// Spawns the task; must be called within a runtime.
    fn of(mut stream: SendableRecordBatchStream) -> Self {
        let (send, batches) = channel(BATCHES_AHEAD);
        let task = SpawnedTask::spawn(async move {
            while let Some(batch) = stream.next().await {
                if send.send(batch).await.is_err() {
                    return;
                }
            }
        });
        RunningStream {
            batches,
            task: Some(task),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(batch) = self.batches.recv().await {
            return batch.map(Some).map_err(|e| SqlError::running(&e));
        }
        // The channel is closed, so the task has ended; its result tells a panic from the end of
        // the rows.
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

/// Capacity of the channel to the sink.
///
/// Enough to overlap execution with delivery, and a bound on memory.
const BATCHES_AHEAD: usize = 2;

/// A sink that keeps all rows of the last statement that had any.
#[derive(Debug, Default)]
pub struct CollectedRows {
    /// Columns of the rows; `None` before the first such statement.
    pub schema: Option<SchemaRef>,
    /// The rows, in batches as they were delivered.
    pub batches: Vec<RecordBatch>,
}

impl Sink for CollectedRows {
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

/// A sink for rows that nobody reads.
#[derive(Debug, Clone, Copy)]
pub struct NoRows;

impl Sink for NoRows {
    fn begin(&mut self, _: &SchemaRef) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &RecordBatch) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}
