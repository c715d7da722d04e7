//! Reserving regions for columns and moving them between placements.

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

/// An object of fewer large pages than this gets small ones: rounding up would waste more than a few per cent.
const FEWEST_LARGE_PAGES: usize = 4;

/// Time spent by [`ColumnPlacer`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaceTimes {
    /// Reserving and prefaulting, or moving.
    pub placing: Duration,
}

/// Reserves one region after the other such that together they keep the weights.
///
/// Every region starts in the round of weights where the one before it stopped: a column of 59 pages alone cannot be
/// split 3:2, but sixty such columns can.
pub struct ColumnPlacer<'a> {
    backend: Arc<dyn MemoryBackend>,
    topology: &'a Topology,
    page_size: PageSize,
    threads: usize,
    encoding: Encoding,
    /// Pages handed out so far, by page size.
    used_pages: BTreeMap<usize, u64>,
    times: PlaceTimes,
}

impl<'a> ColumnPlacer<'a> {
    /// Regions come from `backend`; large objects get `page_size`.
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

    /// Columns are kept as `encoding` says.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// How columns are kept.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A region of at least `bytes` bytes, prefaulted under `placement`.
    ///
    /// # Errors
    /// Those of [`Region::create`].
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
        let size_bytes = page_size.round_up(bytes.max(1));
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

    /// Threads that loading may use: those that prefault, and columns that are encoded at a time.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            some => some,
        }
    }

    /// Time spent so far.
    pub fn times(&self) -> PlaceTimes {
        self.times
    }
}

/// Every column of `tables` as placement policies see it; `reads` has the bytes read by name.
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
    /// Moves the columns to where `decisions` want them; columns that nothing was decided on stay, and so do those at the places of a class
    /// of operator memory.
    ///
    /// # Errors
    /// A placement that this machine cannot give (before anything moves for that column), a page that could not be
    /// moved, or [`EngineError::Interrupted`] when `stop` was set: what moved stays moved and the audit tells.
    pub fn place(
        &self,
        decisions: &[Decision],
        topology: &Topology,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        for (index, column) in self.columns().iter().enumerate() {
            let name = format!("{}.{}", self.name(), column.name());
            let Some(decision) = decisions.iter().find(|d| d.column == name) else {
                continue;
            };
            if column.is_of_class() {
                continue;
            }
            let target = decision.placement.resolve(topology)?;
            for region in column.regions() {
                move_region(region, &target, topology, stop)?;
            }
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

/// The page audit of all regions of `tables` together.
///
/// # Errors
/// Those of the page query.
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
