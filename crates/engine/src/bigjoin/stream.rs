//! The probe of a join, one batch of the probe side at a time.
//!
//! A batch is looked up as a whole; the matching pairs are then expanded in bounded steps, filtered
//! and emitted. Columns are gathered only for the pairs that remain.

use super::NAME;
use super::build::BuildSide;
use super::keys::KeyColumns;
use crate::breakdown::guarded;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
    new_null_array,
};
use arrow::compute::{BatchCoalescer, filter_record_batch, prep_null_mask_filter, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, JoinSide, JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, Time};
use futures::StreamExt;
use futures::future::{BoxFuture, Shared};
use std::sync::Arc;
use tierloom_kernels::hash::{ExpandCursor, NONE};

/// A build side that several streams wait for.
pub(crate) type SharedBuild =
    Shared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

/// Parameters shared by all streams of a join.
pub(crate) struct ProbePlan {
    pub schema: SchemaRef,
    pub join_type: JoinType,
    pub on: Vec<Arc<dyn PhysicalExpr>>,
    pub filter: Option<JoinFilter>,
    /// Source of each output column.
    pub columns: Vec<ColumnIndex>,
    pub batch_rows: usize,
}

impl ProbePlan {
    /// Whether probe rows without a match are returned with NULLs.
    fn keeps_probe_rows(&self) -> bool {
        matches!(self.join_type, JoinType::Right | JoinType::Full)
    }
}

/// Metrics of a stream, with the names that `HashJoinExec` uses.
pub(crate) struct ProbeMetrics {
    pub baseline: BaselineMetrics,
    pub join_time: Time,
    pub input_batches: Count,
    pub input_rows: Count,
}

impl Drop for ProbeMetrics {
    fn drop(&mut self) {
        self.baseline.elapsed_compute().add(&self.join_time);
    }
}

/// A probe batch that is being expanded.
struct Current {
    batch: RecordBatch,
    keys: KeyColumns,
    heads: Vec<u32>,
    cursor: ExpandCursor,
    /// For semi and anti joins of the probe side, and for outer ones that keep its rows, whether a
    /// row has a match.
    met: Vec<bool>,
    /// For outer joins that keep probe rows, the first row of which this is not known yet.
    unsettled: usize,
}

impl Current {
    /// Adds probe rows without a match to the pairs, with [`NONE`] as their build row.
    ///
    /// The order of the probe rows stays. All pairs of the rows before `done` are there.
    fn add_unmatched(&mut self, left: &mut Vec<u32>, right: &mut Vec<u32>, done: usize) {
        let pairs = std::mem::take(left).into_iter().zip(std::mem::take(right));
        let mut pairs = pairs.peekable();
        for row in self.unsettled..done {
            let mut met = self.met[row];
            while let Some((build, probe)) = pairs.next_if(|pair| pair.1 as usize == row) {
                met = true;
                left.push(build);
                right.push(probe);
            }
            if !met {
                left.push(NONE);
                right.push(row as u32);
            }
        }
        self.unsettled = done;
        // The other pairs are of the row that is being expanded.
        for (build, probe) in pairs {
            self.met[probe as usize] = true;
            left.push(build);
            right.push(probe);
        }
    }
}

/// The output stream of one partition.
pub(crate) struct Probe {
    plan: Arc<ProbePlan>,
    waiting: Option<SharedBuild>,
    build: Option<Arc<BuildSide>>,
    right: SendableRecordBatchStream,
    right_done: bool,
    current: Option<Current>,
    output: BatchCoalescer,
    /// Batches without columns, which the coalescer does not take.
    ///
    /// Only their number of rows matters.
    bare: Vec<RecordBatch>,
    packed: Vec<u64>,
    metrics: ProbeMetrics,
}

impl Probe {
    pub fn new(
        plan: Arc<ProbePlan>,
        build: SharedBuild,
        right: SendableRecordBatchStream,
        metrics: ProbeMetrics,
    ) -> Self {
        let output = BatchCoalescer::new(Arc::clone(&plan.schema), plan.batch_rows)
            .with_biggest_coalesce_batch_size(Some(plan.batch_rows / 2));
        Self {
            plan,
            waiting: Some(build),
            build: None,
            right,
            right_done: false,
            current: None,
            output,
            bare: Vec::new(),
            packed: Vec::new(),
            metrics,
        }
    }

    /// The next output batch.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(waiting) = self.waiting.take() {
            let build = waiting.await.map_err(DataFusionError::Shared)?;
            // An empty build side has no matches, so the probe side need not run, except where its
            // rows without a match are wanted.
            let needs_probe = matches!(
                self.plan.join_type,
                JoinType::RightAnti | JoinType::Right | JoinType::Full
            );
            self.right_done = build.rows() == 0 && !needs_probe;
            self.build = Some(build);
        }
        let Some(build) = self.build.clone() else {
            return Ok(None);
        };
        loop {
            let ready = self.bare.pop();
            if let Some(batch) = ready.or_else(|| self.output.next_completed_batch()) {
                self.metrics.baseline.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if let Some(current) = self.current.take() {
                guarded(NAME, || self.advance(&build, current))?;
            } else if self.right_done {
                // Releases this stream's share of the build side.
                if self.build.take().is_none() || self.output.is_empty() {
                    return Ok(None);
                }
                self.output.finish_buffered_batch()?;
            } else {
                match self.right.next().await.transpose()? {
                    Some(batch) => guarded(NAME, || self.begin(&build, batch))?,
                    None => {
                        self.right_done = true;
                        guarded(NAME, || self.finish(&build))?;
                    }
                }
            }
        }
    }

    fn begin(&mut self, build: &BuildSide, batch: RecordBatch) -> Result<()> {
        let time = self.metrics.join_time.clone();
        let _timer = time.timer();
        self.metrics.input_batches.add(1);
        self.metrics.input_rows.add(batch.num_rows());
        let keys = KeyColumns::evaluate(&self.plan.on, &batch)?;
        let mut heads = Vec::new();
        build.find(&keys, &mut self.packed, &mut heads);
        let probe_side = matches!(
            self.plan.join_type,
            JoinType::RightSemi | JoinType::RightAnti
        );
        // Existence is enough here: no pair has to be compared or filtered.
        if probe_side && self.plan.filter.is_none() && !build.inexact() {
            let met: Vec<bool> = heads.iter().map(|head| *head != NONE).collect();
            return self.emit_probe_rows(&batch, met);
        }
        let met = if probe_side || self.plan.keeps_probe_rows() {
            vec![false; batch.num_rows()]
        } else {
            Vec::new()
        };
        self.current = Some(Current {
            batch,
            keys,
            heads,
            cursor: ExpandCursor::default(),
            met,
            unsettled: 0,
        });
        Ok(())
    }

    /// Expands the next pairs of the current batch.
    fn advance(&mut self, build: &BuildSide, mut current: Current) -> Result<()> {
        let time = self.metrics.join_time.clone();
        let timer = time.timer();
        let rows = current.batch.num_rows();
        let (mut left, mut right) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        // Bounds the output of one step: a key with many matches is expanded over several batches.
        let limit = self.plan.batch_rows.max(1);
        build.links().expand(
            &current.heads,
            &mut current.cursor,
            limit,
            &mut left,
            &mut right,
        );
        if build.inexact() {
            keep_pairs(&mut left, &mut right, |l, r| {
                build.same(l, &current.keys, r)
            });
        }
        if let Some(filter) = self.plan.filter.clone() {
            self.filter_pairs(build, &filter, &current.batch, &mut left, &mut right)?;
        }
        let finished = current.cursor.finished(rows);
        match self.plan.join_type {
            JoinType::RightSemi | JoinType::RightAnti => {
                right
                    .iter()
                    .for_each(|row| current.met[*row as usize] = true);
                if finished {
                    self.emit_probe_rows(&current.batch, std::mem::take(&mut current.met))?;
                }
            }
            JoinType::LeftSemi | JoinType::LeftAnti => {
                left.iter().for_each(|row| build.meet(*row));
            }
            kind => {
                if matches!(kind, JoinType::Left | JoinType::Full) {
                    left.iter().for_each(|row| build.meet(*row));
                }
                if self.plan.keeps_probe_rows() {
                    let done = current.cursor.probe_row();
                    current.add_unmatched(&mut left, &mut right, done);
                }
                self.emit_pairs(build, &current.batch, left, right)?;
            }
        }
        timer.done();
        if !finished {
            self.current = Some(current);
        }
        Ok(())
    }

    /// Where build rows are wanted by whether they matched, the last stream emits them.
    fn finish(&mut self, build: &BuildSide) -> Result<()> {
        let met = match self.plan.join_type {
            JoinType::LeftSemi => true,
            JoinType::LeftAnti | JoinType::Left | JoinType::Full => false,
            _ => return Ok(()),
        };
        let time = self.metrics.join_time.clone();
        let _timer = time.timer();
        let Some(rows) = build.leave(met) else {
            return Ok(());
        };
        for chunk in rows.chunks(self.plan.batch_rows.max(1)) {
            let rows = UInt32Array::from(chunk.to_vec());
            let columns = self.plan.columns.iter().zip(self.plan.schema.fields());
            let columns = columns
                .map(|(column, field)| match column.side {
                    JoinSide::Left => take_build(build, column.index, &rows),
                    _ => Ok(new_null_array(field.data_type(), chunk.len())),
                })
                .collect::<Result<Vec<_>>>()?;
            self.emit(columns, chunk.len())?;
        }
        Ok(())
    }

    fn filter_pairs(
        &self,
        build: &BuildSide,
        filter: &JoinFilter,
        batch: &RecordBatch,
        left: &mut Vec<u32>,
        right: &mut Vec<u32>,
    ) -> Result<()> {
        if left.is_empty() {
            return Ok(());
        }
        let (l, r) = (
            UInt32Array::from(left.clone()),
            UInt32Array::from(right.clone()),
        );
        let columns = filter
            .column_indices()
            .iter()
            .map(|c| match c.side {
                JoinSide::Left => take_build(build, c.index, &l),
                _ => Ok(take(batch.column(c.index), &r, None)?),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
        let pairs =
            RecordBatch::try_new_with_options(Arc::clone(filter.schema()), columns, &options)?;
        let kept = filter
            .expression()
            .evaluate(&pairs)?
            .into_array(pairs.num_rows())?;
        // A filter that evaluates to NULL drops the pair.
        let kept = match kept.as_boolean() {
            unknown if unknown.null_count() > 0 => prep_null_mask_filter(unknown),
            known => known.clone(),
        };
        let mut index = 0;
        keep_pairs(left, right, |_, _| {
            index += 1;
            kept.value(index - 1)
        });
        Ok(())
    }

    fn emit_pairs(
        &mut self,
        build: &BuildSide,
        batch: &RecordBatch,
        left: Vec<u32>,
        right: Vec<u32>,
    ) -> Result<()> {
        let rows = left.len();
        if rows == 0 {
            return Ok(());
        }
        // One match per probe row, in order: the probe columns can be reused without a copy.
        let all = rows == batch.num_rows()
            && right
                .iter()
                .enumerate()
                .all(|(index, row)| *row as usize == index);
        let left: UInt32Array = match self.plan.keeps_probe_rows() {
            true => left
                .into_iter()
                .map(|row| (row != NONE).then_some(row))
                .collect(),
            false => UInt32Array::from(left),
        };
        let right = UInt32Array::from(right);
        let columns = self.plan.columns.iter().zip(self.plan.schema.fields());
        let columns = columns
            .map(|(c, field)| match c.side {
                // Without a build row its columns may not exist.
                JoinSide::Left if build.rows() == 0 => Ok(new_null_array(field.data_type(), rows)),
                JoinSide::Left => take_build(build, c.index, &left),
                _ if all => Ok(Arc::clone(batch.column(c.index))),
                _ => Ok(take(batch.column(c.index), &right, None)?),
            })
            .collect::<Result<Vec<_>>>()?;
        self.emit(columns, rows)
    }

    /// Emits the probe rows that matched (semi) or did not (anti).
    fn emit_probe_rows(&mut self, batch: &RecordBatch, met: Vec<bool>) -> Result<()> {
        let wanted = self.plan.join_type == JoinType::RightSemi;
        let kept: BooleanArray = met.into_iter().map(|m| Some(m == wanted)).collect();
        let indices: Vec<usize> = self.plan.columns.iter().map(|c| c.index).collect();
        let projected = batch.project(&indices)?;
        let rows = filter_record_batch(&projected, &kept)?;
        let (_, columns, count) = rows.into_parts();
        self.emit(columns, count)
    }

    fn emit(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options)?;
        if batch.num_columns() == 0 {
            self.bare.push(batch);
        } else {
            self.output.push_batch(batch)?;
        }
        Ok(())
    }
}

fn take_build(build: &BuildSide, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
    let column = build.column(column).ok_or_else(|| {
        DataFusionError::Internal(format!("column {column} of the build side was not kept"))
    })?;
    Ok(take(column, rows, None)?)
}

fn keep_pairs(left: &mut Vec<u32>, right: &mut Vec<u32>, mut keep: impl FnMut(u32, u32) -> bool) {
    let mut kept = 0;
    for index in 0..left.len() {
        let (l, r) = (left[index], right[index]);
        left[kept] = l;
        right[kept] = r;
        kept += usize::from(keep(l, r));
    }
    left.truncate(kept);
    right.truncate(kept);
}
