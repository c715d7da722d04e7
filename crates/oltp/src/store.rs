//! The store: tables, indexes, and the log that commits go to.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tierloom_memory::{Audit, AuditMode, MemoryError};

use crate::OltpError;
use crate::index::{IndexSpec, RowIndex};
use crate::log::RedoLog;
use crate::places::{Regions, StoreMemory, StorePart};
use crate::table::{RowSpec, RowTable, TableWords};
use crate::traffic::StoreTraffic;

/// Merging begins when a delta has no more than this share of its slots free.
const MERGE_BELOW: f64 = 0.5;
/// How long merging sleeps when there is nothing to do.
const MERGE_PAUSE: Duration = Duration::from_millis(1);

/// What merging in the background did.
#[derive(Debug, Clone)]
pub struct Merging {
    /// Rows that were brought back to main.
    pub rows: u64,
    /// Time in which it looked for them and copied them, pauses left out.
    pub time: Duration,
    /// What it accessed.
    pub traffic: StoreTraffic,
}

impl AddAssign<&Merging> for Merging {
    fn add_assign(&mut self, other: &Merging) {
        self.rows += other.rows;
        self.time += other.time;
        self.traffic += &other.traffic;
    }
}

/// Tables and indexes in placed memory, changed by the transactions of sessions.
#[derive(Debug)]
pub struct Store {
    pub(crate) tables: Vec<RowTable>,
    pub(crate) indexes: Vec<RowIndex>,
    pub(crate) log: Option<Arc<RedoLog>>,
    regions: Regions,
}

impl Store {
    /// An empty store. Tables and indexes are known by their position in these lists.
    ///
    /// # Errors
    /// [`OltpError::Memory`] if the memory cannot be had, [`OltpError::TooLarge`].
    pub fn create(
        tables: &[RowSpec],
        indexes: &[IndexSpec],
        memory: &StoreMemory<'_>,
    ) -> Result<Self, OltpError> {
        let mut regions = Regions::default();
        let tables = tables.iter().map(|spec| {
            if spec.rows >= u64::from(u32::MAX) {
                let (table, rows) = (spec.name, spec.rows);
                return Err(OltpError::TooLarge { table, rows });
            }
            let name = |part: &str| format!("{} {part}", spec.name);
            let mut region = |part, what: &str, bytes| {
                let words = regions.create(memory, part, name(what), bytes);
                words.map_err(OltpError::Memory)
            };
            let words = TableWords {
                heads: region(StorePart::Heap, "heads", spec.heads_bytes())?,
                main: region(StorePart::Main, "main", spec.main_bytes())?,
                delta: region(StorePart::Heap, "delta", spec.delta_bytes())?,
            };
            Ok(RowTable::new(*spec, words))
        });
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        let indexes = indexes
            .iter()
            .map(|spec| RowIndex::create(spec, memory, &mut regions))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            tables,
            indexes,
            log: None,
            regions,
        })
    }

    /// Makes commits durable in this log from now on.
    pub fn set_log(&mut self, log: Arc<RedoLog>) {
        self.log = Some(log);
    }

    /// Puts a row into main, in place `row`. No transaction may run.
    ///
    /// # Errors
    /// [`OltpError::Full`] for a row that the table has no room for.
    pub fn load_row(&self, table: usize, row: u32, words: &[u64]) -> Result<(), OltpError> {
        self.tables[table].use_up_to(row)?;
        self.tables[table].load(row, words);
        Ok(())
    }

    /// Fills an index with pairs of keys and rows whose keys ascend.
    ///
    /// # Errors
    /// [`OltpError::Index`], for instance for keys that do not ascend.
    pub fn load_index(
        &mut self,
        index: usize,
        pairs: impl IntoIterator<Item = (u64, u64)>,
        count: usize,
    ) -> Result<(), OltpError> {
        let index = &mut self.indexes[index];
        let name = index.name;
        let loaded = index.load(pairs, count);
        loaded.map_err(|source| OltpError::Index {
            index: name,
            source,
        })
    }

    /// Row numbers of a table that were ever used.
    pub fn used_rows(&self, table: usize) -> u32 {
        self.tables[table].used_rows()
    }

    /// Bytes of the regions of a part.
    pub fn part_bytes(&self, part: StorePart) -> u64 {
        self.regions.size_bytes(part)
    }

    /// Where the pages of a part are.
    ///
    /// # Errors
    /// What the system says.
    pub fn audit(&self, part: StorePart, mode: AuditMode) -> Result<Audit, MemoryError> {
        self.regions.audit(part, mode)
    }

    /// Merges deltas into main whenever they are half full, until `stop` says so.
    pub fn merge_until(&self, stop: &AtomicBool) -> Merging {
        let mut merging = self.no_merging();
        while !stop.load(Ordering::Relaxed) {
            let (begun, mut merged) = (Instant::now(), 0);
            for (at, table) in self.tables.iter().enumerate() {
                let slots = f64::from(table.spec().delta_rows);
                if f64::from(table.free_slots()) < slots * MERGE_BELOW {
                    merged += self.merge_table(at, &mut merging.traffic);
                }
            }
            merging.time += begun.elapsed();
            merging.rows += merged;
            if merged == 0 {
                std::thread::sleep(MERGE_PAUSE);
            }
        }
        merging
    }

    /// Nothing merged yet, for this store.
    pub(crate) fn no_merging(&self) -> Merging {
        Merging {
            rows: 0,
            time: Duration::ZERO,
            traffic: self.no_traffic(),
        }
    }

    /// Merges everything that no transaction is changing. Returns the number of rows.
    pub fn merge_all(&self, traffic: &mut StoreTraffic) -> u64 {
        let tables = 0..self.tables.len();
        tables.map(|table| self.merge_table(table, traffic)).sum()
    }

    pub(crate) fn merge_table(&self, table: usize, traffic: &mut StoreTraffic) -> u64 {
        /// Slots that are given back at once.
        const BATCH: u32 = 256;
        let (counted, table) = (&mut traffic.tables[table], &self.tables[table]);
        let (mut freed, mut merged) = (Vec::with_capacity(BATCH as usize), 0);
        let slots = table.spec().delta_rows;
        for first in (0..slots).step_by(BATCH as usize) {
            for slot in first..(first + BATCH).min(slots) {
                merged += u64::from(table.merge(slot, &mut freed, counted));
            }
            table.give_slots(&mut freed);
        }
        merged
    }

    /// Counts of nothing, for this store.
    pub fn no_traffic(&self) -> StoreTraffic {
        StoreTraffic::new(self.tables.len(), self.indexes.len())
    }
}
