//! One worker of a star join: draws morsels and fills its own accumulators.
//!
//! Workers share only the cursor, so the inner loop has no locks; groups are merged at the end.
//! Work runs in slices between which a worker yields to the async runtime.

use super::NotFused;
use super::compile::Compiled;
use super::lower::Lowered;
use super::morsels::MorselQueue;
use super::zones::ZoneFilters;
use crate::breakdown::{broke_down, caught};
use crate::column::PlacedColumn;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_kernels::codes::{CODE_PADDING, CodeWidth, Codes};
use tierloom_star::{Expr, FilterStats, Groups, Measure, PlanError, Worker};

/// Morsels between two yields to the runtime, which also lets cancellation take effect.
const MORSELS_PER_YIELD: usize = 8;

/// Why a run ends early.
#[derive(Debug)]
pub(super) enum EarlyEnd {
    /// DataFusion's operators have to do the work.
    NotFused(NotFused),
    Failed(DataFusionError),
}

impl From<NotFused> for EarlyEnd {
    fn from(why: NotFused) -> Self {
        EarlyEnd::NotFused(why)
    }
}

impl From<DataFusionError> for EarlyEnd {
    fn from(error: DataFusionError) -> Self {
        EarlyEnd::Failed(error)
    }
}

impl From<PlanError> for EarlyEnd {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::TooManyAccumulators { .. } | PlanError::DividedByZero => {
                EarlyEnd::NotFused(NotFused(error.to_string()))
            }
            mistake => EarlyEnd::Failed(DataFusionError::External(Box::new(mistake))),
        }
    }
}

/// The result of a worker.
pub(super) struct WorkerResult {
    pub groups: Groups,
    pub seen: WorkerStats,
    /// Memory pool reservation of the groups, released when they are merged.
    pub held: MemoryReservation,
}

/// Filter statistics of a worker.
pub(super) struct WorkerStats {
    pub stats: Vec<FilterStats>,
    pub conditions: Vec<FilterStats>,
    pub order: Vec<usize>,
    /// Rows seen, and rows that passed all filters.
    pub counted: FilterStats,
    /// Rows of zones without any that pass, among those seen.
    pub skipped: u64,
    pub cpu: Duration,
}

impl WorkerStats {
    /// Adds the statistics of another worker; keeps this one's filter order.
    pub fn add(&mut self, other: WorkerStats) {
        self.cpu += other.cpu;
        self.skipped += other.skipped;
        let own = self.stats.iter_mut().chain(&mut self.conditions);
        let others = other.stats.into_iter().chain(other.conditions);
        let own = own.chain([&mut self.counted]);
        for (sum, stats) in own.zip(others.chain([other.counted])) {
            sum.rows_in += stats.rows_in;
            sum.rows_out += stats.rows_out;
        }
    }
}

/// Reserves `bytes` more from the memory pool.
///
/// # Errors
/// If the pool refuses: DataFusion's operators can spill, or report how to raise the limit.
pub(super) fn hold(memory: &MemoryReservation, bytes: usize) -> Result<(), NotFused> {
    let grown = memory.try_grow(bytes);
    grown.map_err(|e| NotFused(format!("memory is limited: {}", e.strip_backtrace())))
}

/// Runs `part` of the star join over `fact`; a panic becomes an error that names the operator.
pub(super) fn naming_operator<T>(
    fact: &str,
    part: impl FnOnce() -> Result<T, EarlyEnd>,
) -> Result<T, EarlyEnd> {
    let operator = || format!("StarExec over {fact}");
    caught(part).unwrap_or_else(|said| Err(broke_down(&operator(), &said).into()))
}

/// Processes morsels until there are none left.
pub(super) async fn work(
    lowered: Lowered,
    compiled: Arc<Compiled>,
    cursor: Arc<MorselQueue>,
    held: MemoryReservation,
) -> Result<WorkerResult, EarlyEnd> {
    let fact = Arc::clone(&lowered.fact);
    let rows = fact.rows();
    let columns: Vec<Codes<'_>> = lowered
        .fact_columns
        .iter()
        .map(|&i| {
            fact.columns()[i]
                .coded()
                // Compiled plans only read coded columns; placeholders keep the indices of the
                // others.
                .map_or(nothing(rows), |c| c.codes())
        })
        .collect();
    // What the codes lie in, where it has to be checked before they are used.
    let guarded = lowered.fact_columns.iter().map(|&i| &fact.columns()[i]);
    let guarded = guarded.filter(|column| column.is_guarded() && column.coded().is_some());
    let guarded: Vec<&PlacedColumn> = guarded.collect();
    let mut staging = StagingBuffers::new(&lowered, &compiled);
    let widths: Vec<CodeWidth> = columns.iter().map(Codes::width).collect();
    let plan = Arc::new(compiled.plan.clone());
    // Array accumulators are reserved by the run for all workers; hashed groups by each worker as
    // they grow.
    let grows = plan.dense_bytes()?.is_none();
    let mut worker = naming_operator(fact.name(), || Ok(Worker::new(plan, &widths)?))?;
    let zones = ZoneFilters::new(&lowered, &compiled.plan);
    let (mut cpu, mut skipped) = (Duration::ZERO, 0);
    loop {
        let started = Instant::now();
        let finished = naming_operator(fact.name(), || {
            for _ in 0..MORSELS_PER_YIELD {
                let Some(rows) = cursor.next() else {
                    return Ok(true);
                };
                let began = cursor.is_timed().then(Instant::now);
                let start = rows.start;
                skipped += one_morsel(&mut worker, &mut staging, &columns, &guarded, &zones, rows)?;
                if let Some(began) = began {
                    cursor.note(start, began.elapsed());
                }
            }
            Ok(false)
        })?;
        cpu += started.elapsed();
        // Checked once per slice: growth between two checks is bounded by the rows of its morsels.
        if grows {
            let more = worker.group_bytes().saturating_sub(held.size());
            hold(&held, more)?;
        }
        if finished {
            break;
        }
        tokio::task::yield_now().await;
    }
    let seen = WorkerStats {
        stats: worker.filter_stats().to_vec(),
        conditions: worker.condition_stats().to_vec(),
        order: worker.order().to_vec(),
        counted: worker.counted(),
        skipped,
        cpu,
    };
    Ok(WorkerResult {
        groups: worker.into_groups(),
        seen,
        held,
    })
}

/// Processes the rows of a morsel in zones where some may pass; the number of all others.
fn one_morsel(
    worker: &mut Worker,
    staging: &mut StagingBuffers,
    columns: &[Codes<'_>],
    guarded: &[&PlacedColumn],
    zones: &ZoneFilters<'_>,
    mut rows: Range<usize>,
) -> Result<u64, EarlyEnd> {
    let mut skipped = rows.len();
    while let Some(part) = zones.part(&rows) {
        rows.start = part.end;
        skipped -= part.len();
        for column in guarded {
            let checked = column.check_rows(part.clone());
            checked.map_err(|e| DataFusionError::External(Box::new(e)))?;
        }
        if staging.is_empty() {
            worker.morsel(columns, part)?;
        } else {
            let staged = staging.copy(columns, part.clone())?;
            worker.morsel(&staged, 0..part.len())?;
        }
    }
    worker.skip(skipped);
    Ok(skipped as u64)
}

/// A placeholder for a column that no part of the plan reads.
fn nothing(rows: usize) -> Codes<'static> {
    static PADDING: [u8; CODE_PADDING] = [0; CODE_PADDING];
    Codes::new(&PADDING, CodeWidth::Zero, rows)
        .unwrap_or_else(|e| unreachable!("no bytes are needed: {e}"))
}

/// DRAM copies of a morsel's codes, for columns read through a working buffer (staged).
struct StagingBuffers {
    buffers: Vec<Option<Vec<u8>>>,
}

impl StagingBuffers {
    fn new(lowered: &Lowered, compiled: &Compiled) -> Self {
        let plan = &compiled.plan;
        let filters = plan.filters.iter().map(|f| f.column);
        let groups = plan.groups.iter().map(|g| g.column);
        let measures = plan.measures.iter().flat_map(Measure::columns);
        let conditions = plan.conditions.iter().flat_map(Expr::columns);
        let all = filters.chain(groups).chain(measures).chain(conditions);
        let read: HashSet<usize> = all.map(|column| plan.read_for(column)).collect();
        let used = |column: usize| read.contains(&column);
        let staged = |(at, index): (usize, &usize)| {
            (used(at) && lowered.fact.is_staged(*index)).then(Vec::new)
        };
        let buffers: Vec<_> = lowered
            .fact_columns
            .iter()
            .enumerate()
            .map(staged)
            .collect();
        StagingBuffers { buffers }
    }

    fn is_empty(&self) -> bool {
        self.buffers.iter().all(Option::is_none)
    }

    fn copy<'a>(&'a mut self, columns: &[Codes<'a>], rows: Range<usize>) -> Result<Vec<Codes<'a>>> {
        self.buffers
            .iter_mut()
            .zip(columns)
            .map(|(buffer, codes)| {
                let part = codes.slice(rows.clone());
                let Some(buffer) = buffer else {
                    return Ok(part);
                };
                buffer.clear();
                // `size_bytes` includes the padding that vector loads need behind the last code.
                buffer.extend_from_slice(&part.bytes()[..part.width().size_bytes(part.rows())]);
                Codes::new(buffer, part.width(), part.rows())
                    .map_err(|e| DataFusionError::External(Box::new(e)))
            })
            .collect()
    }
}
