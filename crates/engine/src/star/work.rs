//! One worker of a star join: draws morsels and fills accumulators of its own.

use super::NotFused;
use super::compile::Compiled;
use super::lower::Lowered;
use super::morsels::Cursor;
use crate::breakdown::{broke_down, caught};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_kernels::codes::{CODE_PADDING, CodeWidth, Codes};
use tierloom_star::{FilterStats, Groups, PlanError, Worker};

/// Morsels between two chances for other tasks of the same thread, and for cancellation.
const MORSELS_PER_YIELD: usize = 8;

/// Why a run ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// DataFusion's operators have to do the work.
    NotFused(NotFused),
    /// The statement has failed.
    Failed(DataFusionError),
}

impl From<NotFused> for Stop {
    fn from(why: NotFused) -> Self {
        Stop::NotFused(why)
    }
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Self {
        Stop::Failed(error)
    }
}

impl From<PlanError> for Stop {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::TooManyAccumulators { .. } => Stop::NotFused(NotFused(error.to_string())),
            mistake => Stop::Failed(DataFusionError::External(Box::new(mistake))),
        }
    }
}

/// What a worker hands back.
pub(super) struct Done {
    pub groups: Groups,
    pub seen: Seen,
    /// What the groups hold of the memory pool.
    pub held: MemoryReservation,
}

/// What a worker saw of the filters.
pub(super) struct Seen {
    pub stats: Vec<FilterStats>,
    pub order: Vec<usize>,
    /// All of its rows, and those that passed.
    pub counted: FilterStats,
    pub cpu: Duration,
}

impl Seen {
    /// Adds what another worker saw.
    pub fn add(&mut self, other: Seen) {
        self.cpu += other.cpu;
        let own = self.stats.iter_mut().chain([&mut self.counted]);
        for (sum, stats) in own.zip(other.stats.into_iter().chain([other.counted])) {
            sum.rows_in += stats.rows_in;
            sum.rows_out += stats.rows_out;
        }
    }
}

/// Takes `bytes` more from the memory pool.
///
/// # Errors
/// If they are not there: DataFusion's operators may spill, or say what is to be done.
pub(super) fn hold(memory: &MemoryReservation, bytes: usize) -> Result<(), NotFused> {
    let grown = memory.try_grow(bytes);
    grown.map_err(|e| NotFused(format!("memory is limited: {}", e.strip_backtrace())))
}

/// Runs `part` of the star join over `fact`; a panic in it is an error that names the operator.
pub(super) fn told<T>(fact: &str, part: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    let operator = || format!("StarExec over {fact}");
    caught(part).unwrap_or_else(|said| Err(broke_down(&operator(), &said).into()))
}

/// Draws morsels until there are none.
pub(super) async fn work(
    lowered: Lowered,
    compiled: Arc<Compiled>,
    cursor: Arc<Cursor>,
    held: MemoryReservation,
) -> Result<Done, Stop> {
    let fact = Arc::clone(&lowered.fact);
    let rows = fact.rows();
    let columns: Vec<Codes<'_>> = lowered
        .fact_columns
        .iter()
        .map(|&i| {
            fact.columns()[i]
                .coded()
                .map_or(nothing(rows), |c| c.codes())
        })
        .collect();
    let mut staging = Staging::new(&lowered, &compiled);
    let widths: Vec<CodeWidth> = columns.iter().map(Codes::width).collect();
    let plan = Arc::new(compiled.plan.clone());
    // The arrays of all workers are held by the run, hashed groups by each worker as they grow.
    let grows = plan.dense_bytes()?.is_none();
    let mut worker = told(fact.name(), || Ok(Worker::new(plan, &widths)?))?;
    let mut cpu = Duration::ZERO;
    loop {
        let started = Instant::now();
        let finished = told(fact.name(), || {
            some_morsels(&mut worker, &mut staging, &columns, &cursor)
        })?;
        cpu += started.elapsed();
        if grows {
            let more = worker.group_bytes().saturating_sub(held.size());
            hold(&held, more)?;
        }
        if finished {
            break;
        }
        tokio::task::yield_now().await;
    }
    let seen = Seen {
        stats: worker.filter_stats().to_vec(),
        order: worker.order().to_vec(),
        counted: worker.counted(),
        cpu,
    };
    Ok(Done {
        groups: worker.into_groups(),
        seen,
        held,
    })
}

/// Runs over the next morsels; answers whether there are no more.
fn some_morsels(
    worker: &mut Worker,
    staging: &mut Staging,
    columns: &[Codes<'_>],
    cursor: &Cursor,
) -> Result<bool, Stop> {
    for _ in 0..MORSELS_PER_YIELD {
        let Some(morsel) = cursor.next() else {
            return Ok(true);
        };
        let began = cursor.is_timed().then(Instant::now);
        let start = morsel.start;
        if staging.is_empty() {
            worker.morsel(columns, morsel)?;
        } else {
            let staged = staging.copy(columns, morsel.clone())?;
            worker.morsel(&staged, 0..morsel.len())?;
        }
        if let Some(began) = began {
            cursor.note(start, began.elapsed());
        }
    }
    Ok(false)
}

/// A column that no plan reads.
fn nothing(rows: usize) -> Codes<'static> {
    static PADDING: [u8; CODE_PADDING] = [0; CODE_PADDING];
    Codes::new(&PADDING, CodeWidth::Zero, rows)
        .unwrap_or_else(|e| unreachable!("no bytes are needed: {e}"))
}

/// Copies of the morsel's codes in DRAM, for columns that are read through a working buffer.
struct Staging {
    buffers: Vec<Option<Vec<u8>>>,
}

impl Staging {
    fn new(lowered: &Lowered, compiled: &Compiled) -> Self {
        let plan = &compiled.plan;
        let used = |column: usize| {
            plan.filters.iter().any(|f| f.column == column)
                || plan.groups.iter().any(|g| g.column == column)
                || plan
                    .measures
                    .iter()
                    .any(|m| m.expr.columns().contains(&column))
        };
        let staged = |(at, index): (usize, &usize)| {
            (used(at) && lowered.fact.is_staged(*index)).then(Vec::new)
        };
        let buffers: Vec<_> = lowered
            .fact_columns
            .iter()
            .enumerate()
            .map(staged)
            .collect();
        Staging { buffers }
    }

    fn is_empty(&self) -> bool {
        self.buffers.iter().all(Option::is_none)
    }

    fn copy<'a>(
        &'a mut self,
        columns: &[Codes<'a>],
        rows: std::ops::Range<usize>,
    ) -> Result<Vec<Codes<'a>>> {
        self.buffers
            .iter_mut()
            .zip(columns)
            .map(|(buffer, codes)| {
                let part = codes.slice(rows.clone());
                let Some(buffer) = buffer else {
                    return Ok(part);
                };
                buffer.clear();
                buffer.extend_from_slice(&part.bytes()[..part.width().size_bytes(part.rows())]);
                Codes::new(buffer, part.width(), part.rows())
                    .map_err(|e| DataFusionError::External(Box::new(e)))
            })
            .collect()
    }
}
