//! Collects a build side and builds its table.
//!
//! All batches are concatenated and keys are packed to 64-bit integers. A narrow key range gets a
//! dense array indexed by key, anything else a hash table whose segments are filled by several
//! threads. Rows with equal keys are chained by links.

use super::NAME;
use super::keys::{KeyColumns, Packing};
use super::storage::Storage;
use crate::breakdown::guarded;
use crate::concatenated::concatenated;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::{Count, Gauge, Time};
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tierloom_kernels::hash::{Bucket, Builder, JoinTable, Layout, Links, NONE, SegmentFull};

/// Largest number of 4-byte slots per key of a dense array.
///
/// That is 32 bytes per key, as much as a hash table that is two thirds full.
const DENSE_SLOTS_PER_KEY: u64 = 8;
/// Up to this many slots (256 KiB) the array is dense at any fill.
const ALWAYS_DENSE_SLOTS: u64 = 1 << 16;
/// Rows per thread from which filling a table in parallel pays.
const ROWS_PER_BUILDER: usize = 64 << 10;

/// Parameters of a build.
pub(crate) struct BuildPlan {
    pub on: Vec<Arc<dyn PhysicalExpr>>,
    /// Per build column, whether it is read later; other columns are not kept.
    pub needed: Vec<bool>,
    /// Upper limit of the threads that fill the table.
    pub builders: usize,
    /// Number of streams that will probe the table.
    pub streams: usize,
    /// Whether to record which build rows matched, for semi and anti joins of the build side.
    pub remember: bool,
}

/// Metrics of a build, with the names that `HashJoinExec` uses.
#[derive(Clone)]
pub(crate) struct BuildMetrics {
    pub time: Time,
    /// Receives `time` too, once the table is complete.
    pub elapsed: Time,
    pub batches: Count,
    pub rows: Count,
    pub memory: Gauge,
    pub dense: Count,
}

enum Table {
    /// An array indexed by packed key; a slot holds the first row plus one, 0 for none.
    Dense {
        slots: usize,
    },
    Hash {
        layout: Layout,
    },
}

/// A completed build side.
pub(crate) struct BuildSide {
    rows: usize,
    columns: Vec<Option<ArrayRef>>,
    packing: Packing,
    /// Kept if different keys may have equal packed keys, to compare matches.
    keys: Option<KeyColumns>,
    table: Table,
    storage: Storage,
    /// The next row with the same key; empty if keys are unique.
    links: Vec<AtomicU32>,
    /// A bit per row that matched a probe row.
    met: Vec<AtomicU64>,
    streams_left: AtomicUsize,
    _reservation: MemoryReservation,
}

/// Reads `stream` to its end and builds the table.
pub(crate) async fn collect(
    plan: BuildPlan,
    mut stream: SendableRecordBatchStream,
    reservation: MemoryReservation,
    metrics: BuildMetrics,
) -> Result<BuildSide> {
    let schema = stream.schema();
    let (mut batches, mut keys, mut rows) = (Vec::new(), KeyColumns::default(), 0);
    // Batches may share buffers, such as a dictionary's values; shared ones are counted once.
    let mut counter = RecordBatchMemoryCounter::new();
    while let Some(batch) = stream.next().await.transpose()? {
        let _timer = metrics.time.timer();
        let size_bytes = counter.count_batch(&batch);
        reservation.try_grow(size_bytes)?;
        metrics.memory.add(size_bytes);
        metrics.batches.add(1);
        metrics.rows.add(batch.num_rows());
        rows += batch.num_rows();
        keys.append(guarded(NAME, || KeyColumns::evaluate(&plan.on, &batch))?);
        batches.push(batch);
    }
    let timer = metrics.time.timer();
    if rows >= NONE as usize {
        return exec_err!(
            "a join's build side has {rows} rows, more than the {NONE} that can be numbered: filter it, or join without BigJoinRule"
        );
    }
    let filling = Filling {
        plan,
        reservation,
        metrics: metrics.clone(),
    };
    let side = guarded(NAME, || {
        let columns = concatenate(&schema, &batches, &filling.plan.needed)?;
        drop(batches);
        filling.finish(rows, columns, keys)
    })?;
    timer.done();
    metrics.elapsed.add(&metrics.time);
    Ok(side)
}

/// Concatenates the needed columns.
fn concatenate(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    needed: &[bool],
) -> Result<Vec<Option<ArrayRef>>> {
    (0..schema.fields().len())
        .map(|index| {
            if !needed[index] || batches.is_empty() {
                return Ok(None);
            }
            if let [one] = batches {
                return Ok(Some(Arc::clone(one.column(index))));
            }
            let parts: Vec<&dyn arrow::array::Array> =
                batches.iter().map(|b| b.column(index).as_ref()).collect();
            Ok(Some(concatenated(&parts)?))
        })
        .collect()
}

struct Filling {
    plan: BuildPlan,
    reservation: MemoryReservation,
    metrics: BuildMetrics,
}

impl Filling {
    fn finish(
        self,
        rows: usize,
        columns: Vec<Option<ArrayRef>>,
        keys: KeyColumns,
    ) -> Result<BuildSide> {
        let packing = Packing::of(&keys);
        let mut packed = Vec::new();
        packing.pack(&keys, &mut packed);
        let row_numbers = without_nulls(&keys, &mut packed);
        let links: Vec<AtomicU32> = (0..rows).map(|_| AtomicU32::new(0)).collect();
        let dense = packing.span().filter(|span| {
            *span <= ALWAYS_DENSE_SLOTS.max(packed.len() as u64 * DENSE_SLOTS_PER_KEY)
        });
        let (table, storage, duplicates) = match dense {
            Some(span) => self.dense(span as usize, &packed, row_numbers.as_deref(), &links)?,
            None => self.hash(&packed, row_numbers.as_deref(), &links)?,
        };
        let keys = match packing {
            Packing::Mixed => Some(keys.joined()?),
            _ => None,
        };
        let words = if self.plan.remember {
            rows.div_ceil(64)
        } else {
            0
        };
        let side = BuildSide {
            rows,
            columns,
            packing,
            keys,
            table,
            storage,
            links: if duplicates > 0 { links } else { Vec::new() },
            met: (0..words).map(|_| AtomicU64::new(0)).collect(),
            streams_left: AtomicUsize::new(self.plan.streams),
            _reservation: self.reservation,
        };
        let more_bytes = side.links.len() * 4
            + side.met.len() * 8
            + side.keys.as_ref().map_or(0, KeyColumns::size_bytes);
        // Reserved last: how many links there are is known only after the insertions.
        side._reservation.try_grow(more_bytes)?;
        self.metrics.memory.add(more_bytes);
        Ok(side)
    }

    fn storage(&self, size_bytes: usize) -> Result<Storage> {
        self.reservation.try_grow(size_bytes)?;
        self.metrics.memory.add(size_bytes);
        Ok(Storage::zeroed(size_bytes))
    }

    fn dense(
        &self,
        slots: usize,
        packed: &[u64],
        rows: Option<&[u32]>,
        links: &[AtomicU32],
    ) -> Result<(Table, Storage, usize)> {
        self.metrics.dense.add(1);
        let mut storage = self.storage(slots * 4)?;
        let links = Links::new(links);
        let array: &mut [u32] = &mut bytemuck::cast_slice_mut(storage.bytes_mut())[..slots];
        let fill = |first: usize, part: &mut [u32]| {
            let mut duplicates = 0;
            // In reverse, so that the chain of a key starts at its first row and keeps row order.
            for (index, key) in packed.iter().enumerate().rev() {
                let Some(slot) = part.get_mut((*key as usize).wrapping_sub(first)) else {
                    continue;
                };
                let row = rows.map_or(index as u32, |rows| rows[index]);
                if let Some(next) = slot.checked_sub(1) {
                    links.link(row, next);
                    duplicates += 1;
                }
                *slot = row + 1;
            }
            duplicates
        };
        // Each builder reads all keys and has a part of the array.
        let share = slots.div_ceil(self.builders(packed.len())).max(1);
        let parts = array.chunks_mut(share).enumerate();
        let parts = parts.map(|(index, part)| (index * share, part));
        let duplicates = side_by_side(parts, |(first, part)| fill(first, part));
        Ok((
            Table::Dense { slots },
            storage,
            duplicates.into_iter().sum(),
        ))
    }

    /// How many threads build a table of this many keys.
    fn builders(&self, keys: usize) -> usize {
        self.plan.builders.min(keys / ROWS_PER_BUILDER).max(1)
    }

    fn hash(
        &self,
        packed: &[u64],
        rows: Option<&[u32]>,
        links: &[AtomicU32],
    ) -> Result<(Table, Storage, usize)> {
        let layout = Layout::for_keys(packed.len());
        let mut storage = self.storage(layout.size_bytes())?;
        if let Ok(duplicates) = self.fill(layout, &mut storage, packed, rows, links) {
            return Ok((Table::Hash { layout }, storage, duplicates));
        }
        // Too many keys fall into one segment. A single segment takes any distribution; it has to
        // be filled by one thread.
        let layout = Layout::one_segment(packed.len());
        links.iter().for_each(|l| l.store(0, Ordering::Relaxed));
        let mut storage = self.storage(layout.size_bytes())?;
        let duplicates = self
            .fill(layout, &mut storage, packed, rows, links)
            .map_err(|e| DataFusionError::External(Box::new(e)))?;
        Ok((Table::Hash { layout }, storage, duplicates))
    }

    /// Inserts all keys; returns the number of rows whose key was already present.
    fn fill(
        &self,
        layout: Layout,
        storage: &mut Storage,
        packed: &[u64],
        rows: Option<&[u32]>,
        links: &[AtomicU32],
    ) -> Result<usize, SegmentFull> {
        let buckets = &mut Bucket::slice_mut(storage.bytes_mut())[..layout.buckets()];
        let insert = |mut builder: Builder<'_>| {
            match rows {
                Some(rows) => builder.insert(packed, rows)?,
                None => builder.insert_range(packed, 0)?,
            }
            Ok((builder.keys(), builder.duplicates()))
        };
        let builders = self.builders(packed.len());
        let builders = Builder::split(layout, builders, buckets, Links::new(links));
        let done = side_by_side(builders.into_iter(), insert).into_iter();
        let done = done.collect::<Result<Vec<(usize, usize)>, SegmentFull>>()?;
        let keys: usize = done.iter().map(|(keys, _)| keys).sum();
        let duplicates: usize = done.iter().map(|(_, duplicates)| duplicates).sum();
        assert_eq!(
            keys + duplicates,
            packed.len(),
            "rows that builders have put into the table"
        );
        Ok(duplicates)
    }
}

/// Runs `work` for each part by a thread; this thread does the first one.
///
/// The helper threads must allocate nothing: they have neither the runtime nor an operator's memory
/// class.
fn side_by_side<P: Send, R: Send>(
    mut parts: impl Iterator<Item = P>,
    work: impl Fn(P) -> R + Sync,
) -> Vec<R> {
    let own = parts.next();
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut done: Vec<R> = own.map(work).into_iter().collect();
        let joined = others.into_iter().map(|other| other.join());
        done.extend(joined.map(|done| done.unwrap_or_else(|p| std::panic::resume_unwind(p))));
        done
    })
}

/// Removes the keys of rows with a NULL; returns the remaining rows, `None` if there was no NULL.
fn without_nulls(keys: &KeyColumns, packed: &mut Vec<u64>) -> Option<Vec<u32>> {
    let nulls = keys.nulls()?;
    let rows: Vec<u32> = nulls.valid_indices().map(|row| row as u32).collect();
    *packed = rows.iter().map(|row| packed[*row as usize]).collect();
    Some(rows)
}

impl BuildSide {
    /// Number of rows, including those with NULL keys.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A needed column; `None` for others, or if there was no batch.
    pub fn column(&self, index: usize) -> Option<&ArrayRef> {
        self.columns.get(index)?.as_ref()
    }

    /// Whether matches of a lookup have to be compared with the full keys.
    pub fn inexact(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether two rows have the same key; always true if lookups are exact.
    pub fn same(&self, row: u32, probe: &KeyColumns, probe_row: u32) -> bool {
        self.keys
            .as_ref()
            .is_none_or(|keys| keys.same(row, probe, probe_row))
    }

    /// The chains of rows with equal keys.
    pub fn links(&self) -> Links<'_> {
        Links::new(&self.links)
    }

    /// Writes the first build row of each probe row to `heads`, [`NONE`] if there is none.
    pub fn find(&self, probe: &KeyColumns, packed: &mut Vec<u64>, heads: &mut Vec<u32>) {
        self.packing.pack(probe, packed);
        heads.clear();
        heads.resize(packed.len(), NONE);
        match self.table {
            Table::Dense { slots } => {
                let array: &[u32] = &bytemuck::cast_slice(self.storage.bytes())[..slots];
                for (head, key) in heads.iter_mut().zip(&*packed) {
                    // An empty slot is 0 and becomes NONE.
                    *head = array
                        .get(*key as usize)
                        .copied()
                        .unwrap_or(0)
                        .wrapping_sub(1);
                }
            }
            Table::Hash { layout } => {
                let buckets = &Bucket::slice(self.storage.bytes())[..layout.buckets()];
                JoinTable::new(layout, buckets).find(packed, heads);
            }
        }
        if let Some(nulls) = probe.nulls() {
            for (head, valid) in heads.iter_mut().zip(nulls.iter()) {
                if !valid {
                    *head = NONE;
                }
            }
        }
    }

    /// Records that a probe row matched `row`.
    pub fn meet(&self, row: u32) {
        let (word, bit) = (&self.met[row as usize / 64], 1_u64 << (row % 64));
        // Most rows match many times, and an unneeded write would move the cache line between
        // cores.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Ends a stream; for the last one, returns the rows that matched (or did not), in order.
    pub fn leave(&self, met: bool) -> Option<Vec<u32>> {
        // AcqRel orders all relaxed updates of `met` by the other streams before the reads of the
        // last one.
        if self.streams_left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        let rows = (0..self.rows as u32).filter(|row| {
            let word = self.met[*row as usize / 64].load(Ordering::Relaxed);
            (word >> (row % 64) & 1 == 1) == met
        });
        Some(rows.collect())
    }
}
