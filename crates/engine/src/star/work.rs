//! One worker of a star join: draws morsels and fills its own accumulators.
//!
//! Workers share only the cursor, so the inner loop has no locks; groups are merged at the end.
//! Work runs in slices between which a worker yields to the async runtime.

use super::NotFused;
use super::compile::Compiled;
use super::lower::Lowered;
use super::morsels::MorselQueue;
use super::universe::placed_column;
use super::zones::ZoneFilters;
use crate::breakdown::{broke_down, caught};
use crate::column::{ColumnWords, PlacedColumn};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_kernels::codes::{CODE_PADDING, CodeWidth, Codes};
use tierloom_star::{
    Bits, Columns, Expr, FilterStats, Groups, Measure, PlanError, StarPlan, WordColumn, WordKey,
    WordValues, Worker,
};

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
            PlanError::TooManyAccumulators { .. } => {
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
    let used = used_columns(&compiled.plan);
    let columns = codes_of(&lowered);
    let words = words_of(&lowered, &used)?;
    let words = words.iter().map(|words| Some(words.as_ref()?.words()));
    let words: Vec<Option<WordColumn<'_>>> = words.collect();
    // What the codes and words lie in, where it has to be checked before they are used.
    let is_read = |column: &PlacedColumn| column.coded().is_some() || column.has_words();
    let guarded = used.iter().map(|at| placed_column(&lowered, *at));
    let guarded = guarded.filter(|column| column.is_guarded() && is_read(column));
    let guarded: Vec<&PlacedColumn> = guarded.collect();
    let mut staging = StagingBuffers::new(&lowered, &used);
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
                let read = Columns {
                    codes: &columns,
                    words: &words,
                };
                skipped += one_morsel(&mut worker, &mut staging, read, &guarded, &zones, rows)?;
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

/// The codes of all fact columns.
fn codes_of(lowered: &Lowered) -> Vec<Codes<'_>> {
    // Placeholders keep the indices of columns that are not coded.
    let codes = |at| match placed_column(lowered, at).coded() {
        Some(coded) => coded.codes(),
        None => nothing(lowered.fact.rows()),
    };
    (0..lowered.fact_columns.len()).map(codes).collect()
}

/// The words of those columns that are `used` and have some.
fn words_of(lowered: &Lowered, used: &HashSet<usize>) -> Result<Vec<Option<ColumnWords>>> {
    let words = (0..lowered.fact_columns.len()).map(|at| match used.contains(&at) {
        true => placed_column(lowered, at).words(),
        false => Ok(None),
    });
    let words = words.collect::<std::result::Result<_, _>>();
    words.map_err(|e| DataFusionError::External(Box::new(e)))
}

/// Processes the rows of a morsel in zones where some may pass; the number of all others.
fn one_morsel(
    worker: &mut Worker,
    staging: &mut StagingBuffers,
    columns: Columns<'_>,
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
            let (codes, words) = staging.copy(columns, part.clone())?;
            let staged = Columns {
                codes: &codes,
                words: &words,
            };
            worker.morsel(staged, 0..part.len())?;
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

/// The columns that a plan reads.
fn used_columns(plan: &StarPlan) -> HashSet<usize> {
    let filters = plan.filters.iter().map(|f| f.column);
    let groups = plan.groups.iter().map(|g| g.column);
    let measures = plan.measures.iter().flat_map(Measure::columns);
    let conditions = plan.conditions.iter().flat_map(Expr::columns);
    let key = plan.key.iter().flat_map(WordKey::columns);
    let all = filters.chain(groups).chain(measures).chain(conditions);
    let all = all.chain(key);
    all.map(|column| plan.read_for(column)).collect()
}

/// DRAM copies of a morsel's codes and words, for columns read through a working buffer (staged).
struct StagingBuffers {
    buffers: Vec<Option<Staged>>,
}

/// The copy of one column.
#[derive(Default)]
struct Staged {
    codes: Vec<u8>,
    words: Vec<i64>,
    floats: Vec<f32>,
}

impl StagingBuffers {
    fn new(lowered: &Lowered, used: &HashSet<usize>) -> Self {
        let staged = |(at, index): (usize, &usize)| {
            (used.contains(&at) && lowered.fact.is_staged(*index)).then(Staged::default)
        };
        let buffers = lowered.fact_columns.iter().enumerate().map(staged);
        StagingBuffers {
            buffers: buffers.collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.buffers.iter().all(Option::is_none)
    }

    fn copy<'a>(
        &'a mut self,
        columns: Columns<'a>,
        rows: Range<usize>,
    ) -> Result<(Vec<Codes<'a>>, Vec<Option<WordColumn<'a>>>)> {
        let mut of_rows = (Vec::new(), Vec::new());
        for (at, buffer) in self.buffers.iter_mut().enumerate() {
            let codes = columns.codes[at].slice(rows.clone());
            let words = columns.words[at].map(|words| words.slice(rows.clone()));
            let (codes, words) = match (buffer, words) {
                (None, words) => (codes, words),
                (Some(buffer), Some(words)) => {
                    let values = match words.values {
                        WordValues::Words(words) => {
                            buffer.words.clear();
                            buffer.words.extend_from_slice(words);
                            WordValues::Words(&buffer.words)
                        }
                        WordValues::Floats(floats) => {
                            buffer.floats.clear();
                            buffer.floats.extend_from_slice(floats);
                            WordValues::Floats(&buffer.floats)
                        }
                        WordValues::Bits(bits) => {
                            let (first, offset) = (bits.offset / 8, bits.offset % 8);
                            let end = first + (offset + rows.len()).div_ceil(8);
                            buffer.codes.clear();
                            buffer.codes.extend_from_slice(&bits.bytes[first..end]);
                            let bytes = &buffer.codes;
                            WordValues::Bits(Bits { bytes, offset })
                        }
                    };
                    (codes, Some(WordColumn { values, ..words }))
                }
                (Some(Staged { codes: buffer, .. }), None) => {
                    buffer.clear();
                    // `size_bytes` includes the padding that vector loads need behind the last
                    // code.
                    let size = codes.width().size_bytes(codes.rows());
                    buffer.extend_from_slice(&codes.bytes()[..size]);
                    let copied = Codes::new(buffer, codes.width(), codes.rows());
                    (
                        copied.map_err(|e| DataFusionError::External(Box::new(e)))?,
                        None,
                    )
                }
            };
            of_rows.0.push(codes);
            of_rows.1.push(words);
        }
        Ok(of_rows)
    }
}
