//! The scan operator: returns placed columns morsel by morsel, as slices or decoded from codes.
//!
//! Filters on codes drop rows early but only as hints; the filter operators above stay, and so do
//! the joins whose keys are used as filters. The scan does no arithmetic and no comparison on
//! decoded values.

mod bound;
mod code_filter;
mod keys;
mod morsels;
mod patience;
mod per_execution;
mod runtime;

use crate::breakdown::{broke_down, caught};
use crate::table::PlacedTable;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use bound::Bounded;
pub(crate) use bound::{BoundColumn, LastRank, RankBound};
use code_filter::{CodeFilter, MOST_BITS};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{FutureExt, StreamExt};
pub(crate) use keys::{KeyCollector, Keys};
use morsels::Morsels;
use patience::Patience;
pub(crate) use runtime::{ExecutionKeys, RuntimeFilter};
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the metric of scanned rows; more than the output rows if codes filtered some.
pub(crate) const ROWS_SCANNED: &str = "rows_scanned";

/// Name of the metric of rows that were not read, since their zones have no code that passes.
pub(crate) const ROWS_SKIPPED: &str = "rows_skipped";

/// Scans columns of a [`PlacedTable`].
///
/// All partitions draw their next morsel (`batch_size` rows) from one shared cursor, so that a
/// slower thread leaves work to the others. With [`crate::Staging::WorkingBuffer`] every batch is
/// first copied to fresh heap memory, which the kernel places on the DRAM node of the running
/// thread: the TIER placement of Huang et al., "Bandwidth Expansion via CXL" (ADMS 2024).
pub struct PlacedScanExec {
    table: Arc<PlacedTable>,
    projection: Vec<usize>,
    schema: SchemaRef,
    rows: usize,
    morsel_rows: usize,
    /// Filters of operators above that can be evaluated on codes.
    filters: Arc<Vec<CodeFilter>>,
    /// Keys of joins above by the table index of the column that has to have them.
    runtime_filters: Vec<(usize, Arc<RuntimeFilter>)>,
    /// Rows that a sort with a limit above does not ask for are left out.
    bound: Option<BoundColumn>,
    /// A column, and the order of it in which rows are best returned.
    best_first: Option<(usize, SortOptions)>,
    properties: Arc<PlanProperties>,
    round: Mutex<Round>,
    metrics: ExecutionPlanMetricsSet,
}

/// Whether keys of a join can be looked up by the codes of a column of `table`.
pub(crate) fn takes_keys(table: &PlacedTable, column: usize) -> bool {
    let coded = table.columns()[column].coded();
    coded.is_some_and(|coded| coded.code_count() <= MOST_BITS)
}

/// One execution of all partitions, which share `next`.
///
/// A partition that starts again begins a new round.
#[derive(Default)]
struct Round {
    next: Arc<AtomicUsize>,
    started: Vec<bool>,
}

impl PlacedScanExec {
    /// Creates a scan of the columns `projection`, all if `None`.
    ///
    /// It returns at most `limit` rows in at most `partitions` partitions.
    pub fn new(
        table: Arc<PlacedTable>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        partitions: usize,
        morsel_rows: usize,
    ) -> Result<Self> {
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..table.columns().len()).collect());
        let schema = Arc::new(table.schema().project(&projection)?);
        let rows = limit.map_or(table.rows(), |limit| limit.min(table.rows()));
        let partitions = rows
            .div_ceil(morsel_rows.max(1))
            .clamp(1, partitions.max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(PlacedScanExec {
            table,
            projection,
            schema,
            rows,
            morsel_rows: morsel_rows.max(1),
            filters: Arc::default(),
            runtime_filters: Vec::new(),
            bound: None,
            best_first: None,
            properties: Arc::new(properties),
            round: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<PlacedTable> {
        &self.table
    }

    /// Table indices of the scanned columns.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// Table indices of the columns whose codes are used to drop rows early.
    pub fn filter_columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.filters.iter().map(CodeFilter::column).collect();
        for (column, _) in &self.runtime_filters {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
        columns.dedup();
        columns
    }

    /// Whether the column at `index` of the output can be filtered by keys of a join of the type
    /// `data_type`.
    pub(crate) fn takes_keys(&self, index: usize, data_type: &DataType) -> bool {
        let Some(column) = self.projection.get(index) else {
            return false;
        };
        !self.is_limited()
            && self.schema.field(index).data_type() == data_type
            && takes_keys(&self.table, *column)
    }

    /// Whether filters drop rows that a plan without any would return.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.filters.is_empty() || self.is_limited()
    }

    /// Whether it reads the rows and columns that `other` reads, runtime filters left out.
    pub(crate) fn reads_what(&self, other: &PlacedScanExec) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
            && self.projection == other.projection
            && self.rows == other.rows
            && self.filters == other.filters
    }

    /// The filters by keys of joins above, by the table index of their column.
    pub(crate) fn runtime_filters(&self) -> &[(usize, Arc<RuntimeFilter>)] {
        &self.runtime_filters
    }

    /// A scan of the same rows that leaves out rows without the keys of joins above, by the index
    /// of the output column that has to have them.
    pub(crate) fn with_runtime_filters(&self, filters: &[(usize, Arc<RuntimeFilter>)]) -> Self {
        let mut scan = self.with_filters(Arc::clone(&self.filters));
        let filters = filters.iter();
        let by_column = filters.map(|(i, keys)| (self.projection[*i], Arc::clone(keys)));
        scan.runtime_filters.extend(by_column);
        scan
    }

    /// What leaves out rows that a sort with a limit above does not ask for.
    pub(crate) fn bound(&self) -> Option<&BoundColumn> {
        self.bound.as_ref()
    }

    /// A scan that leaves out rows beyond `bound` in an order of the column at `index` of the
    /// output.
    ///
    /// `None` if it has a bound or a limit.
    pub(crate) fn with_bound(
        &self,
        index: usize,
        options: SortOptions,
        bound: &Arc<RankBound>,
    ) -> Option<Self> {
        let column = *self.projection.get(index)?;
        if self.bound.is_some() || self.is_limited() {
            return None;
        }
        let mut scan = self.with_filters(Arc::clone(&self.filters));
        scan.bound = Some(BoundColumn {
            column,
            options,
            bound: Arc::clone(bound),
        });
        scan.best_first = Some((column, options));
        Some(scan)
    }

    /// A scan of the same rows that begins at the end of the table if the first ones of an order of
    /// the column at `index` of the output are there.
    ///
    /// `None` if it has a limit.
    pub(crate) fn with_best_first(&self, index: usize, options: SortOptions) -> Option<Self> {
        let column = *self.projection.get(index)?;
        let mut scan = self.with_filters(Arc::clone(&self.filters));
        scan.best_first = Some((column, options));
        (!self.is_limited()).then_some(scan)
    }

    /// A scan that may leave out rows for which a predicate does not hold; `None` if none can be
    /// evaluated on codes.
    pub(crate) fn with_hint(&self, predicates: &[Arc<dyn PhysicalExpr>]) -> Option<Self> {
        let filters = CodeFilter::compile(&self.table, &self.projection, &self.schema, predicates);
        (!filters.is_empty()).then(|| self.with_filters(Arc::new(filters)))
    }

    /// The number of conditions that it knows, and about how many rows they keep if values are
    /// equally frequent; `None` without any.
    pub(crate) fn kept_by_hints(&self) -> Option<(usize, f64)> {
        let shares = self.filters.iter().map(CodeFilter::share);
        let kept = self.rows as f64 * shares.product::<f64>();
        (!self.filters.is_empty()).then_some((self.filters.len(), kept))
    }

    /// A scan of the same rows with `filters` and fresh state.
    fn with_filters(&self, filters: Arc<Vec<CodeFilter>>) -> Self {
        PlacedScanExec {
            table: Arc::clone(&self.table),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            rows: self.rows,
            morsel_rows: self.morsel_rows,
            filters,
            runtime_filters: self.runtime_filters.clone(),
            bound: self.bound.clone(),
            best_first: self.best_first,
            properties: Arc::clone(&self.properties),
            round: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Whether it stops before the table's last row.
    pub fn is_limited(&self) -> bool {
        self.rows < self.table.rows()
    }

    fn cursor(&self, partition: usize) -> Arc<AtomicUsize> {
        // The cursor is replaced as a whole, so a panic in another partition leaves it consistent.
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let partitions = self.properties.output_partitioning().partition_count();
        // Partitions start in any order; a second start of the same one means that the plan is
        // executed again.
        if round.started.get(partition).copied().unwrap_or(true) {
            *round = Round {
                next: Arc::default(),
                started: vec![false; partitions],
            };
        }
        round.started[partition] = true;
        Arc::clone(&round.next)
    }
}

impl ExecutionPlan for PlacedScanExec {
    fn name(&self) -> &str {
        "PlacedScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    tierloom_corrections::without_inputs!();

    /// Compiles filters that can be evaluated on codes, and still reports all as unsupported.
    ///
    /// The operators above therefore keep their filters, and code filters only have to be correct
    /// as hints.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let predicates: Vec<_> = result
            .parent_filters
            .iter()
            .map(|f| Arc::clone(&f.filter))
            .collect();
        let mut answer = FilterPushdownPropagation::all_unsupported(result);
        // Later phases push dynamic filters, which cannot be evaluated on codes in advance.
        if phase == FilterPushdownPhase::Pre {
            let noted = self.with_hint(&predicates);
            answer.updated_node = noted.map(|scan| Arc::new(scan) as _);
        }
        Ok(answer)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_filters(Arc::clone(&self.filters))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.properties.output_partitioning().partition_count() {
            return internal_err!(
                "partition {partition} of a scan of {} does not exist",
                self.table.name()
            );
        }
        let awaited: Vec<(usize, Arc<ExecutionKeys>)> = self
            .runtime_filters
            .iter()
            .map(|(column, keys)| (*column, keys.run(&context)))
            .collect();
        let mut morsels = Morsels {
            table: Arc::clone(&self.table),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            rows: self.rows,
            morsel_rows: self.morsel_rows,
            next: self.cursor(partition),
            from_end: self.best_first.is_some_and(|(column, options)| {
                bound::is_best_at_end(&self.table, column, options)
            }),
            filters: self.filters.to_vec(),
            awaited: awaited.clone(),
            bound: self.bound.as_ref().map(|of| Bounded::new(of, &context)),
            patience: Patience::default(),
            rows_scanned: MetricBuilder::new(&self.metrics).counter(ROWS_SCANNED, partition),
            rows_skipped: MetricBuilder::new(&self.metrics).counter(ROWS_SKIPPED, partition),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let (table, mut broken) = (Arc::clone(&self.table), false);
        let batches = std::iter::from_fn(move || {
            if broken {
                return None;
            }
            caught(|| morsels.batch()).unwrap_or_else(|said| {
                // The morsel that was being read is lost, so the stream must not continue.
                broken = true;
                let operator = format!("PlacedScanExec over {}", table.name());
                Some(Err(broke_down(&operator, &said)))
            })
        });
        // What is read before the keys of a join above are known is thrown away by that join, which
        // asks for its first row when it has them. Others may ask earlier: the build sides of all
        // joins of a plan are begun at once.
        let batches = async move {
            for (_, keys) in awaited {
                keys.wait().await;
            }
            futures::stream::iter(batches)
        };
        let batches = batches.boxed().into_stream().flatten();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let of_table = self.table.statistics();
        let columns = self.projection.iter().map(|&i| &self.table.columns()[i]);
        // Of these columns alone: the bytes of the whole table would make a key of a wide table
        // look like the larger side of a join.
        let bytes: usize = columns.map(|c| c.output_bytes() as usize).sum();
        let columns = self.projection.iter();
        let mut statistics = Statistics {
            num_rows: of_table.num_rows,
            total_byte_size: Precision::Exact(bytes),
            column_statistics: columns
                .map(|&i| of_table.column_statistics[i].clone())
                .collect(),
        };
        let has_filters = !self.filters.is_empty() || !self.runtime_filters.is_empty();
        if has_filters || self.bound.is_some() {
            statistics = statistics.to_inexact();
        }
        if self.rows < self.table.rows() || partition.is_some() {
            // Partitions share one cursor, so an equal share is only an expected value.
            let share = if partition.is_some() {
                self.rows / self.properties.output_partitioning().partition_count()
            } else {
                self.rows
            };
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Inexact(share);
            let whole = self.table.rows().max(1) as f64;
            let bytes = bytes as f64 * share as f64 / whole;
            statistics.total_byte_size = Precision::Inexact(bytes as usize);
        }
        Ok(Arc::new(statistics))
    }
}

impl DisplayAs for PlacedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self
            .projection
            .iter()
            .map(|&i| self.table.columns()[i].name())
            .collect();
        write!(
            f,
            "PlacedScanExec: table={}, columns=[{}], rows={}",
            self.table.name(),
            columns.join(", "),
            self.rows
        )?;
        let name = |i: usize| self.table.columns()[i].name();
        for (of_values, what) in [(false, "codes"), (true, "values")] {
            let filters = self.filters.iter();
            let filters = filters.filter(|filter| filter.is_of_values() == of_values);
            let mut columns: Vec<&str> = filters.map(|filter| name(filter.column())).collect();
            columns.dedup();
            if !columns.is_empty() {
                write!(f, ", filtered by {what} of [{}]", columns.join(", "))?;
            }
        }
        let by_keys: Vec<&str> = self.runtime_filters.iter().map(|(i, _)| name(*i)).collect();
        if !by_keys.is_empty() {
            write!(f, ", filtered by keys of joins in [{}]", by_keys.join(", "))?;
        }
        if let Some(bound) = &self.bound {
            write!(f, ", up to the limit of a sort by {}", name(bound.column))?;
        }
        if self.projection.iter().any(|&i| self.table.is_staged(i)) {
            write!(f, ", through a DRAM working buffer")?;
        }
        Ok(())
    }
}

impl fmt::Debug for PlacedScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacedScanExec")
            .field("table", &self.table.name())
            .field("projection", &self.projection)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
