//! Reserves regions for columns and moves them between placements.
//!
//! [`ColumnPlacer`] keeps weights across columns that are too small to be split by themselves.
//! Moving works on whole columns; moving parts of them is the adaptive driver's.

use super::encode::Encoding;
use crate::EngineError;
use crate::column::PlacedColumn;
use crate::table::{PlacedTable, Staging};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tierloom_memory::{
    Audit, AuditMode, MemoryBackend, MigrationOptions, PageSize, Placement, Region, RegionOptions,
};
use tierloom_placement::{ColumnUse, Decision};
use tierloom_topology::Topology;

/// Objects of fewer large pages than this get base pages.
///
/// Rounding up would waste too large a share.
const FEWEST_LARGE_PAGES: usize = 4;

/// Time spent by a [`ColumnPlacer`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaceTimes {
    /// Time to reserve and prefault regions.
    pub placing: Duration,
    /// Time to encode and write columns, summed over threads.
    pub encoding: Duration,
}

/// Reserves regions one after the other such that together they keep the weights.
///
/// Every region starts in the round of weights where the previous one stopped: a column of 59 pages
/// cannot be split 3:2, but sixty such columns can.
pub struct ColumnPlacer<'a> {
    backend: Arc<dyn MemoryBackend>,
    topology: &'a Topology,
    page_size: PageSize,
    threads: usize,
    encoding: Encoding,
    /// Pages handed out so far, by page size in bytes.
    used_pages: BTreeMap<usize, u64>,
    times: PlaceTimes,
}

impl<'a> ColumnPlacer<'a> {
    /// Creates a placer that takes regions from `backend`.
    ///
    /// Objects large enough get `page_size`; `threads` of 0 means all CPUs.
    pub fn new(
        backend: Arc<dyn MemoryBackend>,
        topology: &'a Topology,
        page_size: PageSize,
        threads: usize,
    ) -> Self {
        ColumnPlacer {
            backend,
            topology,
            page_size,
            threads,
            encoding: Encoding::Auto,
            used_pages: BTreeMap::new(),
            times: PlaceTimes::default(),
        }
    }

    /// Sets the encoding of loaded columns, [`Encoding::Auto`] by default.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// The encoding of loaded columns.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Reserves at least `bytes` bytes, prefaulted under `placement`.
    ///
    /// # Errors
    /// Same as [`Region::create`].
    pub fn region(
        &mut self,
        name: &str,
        bytes: usize,
        placement: &Placement,
    ) -> Result<Region, EngineError> {
        let start = Instant::now();
        let small = bytes < FEWEST_LARGE_PAGES * self.page_size.bytes();
        let page_size = if small {
            PageSize::Base
        } else {
            self.page_size
        };
        // A mapping cannot be empty.
        let size_bytes = page_size.round_up(bytes.max(1));
        // Rounds are counted per page size, because pages of different sizes cannot share one.
        let used = self.used_pages.entry(page_size.bytes()).or_default();
        let start_page = *used;
        *used += (size_bytes / page_size.bytes()) as u64;
        let options = RegionOptions {
            name: name.into(),
            size_bytes,
            page_size,
            placement: placement.clone(),
            start_page,
            threads: self.threads,
        };
        let region = Region::create(Arc::clone(&self.backend), self.topology, options)?;
        self.times.placing += start.elapsed();
        Ok(region)
    }

    /// Threads for loading: they prefault, and this many columns are encoded at a time.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            some => some,
        }
    }

    /// Adds time that a thread spent on encoding and writing columns.
    pub(super) fn encoded(&mut self, time: Duration) {
        self.times.encoding += time;
    }

    /// Time spent since the placer was created.
    pub fn times(&self) -> PlaceTimes {
        self.times
    }
}

/// All columns of `tables` as input of placement policies.
///
/// `reads` has the bytes read by "table.column".
pub fn column_uses(tables: &[Arc<PlacedTable>], reads: &BTreeMap<String, u64>) -> Vec<ColumnUse> {
    let of = |table: &Arc<PlacedTable>, column: &PlacedColumn| {
        let name = format!("{}.{}", table.name(), column.name());
        ColumnUse {
            read_bytes: reads.get(&name).copied().unwrap_or(0),
            size_bytes: column.size_bytes(),
            column: name,
        }
    };
    tables
        .iter()
        .flat_map(|t| t.columns().iter().map(move |c| of(t, c)))
        .collect()
}

impl PlacedTable {
    /// Moves the columns as `decisions` say.
    ///
    /// Columns without a decision stay, and so do those at the places of a class of operator
    /// memory or in a pool.
    ///
    /// # Errors
    /// A placement that this machine cannot follow (before that column moves), a page that could
    /// not be moved, or [`EngineError::Interrupted`] when `stop` was set. Completed moves stay; the
    /// page audit shows them.
    pub fn place(
        &self,
        decisions: &[Decision],
        topology: &Topology,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        for group in self.later() {
            group.place(decisions, topology, stop)?;
        }
        for (index, column) in self.columns().iter().enumerate() {
            let name = format!("{}.{}", self.name(), column.name());
            let Some(decision) = decisions.iter().find(|d| d.column == name) else {
                continue;
            };
            if !column.is_movable() {
                continue;
            }
            let target = decision.placement.resolve(topology)?;
            for region in column.regions() {
                move_region(region, &target, topology, stop)?;
            }
            // Only after the pages have moved: whether a column is staged depends on where it is.
            self.set_staging(
                index,
                if decision.staged {
                    Staging::WorkingBuffer
                } else {
                    Staging::InPlace
                },
            );
        }
        Ok(())
    }
}

fn move_region(
    region: &Region,
    target: &Placement,
    topology: &Topology,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    if region.placement() == *target {
        return Ok(());
    }
    let mut migration = region.migrate(target, topology, MigrationOptions::default())?;
    let state = migration.run_to_end(stop)?;
    if !state.finished() {
        return Err(EngineError::Interrupted);
    }
    match state.failed_pages.iter().next() {
        Some((errno, pages)) => Err(EngineError::Table {
            table: region.name().into(),
            problem: format!(
                "could not be moved to {target}: {pages} pages failed with {}",
                std::io::Error::from_raw_os_error(*errno)
            ),
        }),
        None => Ok(()),
    }
}

/// The page audit of all regions of `tables` as one.
///
/// # Errors
/// If the kernel refuses the page query.
pub fn merged_audit(
    tables: &[Arc<PlacedTable>],
    mode: AuditMode,
) -> Result<Option<Audit>, EngineError> {
    let regions = tables
        .iter()
        .flat_map(|t| t.columns())
        .flat_map(PlacedColumn::regions);
    let audits = regions
        .map(|r| r.audit(mode))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Audit::merge(&audits))
}
