//! One execution of a star join: its dimensions, its workers, their groups.

use super::NotFused;
use super::compile::{Aggregation, Compiled, compile, fact_column};
use super::dimension::LoadedDimension;
use super::finish::Finish;
use super::lower::Lowered;
use super::morsels::{Cursor, MorselTimes, PassOptions};
use super::output;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_common_runtime::JoinSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tierloom_kernels::codes::{CODE_PADDING, CodeWidth, Codes};
use tierloom_star::{FilterStats, Groups, MORSEL_ROWS, Worker};

/// Morsels between two chances for other tasks of the same thread, and for cancellation.
const MORSELS_PER_YIELD: usize = 8;

/// What one execution did, for the phases that the tier model prices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StarObserved {
    /// Rows of the fact table.
    pub rows: u64,
    /// CPU time over all workers.
    pub cpu: Duration,
    /// Filters in the order in which most workers ended up trying them: column of the fact table, rows in, rows out, bytes of the lookup table (0 for a range).
    pub filters: Vec<(usize, u64, u64, u64)>,
    /// Columns of the fact table read only for rows that passed all filters.
    pub late_columns: Vec<usize>,
    /// Rows that passed.
    pub passed: u64,
    /// Bytes of the accumulators.
    pub group_bytes: u64,
    /// Time of each morsel, if that was asked for.
    pub times: Option<MorselTimes>,
    /// Why DataFusion's operators did the work after all.
    pub fell_back: Option<String>,
}

/// One execution.
pub(super) struct Run {
    pub lowered: Lowered,
    pub aggregation: Aggregation,
    pub states: SchemaRef,
    pub finish: Option<Finish>,
    pub context: Arc<TaskContext>,
    pub observed: Arc<Mutex<Option<StarObserved>>>,
    pub metrics: ExecutionPlanMetricsSet,
    pub pass: PassOptions,
}

/// The groups of all workers: one by one if they are few, else by as many threads as there are workers, each for a part of the keys.
async fn merge(workers: Vec<Groups>) -> Result<Vec<Groups>> {
    let parts = workers.len();
    if parts == 1 || !workers.iter().any(Groups::is_large) {
        let mut workers = workers.into_iter();
        let Some(mut whole) = workers.next() else {
            return Ok(Vec::new());
        };
        workers.for_each(|groups| whole.merge(groups));
        return Ok(vec![whole]);
    }
    let workers = Arc::new(workers);
    let mut tasks = JoinSet::new();
    for part in 0..parts {
        let workers = Arc::clone(&workers);
        tasks.spawn(async move { Groups::merged_part(&workers, part, parts) });
    }
    let mut merged = Vec::with_capacity(parts);
    while let Some(part) = tasks.join_next().await {
        merged.push(part.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?);
    }
    Ok(merged)
}

/// What a worker hands back.
struct Done {
    groups: Groups,
    seen: Seen,
}

/// What a worker saw of the filters.
struct Seen {
    stats: Vec<FilterStats>,
    order: Vec<usize>,
    cpu: Duration,
}

impl Run {
    /// The states or the values, or why this has to be done otherwise.
    pub async fn fused(&self) -> Result<std::result::Result<Vec<RecordBatch>, NotFused>> {
        let started = Instant::now();
        let dimensions = self.lowered.dimensions.iter().map(|dimension| async {
            let batches = collect(Arc::clone(&dimension.plan), Arc::clone(&self.context)).await?;
            Ok::<RecordBatch, DataFusionError>(concat_batches(&dimension.plan.schema(), &batches)?)
        });
        let rows = futures::future::try_join_all(dimensions).await?;
        MetricBuilder::new(&self.metrics)
            .subset_time("dimensions_time", 0)
            .add_duration(started.elapsed());
        let started = Instant::now();
        let compiled = match self.compile(rows) {
            Ok(compiled) => Arc::new(compiled),
            Err(why) => return Ok(Err(why)),
        };
        MetricBuilder::new(&self.metrics)
            .subset_time("lookups_time", 0)
            .add_duration(started.elapsed());
        let cursor = Cursor::new(self.lowered.fact.rows(), self.pass.timed);
        let done = self.workers(&compiled, &cursor).await?;
        let workers = done.len();
        let mut done = done.into_iter();
        let Some(Done {
            groups: first,
            mut seen,
        }) = done.next()
        else {
            return internal_err!("a star join without workers");
        };
        let mut groups = vec![first];
        for part in done {
            groups.push(part.groups);
            seen.cpu += part.seen.cpu;
            for (sum, stats) in seen.stats.iter_mut().zip(part.seen.stats) {
                sum.rows_in += stats.rows_in;
                sum.rows_out += stats.rows_out;
            }
        }
        let merged = merge(groups).await?;
        let group_bytes = merged.iter().map(|g| g.size_bytes() as u64).sum();
        let times = cursor.times(workers);
        self.observe(&compiled, &seen, group_bytes, times);
        let rows = self.context.session_config().batch_size();
        let mut batches = Vec::new();
        for groups in merged {
            match output::batch(&self.lowered, &compiled, groups, &self.states) {
                Err(why) => return Ok(Err(why)),
                Ok(states) => match &self.finish {
                    Some(finish) => batches.extend(finish.batches(&states, rows)?),
                    None => batches.push(states),
                },
            }
        }
        Ok(Ok(batches))
    }

    fn compile(&self, rows: Vec<RecordBatch>) -> std::result::Result<Compiled, NotFused> {
        let loaded = self
            .lowered
            .dimensions
            .iter()
            .zip(rows)
            .map(|(d, rows)| {
                LoadedDimension::new(
                    &d.name,
                    rows,
                    &d.key,
                    &fact_column(&self.lowered, d.fact_key)?,
                )
            })
            .collect::<std::result::Result<Vec<_>, _>>()?;
        compile(&self.lowered, &self.aggregation, &self.states, &loaded)
    }

    async fn workers(&self, compiled: &Arc<Compiled>, cursor: &Arc<Cursor>) -> Result<Vec<Done>> {
        let rows = self.lowered.fact.rows();
        let threads = self.context.session_config().target_partitions();
        let threads = threads.min(self.pass.workers.unwrap_or(threads));
        let threads = threads.min(rows.div_ceil(MORSEL_ROWS)).max(1);
        let mut tasks = JoinSet::new();
        for _ in 0..threads {
            tasks.spawn(work(
                self.lowered.clone(),
                Arc::clone(compiled),
                Arc::clone(cursor),
            ));
        }
        let mut done = Vec::with_capacity(threads);
        while let Some(finished) = tasks.join_next().await {
            let finished = finished.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
            done.push(finished?);
        }
        Ok(done)
    }

    fn observe(
        &self,
        compiled: &Compiled,
        seen: &Seen,
        group_bytes: u64,
        times: Option<MorselTimes>,
    ) {
        let plan = &compiled.plan;
        let table_column = |column: usize| self.lowered.fact_columns[column];
        let filters = seen.order.iter().map(|&i| {
            let (filter, stats) = (&plan.filters[i], seen.stats[i]);
            let bytes = match &filter.test {
                tierloom_star::Test::Range { .. } => 0,
                tierloom_star::Test::Set(set) => set.size_bytes() as u64,
            };
            (
                table_column(filter.column),
                stats.rows_in,
                stats.rows_out,
                bytes,
            )
        });
        let filters: Vec<_> = filters.collect();
        let groups = plan.groups.iter().map(|g| g.column);
        let measures = plan.measures.iter().flat_map(|m| m.expr.columns());
        let mut late: Vec<usize> = groups.chain(measures).map(table_column).collect();
        late.sort_unstable();
        late.dedup();
        late.retain(|c| filters.iter().all(|(column, ..)| column != c));
        let rows = self.lowered.fact.rows() as u64;
        let observed = StarObserved {
            rows,
            cpu: seen.cpu,
            passed: filters.last().map_or(rows, |(_, _, out, _)| *out),
            filters,
            late_columns: late,
            group_bytes,
            times,
            fell_back: None,
        };
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = Some(observed);
    }
}

/// Draws morsels until there are none.
async fn work(lowered: Lowered, compiled: Arc<Compiled>, cursor: Arc<Cursor>) -> Result<Done> {
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
    let mut worker =
        Worker::new(plan, &widths).map_err(|e| DataFusionError::External(Box::new(e)))?;
    let mut cpu = Duration::ZERO;
    loop {
        let started = Instant::now();
        let mut finished = false;
        for _ in 0..MORSELS_PER_YIELD {
            let Some(morsel) = cursor.next() else {
                finished = true;
                break;
            };
            let began = cursor.is_timed().then(Instant::now);
            let start = morsel.start;
            if staging.is_empty() {
                worker.morsel(&columns, morsel);
            } else {
                let staged = staging.copy(&columns, morsel.clone())?;
                worker.morsel(&staged, 0..morsel.len());
            }
            if let Some(began) = began {
                cursor.note(start, began.elapsed());
            }
        }
        cpu += started.elapsed();
        if finished {
            break;
        }
        tokio::task::yield_now().await;
    }
    let seen = Seen {
        stats: worker.filter_stats().to_vec(),
        order: worker.order().to_vec(),
        cpu,
    };
    let groups = worker.into_groups();
    Ok(Done { groups, seen })
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
