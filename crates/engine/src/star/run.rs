//! One execution of a star join: run the dimensions, compile, start workers, merge their groups.
//!
//! Memory is reserved from DataFusion's pool as it is needed. Where the pool refuses, the operator
//! falls back to DataFusion's operators, which can spill. Row counts are checked at the end,
//! because a lost morsel would otherwise give a wrong answer.

use super::NotFused;
use super::compile::{Aggregation, Compiled, compile, push};
use super::dimension::LoadedDimension;
use super::finish::Finish;
use super::lower::Lowered;
use super::morsels::{MorselQueue, MorselTimes, PassOptions};
use super::output;
use super::universe::fact_column;
use super::work::{EarlyEnd, WorkerResult, WorkerStats, hold, naming_operator, work};
use crate::breakdown::{broke_down, caught, said};
use crate::scan::{ExecutionKeys, ROWS_SKIPPED};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_common_runtime::JoinSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tierloom_star::{ColumnFilter, Groups, MORSEL_ROWS, Measure, StarPlan, WordKey};

/// Statistics of one execution, from which the phases for the tier model are made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StarObserved {
    /// Rows of the fact table.
    pub rows: u64,
    /// Time inside the operator, summed over all workers.
    pub cpu: Duration,
    /// Filters in the order that most workers had adopted at the end.
    ///
    /// Fact column, rows in, rows out, bytes of the lookup table (0 for a range).
    pub filters: Vec<(usize, u64, u64, u64)>,
    /// Fact columns read only for rows that passed all filters.
    pub late_columns: Vec<usize>,
    /// Rows that passed all filters.
    pub passed: u64,
    /// Bytes of the merged accumulators.
    pub group_bytes: u64,
    /// Time of each morsel; `None` unless [`PassOptions::timed`].
    pub times: Option<MorselTimes>,
    /// Why the work was left to DataFusion's operators; `None` if it was not.
    pub fell_back: Option<String>,
}

/// The state of one execution.
pub(super) struct Run {
    pub lowered: Lowered,
    pub aggregation: Aggregation,
    pub states: SchemaRef,
    pub finish: Option<Finish>,
    /// Keys of joins above, by the fact column of the universe that has to have them.
    pub awaited: Vec<(usize, Arc<ExecutionKeys>)>,
    pub context: Arc<TaskContext>,
    pub observed: Arc<Mutex<Option<StarObserved>>>,
    pub metrics: ExecutionPlanMetricsSet,
    pub pass: PassOptions,
}

impl Run {
    /// The result batches, or why DataFusion's operators have to do the work.
    ///
    /// # Errors
    /// Errors of the dimensions' plans, and failed internal checks.
    pub async fn fused(&self) -> Result<std::result::Result<Vec<RecordBatch>, NotFused>> {
        match self.batches().await {
            Ok(batches) => Ok(Ok(batches)),
            Err(EarlyEnd::NotFused(why)) => Ok(Err(why)),
            Err(EarlyEnd::Failed(error)) => Err(error),
        }
    }

    async fn batches(&self) -> Result<Vec<RecordBatch>, EarlyEnd> {
        let pool = self.context.memory_pool();
        let memory = MemoryConsumer::new("StarExec").register(pool);
        let started = Instant::now();
        let rows = self.dimensions(&memory).await?;
        self.time("dimensions_time", started);
        for (_, keys) in &self.awaited {
            keys.wait().await;
        }
        let started = Instant::now();
        let mut compiled = caught(|| self.compile(rows))
            .unwrap_or_else(|what| Err(NotFused::broke_down(&what)))?;
        hold(&memory, compiled.size_bytes())?;
        self.choose_accumulators(&mut compiled.plan, &memory)?;
        let compiled = Arc::new(compiled);
        self.time("lookups_time", started);
        let cursor = MorselQueue::new(self.lowered.fact.rows(), self.pass.timed);
        let done = self.workers(&compiled, &cursor, &memory).await?;
        let (workers, mut groups, mut sum) = (done.len(), Vec::new(), None::<WorkerStats>);
        let mut held = Vec::new();
        for part in done {
            groups.push(part.groups);
            held.push(part.held);
            match &mut sum {
                None => sum = Some(part.seen),
                Some(sum) => sum.add(part.seen),
            }
        }
        let Some(seen) = sum else {
            return Err(EarlyEnd::Failed(broken("it had no workers")));
        };
        MetricBuilder::new(&self.metrics)
            .counter(ROWS_SKIPPED, 0)
            .add(seen.skipped as usize);
        let parts = self.merge(&compiled, groups, &memory).await?;
        // Only now: the workers' accumulators are alive until the merge has consumed them.
        drop(held);
        let group_bytes = parts.iter().map(|part| part.group_bytes).sum();
        let times = cursor.times(workers);
        let batches = self.checked(parts, &seen)?;
        self.observe(&compiled, &seen, group_bytes, times);
        Ok(batches)
    }

    fn time(&self, name: &'static str, started: Instant) {
        MetricBuilder::new(&self.metrics)
            .subset_time(name, 0)
            .add_duration(started.elapsed());
    }

    /// Runs all dimensions at once and collects the rows of each in one batch.
    async fn dimensions(&self, memory: &MemoryReservation) -> Result<Vec<RecordBatch>, EarlyEnd> {
        let dimensions = self.lowered.dimensions.iter().map(|dimension| async {
            let batches = collect(Arc::clone(&dimension.plan), Arc::clone(&self.context)).await?;
            let schema = dimension.plan.schema();
            // The union of several batches' dictionaries may need more keys than the key type has.
            let rows = caught(|| concat_batches(&schema, &batches))
                .map_err(|what| NotFused::broke_down(&what))?
                .map_err(NotFused::from)?;
            hold(memory, get_record_batch_memory_size(&rows))?;
            Ok::<RecordBatch, EarlyEnd>(rows)
        });
        futures::future::try_join_all(dimensions).await
    }

    /// Uses array accumulators where they are profitable and memory allows, else hashing.
    fn choose_accumulators(
        &self,
        plan: &mut StarPlan,
        memory: &MemoryReservation,
    ) -> Result<(), EarlyEnd> {
        plan.workers = self.threads();
        if let Some(bytes) = plan.dense_bytes()? {
            let all = usize::try_from(bytes)
                .ok()
                .and_then(|bytes| bytes.checked_mul(plan.workers));
            let room = all.is_some_and(|bytes| memory.try_grow(bytes).is_ok());
            // Hashed groups need memory for the groups that occur, not for all combinations.
            plan.hashed = !room;
        }
        Ok(())
    }

    /// Merges the workers' groups and converts them to batches.
    ///
    /// Sequentially if they are few, else with one thread per partition of the keys.
    async fn merge(
        &self,
        compiled: &Arc<Compiled>,
        workers: Vec<Groups>,
        memory: &MemoryReservation,
    ) -> Result<Vec<Part>, EarlyEnd> {
        let fact = self.lowered.fact.name();
        let output = Output {
            lowered: self.lowered.clone(),
            compiled: Arc::clone(compiled),
            states: Arc::clone(&self.states),
            finish: self.finish.clone(),
            rows: self.context.session_config().batch_size(),
        };
        let parts = workers.len();
        if parts == 1 || !workers.iter().any(Groups::is_large) {
            let mut workers = workers.into_iter();
            let Some(mut whole) = workers.next() else {
                return Ok(Vec::new());
            };
            return naming_operator(fact, || {
                workers.try_for_each(|groups| whole.merge(groups))?;
                Ok(vec![output.part(whole)?])
            });
        }
        // During the merge the workers' groups and the merged ones exist at the same time.
        hold(memory, workers.iter().map(Groups::size_bytes).sum())?;
        let (workers, output) = (Arc::new(workers), Arc::new(output));
        let mut tasks = JoinSet::new();
        for part in 0..parts {
            let (workers, output) = (Arc::clone(&workers), Arc::clone(&output));
            tasks.spawn(async move {
                naming_operator(output.lowered.fact.name(), || {
                    output.part(Groups::merged_part(&workers, part, parts)?)
                })
            });
        }
        let mut merged = Vec::with_capacity(parts);
        while let Some(part) = tasks.join_next().await {
            merged.push(part.map_err(|e| joined(fact, e))??);
        }
        Ok(merged)
    }

    /// The batches of all parts, if every row was processed exactly once.
    fn checked(&self, parts: Vec<Part>, seen: &WorkerStats) -> Result<Vec<RecordBatch>, EarlyEnd> {
        let in_groups: u64 = parts.iter().map(|part| part.grouped).sum();
        let (all, counted) = (self.lowered.fact.rows() as u64, seen.counted);
        if counted.rows_in != all || in_groups != counted.rows_out {
            return Err(EarlyEnd::Failed(broken(&format!(
                "of {all} rows of {} it has looked at {}, {} of them passed, and {in_groups} are \
                 in groups",
                self.lowered.fact.name(),
                counted.rows_in,
                counted.rows_out
            ))));
        }
        Ok(parts.into_iter().flat_map(|part| part.batches).collect())
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
                    (&d.key, d.repeats),
                    &fact_column(&self.lowered, d.fact_key)?,
                )
            })
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let (lowered, states) = (&self.lowered, &self.states);
        let mut compiled = compile(lowered, &self.aggregation, states, &loaded)?;
        for (column, keys) in &self.awaited {
            let fact = fact_column(lowered, *column)?;
            if let Some(filter) = keys.filter(&lowered.fact, lowered.fact_columns[*column]) {
                let codes = fact.coded.code_count();
                let filter = ColumnFilter {
                    column: *column,
                    test: filter.test(codes),
                    expected_share: filter.share(),
                };
                push(&mut compiled.plan.filters, filter, codes);
            }
        }
        Ok(compiled)
    }

    fn threads(&self) -> usize {
        let threads = self.context.session_config().target_partitions();
        let threads = threads.min(self.pass.workers.unwrap_or(threads));
        let morsels = self.lowered.fact.rows().div_ceil(MORSEL_ROWS);
        threads.min(morsels).max(1)
    }

    async fn workers(
        &self,
        compiled: &Arc<Compiled>,
        cursor: &Arc<MorselQueue>,
        memory: &MemoryReservation,
    ) -> Result<Vec<WorkerResult>, EarlyEnd> {
        let mut tasks = JoinSet::new();
        for _ in 0..compiled.plan.workers {
            // Dropping the `JoinSet` aborts its tasks, so cancelling the query stops the workers.
            tasks.spawn(work(
                self.lowered.clone(),
                Arc::clone(compiled),
                Arc::clone(cursor),
                memory.new_empty(),
            ));
        }
        let mut done = Vec::with_capacity(compiled.plan.workers);
        while let Some(finished) = tasks.join_next().await {
            match finished.map_err(|e| joined(self.lowered.fact.name(), e)) {
                Ok(Ok(part)) => done.push(part),
                Ok(Err(stop)) | Err(stop) => {
                    // Free what the other workers hold before DataFusion's operators start.
                    tasks.shutdown().await;
                    return Err(stop);
                }
            }
        }
        Ok(done)
    }

    fn observe(
        &self,
        compiled: &Compiled,
        seen: &WorkerStats,
        group_bytes: u64,
        times: Option<MorselTimes>,
    ) {
        let plan = &compiled.plan;
        let table_column = |column: usize| self.lowered.fact_columns[plan.read_for(column)];
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
        // The columns of a condition are read for the rows that reach it; the last one stands for
        // those that are left.
        let conditions = plan.conditions.iter().zip(&seen.conditions);
        let conditions = conditions.flat_map(|(condition, stats)| {
            let columns = condition.columns();
            let last = columns.last().copied();
            columns.into_iter().map(move |column| {
                let left = match last == Some(column) {
                    true => stats.rows_out,
                    false => stats.rows_in,
                };
                (table_column(column), stats.rows_in, left, 0)
            })
        });
        let mut filters: Vec<_> = filters.collect();
        for read in conditions {
            // A column that an earlier filter has read is in the caches.
            if !filters.iter().any(|filter| filter.0 == read.0) {
                filters.push(read);
            }
        }
        let groups = plan.groups.iter().map(|g| g.column);
        let measures = plan.measures.iter().flat_map(Measure::columns);
        let key = plan.key.iter().flat_map(WordKey::columns);
        let late = groups.chain(measures).chain(key);
        let mut late: Vec<usize> = late.map(table_column).collect();
        late.sort_unstable();
        late.dedup();
        // A column of a filter is read early.
        late.retain(|c| filters.iter().all(|(column, ..)| column != c));
        let rows = self.lowered.fact.rows() as u64;
        let observed = StarObserved {
            rows,
            cpu: seen.cpu,
            passed: seen.counted.rows_out,
            filters,
            late_columns: late,
            group_bytes,
            times,
            fell_back: None,
        };
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = Some(observed);
    }
}

/// The error of a task that panicked or was cancelled.
/// Converts merged groups to batches.
struct Output {
    lowered: Lowered,
    compiled: Arc<Compiled>,
    states: SchemaRef,
    finish: Option<Finish>,
    /// Most rows of a batch.
    rows: usize,
}

/// The groups of a part of the keys.
struct Part {
    batches: Vec<RecordBatch>,
    /// Number of fact rows in the groups.
    grouped: u64,
    /// Size of the accumulators.
    group_bytes: u64,
}

impl Output {
    fn part(&self, groups: Groups) -> Result<Part, EarlyEnd> {
        let group_bytes = groups.size_bytes() as u64;
        let (states, grouped) = output::batch(&self.lowered, &self.compiled, groups, &self.states)?;
        let batches = match &self.finish {
            Some(finish) => finish.batches(&states, self.rows)?,
            None => vec![states],
        };
        Ok(Part {
            batches,
            grouped,
            group_bytes,
        })
    }
}

fn joined(fact: &str, error: tokio::task::JoinError) -> EarlyEnd {
    EarlyEnd::Failed(match error.try_into_panic() {
        Ok(panic) => broke_down(&format!("StarExec over {fact}"), said(panic.as_ref())),
        Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
    })
}

/// The error of a failed internal check.
fn broken(what: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "StarExec broke down: {what}; please report this statement"
    ))
}
